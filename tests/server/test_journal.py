"""The journal over HTTP: what auditors need to check everything themselves, without trusting the server."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall
from indelible.core.journal.merkle import is_consistent, is_included, leaf_hash
from indelible.core.journal.notes import parse_head, parse_note, parse_vkey
from indelible.core.journal.receipts import parse_receipt
from indelible.core.journal.tiles import WIDTH, grow, unpack_entries
from tests.server.places import Place, sqlite_place

RUN = "audited"
CALLS = 150


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("journal"))
    ledger = made.ledgers.of("acme")
    made.commit(made.begin(run_id=RUN, args={"n": -1}).json())
    assert ledger._seal() is not None
    with Ledger.open(made.store.address, tenant="acme", seal=False) as other:
        for n in range(CALLS):
            other.run(ToolCall(tool="charge", args={"n": n}, run_id=RUN), lambda effect: 0)
    assert ledger._seal() is not None
    yield made
    made.close()


def head(place: Place) -> dict[str, Any]:
    return dict(place.get("/v1/journal/head", "auditor").json())


def test_the_head_is_shown_as_signed_and_as_json(place: Place) -> None:
    shown = head(place)
    note = place.get("/v1/journal/head", "auditor", headers={"Accept": "text/plain"}).text
    assert note == shown["note"] == place.get("/v1/journal/checkpoint", "auditor").text
    signed = parse_head(parse_note(note).text)
    assert (signed.origin, signed.size, signed.root) == (shown["origin"], shown["size"], b64decode(shown["root"]))
    assert shown["size"] > WIDTH


def test_older_heads_are_listed_and_lead_to_the_newest(place: Place) -> None:
    newest = head(place)
    page = place.get("/v1/journal/heads?limit=1", "auditor").json()
    rest = place.get("/v1/journal/heads", "auditor", params={"before": page["next"]}).json()
    assert page["heads"] == [newest]
    assert rest["next"] is None
    for older in rest["heads"]:
        path = f"/v1/journal/consistency?old={older['size']}"
        proof = place.get(path, "auditor").json()
        hashes = [b64decode(one) for one in proof["proof"]]
        roots = b64decode(older["root"]), b64decode(newest["root"])
        assert is_consistent(older["size"], roots[0], proof["new"], roots[1], hashes)
    assert rest["heads"]


def test_a_receipt_proves_an_event_offline(place: Place) -> None:
    params: dict[str, Any] = {"run_id": RUN, "seq": 7}
    shown = place.get("/v1/journal/inclusion", "auditor", params=params).json()
    proof, entry = [b64decode(one) for one in shown["proof"]], b64decode(shown["entry"])
    assert is_included(leaf_hash(entry), shown["index"], shown["size"], proof, b64decode(shown["root"]))
    assert json.loads(entry)["seq"] == 7
    text = place.get("/v1/journal/inclusion", "auditor", params=params, headers={"Accept": "text/plain"}).text
    assert text == shown["receipt"]
    assert parse_receipt(text).covers(entry)


def test_an_event_that_is_not_sealed_yet_has_no_receipt_yet(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.ledgers.of("acme")._engine.recorded.journal
    monkeypatch.setattr(store, "index_of", lambda *words: None)
    answer = place.get("/v1/journal/inclusion", "auditor", params={"run_id": RUN, "seq": 0})
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/not-run")


def test_tiles_and_entries_give_the_whole_tree_and_never_change(place: Place) -> None:
    newest = head(place)
    size, leaves = newest["size"], []
    for number in range(-(-size // WIDTH)):
        width = min(WIDTH, size - number * WIDTH)
        name = f"{number:03d}" + ("" if width == WIDTH else f".p/{width}")
        entries = place.get(f"/v1/journal/tile/entries/{name}", "auditor")
        tile = place.get(f"/v1/journal/tile/0/{name}", "auditor")
        assert entries.headers["cache-control"] == tile.headers["cache-control"] == _IMMUTABLE
        hashes = [leaf_hash(entry) for entry in unpack_entries(entries.content)]
        assert b"".join(hashes) == tile.content
        leaves += hashes
    grown = grow(0, leaves, lambda level, number: b"")
    assert grown.root == b64decode(newest["root"])
    assert place.get("/v1/journal/tile/1/000.p/1", "auditor").content == grown.tiles[1, 0]


_IMMUTABLE = "private, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "name",
    ["0/1", "0/000.p/256", "0/000.p/0", "0/x000/000", "0/001", "0/999", "64/000", "1/000", "entries/001", "a/000",
     "0/000/..", "%2e%2e/head", "0/000.p/1/x", "", "0/x999/x999/x999/x999/x999/999", "0/%00"],
)  # fmt: skip
def test_a_tile_that_is_none_is_not_found(place: Place, name: str) -> None:
    assert place.get(f"/v1/journal/tile/{name}", "auditor").status_code == 404


def test_entries_are_listed_by_their_place(place: Place) -> None:
    page = place.get("/v1/journal/entries?limit=5&after=9", "auditor").json()
    assert ([one["index"] for one in page["events"]], page["next"]) == ([10, 11, 12, 13, 14], 14)
    last = place.get(f"/v1/journal/entries?after={2**53 - 1}", "auditor").json()
    assert (last["events"], last["next"]) == ([], None)


@pytest.mark.parametrize("query", ["old=5&new=4", "old=0&new=999999", "old=-1", f"old={2**60}", "new=5", ""])
def test_sizes_that_are_none_are_refused(place: Place, query: str) -> None:
    assert place.get(f"/v1/journal/consistency?{query}", "auditor").status_code in (400, 422)


def test_the_keys_of_the_journal_are_public_to_the_tenant_and_say_which_holds(place: Place) -> None:
    (key,) = place.get("/.well-known/indelible-keys.json", "agent").json()["keys"]
    assert key["status"] == "current"
    assert parse_vkey(key["vkey"]).name == place.ledgers.of("acme").journal_name


def test_the_verifier_runs_over_the_live_journal_and_never_says_more_than_it_knows(place: Place) -> None:
    (key,) = place.get("/.well-known/indelible-keys.json", "auditor").json()["keys"]
    kept = place.get("/v1/journal/heads?limit=50", "auditor").json()["heads"][-1]["note"]
    without = place.post("/v1/journal/verify", {}, "auditor").json()
    assert without["verdict"] == "cannot_tell"
    report = place.post("/v1/journal/verify", {"keys": [key["vkey"]], "after": [kept], "deep": True}, "auditor").json()
    assert (report["verdict"], report["attacks"]["edit"], report["attacks"]["fork"]) == (
        "verified",
        "ruled out",
        "not ruled out",
    )
    assert report["counts"]["events"] > CALLS
    assert "ledger.db" not in json.dumps(report)


@pytest.mark.parametrize(
    "body",
    [{"keys": ["x"]}, {"after": ["x"]}, {"witnesses": ["x"]}, {"quorum": 1}, {"keys": "x"}, {"fresh_within_s": 0},
     {"more": 1}, {"keys": ["a+0123abcd+AAAA"]}, {"deep": 1}],
)  # fmt: skip
def test_demands_that_make_no_sense_are_refused(place: Place, body: dict[str, Any]) -> None:
    assert place.post("/v1/journal/verify", body, "auditor").status_code in (400, 422)


def test_what_was_changed_in_the_database_is_told(tmp_path: Path) -> None:
    own = sqlite_place(tmp_path)
    own.commit(own.begin(run_id=RUN).json())
    own.ledgers.of("acme")._seal()
    (key,) = own.get("/.well-known/indelible-keys.json", "auditor").json()["keys"]
    store: Any = own.store
    store._writer.execute(
        "UPDATE indelible_events SET body=CAST(replace(body, 'charge', 'gift!!') AS BLOB) WHERE run_id=?", (RUN,)
    )
    report = own.post("/v1/journal/verify", {"keys": [key["vkey"]]}, "auditor").json()
    assert report["verdict"] == "tampered"
    assert report["first_bad"]["index"] is not None
    own.close()


def test_a_journal_without_a_signed_head_says_so(place: Place) -> None:
    for path in ("head", "checkpoint", "consistency?old=0", "tile/0/000.p/1"):
        assert place.get(f"/v1/journal/{path}", "stranger").status_code == 404
    assert place.get("/v1/journal/heads", "stranger").json() == {"heads": [], "next": None}
    assert place.post("/v1/journal/verify", {}, "stranger").json()["verdict"] == "cannot_tell"
