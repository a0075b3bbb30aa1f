"""What is sent and answered over HTTP, as models: a module for each resource."""
