"""Which kind of evidence a path or an address holds."""

from __future__ import annotations

import re
from pathlib import Path

from indelible.core.journal.notes import MOST_NOTE_BYTES
from indelible.core.verifying.findings import CannotTell
from indelible.journal.evidence.bundle import FileEvidence, LogEvidence
from indelible.journal.evidence.evidence import Evidence
from indelible.journal.evidence.files import Folder, Zip
from indelible.journal.evidence.lines import LineEvidence, ReceiptEvidence
from indelible.journal.evidence.published_log import PublishedFiles


def open_evidence(place: str | Path) -> Evidence:
    """Finds out what a path or address holds; raises `CannotTell` when it is nothing that can be verified."""
    if isinstance(place, str) and re.match(r"https?://", place):
        return LogEvidence(PublishedFiles(place), place)
    path = Path(place)
    if path.is_dir():
        return FileEvidence(Folder(path), str(path))
    if not path.is_file():
        raise CannotTell(f"{path} is not there: name a bundle, an export, a receipt or the address of a log")
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return FileEvidence(Zip(path), str(path))
    if start.startswith(b"c2sp.org/tlog-proof@"):
        with path.open("rb") as file:
            return ReceiptEvidence(file.read(2 * MOST_NOTE_BYTES), str(path))
    if start.startswith(b"{"):
        return LineEvidence(path)
    raise CannotTell(f"{path} is empty" if not start else f"{path} is no bundle, no export and no receipt")
