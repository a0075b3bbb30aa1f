"""A process that wants its own histories signed: `python -m tests.journal.racing FOLDER NUMBER`.

It says when it is ready, and starts when its input ends.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from indelible.core.journal.merkle import leaf_hash
from indelible.errors import SignerRefused
from tests.journal.dying import World, head_of, prover

RACES = 25


def main(folder: Path, number: int) -> None:
    """Offers, for one journal after the other, a history that parts from those of all other processes."""
    signer = World(folder).signer()
    leaves = [leaf_hash(b"%d %d" % (number, at)) for at in range(2)]
    print(end=".", flush=True)
    sys.stdin.read()
    for at in range(RACES):
        for size in (1, 2):
            with contextlib.suppress(SignerRefused):
                signer.sign(head_of(f"ledger-1/{at}", leaves[:size]), prover(leaves[:size]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
