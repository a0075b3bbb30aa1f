"""What tests of programs and of stores need: a clock to move by hand, and the suite that every store passes."""

import sys

if "pytest" in sys.modules:  # asserts then say what they compared, as in any test
    for _name in ("suite", "comparing", "conformance"):
        sys.modules["pytest"].register_assert_rewrite(f"indelible.testing.{_name}")
    for _name in ("apply", "forgetting", "journal", "reading", "sheet_lists", "sheets"):
        sys.modules["pytest"].register_assert_rewrite(f"indelible.testing.{_name}_conformance")

from indelible.testing.clock import FakeClock
from indelible.testing.conformance import StoreConformance

__all__ = ["FakeClock", "StoreConformance"]
