"""Plants bugs in a copy of the source, one at a time, and checks that a test notices each: `./run mutants`."""
