"""A loop of your own charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/function_calls.py; python examples/function_calls.py --decide
"""

import json
import sys

from indelible import Ledger
from indelible.integrations.function_calls import FunctionCalls


def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}")
    return f"ch_{order}"


def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}")
    return f"re_{charge_id}"


def model(messages: list[dict]) -> dict:
    """Stands for `client.chat.completions.create(...).choices[0].message`; says the same whenever it is asked."""
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    if not answers:
        return asking("call_Kq7charge", "charge", {"order": "123", "amount": 1000})
    if len(answers) == 1:
        return asking("call_Zt4refund", "refund", {"charge_id": answers[0], "amount": 50})
    return {"role": "assistant", "content": "refunded"}


def asking(call_id: str, name: str, arguments: dict) -> dict:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "tool_calls": [call]}


with Ledger.open("sqlite:///function_calls.db") as ledger:
    if "--decide" in sys.argv:
        for question in ledger.approvals(status="pending"):
            ledger.approve(question, digest=question.digest, by="ana")
    terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
    calls = FunctionCalls(ledger, {"charge": charge, "refund": refund}, run="order-123", terms=terms)
    messages: list[dict] = [{"role": "user", "content": "refund order 123"}]
    while True:
        message = model(messages)
        messages.append(message)
        if "tool_calls" not in message:
            print(f"  {message['content']}")
            break
        answered = calls.answer(message["tool_calls"])
        if answered.waiting:
            print(f"  waits for a person: indelible approvals show {answered.waiting[0].approval.id}")
            break
        messages += answered.messages
