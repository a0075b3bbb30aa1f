"""Writes what is made from the code and committed: `openapi.json`, and the pages of problems and of rights.

python -m indelible.server.describing.openapi            # writes them, below the current directory
python -m indelible.server.describing.openapi --check    # says whether they are fresh
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
from indelible.core.rights import REACHES, RIGHTS
from indelible.core.scopes import SCOPES
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

_RIGHTS_HEAD = """\
# Rights

A credential has one scope or more; each scope has the rights in its column. Every door goes by this table: the
resources under `/v1`, the Python client, the command line with a server's address, and the dashboard. A credential that
lacks a right gets 403 [`not-permitted`](problems.md#not-permitted), and nothing changes.

This page is made from the code: `python -m indelible.server.describing.openapi`. In `openapi.json`, `x-right` says the
same of each operation.
"""
_RIGHTS_NOTES = """\
A principal is a tenant, the name of a credential, its kind (agent or person), and its `--principal`. A new key with the
same name and the same `--principal` is the same principal, so you can rotate a key while calls are open.

- **Only people and probes settle, retry or cancel what is in doubt or waits.** An agent's credential withdraws its own
  call that was never entered, nothing else. A [signed webhook](../in-doubt.md#the-providers-webhook-settles-it) of the
  provider settles too.
- **A probe runs at the server or at the database.** In the process of an agent with a token, a probe may know the
  answer, but the token cannot settle: the call raises `EffectInDoubt`. Let [the server run the
  tool](../server.md#tools-that-the-server-runs), run `indelible effects reconcile` at the database, or let the provider
  send a webhook.
- **A claim token is bound to its tenant, its principal and its attempt.** Another credential that sends it gets 403.
  When the lease has run out, a heartbeat gets 409, and beginning the call again with the same token gives no claim. The
  late report of the newest attempt still [resolves its doubt](../in-doubt.md#late-results). A report of an older
  attempt changes nothing. It is kept with the name of its sender, who is not compared with who claimed that attempt.
- **A program that opens the database itself** has no credential. It acts as it says; protect the database from programs
  that you do not trust.
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
    pages = {"problems": problems_page(), "rights": rights_page()}
    return {Path("openapi.json"): openapi, **{Path(f"docs/reference/{name}.md"): pages[name] for name in pages}}


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


def rights_page() -> str:
    """Return the page with the table of rights."""
    rows = [f"| right | what | {' | '.join(f'`{scope}`' for scope in SCOPES)} | moves an effect that is |"]
    rows.append("|---" * (len(SCOPES) + 3) + "|")
    for name, right in RIGHTS.items():
        reaches = " | ".join(right.reach(scope) or "–" for scope in SCOPES)
        states = ", ".join(f"`{status}`" for status in right.states)
        rows.append(f"| `{name}` | {right.means} | {reaches} | {states} |")
    told = "\n".join(f"- **{reach}**: {means}" for reach, means in REACHES.items())
    note = "An effect whose lease has run out counts as `in_doubt`, also before a worker has marked it."
    return "\n\n".join([_RIGHTS_HEAD.strip(), "\n".join(rows), told, note, _RIGHTS_NOTES])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
