"""Writes what is made from the code and committed: `openapi.json`, and the reference of problems.

python -m indelible.server.describing.openapi            # writes both, below the current directory
python -m indelible.server.describing.openapi --check    # says whether both are fresh
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from fastapi import Request

from indelible.core.remote.admitting import Caller
from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from indelible.errors import NotAuthenticated
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.stores import migrate, open_store

_HEAD = """\
# Problems

Errors of the server are `application/problem+json` (RFC 9457). `type` is one of those below; it does not change, and a
program may rely on it. `detail` says what is wrong in this case and what to do. The server explains each at
`{problems}…`, as JSON or as a page. Some carry more: `code` is one word for programs, `problems` a list, `limit` and
`size` what is too large, `path` where, `effect_id` and `approval_id` what it is about. `effect_status`, `outcome` and
`differing` tell of the call that is on the record.

This page is made from the code: `python -m indelible.server.describing.openapi`.
"""


def main(words: list[str]) -> int:
    """Writes the files, or says whether they are what they should be."""
    stale = [path for path, text in made().items() if not path.exists() or path.read_text("utf-8") != text]
    if words == ["--check"]:
        for path in stale:
            sys.stderr.write(f"{path} is not what the code says; run: python -m indelible.server.describing.openapi\n")
        return 1 if stale else 0
    for path, text in made().items():
        path.write_text(text, "utf-8")
    return 0


def made() -> dict[Path, str]:
    """Gives each file with its content."""
    openapi = json.dumps(description(), indent=1, ensure_ascii=False) + "\n"
    return {Path("openapi.json"): openapi, Path("docs/reference/problems.md"): problems_page()}


def description() -> dict[str, Any]:
    """Gives the description of the server, which has to be there for it, over an empty ledger."""

    async def nobody(request: Request) -> Caller:
        raise NotAuthenticated("nobody is let in here")

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        migrate(url)
        store = open_store(url)
        try:
            return create_app(Ledgers(store, seal=False), nobody).openapi()
        finally:
            store.close()


def problems_page() -> str:
    """Gives the page that lists every type of problem."""
    parts = [_HEAD.format(problems=PROBLEMS)]
    for name, told in PROBLEM_TYPES.items():
        statuses = ", ".join(map(str, told.statuses))
        parts.append(f"## {name}\n\n{told.title}. Status {statuses}.\n\n{told.means}\n\n**Next:** {told.next_step}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
