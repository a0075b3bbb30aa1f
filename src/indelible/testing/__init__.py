"""What tests of programs and of stores need: a clock to move by hand, and the suite that every store passes."""

from indelible.testing.clock import FakeClock

__all__ = ["FakeClock"]
