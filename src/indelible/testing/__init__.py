"""What tests of programs and of stores need: a clock to move by hand, and the suite that every store passes."""

import sys

if "pytest" in sys.modules:  # asserts then say what they compared, as in any test
    for _name in ("suite", "conformance", "forgetting_conformance", "journal_conformance"):
        sys.modules["pytest"].register_assert_rewrite(f"indelible.testing.{_name}")

from indelible.testing.clock import FakeClock
from indelible.testing.conformance import StoreConformance

__all__ = ["FakeClock", "StoreConformance"]
