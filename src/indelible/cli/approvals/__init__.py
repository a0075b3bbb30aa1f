"""`indelible approvals`: what waits for a person, on a page, in a list, and as it comes."""
