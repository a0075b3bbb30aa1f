"""Whatever a client says after a request has left: it may have happened, so it is in doubt and never sent again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from indelible import Ledger, ToolCall
from indelible.errors import BudgetExceeded, EffectInDoubt
from tests.http.clients import LOST, OURS, PLAIN, RETRYING, Post, own_key, patience
from tests.http.provider import AFTER_THE_DEED, Provider
from tests.waiting import PATIENCE, eventually, refusing

CLIENTS = [
    *(pytest.param(name, post, False, id=name) for name, post in PLAIN.items()),
    *(pytest.param(name, post, True, id=f"{name}, ours") for name, post in OURS.items()),
]


def by_tool(ledger: Ledger, handler: Callable[[int], Any], **words: Any) -> Callable[[str, int], Any]:
    """Return how to call a decorated tool."""

    @ledger.tool(name="pay", side_effect="payment", **words)
    def pay(amount: int) -> Any:
        return handler(amount)

    def call(run_id: str, amount: int) -> Any:
        with ledger.in_run(run_id):
            return pay(amount)

    return call


def by_run(ledger: Ledger, handler: Callable[[int], Any], **words: Any) -> Callable[[str, int], Any]:
    """Return how to call without the decorator."""

    def call(run_id: str, amount: int) -> Any:
        asked = ToolCall(run_id=run_id, tool="pay-by-run", args={"amount": amount})
        return ledger.run(asked, lambda effect: handler(effect.args["amount"]), side_effect="payment", **words)

    return call


DOORS = {"tool": by_tool, "run": by_run}
CASES = [*itertools.product(DOORS, [*AFTER_THE_DEED, "declined", "closed"])]
CASES.remove(("run", "stall"))  # it takes its time, and the doors are alike


@contextmanager
def address(provider: Provider, word: str) -> Iterator[str]:
    """Give the provider's address, or one at which nothing listens."""
    if word != "closed":
        provider.always = word
        token = patience.set(0.2 if word == "stall" else PATIENCE)
        yield f"{provider.url}/v1/charges"
        patience.reset(token)
    else:
        with refusing() as port:
            yield f"http://127.0.0.1:{port}/v1/charges"


@pytest.mark.parametrize(("name", "post", "is_ours"), CLIENTS)
def test_an_answer_that_is_lost_or_strange_leaves_doubt_and_nothing_is_sent_again(
    name: str, post: Post, is_ours: bool, ledger: Ledger, provider: Provider
) -> None:
    entered: list[int] = []
    where: list[str] = []

    def handler(amount: int) -> Any:
        entered.append(amount)
        return post(where[-1], {"amount": amount})

    for door, word in CASES:
        case, call = f"{door}: {word}", DOORS[door](ledger, handler)
        with address(provider, word) as found:
            where.append(found)
            entered.clear()
            provider.charges.clear()
            provider.requests.clear()
            with pytest.raises(LOST) as caught:
                call(case, 5)
            assert caught.type.__module__.partition(".")[0] != "indelible", (case, caught.value)
            if word == "stall":  # the client may have hung up before the provider has read it
                eventually(lambda: len(provider.requests) == (3 if name in RETRYING else 1))
            sent, charged = len(provider.requests), len(provider.charges)
            assert (entered, ledger.effects(run_id=case)[0].status) == ([5], "in_doubt"), (case, caught.value)
            if word in AFTER_THE_DEED:
                most = sent if name in RETRYING and not is_ours else 1
                assert charged == most, (case, provider.keys)
            else:
                assert charged == 0, case
            assert sent <= (3 if name in RETRYING else 1), case
            with pytest.raises(BudgetExceeded):
                call(case, 1)
            with pytest.raises(EffectInDoubt):
                call(case, 5)
            assert (len(entered), len(provider.requests)) == (1, sent), (case, "nothing more was sent")


@pytest.mark.parametrize("name", sorted(RETRYING))
def test_a_client_that_sends_again_by_itself_charges_once_if_it_is_given_the_effects_key(
    name: str, ledger: Ledger, provider: Provider
) -> None:
    provider.always = "error"

    def handler(effect: Any) -> Any:
        token = own_key.set(effect.key)
        try:
            return PLAIN[name](f"{provider.url}/v1/charges", {"amount": 5})
        finally:
            own_key.reset(token)

    call = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})
    with pytest.raises(LOST) as caught:
        ledger.run(call, handler, side_effect="payment")
    assert caught.type.__module__.partition(".")[0] != "indelible", caught.value
    assert (len(provider.requests), len(provider.charges), len(set(provider.keys))) == (3, 1, 1)
    assert ledger.effects()[0].status == "in_doubt"


@pytest.mark.parametrize("door", DOORS)
def test_an_error_while_a_good_answer_is_read_leaves_doubt(door: str, ledger: Ledger, provider: Provider) -> None:
    call = DOORS[door](ledger, lambda amount: OURS["httpx"](f"{provider.url}/v1/charges", {"amount": amount})["charge"])
    with pytest.raises(KeyError):
        call("order-1", 5)
    with pytest.raises(EffectInDoubt):
        call("order-1", 5)
    assert len(provider.charges) == 1
    assert ledger.effects()[0].status == "in_doubt"
