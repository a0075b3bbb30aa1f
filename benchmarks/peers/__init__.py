"""Other ledgers, each driven the way its own documentation says."""
