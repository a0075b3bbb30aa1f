"""Makes what is published: `./run release`. Nothing here is part of the package."""
