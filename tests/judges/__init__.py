"""Outside judges: tools that others wrote decide whether our heads, receipts, tiles and proofs are what they should be.

`python -m tests.judges` brings Go's own sumdb packages, sigstore-python and @sigstore/verify into `build/judges` and
asks them about files that the core made, and about the same files with something changed. It is no part of the normal
test run, for it needs large downloads. What Go computed is kept in `tests/core/vectors/go.json`; the tests here use it.
"""
