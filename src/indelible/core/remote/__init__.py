"""A ledger's store asked from afar: the questions, who may ask them, how answers and errors travel. Pure."""
