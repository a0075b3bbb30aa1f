"""The rows of the threat model that touch the server, each by its test; `test_NN_name.py` is row NN."""
