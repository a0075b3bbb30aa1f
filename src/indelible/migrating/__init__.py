"""Takes over what other ledgers recorded: reads theirs, changes nothing there, and says what it could verify."""
