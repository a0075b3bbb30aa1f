"""What every request passes: reading, limits, keys, the log, the counts; no resource is named here."""
