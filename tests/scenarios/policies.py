"""Policies that scenarios are under, as content: what a file or `apply_policy` would hold."""

from __future__ import annotations

from typing import Any

PEOPLE: dict[str, Any] = {
    "ana": {"roles": ["finance"]},
    "bob": {"roles": ["finance", "legal"]},
    "cleo": {"roles": ["legal"]},
    "dan": {},
}


def asking(known: dict[str, Any] | None = None, /, **approvals: Any) -> dict[str, Any]:
    """Gives a policy that asks about every charge, on these terms; `known` are its people."""
    rule = {"name": "charges", "match": {"tool": "charge"}, "then": "ask", "approvals": approvals}
    if not approvals:
        del rule["approvals"]
    return {"people": PEOPLE if known is None else known, "rules": [rule]}


def saying(decision: str, *, name: str = "charges", **match: Any) -> dict[str, Any]:
    """Gives a policy with one rule about charges."""
    return {"rules": [{"name": name, "match": {"tool": "charge", **match}, "then": decision}]}


def limiting(limit: int | str, *, window: str = "1d", **words: Any) -> dict[str, Any]:
    """Gives a policy that allows charges as long as a budget has what they take."""
    return {"budgets": [{"name": "charges", "limit": limit, "window": window, "sum": "amount", **words}]}
