"""What the package gives to tests of other programs, tried on such programs."""
