"""A card is charged once, however often the agent asks.

Run it twice: the second time nothing is charged at all.  python examples/charge_once.py
"""

from indelible import Ledger

ledger = Ledger.open("sqlite:///charge_once.db")


@ledger.tool(side_effect="payment", key=["order_id"])
def charge(order_id: str, amount: int, currency: str = "usd") -> dict[str, object]:
    """Stands for a payment provider."""
    print(f"  charging {amount} {currency} for {order_id}")
    return {"id": f"ch_{order_id}", "amount": amount}


with ledger, ledger.in_run("order-123"):
    print("first:", charge("123", 1000))
    print("again:", charge(order_id="123", amount=1000, currency="usd"))
    (effect,) = ledger.effects(run_id="order-123")
    print(f"{effect.id} {effect.status} after {effect.attempt} attempt; key {effect.key[:12]}…")
