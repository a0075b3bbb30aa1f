"""One filter grammar for every list: read, and applied. Pure."""
