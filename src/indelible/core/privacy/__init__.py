"""What must not be recorded, what only some may read, and what may be forgotten. Pure."""
