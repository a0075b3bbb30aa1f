"""Where the ledger plugs into agent frameworks: one file per idea of a framework, on the public names alone."""
