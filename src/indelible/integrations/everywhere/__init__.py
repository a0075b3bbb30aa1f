"""Where `indelible.instrument` reaches into a framework: one file each, at the innermost point of execution."""
