"""Lends the writer keys of a ledger to processes that do not have its folder of keys."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.journal.keys.writers import VARIABLE, WriterKeys


def lend_writer_keys(monkeypatch: pytest.MonkeyPatch, ledger: Any, *, with_rights: bool = True) -> None:
    """Put what `indelible keys export-writer` prints into the environment."""
    keys = ledger._engine.store.macs
    assert isinstance(keys, WriterKeys)
    monkeypatch.setenv(VARIABLE, keys.export(ledger.tenant, with_rights=with_rights))
