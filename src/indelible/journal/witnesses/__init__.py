"""Witnesses: asked for cosignatures, and one of our own."""
