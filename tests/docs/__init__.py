"""The documentation is true: its programs run, its commands exist, its links lead somewhere."""
