"""What the server says of itself: OpenAPI, the reference's pages, examples."""
