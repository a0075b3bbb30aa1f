"""The faces of other ledgers, over our own: their snippets run with the import changed."""
