"""What can be verified, wherever it lies, and its verification."""
