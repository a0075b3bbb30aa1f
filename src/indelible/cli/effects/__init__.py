"""`indelible effects`: effects looked at, and what only a person may do about them."""
