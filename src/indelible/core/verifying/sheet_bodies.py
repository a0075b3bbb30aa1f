"""Reads what events commit to, exactly: approvals, grants, people, runs, checkpoints, verdicts and so on. Pure.

It comes from strangers. So every member is there and of its kind, and written again the value gives the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from indelible.core.approvals.approval import APPROVAL_STATUSES, Approval
from indelible.core.approvals.grants import (
    Delegation,
    Grant,
    delegation_sheet,
    grant_sheet,
    read_delegation,
    read_grant,
)
from indelible.core.approvals.sheets import approval_sheet, read_approval
from indelible.core.effects.stops import KINDS_OF_STOPS, Stop, read_stop, stop_sheet
from indelible.core.people.credentials import Credential, credential_sheet, read_credential
from indelible.core.people.person import Person
from indelible.core.people.sheets import person_again, read_person
from indelible.core.people.vouching import PROVIDER_REF, ProviderRules, provider_sheet, read_provider
from indelible.core.policy.verdicts import STRICTEST
from indelible.core.runs.run import (
    CHECKPOINT_REASONS,
    RUN_STATUSES,
    Checkpoint,
    Run,
    checkpoint_sheet,
    read_checkpoint,
    read_run,
    run_sheet,
)
from indelible.core.scopes import SCOPES_OF_PEOPLE
from indelible.core.sheets import Sheet
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import SAFE_INTEGER
from indelible.core.verifying.findings import Caught

_MAYBE = (str, None)
_PEOPLE = [{"key": _MAYBE, "name": str, "roles": [str]}]
_QUESTION = {
    "escalations": [{"after": int, "notify": [str], "people": _PEOPLE}],
    "expires": int,
    "is_sole_approver": bool,
    "may_edit": bool,
    "needs": [{"count": int, "role": _MAYBE}],
    "needs_signature": bool,
    "notify": [str],
    "people": (_PEOPLE, None),
    "rule": str,
}
_CREDENTIAL = {
    "created_at": str,
    "expires_at": _MAYBE,
    "given_by": str,
    "hash": str,
    "id": str,
    "is_revoked": bool,
    "kind": str,
    "name": str,
    "principal": _MAYBE,
    "scopes": [str],
    "v": 1,
    "version": int,
}
_PERSON = {
    "created_at": str,
    "id": str,
    "invitation": ({"by": str, "expires_at": str, "hash": str, "id": str}, None),
    "is_revoked": bool,
    "name": str,
    "passkeys": [
        {
            "created_at": str,
            "credential": str,
            "name": str,
            "public_key": str,
            "sign_count": int,
            "used_at": _MAYBE,
        }
    ],
    "scopes": [str],
    "sessions": [{"created_at": str, "expires_at": str, "hash": str, "id": str, "via": ("link", "passkey", "oidc")}],
    "v": 1,
    "version": int,
    "vouched": ({"at": str, "issuer": str, "said": [{"claim": str, "value": str}], "subject": str}, None),
}
_PERSON_BEFORE = {name: shape for name, shape in _PERSON.items() if name != "vouched"} | {
    "issuer": (str, {"issuer": str, "subject": str}, None)
}
"""A person from before what the provider said of them was kept."""
_PROVIDER = {
    "allowed": [{"claim": str, "scope": SCOPES_OF_PEOPLE, "value": str}],
    "id": PROVIDER_REF.id,
    "issuer": _MAYBE,
    "max_age": int,
    "v": 1,
    "version": int,
}
_CAUSE = {"at": str, "by": str, "kind": KINDS_OF_STOPS, "reason": str}
_STOP = _CAUSE | {"below": [_CAUSE], "id": "effects", "is_in_force": bool, "v": 1, "version": int}
_APPROVAL = {
    "args_seq": int,
    "asked_at": str,
    "attempt": (int, None),
    "digest": str,
    "editors": [str],
    "effect": str,
    "escalated": int,
    "expires_at": str,
    "for_run": str,
    "grant": _MAYBE,
    "id": str,
    "naming": {
        "added": str,
        "call": [str],
        "derived_from": [str],
        "environment": str,
        "fields": ([str], None),
        "is_fixed": bool,
        "varies": [str],
    },
    "place": [str],
    "policy": str,
    "principal": _MAYBE,
    "question": _QUESTION,
    "replaces": _MAYBE,
    "requester": {"id": str, "kind": str, "via": str},
    "run": str,
    "schema": str,
    "side_effect": str,
    "status": APPROVAL_STATUSES,
    "taken_back": [str],
    "tool": str,
    "v": 1,
    "version": int,
    "votes": [
        {
            "at": str,
            "by": str,
            "credential": _MAYBE,
            "delegated_with": _MAYBE,
            "is_approval": bool,
            "is_by_editor": bool,
            "on_behalf_of": _MAYBE,
            "signature": _MAYBE,
            "via": str,
        },
    ],
}
_GRANT = {
    "approval": str,
    "before": ([(str, int)], None),
    "credential": _MAYBE,
    "delegated_with": _MAYBE,
    "given_by": str,
    "id": str,
    "is_ended": bool,
    "on_behalf_of": _MAYBE,
    "pin": ([str], None),
    "pinned": str,
    "policy": str,
    "rule": str,
    "schema": str,
    "tool": str,
    "until": str,
    "uses_left": int,
    "v": 1,
    "version": int,
}
_DELEGATION = {
    "credential": _MAYBE,
    "giver": str,
    "id": str,
    "is_ended": bool,
    "to": str,
    "until": str,
    "v": 1,
    "version": int,
}
_RUN = {
    "agent": str,
    "allowed_tools": ([str], None),
    "checkpointing": {"before_risky": bool, "every": (int, None), "every_progress": (int, None)},
    "created_at": str,
    "fork": ({"at": int, "is_dry": bool, "run": str}, None),
    "intent": str,
    "parent": _MAYBE,
    "parent_event": _MAYBE,
    "permissions": dict,
    "runtime": str,
    "status": RUN_STATUSES,
    "updated_at": str,
    "v": 1,
}
_HANDED_OVER = {**_RUN, "handover": {"to": str, "until": str}}
_CHECKPOINT = {
    "at": int,
    "created_at": str,
    "has_state": bool,
    "reason": CHECKPOINT_REASONS,
    "run": str,
    "suggested": _MAYBE,
    "v": 1,
}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHARGE = (str, str, str, int, int)
_AMOUNT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:E[+-][0-9]+)?")
_VERDICT = {"decision": STRICTEST, "policy": str, "rule": str, "why": str}
SHEETS: dict[str, Any] = {
    "approval": _APPROVAL,
    "checkpoint": _CHECKPOINT,
    "credential": _CREDENTIAL,
    "delegation": _DELEGATION,
    "grant": _GRANT,
    "person": (_PERSON, _PERSON_BEFORE),
    "policy": {"content": dict, "version": str},
    "provider": _PROVIDER,
    "run": (_RUN, _HANDED_OVER),
    "stop": _STOP,
    "verdict": _VERDICT,
}
"""Holds the shape of every value that is read, by its kind."""
# What reading a stranger's value may raise; a call or question that cannot be is a ValueError too.
_UNREADABLE = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)


def fits(value: Any, shape: Any) -> bool:
    """Has a value this shape? A shape is a type, a value, or, made of shapes, a choice, a list or an object."""
    if isinstance(shape, type):
        return type(value) is shape and (type(value) is not int or abs(value) <= SAFE_INTEGER)
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return type(value) is list and all(fits(part, shape[0]) for part in value)
    if isinstance(shape, dict):
        return (
            type(value) is dict
            and value.keys() == shape.keys()
            and all(fits(value[name], part) for name, part in shape.items())
        )
    return type(value) is type(shape) and bool(value == shape)


def approval_in(value: bytes) -> Approval:
    """Reads an approval; raises `Caught` for anything that is not exactly one."""
    found: Approval = _read("approval", value, _APPROVAL, _read_approval, approval_sheet)
    return found


def _read_approval(sheet: Sheet) -> Approval:
    found = read_approval(sheet)
    _ = found.asked_at + found.question.expires  # an end that no calendar has is none
    if not _DIGEST.fullmatch(found.digest):
        raise ValueError("its digest is no hash")
    return found


def grant_in(value: bytes) -> Grant:
    """Reads a grant; raises `Caught` for anything that is not exactly one."""
    found: Grant = _read("grant", value, _GRANT, read_grant, grant_sheet)
    return found


def credential_in(value: bytes) -> Credential:
    """Reads a credential; raises `Caught` for anything that is not exactly one."""
    found: Credential = _read("credential", value, _CREDENTIAL, read_credential, credential_sheet)
    return found


def person_in(value: bytes) -> Person:
    """Reads a person; raises `Caught` for anything that is not exactly one."""

    def write(found: Person) -> Sheet:
        return person_again(Sheet(kind="person", id=found.id, version=found.version, status="", body=value))

    found: Person = _read("person", value, (_PERSON, _PERSON_BEFORE), read_person, write)
    return found


def provider_in(value: bytes) -> ProviderRules:
    """Read the rules of a provider; raise `Caught` for anything that is not exactly that."""
    found: ProviderRules = _read("provider", value, _PROVIDER, read_provider, provider_sheet)
    return found


def stop_in(value: bytes) -> Stop:
    """Reads a stop; raises `Caught` for anything that is not exactly one."""
    found: Stop = _read("stop", value, _STOP, read_stop, stop_sheet)
    return found


def delegation_in(value: bytes) -> Delegation:
    """Reads a delegation; raises `Caught` for anything that is not exactly one."""
    found: Delegation = _read("delegation", value, _DELEGATION, read_delegation, delegation_sheet)
    return found


def run_in(value: bytes) -> Run:
    """Reads a run; raises `Caught` for anything that is not exactly one. Its name is not on it."""
    found: Run = _read("run", value, (_RUN, _HANDED_OVER), read_run, run_sheet)
    return found


def never_changing(run: Run) -> bytes:
    """Gives all of a run but how it stands, and since when."""
    body = run_sheet(replace(run, status="active", handover=None, updated_at=run.created_at)).body
    assert body is not None, "what is written has a body"
    return body


def checkpoint_in(value: bytes) -> Checkpoint:
    """Reads a checkpoint; raises `Caught` for anything that is not exactly one. Its name is not on it."""
    found: Checkpoint = _read("checkpoint", value, _CHECKPOINT, read_checkpoint, checkpoint_sheet)
    return found


def _read(kind: str, value: bytes, shape: Any, read: Any, write: Any) -> Any:
    try:
        content: Any = decode(value)
        if fits(content, shape):
            named = {"id": content.get("id", ""), "version": content.get("version", 1)}
            sheet = Sheet(kind=kind, **named, status="", body=value)
            found = read(sheet)
            if write(found).body == value:
                return found
    except _UNREADABLE as problem:
        raise Caught(f"its {kind} cannot be read: {problem}") from problem
    raise Caught(f"its {kind} is none of version 1: a member is unknown, missing, or not written canonically")


def verdict_in(value: bytes) -> dict[str, str]:
    """Reads what a policy said; raises `Caught` for anything that is not exactly a verdict."""
    try:
        content: Any = decode(value)
        if fits(content, _VERDICT) and encode(content) == value:
            return dict(content)
    except _UNREADABLE as problem:
        raise Caught(f"its policy cannot be read: {problem}") from problem
    raise Caught("its policy is no verdict: a member is unknown, missing, or not written canonically")


def policy_version_in(value: bytes) -> str:
    """Gives the version of a policy that was put in force; raises `Caught` for anything that is none."""
    try:
        content: Any = decode(value)
    except _UNREADABLE as problem:
        raise Caught(f"its policy cannot be read: {problem}") from problem
    if not fits(content, SHEETS["policy"]):
        raise Caught("its policy is none: it has a content and a version")
    return str(content["version"])


def reservations_in(value: bytes) -> list[tuple[str, int]]:
    """Return the reservations that charges tell of: budget and number. Raise `Caught` unless they are charges."""
    content: Any = decode(value)
    if type(content) is not list or not all(map(_is_charge, content)):
        raise Caught("its charges are none: each has a name, an amount, a limit, a window, and maybe a number")
    return [(one[0], one[-1]) for one in content if len(one) == len(_CHARGE)]


def _is_charge(one: Any) -> bool:
    if type(one) is not list or len(one) not in (len(_CHARGE) - 1, len(_CHARGE)) or not all(map(fits, one, _CHARGE)):
        return False
    return all(_AMOUNT.fullmatch(text) for text in one[1:3]) and one[-1] > 0
