"""The report in a real browser. Not part of the normal tests, for it needs Chromium: `python -m tests.browser`."""
