"""Fault 71: a run that was begun with `parent=` was told of by nobody, so it verified as broken from birth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indelible import Ledger
from indelible.compat.zehrava import Gate
from indelible.errors import RunOver, RunRefused, UnknownRun
from tests.scenarios.hands import resumed, started
from tests.scenarios.shells import Driver, prepare_store
from tests.server.conftest import each_place as each_place
from tests.server.places import Place


def holds(ledger: Driver, *names: str) -> bool:
    """Says whether each of these runs verifies."""
    return all(ledger.verify_run(name).is_valid for name in names)


def types(ledger: Driver, name: str) -> list[str]:
    return [event.type for event in ledger.events(name)]


def test_71_a_run_that_is_started_with_a_parent_is_told_of_by_it(ledger: Driver) -> None:
    started(ledger, "parent")
    started(ledger, "child", parent="parent")
    assert types(ledger, "parent") == ["run_started", "delegation_started"]
    assert ledger.run_story("parent").open_delegations == ["child"]
    assert ledger.get_run("child").parent == ledger.verify_run("child").parent == "parent"
    assert holds(ledger, "parent", "child")


def test_71_a_parent_that_nobody_drives_and_one_with_a_child_already_are_told_too(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    parent.delegate("clerk")
    parent.release()
    for name in ("one", "two"):
        started(ledger, name, parent="parent")
    assert holds(ledger, "parent", "one", "two")
    assert len(resumed(ledger, "parent").context.open_delegations) == 3


@pytest.mark.parametrize("parent", ["nobody", "child", "only-called", "over"])
def test_71_a_run_whose_parent_cannot_be_told_is_not_started(ledger: Driver, parent: str) -> None:
    started(ledger, "over").complete()
    ledger.record("only-called", "acme.noted")
    with pytest.raises(RunOver if parent == "over" else UnknownRun):
        started(ledger, "child", parent=parent)
    assert ledger.get_run("child") is None
    assert types(ledger, "over") == ["run_started", "run_completed"]


def test_71_a_parent_is_told_nothing_of_a_run_that_is_not_started(ledger: Driver) -> None:
    started(ledger, "parent")
    started(ledger, "child")
    with pytest.raises(RunRefused) as caught:
        started(ledger, "child", parent="parent")
    assert caught.value.code == "exists"
    assert types(ledger, "parent") == ["run_started"]
    assert holds(ledger, "parent", "child")


def test_71_a_parent_with_a_child_is_not_handed_over(ledger: Driver) -> None:
    started(ledger, "parent").release()
    started(ledger, "child", parent="parent")
    with pytest.raises(RunRefused) as caught:
        ledger.export_packet("parent", to="ledger-2/default")
    assert caught.value.code == "delegated"


def test_71_lineage_holds_when_what_the_parent_said_was_erased(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    started(ledger, "child", parent="parent").complete()
    parent.complete()
    ledger.erase(run_id="parent", by="ada", reason="retention")
    assert holds(ledger, "child")


def test_71_what_a_parent_is_told_is_encrypted_for_it(store_url: str, tmp_path: Path) -> None:
    with Ledger.open(
        prepare_store(store_url, tmp_path / "keys"), keys=tmp_path / "keys", encrypt=True, seal=False
    ) as ledger:
        ledger.start_run("parent", agent="boss")
        ledger.start_run("child", agent="clerk", parent="parent")
        assert ledger.verify_run("parent").is_valid
        assert ledger.verify_run("child").is_valid
        assert ledger.run_story("parent").open_delegations == ["child"]
        (told,) = ledger._engine.recorded.payloads("default", "parent", [1])
        assert b"child" not in told.value


# By every door of a server


def by_http(place: Place, parent: str) -> str:
    answer = place.post("/v1/runs", {"agent": "clerk", "parent": parent}, "agent")
    assert answer.status_code == 201, answer.text
    name: str = answer.json()["run"]["id"]
    return name


def by_zehrava(place: Place, parent: str) -> str:
    with Gate(endpoint=place.served.url, api_key=place.tokens["agent"]) as gate:
        name: str = gate.start_run(agent_id="clerk", parent_run_id=parent)["runId"]
        return name


def by_connecting(place: Place, parent: str) -> str:
    with Ledger.open(place.served.url, token=place.tokens["agent"]) as ledger:
        return ledger.start_run(agent="clerk", parent=parent).id


@pytest.mark.parametrize("door", [by_http, by_zehrava, by_connecting])
def test_71_a_parent_is_told_of_its_child_by_every_door(each_place: Place, door: Callable[[Place, str], str]) -> None:
    parent = each_place.post("/v1/runs", {"agent": "boss"}, "agent").json()["run"]["id"]
    child = door(each_place, parent)
    for name in (parent, child):
        answer = each_place.post(f"/internal/runs/{name}/verify", None, "agent").json()
        assert answer["lineageContinuity"]["valid"] is True
    assert each_place.post("/v1/runs", {"agent": "x", "parent": "nobody"}, "agent").status_code == 404
    over = each_place.post(f"/v1/runs/{parent}/complete", {"reason": "done"}, "ana")
    assert over.status_code == 200, over.text
    assert each_place.post("/v1/runs", {"agent": "x", "parent": parent}, "agent").status_code == 409
