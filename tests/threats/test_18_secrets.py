"""Threat 18: a secret in arguments, results, errors, texts or headers is found again where nobody looks for it.

With `serve --encrypt`, what agents and people say is encrypted before it is stored. So a canary that goes in by every
way is in no table, no log, no metric, and in no answer but those that show the payload to who may see it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import load_tools
from indelible.stores import is_postgres
from tests.stores.database import open_file
from tests.threats.exposed import Exposed

CANARY = "canary-sk_live_51H8xQ2e"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collects everything that anybody logs, exceptions included."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))  # this test's own client
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


def leaking(**args: Any) -> Any:
    """Is a tool that fails with what it was given."""
    raise ValueError(f"cannot use {args}")


TOOLS = """
[tools."leaking"]
python = "tests.threats.test_18_secrets:leaking"
side_effect = "write"
"""


def everything_stored(url: str, folder: Path) -> bytes:
    """Gives every row of every table, and on SQLite the bytes of the file and what belongs to it."""
    if is_postgres(url):
        with psycopg.connect(url) as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            parts = []
            for (name,) in names:
                with connection.cursor().copy(f"COPY (SELECT t::text FROM {name} t) TO STDOUT") as copied:
                    parts += [bytes(part) for part in copied]
        return b"\n".join(parts)
    with open_file(folder / "ledger.db") as connection:
        rows = [
            repr(row).encode()
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for row in connection.execute(f"SELECT * FROM {name}")
        ]
    return b"\n".join([*rows, *(path.read_bytes() for path in folder.glob("ledger.db*") if path.is_file())])


def holds(stored: bytes | str, canary: str = CANARY) -> bool:
    """Is the canary in there, plainly or in digits?"""
    raw = stored.encode() if isinstance(stored, str) else stored
    return canary.encode() in raw or canary.encode().hex().encode() in raw.lower()


@pytest.fixture
def exposed(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exposed]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    (tmp_path / "tools.toml").write_text(TOOLS)
    gateway = Gateway(load_tools(tmp_path / "tools.toml"))
    found = Exposed(store_url, encrypt=True, keys=tmp_path / "keys", seal=False, gateway=gateway)
    yield found
    found.close()


def go_every_way(exposed: Exposed) -> list[str]:
    """Sends the canary by every way there is; gives the answers that are nobody's business."""
    secret = {"card": CANARY, "deep": [{"x": CANARY}]}
    told: list[Any] = []
    claim = exposed.begin(args=secret, run_id="done").json()
    report = {"token": claim["token"], "attempt": 1, "outcome": {"status": "succeeded", "value": secret}}
    exposed.post(f"/v1/effects/{claim['effect']['id']}/commit", report)
    claim = exposed.begin(args=secret, run_id="failed").json()
    report["token"] = claim["token"]
    report["outcome"] = {"status": "failed", "error": f"declined {CANARY}"}
    exposed.post(f"/v1/effects/{claim['effect']['id']}/commit", report)
    claim = exposed.begin(args=secret, run_id="doubt").json()
    release = {"token": claim["token"], "attempt": 1, "status": "in_doubt", "reason": CANARY}
    exposed.post(f"/v1/effects/{claim['effect']['id']}/release", release)
    settle = {"outcome": {"status": "failed", "error": CANARY}, "evidence": f"seen {CANARY}"}
    exposed.post(f"/v1/effects/{claim['effect']['id']}/settle", settle, "ana")
    asked = exposed.begin(args=secret, run_id="asked", approval="required").json()["approval"]
    exposed.post(f"/v1/approvals/{asked['id']}/decisions", {"decision": "deny", "reason": CANARY}, "ana")
    headers = {"Idempotency-Key": "again", "X-Secret": CANARY, "Cookie": f"s={CANARY}", "User-Agent": CANARY}
    for _ in range(2):
        exposed.post("/v1/effects", {"tool": "t", "args": secret, "run_id": "kept"}, headers=headers)
    exposed.post("/v1/tools/leaking/calls", {"args": secret, "run_id": "gateway"})
    run = exposed.post("/v1/runs", {"run_id": "run", "agent": "billing"}).json()  # its intent stays in clear
    driven = {"token": run["token"]}
    exposed.post("/v1/runs/run/events", {**driven, "type": "note.made", "payload": secret})
    exposed.post("/v1/runs/run/checkpoints", {**driven, "state": secret})
    told.append(exposed.ask("GET", "/v1/me", None, headers={"Authorization": f"Bearer {CANARY}"}))
    told.append(exposed.ask("GET", "/v1/me", None, headers={"Authorization": f"Basic {CANARY}"}))
    told.append(exposed.begin(args={"a": 1}, lease_s=CANARY))
    told.append(exposed.begin(args=CANARY))
    told.append(exposed.begin(side_effect=CANARY))
    told.append(exposed.post("/v1/effects", f"{CANARY}"))
    told.append(exposed.ask("POST", "/v1/effects", content=b'{"args": "' + CANARY.encode() + b'"'))
    told.append(exposed.ask("GET", "/v1/effects", params={"limit": CANARY}))
    told.append(exposed.post("/v1/store/apply", {"commands": [CANARY]}))
    told.append(exposed.ask("PUT", "/v1/policy", "admin", {"content": {"rules": CANARY}, "reason": CANARY}))
    told.append(exposed.ask("GET", "/metrics", "auditor"))
    told.append(exposed.ask("GET", "/readyz", None))
    told.append(exposed.ask("GET", "/openapi.json", None))
    return [each.text for each in told]


def test_a_canary_that_goes_in_by_every_way_is_nowhere(
    exposed: Exposed, store_url: str, tmp_path: Path, log: io.StringIO
) -> None:
    answers = go_every_way(exposed)
    logging.getLogger("indelible.server").warning("the log is listened to")
    assert [text for text in answers if holds(text)] == []
    stored = everything_stored(store_url, tmp_path)
    assert len(stored) > 10_000
    assert b"bank" in stored or b"charge" in stored, "what is in clear is found, so a canary would be"
    assert not holds(stored)
    assert CANARY in exposed.ask("GET", "/v1/effects", "auditor").text, "who may see it sees it: it did go in"
    assert "the log is listened to" in log.getvalue()
    assert not holds(log.getvalue())
    for name, token in exposed.tokens.items():
        secret = token.rpartition(".")[2]
        assert not holds(stored, secret), f"the token of {name} is stored"
        assert not holds(log.getvalue(), secret), f"the token of {name} is in the log"


def test_without_encryption_it_is_found(store_url: str, tmp_path: Path) -> None:
    """So the search finds what is there."""
    plain = Exposed(store_url, keys=tmp_path / "keys", seal=False)
    try:
        plain.begin(args={"card": CANARY})
        assert holds(everything_stored(store_url, tmp_path))
    finally:
        plain.close()
