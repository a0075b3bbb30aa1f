"""One ledger for agents in any language, over HTTP."""
