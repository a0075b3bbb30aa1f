"""Lends the writer keys of a ledger to processes that do not have its folder of keys."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from indelible.journal.keys.writers import VARIABLE, WriterKeys


def lent_folder(keys: Path, to: Path) -> Path:
    """Return a folder with the writer keys of each ledger in a folder of keys: its owner writes, and cannot sign."""
    for found in list(keys.glob("*/writers.key")):
        ring = to / found.parent.name
        ring.mkdir(mode=0o700, parents=True, exist_ok=True)
        to.chmod(0o700)
        half = ring / f"{found.name}.{os.getpid()}-{threading.get_ident()}"
        shutil.copy2(found, half)
        half.replace(ring / found.name)  # others may read it meanwhile
    return to


def lend_writer_keys(monkeypatch: pytest.MonkeyPatch, ledger: Any, *, with_rights: bool = True) -> None:
    """Put what `indelible keys export-writer` prints into the environment."""
    keys = ledger._engine.store.macs
    assert isinstance(keys, WriterKeys)
    monkeypatch.setenv(VARIABLE, keys.export(ledger.tenant, with_rights=with_rights))
