"""Policies for the tests: one that uses every word there is, and calls to ask them about."""

from __future__ import annotations

import copy
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from indelible.core.journal.notes import COSIGNATURE, PublicKey
from indelible.core.policy.policy import Asked, Policy, policy_of
from indelible.core.policy.reading import Place
from indelible.core.policy.verdicts import Verdict
from indelible.core.values.tags import Redacted
from indelible.errors import BadPolicy

ANAS = Ed25519PrivateKey.from_private_bytes(b"\1" * 32).public_key().public_bytes_raw()
BOBS = PublicKey("bob", Ed25519PrivateKey.from_private_bytes(b"\2" * 32).public_key().public_bytes_raw())
CIDS = Ed25519PrivateKey.from_private_bytes(b"\3" * 32).public_key().public_bytes_raw()
WITNESS = PublicKey("witness", BOBS.raw, COSIGNATURE)
SCHEMA = "ab" * 32

FULL: dict[str, Any] = {
    "people": {
        "ana": {"roles": ["finance"], "key": b64encode(ANAS).decode()},
        "bob": {"roles": ["finance", "manager"], "key": BOBS.vkey},
        "cid": {"roles": "finance", "key": b64encode(CIDS).decode()},
        "eva": {},
    },
    "approvals": {
        "quorum": 1,
        "people": ["ana", "bob"],
        "signed": False,
        "editable": True,
        "expires": "24h",
        "notify": "slack",
    },
    "tools": {
        "stripe.refund": {
            "side_effect": "payment",
            "fields": ["charge", "amount", "order.id", "reason"],
            "schema": SCHEMA,
        },
        "mail.send": {"side_effect": "notification", "fields": []},
        "crm.lookup": {},
    },
    "unknown_tools": "refuse",
    "unknown_fields": "ask",
    "defaults": {
        "none": "allow",
        "read": "allow",
        "write": "allow",
        "external_mutation": "ask",
        "payment": "ask",
        "notification": "allow",
        "delegation": "refuse",
    },
    "rules": [
        {
            "name": "small refunds",
            "match": {
                "tool": "stripe.refund",
                "agent": ["billing", "support-*"],
                "principal": "*",
                "run": "order-*",
                "tenant": "default",
                "environment": ["prod", "staging"],
                "side_effect": ["payment", "external_mutation"],
                "args": {
                    "amount": {"gt": 0, "lte": 50.5, "ne": 13},
                    "charge": {"matches": "ch_[0-9]+", "length": {"gte": 4, "lt": 20}},
                    "order.id": {"exists": True, "in": ["a", 1, None]},
                    "reason": {"eq": "duplicate"},
                },
                "unknown_fields": False,
            },
            "then": "allow",
            "why": "small, and nothing else is new about them",
        },
        {
            "name": "big refunds",
            "match": {"tool": ["stripe.*"], "args": {"amount": {"gte": 1000, "lt": 100000}}},
            "then": "ask",
            "approvals": {
                "needs": [{"role": "finance", "count": 2}, {"role": "manager"}],
                "roles": ["finance"],
                "signed": True,
                "editable": False,
                "expires": "2h",
                "escalate": [
                    {"after": "30m", "to": ["eva", "manager"], "notify": ["pager"]},
                    {"after": "1h", "notify": "mail"},
                ],
                "notify": ["slack", "mail"],
            },
        },
        {"name": "new tools", "match": {"unknown_tool": True}, "then": "refuse", "why": "declare it first"},
    ],
    "budgets": [
        {
            "name": "refunds a day",
            "match": {"tool": "stripe.refund"},
            "per": ["tenant", "agent"],
            "limit": 500.25,
            "window": "24h",
            "sum": "amount",
        },
        {"name": "calls", "per": "run", "limit": 100, "window": "60s"},
    ],
}


def full(**changes: Any) -> dict[str, Any]:
    """Gives the policy that uses every word, with other members where told."""
    return {**copy.deepcopy(FULL), **changes}


def asked(**changes: Any) -> Asked:
    """Gives a refund of 5 by the agent billing, but for what is told otherwise."""
    words: dict[str, Any] = {
        "tenant": "default",
        "tool": "stripe.refund",
        "side_effect": "payment",
        "agent": "billing",
        "principal": "zoe",
        "run_id": "order-1",
        "environment": "prod",
        "args": {"charge": "ch_12", "amount": 5, "order": {"id": 1}, "reason": "duplicate"},
        "schema": SCHEMA,
        "allowed_tools": None,
    }
    return Asked(**{**words, **changes})


def judged(content: dict[str, Any], **changes: Any) -> Verdict:
    """Gives what a policy says of a call."""
    return policy_of(content).judge(asked(**changes))


def problems(content: Any) -> list[str]:
    """Lists what is wrong with a policy; nothing when it can be used."""
    try:
        Policy.of(content)
    except BadPolicy as bad:
        return list(bad.problems) or ["nothing is told"]
    return []


def places(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Lists every part of some content, with its place."""
    yield place, content
    if isinstance(content, dict):
        for name, part in content.items():
            yield from places(part, (*place, name))
    if isinstance(content, list):
        for number, part in enumerate(content):
            yield from places(part, (*place, number))


def changed_at(content: Any, place: Place, change: Any) -> Any:
    """Gives content with the part at a place replaced; a name is replaced when the change is a tuple of names."""
    if not place:
        return change(content)
    step, *rest = place
    copied: Any = dict(content) if isinstance(content, dict) else list(content)
    copied[step] = changed_at(content[step], tuple(rest), change)
    return copied


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.text(max_size=8)
    | st.datetimes()
    | st.binary(max_size=4)
    | st.just(Redacted("0" * 64))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["amount", "charge", "order", "reason", "id", "x"]
ARGS = st.dictionaries(
    st.sampled_from(NAMES), VALUES | st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2), max_size=4
)
