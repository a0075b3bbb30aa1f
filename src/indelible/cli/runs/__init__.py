"""`indelible runs`: runs looked at, taken on, compared and made good."""
