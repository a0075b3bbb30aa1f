"""`indelible doctor` for a ledger behind a server: is it there, can it work, does it let us in?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indelible.cli.doctor.server import check_ready
from tests.cli.conftest import Cli
from tests.server.places import Place, sqlite_place
from tests.waiting import refusing


def checks(cli: Cli, url: str, code: int = 0) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in cli("doctor", "--url", url, "--json", code=code).json["checks"]}


def test_a_server_that_is_well_is_said_to_be(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = sqlite_place(tmp_path)
    try:
        monkeypatch.setenv("INDELIBLE_TOKEN", place.tokens["auditor"])
        found = checks(cli, place.served.url)
        assert found["server"]["says"].startswith(f"{place.served.url} is ready, schema 00")
        assert (found["token"]["verdict"], found["token"]["says"]) == ("ok", "lets us in, for tenant acme")
        assert found["effects in doubt"]["says"] == "none"
        assert "has none" in found["worker"]["says"]
        _check_names_are_the_tokens(cli, place, monkeypatch)
        monkeypatch.setenv("INDELIBLE_TOKEN", "ind.made.up.token")
        refused = checks(cli, place.served.url, code=1)["token"]
        assert (refused["verdict"], "apikeys create" in refused["fix"]) == ("bad", True)
    finally:
        place.close()


def _check_names_are_the_tokens(cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a server it is the token that names who does something, and no other name is said to have."""
    monkeypatch.setenv("INDELIBLE_TOKEN", place.tokens["admin"])
    here = ("--url", place.served.url)
    assert "mallory" not in cli("stop", "-m", "looking", "--by", "mallory", *here).out
    assert cli("go", "--by", "mallory", "--json", *here).json["by"] is None
    assert "mallory" not in cli("events", "indelible:stops", *here).out


def test_a_server_that_is_away_is_told_with_what_to_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_TOKEN", "ind.a.b.c")
    with refusing() as port:
        url = f"http://127.0.0.1:{port}"
        away = checks(cli, url, code=1)["server"]
    assert (away["verdict"], away["says"]) == ("bad", f"{url} does not answer: ConnectError")
    assert "indelible serve" in away["fix"]


@pytest.mark.parametrize(
    ("changed", "name", "verdict", "says"),
    [
        ({}, "worker", "ok", "leading"),
        ({"worker": {"status": "nobody", "problems": 0}}, "worker", "warn", "nobody seals"),
        ({"worker": {"status": "leading", "problems": 2}}, "worker", "warn", "2 of its duties"),
        ({"sealing": {"status": "late", "lag_s": 99.0}}, "sealing", "warn", "99 s behind"),
        ({"status": "stopping", "detail": "it stops"}, "server", "bad", "is stopping: it stops"),
        ({"store": None}, "server", "bad", "no Indelible server"),
    ],
)
def test_what_a_server_says_of_itself_is_judged(changed: dict[str, Any], name: str, verdict: str, says: str) -> None:
    well = {
        "status": "ready",
        "store": {"status": "ok", "schema_version": "0004"},
        "worker": {"status": "leading", "problems": 0},
        "sealing": {"status": "ok", "lag_s": 0.0},
        "detail": None,
    }
    found = {check.name: check for check in check_ready("http://x", 200, {**well, **changed})}
    assert found[name].verdict == verdict
    assert says in found[name].says
