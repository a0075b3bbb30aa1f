"""The rows of the threat model that touch the server, each by its test; `test_NN_name.py` is row NN.

Two rows are tested where their code is: 9, requests that the server is led to send (`tests/notify/test_ssrf.py`), and
10, forged webhooks (`tests/notify/test_webhook.py`). Row 5 is in part there and in `tests/server/test_people.py`, row
11 in part in `tests/server/test_access.py`.
"""
