"""`indelible serve`: the server's options, and the server with a story in it."""
