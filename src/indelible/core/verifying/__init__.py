"""Verification: does a journal say what was signed, all of it, and in an order that the rules allow? Pure."""
