"""What makes two calls the same over HTTP: turns, varying and added arguments, reused keys, exclusive resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Unpack

import pytest

from indelible import Idempotent, Ledger, Resource, Succeeded, ToolCall
from indelible.core.commands import Open
from indelible.core.effects.calls import OptionWords
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Judged
from indelible.core.effects.walk import opening
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.remote.admissible import LONGEST_WINDOW, check_command, check_key
from indelible.errors import BadCall, EffectInDoubt, KeyReused, RepeatRefused, ResourceBusy
from tests.server.places import Place

ORDER = {"namespace": "shop", "type": "order", "id": "1"}


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


def done(place: Place, **words: Any) -> dict[str, Any]:
    """Make a call and report that it succeeded; return its effect."""
    claim = place.begin(**words)
    assert claim.status_code == 201, claim.text
    assert place.commit(claim.json()).status_code == 200
    return dict(claim.json()["effect"])


# By resources


def test_a_replayed_answer_says_so_in_its_body(place: Place) -> None:
    effect = done(place, run_id="r")
    again = place.begin(run_id="r")
    assert (again.status_code, again.headers["idempotent-replayed"], again.json()["replayed"]) == (200, "true", True)
    assert again.json()["effect"]["created_at"] == effect["created_at"]
    assert "replayed" not in place.begin(run_id="another").json()


def test_40_a_reused_key_is_told_with_what_is_recorded_and_what_differs(place: Place) -> None:
    words: dict[str, Any] = {"run_id": "r", "key": ["order"]}
    claim = place.begin(args={"order": 1, "amount": 500, "note": "a"}, **words).json()
    for status, outcome in (("processing", None), ("succeeded", {"status": "succeeded", "value": {"id": "ch_1"}})):
        problem = place.begin(args={"order": 1, "amount": 9900}, **words)
        told = problem.json()
        assert (problem.status_code, told["type"]) == (409, "/problems/key-reused")
        assert (told["effect_id"], told["effect_status"]) == (claim["effect"]["id"], status)
        assert told["outcome"] == outcome
        assert told["differing"] == {
            "amount": {"recorded": 500, "given": 9900},
            "note": {"recorded": "a", "given": None},
        }
        place.commit(claim)
    replayed = place.begin(args={"order": 1, "amount": 9900}, on_reuse="replay", **words)
    assert (replayed.status_code, replayed.json()["replayed"]) == (200, True)


def test_in_a_later_turn_a_person_is_asked_or_it_is_refused_or_it_runs(place: Place) -> None:
    words: dict[str, Any] = {"run_id": "chat", "dedupe": "turn"}
    first = done(place, turn="m1", **words)
    assert place.begin(turn="m1", **words).status_code == 200
    assert place.begin(**words).status_code == 200, "without a turn, the run is one turn"
    assert place.begin(turn="m2", **words).status_code == 202
    refused = place.begin(turn="m3", on_repeat="refuse", **words)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/repeat-refused")
    assert (refused.json()["effect_id"], refused.json()["effect_status"]) == (first["id"], "succeeded")
    assert refused.json()["outcome"] == {"status": "succeeded", "value": {"id": "ch_1"}}
    assert place.begin(turn="m4", on_repeat="run", **words).status_code == 202, "what is open goes on in every turn"
    other = {**words, "run_id": "another chat"}
    done(place, turn="m1", **other)
    assert place.begin(turn="m2", on_repeat="run", **other).status_code == 201


def test_37_a_later_attempt_that_failed_is_told_as_the_doubt_it_leaves(place: Place) -> None:
    words: dict[str, Any] = {"run_id": "r", "downstream_window_s": 3600}
    first = place.begin(**words).json()
    given_up = {"token": first["token"], "attempt": 1, "status": "in_doubt", "reason": "cut"}
    assert place.post(f"/v1/effects/{first['effect']['id']}/release", given_up).status_code == 200
    second = place.begin(**words).json()
    outcome = {"status": "failed", "error": "refused"}
    report = {"token": second["token"], "attempt": 2, "outcome": outcome}
    told = place.post(f"/v1/effects/{first['effect']['id']}/commit", report)
    assert (told.status_code, told.json()["status"]) == (200, "in_doubt")


def test_arguments_that_vary_or_were_added_make_no_other_call(place: Place) -> None:
    words: dict[str, Any] = {"run_id": "r", "varies": ["memo"], "added": {"currency": "usd"}}
    done(place, args={"amount": 5, "memo": "rent"}, **words)
    assert place.begin(args={"amount": 5, "memo": "the rent", "currency": "usd"}, **words).status_code == 200
    assert place.begin(args={"amount": 5, "memo": "rent", "currency": "eur"}, **words).status_code == 201


def test_on_an_exclusive_resource_one_call_is_open_at_a_time(place: Place) -> None:
    claim = place.begin(run_id="r", exclusive=ORDER).json()
    busy = place.begin(run_id="r", args={"amount": 6}, exclusive=ORDER)
    assert (busy.status_code, busy.json()["type"]) == (409, "/problems/resource-busy")
    assert place.begin(run_id="r", args={"amount": 6}, exclusive={**ORDER, "id": "2"}).status_code == 201
    place.commit(claim)
    assert place.begin(run_id="r", args={"amount": 7}, exclusive=ORDER).status_code == 201


def test_within_the_providers_window_what_is_in_doubt_may_be_sent_again(place: Place) -> None:
    for window, status in ((3600, 201), (1e-6, 409), (None, 409)):
        words: dict[str, Any] = {"run_id": f"r{window}"} | ({} if window is None else {"downstream_window_s": window})
        claim = place.begin(**words).json()
        release = {"token": claim["token"], "attempt": 1, "status": "in_doubt", "reason": "no answer"}
        assert place.post(f"/v1/effects/{claim['effect']['id']}/release", release).status_code == 200
        assert place.begin(**words).status_code == status, window
    assert place.begin(downstream_window_s=60, on_crash="retry").status_code == 400
    assert place.begin(downstream_window_s=LONGEST_WINDOW.total_seconds() + 1).status_code == 422


# By the wire of our own client


@pytest.fixture
def remote(place: Place) -> Iterator[Ledger]:
    with Ledger.open(place.served.url, token=place.tokens["agent"]) as opened:
        yield opened


def test_our_client_raises_what_keeps_a_call_from_running(remote: Ledger) -> None:
    def call(amount: int, **words: Any) -> ToolCall:
        return ToolCall(tool="pay", args={"order": 1, "amount": amount}, run_id="r", **words)

    assert remote.run(call(5, key=["order"]), lambda effect: "done") == "done"
    with pytest.raises(KeyReused) as reused:
        remote.run(call(6, key=["order"]), lambda effect: pytest.fail("it ran"))
    assert (reused.value.outcome, reused.value.differing) == (Succeeded("done"), {"amount": (5, 6)})
    assert remote.run(call(6, key=["order"], on_reuse="replay"), lambda effect: pytest.fail("it ran")) == "done"

    assert remote.run(call(7, dedupe="turn", turn="m1"), lambda effect: 1) == 1
    with pytest.raises(RepeatRefused) as refused:
        remote.run(call(7, dedupe="turn", turn="m2"), lambda effect: 2, on_repeat="refuse")
    assert refused.value.outcome == Succeeded(1)
    assert remote.run(call(7, dedupe="turn", turn="m2"), lambda effect: 2, on_repeat="run") == 2
    assert remote.run(call(7, dedupe="turn", turn="m2"), lambda effect: pytest.fail("it ran")) == 2

    order = Resource(**ORDER)
    remote.begin(call(8), exclusive=order)
    with pytest.raises(ResourceBusy):
        remote.run(call(9), lambda effect: pytest.fail("it ran"), exclusive=order)


def test_our_clients_calls_are_known_by_what_does_not_vary(remote: Ledger) -> None:
    words: dict[str, Any] = {"tool": "pay", "run_id": "r", "varies": ["memo"], "added": {"currency": "usd"}}
    calls = [
        ToolCall(args={"amount": 5, "memo": "rent"}, **words),
        ToolCall(args={"amount": 5, "memo": "the rent", "currency": "usd"}, **words),
        ToolCall(args={"amount": 5, "memo": "rent", "currency": "eur"}, **words),
    ]
    ran: list[Any] = []
    for call in calls:
        remote.run(call, lambda effect: ran.append(effect.args))
    assert ran == [{**calls[0].args, "currency": "usd"}, calls[2].args], "the tool gets what stands for as before"
    for turn in ("m1", "m2", "m2"):
        call = ToolCall(
            tool="pay", args={"amount": 6}, run_id="r", dedupe="call", call_id="call_0", turn=turn, varies=["memo"]
        )
        remote.run(call, lambda effect: ran.append(effect.args))
    assert len(ran) == 4, "models that number the calls of each turn from zero make a new one in each turn"


def test_our_client_sends_again_within_the_providers_window(remote: Ledger) -> None:
    keys: list[str] = []

    def lost(effect: Any) -> str:
        keys.append(effect.key)
        if len(keys) < 3:
            raise ConnectionResetError
        return "done"

    downstream = Idempotent(window=timedelta(hours=1), backoff=timedelta(milliseconds=1))
    assert remote.run(ToolCall(tool="pay", run_id="r"), lost, downstream=downstream) == "done"
    assert (len(keys), len(set(keys))) == (3, 1)
    keys.clear()
    with pytest.raises(ConnectionResetError):
        remote.run(ToolCall(tool="pay", run_id="s"), lost)
    with pytest.raises(EffectInDoubt):
        remote.run(ToolCall(tool="pay", run_id="s"), lost)


def opened(remote: Ledger, call: ToolCall, **words: Unpack[OptionWords]) -> Open:
    """Return the command by which our client asks to run a call."""
    return opening(remote._prepare(call, words), remote._mint, Judged(ALLOWED))


@pytest.mark.parametrize("words", [{}, {"varies": ["memo"]}, {"dedupe": "call", "call_id": "0", "turn": "m1"}])
def test_the_key_of_another_scope_is_refused_however_it_is_made(remote: Ledger, words: dict[str, Any]) -> None:
    call = ToolCall(tool="pay", args={"amount": 5, "memo": "a"}, run_id="r", scope="s", **words)
    command = opened(remote, call)
    check_key(command)
    elsewhere = identify(ToolCall(tool="pay", args=call.args, run_id="r", **words), command.ref.tenant)
    with pytest.raises(BadCall, match="key"):
        check_key(replace(command, ref=command.ref._replace(key=elsewhere.ref.key)))


def test_no_provider_is_believed_to_remember_keys_for_ever(remote: Ledger) -> None:
    call = ToolCall(tool="pay", run_id="r")
    command = opened(remote, call, downstream=Idempotent(window=LONGEST_WINDOW))
    check_command(command, command.stamp.at, None)
    with pytest.raises(BadCall, match="resend_within"):
        remote.begin(call, downstream=Idempotent(window=timedelta.max))
