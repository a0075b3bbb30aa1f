"""Crashes, power loss, broken disks, cut wires, zombies and races, each judged by an oracle.

`python -m tests.chaos [job …]` runs them; `test_*.py` runs each with a small budget. What has to know the library under
test is in `subject.py`, `approval_subject.py` and the mutants, as far as that goes.
"""
