"""What both ledgers share: from what a caller says to the store, with its writing, waiting and keeping alive."""
