"""`indelible doctor`: what is looked at, by the kind of ledger."""
