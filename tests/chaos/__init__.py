"""Crashes, power loss, broken disks, cut wires, zombies and races, each judged by one oracle.

`python -m tests.chaos [job …]` runs them; `test_*.py` runs each with a small budget. Only `subject.py` and `mutants.py`
know the library under test.
"""
