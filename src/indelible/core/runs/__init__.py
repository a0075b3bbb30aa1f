"""Runs: who drives one, what is told of it, how it is saved, resumed and ended. Pure."""
