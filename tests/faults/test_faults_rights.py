"""Faults 41 and 42: who may decide what is in doubt or waits, and whose a claim token is.

Each over raw HTTP, through the client library in both shells, and with commands shipped by hand, on both stores.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from indelible import Actor, AsyncLedger, Claimed, Effect, Failed, Ledger, Succeeded, ToolCall
from indelible.cli.root import root
from indelible.core.commands import Cancel, Finish, Relinquish, Reopen, Settle
from indelible.core.effects.effect import SYSTEM, Claim
from indelible.core.remote.wire import to_wire
from indelible.core.stamps import Stamp
from indelible.errors import EffectInDoubt, LeaseLost, NotPermitted
from indelible.server.signin.credentials import Credentials
from tests.server.conftest import each_place
from tests.server.places import ROOT, Place
from tests.waiting import eventually

__all__ = ["each_place"]
OUTCOME = {"status": "succeeded", "value": {"id": "ch_1"}}
AGENTS = ("agent", "other-agent")
MOMENT = 0.05
"""Is how many seconds the shortest lease of these tests lasts."""


@pytest.fixture(scope="module")
def place(each_place: Place) -> Place:
    return each_place


@pytest.fixture
def run() -> str:
    return f"run-{uuid.uuid4().hex}"


def claimed(place: Place, run: str, **words: Any) -> dict[str, Any]:
    answer = place.begin(run_id=run, **words)
    assert answer.status_code == 201, answer.text
    return answer.json()


def report(claim: dict[str, Any], **words: Any) -> dict[str, Any]:
    return {"token": claim["token"], "attempt": claim["effect"]["attempt"], **words}


def in_doubt(place: Place, run: str) -> str:
    claim = claimed(place, run, side_effect="payment")
    path = f"/v1/effects/{claim['effect']['id']}"
    assert place.post(f"{path}/release", report(claim, status="in_doubt", reason="lost")).status_code == 200
    return str(claim["effect"]["id"])


def waiting(place: Place, run: str) -> tuple[str, dict[str, Any]]:
    asked = place.begin(run_id=run, approval="required")
    assert asked.status_code == 202, asked.text
    return asked.json()["effect"]["id"], asked.json()["approval"]


def approved(place: Place, run: str) -> str:
    effect_id, approval = waiting(place, run)
    told = {"decision": "approve", "digest": approval["digest"]}
    assert place.post(f"/v1/approvals/{approval['id']}/decisions", told, "ana").status_code == 201
    return effect_id


def seen(place: Place, effect_id: str) -> dict[str, Any]:
    return dict(place.get(f"/v1/effects/{effect_id}", "ana").json()["effect"])


def rotated(place: Place, name: str = "agent", **words: Any) -> dict[str, str]:
    """Gives the headers of another key of the same name."""
    token = Credentials(place.store, "acme").give(name, ("agent",), by=ROOT, **words)[1]
    return {"Authorization": f"Bearer {token}"}


def lapsed(place: Place, effect_id: str) -> None:
    """Waits until the lease of a claim has run out by the store's clock, as the store has it."""
    eventually(lambda: effect_at(place, effect_id).is_abandoned(place.store.look([]).now))


# 41: who settles, retries and cancels

DECIDING: dict[str, tuple[str, dict[str, Any]]] = {
    "settle": ("/v1/effects/{id}/settle", {"outcome": {"status": "failed", "error": "no"}, "evidence": "my word"}),
    "retry": ("/v1/effects/{id}/retry", {"reason": "again"}),
    "cancel": ("/v1/effects/{id}/cancel", {"reason": "away"}),
}


@pytest.mark.parametrize("who", AGENTS)
@pytest.mark.parametrize("verb", DECIDING)
def test_41_no_agent_decides_what_is_in_doubt(place: Place, run: str, verb: str, who: str) -> None:
    effect_id = in_doubt(place, run)
    before = seen(place, effect_id)
    path, body = DECIDING[verb]
    refused = place.post(path.format(id=effect_id), body, who)
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-permitted")
    again = place.begin(who, run_id=run, side_effect="payment")
    assert (again.status_code, again.json()["type"]) == (409, "/problems/effect-in-doubt"), "no second payment"
    assert seen(place, effect_id) == before


@pytest.mark.parametrize("who", AGENTS)
def test_41_no_agent_decides_many_at_once(place: Place, run: str, who: str) -> None:
    effect_id = in_doubt(place, run)
    before = seen(place, effect_id)
    row = {"id": effect_id, "outcome": OUTCOME, "evidence": "my word"}
    assert place.post("/v1/effects/settle", {"rows": [row]}, who).status_code == 403
    assert place.post("/v1/effects/reconcile", {"ids": [effect_id]}, who).status_code == 403
    assert seen(place, effect_id) == before


def test_41_people_still_decide(place: Place, run: str) -> None:
    effect_id = in_doubt(place, run)
    assert place.post(f"/v1/effects/{effect_id}/retry", {"reason": "it did not arrive"}, "ana").status_code == 200
    claim = place.begin(run_id=run, side_effect="payment").json()
    assert claim["fence"] == 2
    place.post(f"/v1/effects/{effect_id}/release", report(claim, status="in_doubt", reason="lost again"))
    path, body = DECIDING["settle"]
    assert place.post(path.format(id=effect_id), body, "ana").json()["effect"]["status"] == "failed"


@pytest.mark.parametrize("make", [waiting, approved])
def test_41_an_agent_withdraws_its_own_call_that_was_never_entered(
    place: Place, run: str, make: Callable[[Place, str], Any]
) -> None:
    made = make(place, run)
    effect_id = made if isinstance(made, str) else made[0]
    before = seen(place, effect_id)
    path = f"/v1/effects/{effect_id}/cancel"
    refused = place.post(path, {"reason": "away"}, "other-agent")
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-permitted")
    assert seen(place, effect_id) == before
    assert place.post(path, {"reason": "not needed"}).json()["effect"]["status"] == "canceled"


def test_41_an_agent_withdraws_with_a_new_key_of_the_same_principal_only(place: Place, run: str) -> None:
    effect_id, _ = waiting(place, run)
    path = f"/v1/effects/{effect_id}/cancel"
    for other in (rotated(place, principal="ana"), rotated(place, "agent-2")):
        assert place.post(path, {"reason": "away"}, None, headers=other).status_code == 403
    assert place.post(path, {"reason": "not needed"}, None, headers=rotated(place)).status_code == 200


def test_41_an_agent_withdraws_nothing_that_was_entered(place: Place, run: str) -> None:
    """Also not if it said itself that nothing happened: that is for a person to believe."""
    claim = claimed(place, run)
    path = f"/v1/effects/{claim['effect']['id']}"
    place.post(f"{path}/release", report(claim, status="ready", reason="nothing was sent"))
    for who in AGENTS:
        assert place.post(f"{path}/cancel", {"reason": "away"}, who).status_code == 403
    assert seen(place, claim["effect"]["id"])["status"] == "ready"
    assert place.post(f"{path}/cancel", {"reason": "away"}, "ana").json()["effect"]["status"] == "canceled"


def test_41_a_question_that_another_agent_asks_anew_is_that_agents(place: Place, run: str) -> None:
    words = {"run_id": run, "approval": "required", "key": ["order"]}
    first = place.begin(args={"order": 1, "amount": 5}, **words).json()["effect"]["id"]
    other = place.begin("other-agent", args={"order": 1, "amount": 9}, **words)
    assert (other.status_code, other.json()["effect"]["id"]) == (202, first)
    path = f"/v1/effects/{first}/cancel"
    assert place.post(path, {"reason": "away"}).status_code == 403
    assert place.post(path, {"reason": "away"}, "other-agent").status_code == 200


@pytest.mark.parametrize("who", AGENTS)
def test_41_through_the_client_library(place: Place, run: str, who: str) -> None:
    effect_id = in_doubt(place, run)
    asked_id, _ = waiting(place, f"{run}-asked")
    before = seen(place, effect_id), seen(place, asked_id)
    with Ledger.open(place.served.url, token=place.tokens[who]) as ledger:
        for act in _acts(ledger, effect_id):
            with pytest.raises(NotPermitted):
                act()
        if who == "other-agent":
            with pytest.raises(NotPermitted):
                ledger.cancel(asked_id, by="ana", reason="away")
    assert (seen(place, effect_id), seen(place, asked_id)) == before


def _acts(ledger: Any, effect_id: str) -> list[Callable[[], Any]]:
    rows = [{"id": effect_id, "as": "failed", "evidence": "my word"}]
    return [
        lambda: ledger.settle(effect_id, Failed("no"), by="ana", evidence="my word"),
        lambda: ledger.retry(effect_id, by=Actor("ana", "person", "passkey"), reason="again"),
        lambda: ledger.cancel(effect_id, by=SYSTEM, reason="away"),
        lambda: ledger.settle_all(rows, by="ana"),
    ]


def test_41_through_the_asynchronous_client(place: Place, run: str) -> None:
    effect_id = in_doubt(place, run)
    before = seen(place, effect_id)

    async def attempts() -> None:
        async with AsyncLedger.open(place.served.url, token=place.tokens["agent"]) as ledger:
            for act in _acts(ledger, effect_id):
                with pytest.raises(NotPermitted):
                    await act()

    asyncio.run(attempts())
    assert seen(place, effect_id) == before


@pytest.mark.parametrize("who", AGENTS)
def test_41_a_probe_in_the_process_of_an_agent_settles_nothing(place: Place, run: str, who: str) -> None:
    """An agent's credential proves no probe: what it says is the agent's word."""
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
    effect_id = in_doubt(place, run)
    before = seen(place, effect_id)
    with Ledger.open(place.served.url, token=place.tokens[who]) as ledger, pytest.raises(EffectInDoubt):
        ledger.run(
            call,
            lambda effect: pytest.fail("entered"),
            side_effect="payment",
            reconcile=lambda effect: Succeeded({"id": "made up"}),
        )
    assert seen(place, effect_id) == before


def test_41_a_probe_where_the_database_is_settles(place: Place, run: str) -> None:
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
    effect_id = in_doubt(place, run)
    with Ledger.open(place.url, tenant="acme") as ledger:
        value = ledger.run(
            call,
            lambda effect: pytest.fail("entered"),
            side_effect="payment",
            reconcile=lambda effect: Succeeded({"id": "ch_7"}),
        )
    assert value == {"id": "ch_7"}
    assert seen(place, effect_id)["status"] == "succeeded"


def stamp(actor: Actor = SYSTEM) -> Stamp:
    return Stamp(at=datetime.now(UTC), actor=actor, salts=bytes(1024))


def apply(place: Place, command: Any, who: str = "agent", headers: dict[str, str] | None = None) -> Any:
    """Ships a command by hand, as the Python client would."""
    words = {"commands": [to_wire(command)]}
    return place.client.post("/v1/store/apply", json=words, headers=headers or place.headers(who))


@pytest.mark.parametrize("who", AGENTS)
@pytest.mark.parametrize("said", [SYSTEM, Actor("ana", "person", "passkey"), Actor("probe of charge", "system")])
def test_41_commands_that_are_shipped_by_hand(place: Place, run: str, who: str, said: Actor) -> None:
    found = effect_at(place, in_doubt(place, run))
    words: dict[str, Any] = {"ref": found.ref, "stamp": stamp(said)}
    for command in (
        Settle(status="failed", detail_json=b'{"message":"no","type":"E"}', evidence_json=b'"mine"', **words),
        Reopen(detail_json=b'"again"', **words),
        Cancel(detail_json=b'"away"', **words),
    ):
        assert apply(place, command, who).status_code == 403
    asked = effect_at(place, waiting(place, f"{run}-asked")[0])
    cancel = Cancel(detail_json=b'"away"', ref=asked.ref, stamp=stamp(said))
    assert apply(place, cancel, "other-agent").status_code == 403
    assert [effect_at(place, one.id) for one in (found, asked)] == [found, asked]
    assert apply(place, cancel).status_code == 200
    assert effect_at(place, asked.id).status == "canceled"


def effect_at(place: Place, effect_id: str) -> Effect:
    found = place.store.get_effect("acme", effect_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["settle", "--as", "failed", "--evidence", "my word"],
        ["retry", "--reason", "again"],
        ["cancel", "--reason", "away"],
    ],
)
def test_41_the_command_through_a_server(
    place: Place, run: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    effect_id = in_doubt(place, run)
    before = seen(place, effect_id)
    monkeypatch.setenv("INDELIBLE_URL", place.served.url)
    monkeypatch.setenv("INDELIBLE_TOKEN", place.tokens["agent"])
    verb, *rest = words
    done = CliRunner().invoke(root, ["effects", verb, effect_id, *rest])
    assert done.exit_code not in (0, 2), done.output
    assert "scope" in done.output
    assert seen(place, effect_id) == before


@pytest.mark.parametrize("verb", ["complete", "fail", "cancel"])
def test_41_no_agent_ends_the_run_of_another(place: Place, run: str, verb: str) -> None:
    """Without its driver's token: whoever drives it would lose it."""
    started = place.post("/v1/runs", {"agent": "billing", "run_id": run}).json()
    path = f"/v1/runs/{run}/{verb}"
    refused = place.post(path, {"reason": "away"}, "other-agent")
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-permitted")
    by_zehrava = {"eventType": "run_completed"}
    assert place.post(f"/internal/runs/{run}/events", by_zehrava, "other-agent").status_code == 403
    with Ledger.open(place.served.url, token=place.tokens["other-agent"]) as ledger, pytest.raises(NotPermitted):
        ledger._run_desk().keeping.end(run, None, "canceled", "away", None)
    assert place.get(f"/v1/runs/{run}").json()["status"] == "active"
    kept = place.post(f"/v1/runs/{run}/heartbeat", {"token": started["token"]})
    assert kept.status_code == 200, "its driver has it still"
    assert place.post(path, {"reason": "done"}).status_code == 200


# 42: whose a claim token is


def others(place: Place) -> dict[str, dict[str, str]]:
    """Gives credentials of the same tenant that did not claim: another agent, the same for another person, a person."""
    return {
        "other agent": place.headers("other-agent"),
        "acts for somebody": rotated(place, principal="ana"),
        "administrator": place.headers("admin"),
    }


def test_42_a_claim_is_reported_by_its_principal_only(place: Place, run: str) -> None:
    claim = claimed(place, run)
    path, before = f"/v1/effects/{claim['effect']['id']}", seen(place, claim["effect"]["id"])
    for name, headers in others(place).items():
        for verb, words in (
            ("commit", {"outcome": OUTCOME}),
            ("heartbeat", {}),
            ("release", {"status": "ready", "reason": "x"}),
            ("release", {"status": "in_doubt", "reason": "x"}),
        ):
            refused = place.post(f"{path}/{verb}", report(claim, **words), None, headers=headers)
            assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-permitted"), (name, verb)
        begun = place.post("/v1/effects", _same_call(run, claim), None, headers=headers)
        assert begun.status_code == 409, f"{name}: the token gives the claim to nobody else"
    assert seen(place, claim["effect"]["id"]) == before
    assert place.commit(claim).status_code == 200


def _same_call(run: str, claim: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "charge", "args": {"amount": 5}, "run_id": run, "token": claim["token"]}


def test_42_a_new_key_of_the_same_principal_reports(place: Place, run: str) -> None:
    claim = claimed(place, run)
    path, headers = f"/v1/effects/{claim['effect']['id']}", rotated(place)
    again = place.post("/v1/effects", _same_call(run, claim), None, headers=headers)
    assert (again.status_code, again.json()["fence"]) == (201, 1), "an answer that got lost is given again"
    assert place.post(f"{path}/heartbeat", report(claim), None, headers=headers).status_code == 200
    assert place.post(f"{path}/commit", report(claim, outcome=OUTCOME), None, headers=headers).status_code == 200
    assert seen(place, claim["effect"]["id"])["status"] == "succeeded"


def test_42_a_claim_is_bound_to_its_attempt(place: Place, run: str) -> None:
    claim = claimed(place, run)
    path = f"/v1/effects/{claim['effect']['id']}"
    assert place.post(f"{path}/commit", {**report(claim, outcome=OUTCOME), "attempt": 2}).status_code == 403
    place.post(f"{path}/release", report(claim, status="ready", reason="nothing was sent"))
    second = place.begin(run_id=run).json()
    assert second["fence"] == 2
    old = place.post(f"{path}/commit", report(claim, outcome=OUTCOME))
    assert (old.status_code, old.json()["type"]) == (409, "/problems/lease-lost")
    assert place.post(f"{path}/heartbeat", report(claim)).status_code == 409
    assert seen(place, claim["effect"]["id"])["status"] == "processing"


def test_42_no_heartbeat_revives_a_lease_that_ran_out(place: Place, run: str) -> None:
    claim = claimed(place, run, lease_s=MOMENT, side_effect="payment")
    lapsed(place, claim["effect"]["id"])
    path, before = f"/v1/effects/{claim['effect']['id']}", effect_at(place, claim["effect"]["id"])
    late = place.post(f"{path}/heartbeat", report(claim))
    assert (late.status_code, late.json()["type"]) == (409, "/problems/lease-lost")
    assert effect_at(place, before.id).lease_until == before.lease_until


def test_42_the_token_of_a_lease_that_ran_out_claims_nothing(place: Place, run: str) -> None:
    claim = claimed(place, run, lease_s=MOMENT, side_effect="payment")
    lapsed(place, claim["effect"]["id"])
    again = place.post("/v1/effects", {**_same_call(run, claim), "side_effect": "payment"})
    assert (again.status_code, again.json()["type"]) == (409, "/problems/effect-in-doubt")
    assert seen(place, claim["effect"]["id"])["status"] == "in_doubt"
    path = f"/v1/effects/{claim['effect']['id']}"
    stolen = place.post(f"{path}/commit", report(claim, outcome=OUTCOME), "other-agent")
    assert stolen.status_code == 403
    assert place.commit(claim).status_code == 200, "its late report resolves the doubt"
    assert seen(place, claim["effect"]["id"])["status"] == "succeeded"


def test_42_through_the_client_library(place: Place, run: str) -> None:
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
    with (
        Ledger.open(place.served.url, token=place.tokens["agent"]) as mine,
        Ledger.open(place.served.url, token=rotated(place)["Authorization"].removeprefix("Bearer ")) as new_key,
        Ledger.open(place.served.url, token=place.tokens["other-agent"]) as other,
    ):
        begun = mine.begin(call)
        assert isinstance(begun, Claimed)
        before = seen(place, begun.claim.effect.id)
        for act in (
            lambda: other.commit(begun.claim, Succeeded(1)),
            lambda: other.commit(begun.claim, Failed("no")),
            lambda: other.heartbeat(begun.claim),
        ):
            with pytest.raises(NotPermitted):
                act()
        assert seen(place, begun.claim.effect.id) == before
        new_key.heartbeat(begun.claim)
        assert new_key.commit(begun.claim, Succeeded({"id": "ch_1"})) == {"id": "ch_1"}


def test_42_a_lease_that_ran_out_through_the_client_library(place: Place, run: str) -> None:
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
    with Ledger.open(place.served.url, token=place.tokens["agent"]) as ledger:
        begun = ledger.begin(call, side_effect="payment", lease=timedelta(seconds=MOMENT))
        assert isinstance(begun, Claimed)
        lapsed(place, begun.claim.effect.id)
        with pytest.raises(LeaseLost):
            ledger.heartbeat(begun.claim)
        assert ledger.commit(begun.claim, Succeeded(1)) == 1, "its late report counts"


def test_42_through_the_asynchronous_client(place: Place, run: str) -> None:
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)

    async def attempts() -> None:
        async with (
            AsyncLedger.open(place.served.url, token=place.tokens["agent"]) as mine,
            AsyncLedger.open(place.served.url, token=place.tokens["other-agent"]) as other,
        ):
            begun = await mine.begin(call)
            assert isinstance(begun, Claimed)
            with pytest.raises(NotPermitted):
                await other.commit(begun.claim, Succeeded(1))
            with pytest.raises(NotPermitted):
                await other.heartbeat(begun.claim)
            assert await mine.commit(begun.claim, Succeeded(1)) == 1

    asyncio.run(attempts())


def test_42_commands_that_are_shipped_by_hand(place: Place, run: str) -> None:
    """Whatever the claim says of its effect, and whoever it says that it is of."""
    told = claimed(place, run)
    effect = effect_at(place, told["effect"]["id"])
    for forged in (Claim(effect, told["token"]), Claim(replace(effect, token_hash="0" * 64), told["token"])):
        for command in (
            Finish(claim=forged, stamp=stamp(), status="succeeded", detail_json=b"1"),
            Relinquish(claim=forged, stamp=stamp(), status="ready", detail_json=b'"x"'),
            Relinquish(claim=forged, stamp=stamp(), status="in_doubt", detail_json=b'"x"'),
        ):
            assert apply(place, command, "other-agent").status_code == 403
        beat = {"claim": to_wire(forged), "lease": 1_000_000}
        heartbeat = place.client.post("/v1/store/heartbeat", json=beat, headers=place.headers("other-agent"))
        assert heartbeat.status_code == 403
    assert effect_at(place, effect.id) == effect
    finish = Finish(claim=Claim(effect, told["token"]), stamp=stamp(), status="succeeded", detail_json=b"1")
    assert apply(place, finish, headers=rotated(place)).status_code == 200
    assert effect_at(place, effect.id).status == "succeeded"


def test_42_in_a_program_that_opened_the_ledger_itself_the_lease_counts_too(place: Place, run: str) -> None:
    call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
    with Ledger.open(place.url, tenant="acme") as ledger:
        begun = ledger.begin(call, lease=timedelta(seconds=MOMENT))
        assert isinstance(begun, Claimed)
        lapsed(place, begun.claim.effect.id)
        with pytest.raises(LeaseLost):
            ledger.heartbeat(begun.claim)
        assert ledger.commit(begun.claim, Succeeded(1)) == 1
