"""A worker dies between the charge and its record; the next call asks the provider instead of charging again.

python examples/ask_the_provider.py
"""

from datetime import timedelta
from typing import Any

from indelible import Claimed, Effect, Failed, Ledger, Outcome, Succeeded

PROVIDER: dict[str, dict[str, Any]] = {}  # stands for the provider's own records, by idempotency key


def ask_provider(effect: Effect) -> Outcome:
    """Finds out what became of a charge."""
    found = PROVIDER.get(effect.key)
    return Failed("the provider knows no such charge") if found is None else Succeeded(found)


with Ledger.open(":memory:", run="order-123", lease=timedelta(milliseconds=50)) as ledger:

    @ledger.tool(side_effect="payment", reconcile=ask_provider)
    def charge(order_id: str, amount: int) -> dict[str, Any]:
        """Must not be entered twice."""
        raise AssertionError("charged again")

    # A worker claims the call, the provider charges the card, and the worker is gone before it could say so.
    match ledger.begin(charge.bind("123", 1000)):
        case Claimed(claim):
            PROVIDER[claim.effect.key] = {"id": "ch_1", "amount": 1000}

    # Whoever asks next waits for the lease to end, asks the provider, and gets the charge that was made.
    print("result:", charge("123", 1000))
    for event in ledger.events("order-123"):
        told = event.read()
        print(f"{event.seq} {event.type:20} {told['status']:10} by {told['actor']['id']}")
