"""Measures Indelible against the raw limits of its stores and against its peers, in one interleaved run."""
