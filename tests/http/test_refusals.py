"""A refusal that the tool declares is a failure, and gives the budget back. A bare 402 is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from indelible import Ledger, Refused
from indelible.errors import EffectFailed, EffectInDoubt
from tests.http.clients import OURS
from tests.http.provider import Provider
from tests.http.test_lost_answers import DOORS


class Declined(Exception):
    """What a handler makes of the provider's answer."""


CardError = type("CardError", (Exception,), {"__module__": "stripe"})
"""What Stripe's library raises for a declined card: it is known by its name, and nothing is imported."""


def is_declined(error: Exception) -> bool:
    """Recognise the provider's own refusal by its body."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.json()["error"]["code"] == "card_declined"


def raising(kind: Callable[[str], Exception]) -> Callable[[Exception], Exception]:
    return lambda error: kind("card declined")


WAYS: dict[str, tuple[Callable[[Exception], Exception], dict[str, Any]]] = {
    "failed_on": (raising(Declined), {"failed_on": Declined}),
    "failed_on several": (raising(Declined), {"failed_on": (KeyError, Declined)}),
    "refused": (lambda error: error, {"refused": is_declined}),
    "Refused": (raising(Refused), {}),
    "known SDK": (raising(CardError), {}),
}
RAISED: dict[str, type[Exception]] = {
    "failed_on": Declined,
    "failed_on several": Declined,
    "refused": httpx.HTTPStatusError,
    "Refused": Refused,
    "known SDK": CardError,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_declared_refusal_fails_and_gives_the_budget_back(way: str, ledger: Ledger, provider: Provider) -> None:
    turned, words = WAYS[way]

    raised: list[Exception] = []

    def handler(amount: int) -> Any:
        try:
            return OURS["httpx"](f"{provider.url}/v1/charges", {"amount": amount})
        except httpx.HTTPStatusError as error:
            raised.append(turned(error))
            raise raised[-1] from None

    for door in DOORS:
        provider.always = "declined"
        call = DOORS[door](ledger, handler, **words)
        with pytest.raises(RAISED[way]) as caught:
            call(door, 5)
        assert caught.value is raised[-1]
        assert ledger.effects(run_id=door)[0].status == "failed", door
        with pytest.raises(EffectFailed):
            call(door, 5)
        provider.always = "ok"
        assert call(door, 4)["id"] == "ch_1", "the budget of five was given back"
    assert (len(provider.charges), len(provider.requests)) == (2, 4)


def test_a_402_that_the_tool_does_not_know_is_no_refusal(ledger: Ledger, provider: Provider) -> None:
    """A gateway may say it after the deed; and a predicate that fails proves nothing."""
    provider.always = "gateway"  # its body is no JSON, so the predicate raises
    call = DOORS["tool"](
        ledger, lambda amount: OURS["httpx"](f"{provider.url}/v1/charges", {"amount": amount}), refused=is_declined
    )
    with pytest.raises(httpx.HTTPStatusError):
        call("order-1", 5)
    with pytest.raises(EffectInDoubt):
        call("order-1", 5)
    assert len(provider.charges) == 1
