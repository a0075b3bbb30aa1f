"""Runs in the shells: kept, driven, resumed, forked, and carried to other ledgers."""
