"""Prints the matrix of an integration, native beside ours: `python -m tests.integrations.matrix [ADAPTER…]`."""

from __future__ import annotations

import os
import sys
import tempfile

from indelible.testing.adapters.cases import rows_of
from indelible.testing.adapters.rig import ADAPTERS


def main(adapters: list[str]) -> int:
    """Plays every case; says with its exit code whether all of ours read 1 or refused."""
    is_kept = True
    with tempfile.TemporaryDirectory() as keys:
        os.environ["INDELIBLE_KEYS"] = keys
        for adapter in adapters or list(ADAPTERS):
            for row in rows_of(adapter):
                print(f"{row.adapter:12} {row.case:20} native {row.native:25} ledger {row.ledger}")
                is_kept &= row.is_kept
    return not is_kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
