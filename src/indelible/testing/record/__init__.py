"""Vectors for verifiers of the record: base files, named changes, and the verdict that every verifier has to give."""
