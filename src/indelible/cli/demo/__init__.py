"""`indelible demo`: a story in which processes are killed, and what is measured of it."""
