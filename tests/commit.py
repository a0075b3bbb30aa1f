"""Names the commit that is tested, so that each tries another part of what takes too long as a whole."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _commit() -> str:
    """Return the commit that is tested; "" where there is no repository."""
    said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    return said.stdout.strip()


COMMIT = _commit()
