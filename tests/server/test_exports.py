"""Exports over HTTP: made beside the answers, whole or not at all, for auditors of the tenant, and gone in time."""

from __future__ import annotations

import csv
import hashlib
import io
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.server import export_jobs
from indelible.server.routes import exports
from tests.server.places import Place, sqlite_place
from tests.waiting import PATIENCE


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Place]:
    made = sqlite_place(tmp_path)
    made.begin(run_id="a")
    yield made
    made.close()


def order(place: Place, form: str = "csv", who: str = "auditor", **words: Any) -> Any:
    return place.post("/v1/exports", {"form": form, **words}, who)


def ended(place: Place, ordered: Any) -> dict[str, Any]:
    """Gives an export as soon as it is no longer under way."""
    assert ordered.status_code == 202, ordered.text
    assert ordered.headers["location"] == f"exports/{ordered.json()['id']}"
    while True:
        shown = place.get(f"/v1/exports/{ordered.json()['id']}", "auditor").json()
        if shown["state"] not in ("waiting", "running"):
            return dict(shown)


def test_an_export_is_ordered_watched_fetched_and_removed(place: Place, tmp_path: Path) -> None:
    for n in range(3):
        place.commit(place.begin(run_id="a", args={"n": n}).json())
    shown = ended(place, order(place, q="type:tool_call_finished", withhold=["result"]))
    assert (shown["state"], shown["events"], shown["why"]) == ("done", 3, None)
    assert shown["done"] == shown["total"] >= 6
    assert shown["withheld"] == 3
    path = f"/v1/exports/{shown['id']}"
    file = place.get(f"{path}/download", "auditor")
    assert hashlib.sha256(file.content).hexdigest() == shown["sha256"]
    assert (len(file.content), file.headers["x-content-type-options"]) == (shown["size"], "nosniff")
    assert file.headers["content-disposition"] == f'attachment; filename="{shown["id"]}.csv"'
    assert {row["type"] for row in csv.DictReader(io.StringIO(file.text))} == {"tool_call_finished"}
    assert place.ask("DELETE", path, "auditor").status_code == 204
    for gone in (place.get(path, "auditor"), place.get(f"{path}/download", "auditor")):
        assert (gone.status_code, gone.json()["type"]) == (404, "/problems/unknown-export")
    bundle = ended(place, order(place, "bundle"))
    (tmp_path / "out.zip").write_bytes(place.get(f"/v1/exports/{bundle['id']}/download", "auditor").content)
    key = place.get("/.well-known/indelible-keys.json", "auditor").json()["keys"][0]["vkey"]
    assert indelible.verify(tmp_path / "out.zip", key=key).verdict == "verified"
    assert [one["id"] for one in place.get("/v1/exports", "auditor").json()["exports"]] == [bundle["id"]]


def test_an_export_is_for_auditors_of_its_tenant(on_sqlite: Place) -> None:
    for who in ("agent", "ana"):
        assert order(on_sqlite, who=who).status_code == 403
    shown = ended(on_sqlite, order(on_sqlite))
    for path in (f"/v1/exports/{shown['id']}", f"/v1/exports/{shown['id']}/download"):
        assert on_sqlite.get(path, "stranger").status_code == 404
        assert on_sqlite.get(path, "admin").status_code == 200
        assert on_sqlite.get(path, "ana").status_code == 403
    assert on_sqlite.ask("DELETE", f"/v1/exports/{shown['id']}", "stranger").status_code == 404
    assert on_sqlite.get("/v1/exports", "stranger").json()["exports"] == []


def test_what_cannot_be_is_refused_before_it_is_ordered(on_sqlite: Place) -> None:
    for words in (
        {"q": "colour:red"}, {"form": "bundle", "q": "type:x"}, {"run_id": "a", "first": 1}, {"withhold": ["colour"]},
    ):  # fmt: skip
        assert order(on_sqlite, **words).status_code == 400, words
    assert order(on_sqlite, form="docx").status_code == 422
    failed = ended(on_sqlite, order(on_sqlite, run_id="nowhere"))
    assert (failed["state"], "no run" in failed["why"]) == ("failed", True)
    assert on_sqlite.get(f"/v1/exports/{failed['id']}/download", "auditor").status_code == 409


class Held:
    """Holds an export in its middle until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._export = exports.export
        monkeypatch.setattr(exports, "export", self)

    def __call__(self, *words: Any, progress: Any, **named: Any) -> Any:
        def held(done: int, total: int | None) -> None:
            self.begun.set()
            assert self.go_on.wait(PATIENCE)
            progress(done, total)

        return self._export(*words, progress=held, **named)


def test_nothing_that_is_not_whole_can_be_fetched_and_what_is_taken_back_leaves_nothing(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    job = order(on_sqlite).json()
    assert held.begun.wait(PATIENCE)
    folder = on_sqlite.ledgers.exports._folder
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.suffix for file in folder.iterdir()] == [".part"], "a killed server leaves this, and no other name"
    assert on_sqlite.get(f"/v1/exports/{job['id']}/download", "auditor").status_code == 409
    (thread,) = on_sqlite.ledgers.exports._threads
    assert on_sqlite.ask("DELETE", f"/v1/exports/{job['id']}", "auditor").status_code == 204
    held.go_on.set()
    thread.join(PATIENCE)
    assert list(folder.iterdir()) == []


def test_there_are_only_so_many(on_sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_jobs, "MOST_KEPT", 1)
    first = ended(on_sqlite, order(on_sqlite))
    refused = order(on_sqlite)
    assert (refused.status_code, "DELETE" in refused.json()["detail"]) == (429, True)
    on_sqlite.ask("DELETE", f"/v1/exports/{first['id']}", "auditor")
    assert order(on_sqlite).status_code == 202


def test_an_export_goes_after_its_time(on_sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_jobs, "KEPT_FOR", timedelta(0))
    ordered = order(on_sqlite)
    path = f"/v1/exports/{ordered.json()['id']}"
    while on_sqlite.get(path, "auditor").status_code != 404:
        pass
    folder = on_sqlite.ledgers.exports._folder
    assert folder is not None
    assert list(folder.iterdir()) == []


def test_a_server_that_stops_removes_its_exports_and_those_of_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, alive = tmp_path / "indelible-exports-999999999-x", tmp_path / "indelible-exports-1-x"
    for folder in (killed, alive):
        folder.mkdir()
        (folder / "exp_1.csv").touch()
    made = sqlite_place(tmp_path)
    made.begin(run_id="a")
    ended(made, order(made))
    made.close()
    assert [folder.name for folder in tmp_path.glob("indelible-exports-*")] == [alive.name]


def _by_request(place: Place, run: str, tmp_path: Path) -> None:
    told = {"run_id": run, "reason": "asked to"}
    assert place.post("/v1/erasures", {**told, "dry_run": True}, "admin").status_code == 200
    assert [one["state"] for one in place.get("/v1/exports", "auditor").json()["exports"]] == ["done"]
    assert place.post("/v1/erasures", told, "admin").status_code == 200


def _by_ledger_over_http(place: Place, run: str, tmp_path: Path) -> None:
    with indelible.connect(place.served.url, token=place.tokens["admin"]) as ledger:
        ledger.erase(run_id=run, by="root", reason="asked to")


def _beside_the_server(place: Place, run: str, tmp_path: Path) -> None:
    with Ledger.open(place.url, tenant="acme", keys=tmp_path / "keys") as ledger:
        ledger.erase(run_id=run, by="root", reason="asked to")


def _beside_it_unsealed(place: Place, run: str, tmp_path: Path) -> None:
    with Ledger.open(place.url, tenant="acme", keys=tmp_path / "keys", seal=False) as ledger:
        ledger.erase(run_id=run, by="root", reason="asked to")


@pytest.mark.parametrize("erase", [_by_request, _by_ledger_over_http, _beside_the_server, _beside_it_unsealed])
def test_95_what_was_erased_is_not_fetched_from_an_export_of_before(erase: Any, place: Place, tmp_path: Path) -> None:
    place.commit(place.begin(run_id="a", args={"n": "CANARY"}).json())
    place.begin(who="other-agent", run_id="b")
    shown = ended(place, order(place))
    path = f"/v1/exports/{shown['id']}"
    assert "CANARY" in place.get(f"{path}/download", "auditor").text
    erase(place, "a", tmp_path)
    gone = place.get(f"{path}/download", "auditor")
    assert (gone.status_code, gone.json()["type"]) == (404, "/problems/unknown-export")
    assert place.get(path, "auditor").status_code == 404
    folder = place.ledgers.exports._folder
    assert folder is not None
    assert list(folder.iterdir()) == []
    again = ended(place, order(place))
    file = place.get(f"/v1/exports/{again['id']}/download", "auditor")
    assert (file.status_code, "CANARY" in file.text) == (200, False)


def test_95_what_is_erased_while_an_export_is_made_takes_it_back(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_begun, may_go_on = threading.Event(), threading.Event()

    def slow(*args: Any, **words: Any) -> Any:
        is_begun.set()
        assert may_go_on.wait(PATIENCE)
        return export(*args, **words)

    export = exports.export
    on_sqlite.commit(on_sqlite.begin(run_id="b").json())
    monkeypatch.setattr(exports, "export", slow)
    ordered = order(on_sqlite).json()
    assert is_begun.wait(PATIENCE)
    assert on_sqlite.post("/v1/erasures", {"run_id": "b", "reason": "asked to"}, "admin").status_code == 200
    may_go_on.set()
    assert on_sqlite.get(f"/v1/exports/{ordered['id']}", "auditor").status_code == 404


def test_95_another_tenants_exports_stay(on_sqlite: Place) -> None:
    shown = ended(on_sqlite, order(on_sqlite))
    claim = on_sqlite.begin(who="agent", run_id="z").json()
    on_sqlite.commit(claim)
    with Ledger.open(on_sqlite.url, tenant="globex", seal=False) as ledger:
        ledger.run(ToolCall(run_id="g", tool="t", args={}), lambda effect: 1)
    assert on_sqlite.post("/v1/erasures", {"run_id": "g", "reason": "x"}, "stranger").status_code == 200
    assert on_sqlite.get(f"/v1/exports/{shown['id']}/download", "auditor").status_code == 200
