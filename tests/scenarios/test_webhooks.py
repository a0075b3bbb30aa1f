"""A provider's signed webhook settles doubt: whoever cannot sign changes nothing, and no outcome is overwritten."""

from __future__ import annotations

import hmac
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from indelible import AsyncLedger, Claimed, Effect, Failed, Ledger, MayHaveHappened, Succeeded, ToolCall, migrate
from indelible.errors import BadCall, NotAuthenticated
from indelible.webhooks import Webhook, by_events, stripe_event

SECRET, OTHER = ("whsec_" + b64encode(bytes([n]) * 32).decode() for n in (1, 2))
NOW = int(time.time())
PAID = by_events(succeeded=["payment.paid"], failed=["payment.failed"], value="data.payment", error="data.why")


def standard(
    content: Any, *, secret: str = SECRET, message_id: str = "msg_1", at: int | None = None
) -> tuple[dict[str, str], bytes]:
    """Signs as Standard Webhooks says; the headers are as a provider writes them."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    seconds = int(time.time()) if at is None else at
    signed = f"{message_id}.{seconds}.".encode() + body
    signature = b64encode(hmac.digest(b64decode(secret.removeprefix("whsec_")), signed, sha256)).decode()
    headers = {
        "Webhook-Id": message_id,
        "Webhook-Timestamp": str(seconds),
        "Webhook-Signature": f"v1a,abc v1,{signature}",
    }
    return headers, body


def stripe(content: Any, *secrets: str, at: int | None = None) -> tuple[dict[str, str], bytes]:
    """Signs as Stripe does, with each of the secrets."""
    body = json.dumps(content).encode()
    seconds = int(time.time()) if at is None else at
    signed = f"{seconds}.".encode() + body
    made = [f"v1={hmac.new(secret.encode(), signed, sha256).hexdigest()}" for secret in secrets]
    return {"Stripe-Signature": ",".join([f"t={seconds}", *made, "v0=00"])}, body


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def left(ledger: Ledger, amount: int = 5) -> Effect:
    def lose(effect: Any) -> None:
        raise MayHaveHappened("cut")

    call = ToolCall(tool="charge", args={"amount": amount}, run_id="order-1")
    with suppress(MayHaveHappened):
        ledger.run(call, lose, side_effect="payment")
    return ledger.effects(status="in_doubt", limit=1)[0]


def event(effect: Effect | str, kind: str = "payment.paid", **data: Any) -> dict[str, Any]:
    named = {"indelible_effect": effect if isinstance(effect, str) else effect.id}
    return {"type": kind, "data": {"metadata": named, **data}}


def now_of(ledger: Ledger, effect: Effect) -> Effect:
    found = ledger.get_effect(effect.id)
    assert found is not None
    return found


# Settling


def test_a_signed_message_settles_the_effect_that_it_names_in_the_providers_name(ledger: Ledger) -> None:
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    first, second = left(ledger, 1), left(ledger, 2)
    received = hook.receive(ledger, *standard(event(first, payment={"id": 7})))
    assert (received.result, received.effect_id, received.is_to_come_again) == ("settled", first.id, False)
    assert now_of(ledger, first).outcome == Succeeded({"id": 7})
    failed = event(second, "payment.failed", why="declined")
    assert hook.receive(ledger, *standard(failed, message_id="msg_2")).result == "settled"
    assert now_of(ledger, second).outcome == Failed("declined", "payment.failed")
    bodies = [json.loads(one.body) for one in ledger.events("order-1") if one.type == "tool_call_finished"]
    assert [one["actor"] for one in bodies] == [{"id": "bank", "kind": "system", "via": "signature"}] * 2


def test_an_effect_is_found_by_its_key_by_a_path_or_by_a_function_of_yours(ledger: Ledger) -> None:
    by_key, by_path, by_function = (left(ledger, amount) for amount in range(3))
    told = {"type": "payment.paid", "data": {"object": {"metadata": {"indelible_key": by_key.key}}}}
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    assert hook.receive(ledger, *standard(told)).effect_id == by_key.id
    pathed = Webhook("bank", secrets=SECRET, outcome=PAID, effect="ref")
    told = {"type": "payment.paid", "ref": by_path.id}
    assert pathed.receive(ledger, *standard(told, message_id="msg_2")).effect_id == by_path.id
    called = Webhook("bank", secrets=SECRET, outcome=PAID, effect=lambda payload: payload["refs"][0])
    told = {"type": "payment.paid", "refs": [by_function.id]}
    assert called.receive(ledger, *standard(told, message_id="msg_3")).effect_id == by_function.id


def test_a_message_about_an_effect_that_runs_settles_nothing_and_is_to_come_again(ledger: Ledger) -> None:
    begun = ledger.begin(ToolCall(tool="charge", args={}, run_id="order-1"))
    assert isinstance(begun, Claimed)
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    message = standard(event(begun.claim.effect))
    received = hook.receive(ledger, *message)
    assert (received.result, received.is_to_come_again) == ("still_running", True)
    assert now_of(ledger, begun.claim.effect).status == "processing"
    ledger.commit(begun.claim, Succeeded(None))
    assert hook.receive(ledger, *message).result == "already_settled"


def test_an_equal_outcome_is_fine_and_another_one_is_a_conflict_that_changes_nothing(ledger: Ledger) -> None:
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    effect = left(ledger)
    ledger.settle(effect, Succeeded({"id": 7}), by="ana", evidence="seen")
    same = event(effect, payment={"id": 7})
    assert hook.receive(ledger, *standard(same)).result == "already_settled"
    other = event(effect, "payment.failed")
    assert hook.receive(ledger, *standard(other, message_id="msg_2")).result == "conflict"
    assert now_of(ledger, effect).outcome == Succeeded({"id": 7})


def test_a_failure_of_an_earlier_attempt_says_nothing_of_a_later_one(ledger: Ledger) -> None:
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    effect = left(ledger)
    ledger.retry(effect, by="ana")
    assert left(ledger).attempt == 2
    failed = hook.receive(ledger, *standard(event(effect, "payment.failed", why="declined")))
    assert (failed.result, now_of(ledger, effect).status) == ("conflict", "in_doubt")
    paid = hook.receive(ledger, *standard(event(effect, payment={"id": 7}), message_id="msg_2"))
    assert (paid.result, now_of(ledger, effect).status) == ("settled", "succeeded")


def test_40_a_message_with_a_key_that_two_effects_share_is_a_conflict(ledger: Ledger) -> None:
    def lose(effect: Any) -> None:
        raise MayHaveHappened("cut")

    for run_id in ("monday", "tuesday"):
        with suppress(MayHaveHappened):
            ledger.run(ToolCall(tool="charge", args={}, run_id=run_id, adopted_key="a" * 64), lose)
    hook = Webhook("bank", secrets=SECRET, outcome=PAID, effect="ref")
    received = hook.receive(ledger, *standard({"type": "payment.paid", "ref": "a" * 64}))
    assert (received.result, received.effect_id) == ("conflict", None)
    assert [one.status for one in ledger.effects(tool="charge")] == ["in_doubt"] * 2


def test_what_is_to_run_again_is_a_conflict(ledger: Ledger) -> None:
    effect = left(ledger)
    ledger.retry(effect, by="ana")
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    assert hook.receive(ledger, *standard(event(effect))).result == "conflict"
    assert now_of(ledger, effect).status == "ready"


def test_a_message_that_was_acted_on_is_never_acted_on_again(ledger: Ledger) -> None:
    """Not even after a person allowed another attempt, and that came in doubt too."""
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    effect = left(ledger)
    failed = event(effect, "payment.failed")
    assert hook.receive(ledger, *standard(failed)).result == "settled"
    ledger.retry(effect, by="ana")
    assert left(ledger).id == effect.id
    assert hook.receive(ledger, *standard(failed)).result == "replayed"
    assert now_of(ledger, effect).status == "in_doubt"
    assert hook.receive(ledger, *standard(failed, message_id="msg_2")).result == "conflict"


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ({"type": "payment.created"}, "ignored"),
        ({"type": 5}, "ignored"),
        ([], "ignored"),
        ({"type": "payment.paid"}, "no_effect"),
        ({"type": "payment.paid", "metadata": {"indelible_effect": 5}}, "no_effect"),
        ({"type": "payment.paid", "metadata": {"indelible_effect": "eff_none"}}, "unknown_effect"),
    ],
)
def test_a_message_about_something_else_changes_nothing(content: Any, result: str) -> None:
    with Ledger.open(":memory:") as ledger:
        hook = Webhook("bank", secrets=SECRET, outcome=PAID)
        assert hook.receive(ledger, *standard(content)).result == result
        assert ledger.effects() == []


@pytest.mark.anyio
async def test_a_message_settles_an_effect_of_an_asynchronous_ledger(store_url: str) -> None:
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        effect = left(ledger.blocking)
        hook = Webhook("bank", secrets=SECRET, outcome=PAID)
        assert (await hook.receive_async(ledger, *standard(event(effect)))).result == "settled"


# Signatures


def test_a_message_without_a_signature_that_holds_is_refused_and_nothing_is_written(ledger: Ledger) -> None:
    effect = left(ledger)
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    headers, body = standard(event(effect))
    before = len(ledger.events("order-1"))
    wrong: list[tuple[dict[str, str], bytes]] = [
        ({}, body),
        (headers, body + b" "),
        ({**headers, "Webhook-Id": "msg_2"}, body),
        ({**headers, "Webhook-Timestamp": str(NOW - 1)}, body),
        ({**headers, "Webhook-Timestamp": "soon"}, body),
        ({**headers, "Webhook-Timestamp": "9" * 12}, body),
        ({**headers, "Webhook-Signature": ""}, body),
        ({**headers, "Webhook-Signature": "v1,!!"}, body),
        ({**headers, "Webhook-Signature": headers["Webhook-Signature"].replace("v1,", "v2,")}, body),
        standard(event(effect), secret=OTHER),
        standard(event(effect), at=int(time.time()) - 301),
        standard(event(effect), at=int(time.time()) + 301),
        stripe(event(effect), SECRET),
    ]
    for message in wrong:
        with pytest.raises(NotAuthenticated):
            hook.receive(ledger, *message)
    assert len(ledger.events("order-1")) == before
    assert now_of(ledger, effect).status == "in_doubt"


def test_while_a_secret_is_rotated_both_hold() -> None:
    hook = Webhook("bank", secrets=[OTHER, SECRET], outcome=PAID)
    for secret in (SECRET, OTHER):
        assert hook.verify(*standard({"a": 1}, secret=secret)).payload == {"a": 1}


def test_a_signature_holds_for_as_long_as_its_tolerance() -> None:
    hook = Webhook("bank", secrets=SECRET, outcome=PAID, tolerance=timedelta(seconds=10))
    message = standard({}, at=NOW)
    signed = datetime.fromtimestamp(NOW, UTC)
    assert hook.verify(*message, now=signed + timedelta(seconds=10)).at == signed
    with pytest.raises(NotAuthenticated):
        hook.verify(*message, now=signed + timedelta(seconds=11))


def test_stripes_signature_is_verified_with_any_of_its_values_and_any_secret() -> None:
    hook = Webhook("stripe", secrets=["whsec_new", "whsec_old"], scheme="stripe", outcome=stripe_event)
    for secrets in (["whsec_old"], ["other", "whsec_new"]):
        assert hook.verify(*stripe({"id": "evt_1"}, *secrets)).id == "evt_1"
    headers, body = stripe({"id": "evt_1"}, "whsec_new")
    signature = headers["Stripe-Signature"]
    wrong = [
        "",
        "t=1",
        signature.replace("v1=", "v0="),
        signature.replace("t=", "t=x"),
        signature + f",t={NOW}",
        signature.replace("v1=", "v1=zz"),
    ]
    for value in wrong:
        with pytest.raises(NotAuthenticated):
            hook.verify({"stripe-signature": value}, body)
    with pytest.raises(NotAuthenticated):
        hook.verify(*stripe({"id": "evt_1"}, "other"))
    with pytest.raises(NotAuthenticated):
        hook.verify(*stripe({"id": "evt_1"}, "whsec_new", at=NOW - 400))


def test_an_event_of_stripes_settles_what_can_change_no_more(ledger: Ledger) -> None:
    effect = left(ledger)
    hook = Webhook("stripe", secrets="whsec_1", scheme="stripe", outcome=stripe_event)
    paid = {"id": "pi_1", "object": "payment_intent", "amount": 5, "currency": "eur"}
    named = {"metadata": {"indelible_effect": effect.id}}

    def message(number: int, status: str, **more: Any) -> tuple[dict[str, str], bytes]:
        content = {"id": f"evt_{number}", "data": {"object": {**paid, **named, "status": status, **more}}}
        return stripe(content, "whsec_1")

    assert hook.receive(ledger, *message(1, "processing")).result == "ignored"
    assert hook.receive(ledger, *message(2, "succeeded", object="dispute")).result == "ignored"
    assert hook.receive(ledger, *message(3, "succeeded")).result == "settled"
    assert now_of(ledger, effect).outcome == Succeeded(
        {"id": "pi_1", "status": "succeeded", "amount": 5, "currency": "eur"}
    )


@pytest.mark.parametrize("body", [b"no json", b'{"a": 1, "a": 2}'])
def test_a_signed_body_that_is_no_strict_json_is_refused(body: bytes) -> None:
    hook = Webhook("bank", secrets=SECRET, outcome=PAID)
    with pytest.raises(BadCall):
        hook.verify(*standard(body))


def test_a_message_of_stripes_without_an_id_and_an_outcome_that_is_none_are_refused() -> None:
    hook = Webhook("stripe", secrets="whsec_1", scheme="stripe", outcome=stripe_event)
    with pytest.raises(BadCall):
        hook.verify(*stripe({}, "whsec_1"))
    nonsense = Webhook("bank", secrets=SECRET, outcome=lambda payload: "yes")  # type: ignore[arg-type,return-value]
    with Ledger.open(":memory:") as ledger, pytest.raises(BadCall):
        nonsense.receive(ledger, *standard({}))


@pytest.mark.parametrize(
    "words",
    [
        {"secrets": ""},
        {"secrets": []},
        {"secrets": "whsec_!!"},
        {"secrets": "whsec_"},
        {"secrets": " ", "scheme": "stripe"},
        {"scheme": "guess"},
        {"tolerance": timedelta(0)},
    ],
)
def test_a_webhook_that_could_not_be_verified_is_refused_when_it_is_made(words: dict[str, Any]) -> None:
    given: dict[str, Any] = {"secrets": SECRET, "outcome": PAID, **words}
    with pytest.raises(BadCall):
        Webhook("bank", **given)


def test_a_webhook_does_not_show_its_secrets() -> None:
    assert SECRET not in repr(vars(Webhook("bank", secrets=SECRET, outcome=PAID))["name"]) + repr(
        Webhook("bank", secrets=SECRET, outcome=PAID)
    )
