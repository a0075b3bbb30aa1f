"""Promises of core.effects.effect: an effect says plainly what is known of it, and never shows its secret."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from indelible.core.effects.effect import ENDED, SETTLED, Actor, Failed, Status, Succeeded
from indelible.core.effects.identity import Ref
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from indelible.errors import BadCall, EffectErased, KeyUnusable
from tests.core.making import LEASE, NOON, claim_of, effect


def test_an_effect_knows_its_place() -> None:
    assert effect().ref == Ref("default", "run-1", "ab" * 32)


def test_the_attempt_is_the_fence() -> None:
    assert effect(attempt=7).fence == 7


def test_arguments_are_a_fresh_copy_each_time() -> None:
    made = effect()
    made.args["amount"] = 6
    assert made.args == {"amount": 5}


def test_erased_arguments_are_never_read_as_none_at_all() -> None:
    with pytest.raises(EffectErased):
        assert effect(args_json=None).args


def test_what_is_encrypted_is_never_taken_for_the_value() -> None:
    cipher = encode(Encrypted(b"\x01" + bytes(52)))
    with pytest.raises(KeyUnusable, match="encrypt=True"):
        assert effect(args_json=cipher).args
    with pytest.raises(KeyUnusable, match="encrypt=True"):
        assert effect("succeeded", detail_json=cipher).detail


def test_a_success_has_its_value_as_outcome() -> None:
    assert effect("succeeded").outcome == Succeeded({"ok": True})


@pytest.mark.parametrize("falsy", [b"null", b"0", b"false", b'""', b"[]", b"{}"])
def test_a_falsy_value_is_an_outcome_too(falsy: bytes) -> None:
    outcome = effect("succeeded", detail_json=falsy).outcome
    assert isinstance(outcome, Succeeded)
    assert not outcome.value


def test_a_failure_has_its_message_and_class_as_outcome() -> None:
    assert effect("failed").outcome == Failed("declined", "CardError")


def test_a_failure_whose_detail_was_erased_is_still_a_failure() -> None:
    assert effect("failed", detail_json=None).outcome == Failed("(erased)", "Error")


@pytest.mark.parametrize("status", sorted(set(get_args(Status)) - SETTLED))
def test_nothing_else_has_an_outcome(status: Status) -> None:
    assert effect(status).outcome is None
    assert not effect(status).is_settled


def test_what_is_settled_has_ended() -> None:
    assert {"succeeded", "failed"} == SETTLED
    assert {"succeeded", "failed", "denied", "canceled"} == ENDED
    assert effect("succeeded").is_settled
    assert effect("failed").is_settled


def test_an_effect_is_abandoned_from_the_moment_its_lease_ends() -> None:
    running = effect("processing")
    assert not running.is_abandoned(NOON + LEASE - timedelta(microseconds=1))
    assert running.is_abandoned(NOON + LEASE)


@pytest.mark.parametrize("status", sorted(set(get_args(Status)) - {"processing"}))
def test_only_a_running_effect_can_be_abandoned(status: Status) -> None:
    assert not effect(status, lease_until=NOON).is_abandoned(NOON + LEASE)


def test_a_running_effect_without_a_lease_is_not_abandoned() -> None:
    assert not effect("processing", lease_until=None).is_abandoned(NOON + LEASE)


@pytest.mark.parametrize("status", get_args(Status))
def test_somebody_has_to_see_to_what_was_abandoned_and_to_what_nobody_decided_in_time(status: Status) -> None:
    due = effect(status, lease_until=NOON)
    waits = status in ("processing", "requires_approval", "in_doubt")
    assert due.is_overdue(NOON) is waits
    assert not due.is_overdue(NOON - timedelta(microseconds=1))
    assert not effect(status, lease_until=None).is_overdue(NOON)


def test_a_claim_is_its_effects_token_and_attempt() -> None:
    claim = claim_of(effect(attempt=4))
    assert (claim.token, claim.attempt) == ("bb" * 16, 4)


def test_neither_secrets_nor_payloads_are_shown() -> None:
    shown = repr(effect("succeeded")) + repr(claim_of(effect("succeeded")))
    assert "bb" * 16 not in shown
    assert "amount" not in shown
    assert "ok" not in shown


@pytest.mark.parametrize("words", [("ada", "robot"), ("ada", "person", "hearsay"), ("",)])
def test_an_actor_is_of_a_known_kind_and_has_a_name(words: tuple[Any, ...]) -> None:
    with pytest.raises(BadCall):
        Actor(*words)


def test_44_a_claim_of_an_older_call_has_the_values_of_added() -> None:
    claim = claim_of(effect("processing", args_json=b'{"amount":5}'))
    assert claim.args == {"amount": 5}
    assert replace(claim, added={"currency": "usd", "amount": 9}).args == {"amount": 5, "currency": "usd"}
    nested = replace(claim, effect=effect("processing", args_json=b'{"order":{"id":1}}'), added={"order.priority": 0})
    assert nested.args == {"order": {"id": 1, "priority": 0}}
