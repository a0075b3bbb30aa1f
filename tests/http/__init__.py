"""Requests of handlers, tried with real clients against a real provider that misbehaves."""
