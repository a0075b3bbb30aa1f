"""Verifying without a ledger: bytes in, a report out, no store and no network of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indelible.core.verifying.findings import Report


def verify(
    path: str | Path,
    key: str | Iterable[str] = (),
    *,
    after: Iterable[bytes | str] = (),
    witnesses: Iterable[str] = (),
    quorum: int | None = None,
    fresh_within: timedelta | None = None,
    deep: bool = False,
    semantics: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verifies a bundle, an export, a receipt or a published log against keys that came another way, and reports.

    It never raises for a flaw: `report.verdict` is verified, tampered or cannot_tell, `report.flaw` the first bad
    entry, and `report.ruled_out` says of every attack whether it is ruled out. Without a key nothing is verified.
    """
    # Who only calls tools need not load a verifier.
    from indelible.journal.evidence.verification import verify as examine

    return examine(
        path,
        [key] if isinstance(key, str) else key,
        after=after,
        witnesses=witnesses,
        quorum=quorum,
        fresh_within=fresh_within,
        deep=deep,
        semantics=semantics,
        progress=progress,
    )
