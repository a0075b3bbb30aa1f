"""Keys that sign heads, encrypt values and mark secrets: as files, in rings, and elsewhere."""
