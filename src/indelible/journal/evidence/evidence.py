"""What can be verified: a journal, or a part of one, as somebody handed it over.

Everything is read as a stream and with limits, for it comes from strangers. Nothing is written and no code is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from indelible.core.journal.notes import TreeHead
from indelible.core.verifying.examination import Row
from indelible.core.verifying.findings import Kind
from indelible.core.verifying.payloads import Disclosed
from indelible.core.verifying.trees import GivenTile


class Proven(NamedTuple):
    """Is one receipt as it was handed over, with the values and the signature that came with its entry."""

    name: str
    content: bytes
    shown: dict[str, Disclosed]
    signature: bytes | None


class Evidence:
    """Is a journal, or a part of one, as somebody handed it over; by itself it holds nothing."""

    source: str
    kind: Kind = "journal"
    manifest: dict[str, Any] | None = None
    has_values: bool = False
    """Was any value disclosed?"""
    withheld: int | None = None
    """Is how many values were left out on purpose; None where nothing says so, as in a published log."""
    given_tile: GivenTile | None = None

    def prepare(self) -> None:
        """Reads what says what the rest is; raises `Caught` or `CannotTell`."""

    def newest(self) -> tuple[str, bytes]:
        """Gives the newest signed head and its name."""
        raise NotImplementedError

    def older(self) -> Iterable[tuple[str, bytes]]:
        """Gives older signed heads with their names."""
        return ()

    def remembered(self, origin: str) -> TreeHead | None:
        """Gives the head that the signer of a live journal signed last, as it remembers it outside the database."""
        return None

    def size(self, signed: int) -> int:
        """Gives how many entries there should be, given how many were signed."""
        return signed

    def rows(self, size: int) -> Iterator[Row]:
        """Gives all entries in their order, 256 at a time; for a whole journal."""
        return iter(())

    def receipts(self) -> Iterator[Proven]:
        """Gives single entries with their proofs; for a part of a journal."""
        return iter(())

    def close(self) -> None:
        """Gives everything back."""
