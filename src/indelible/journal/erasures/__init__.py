"""Forgetting: what may go, what is held, and what ended long ago."""
