"""The effect: one durable record of a tool call and its fate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from json import dumps
from typing import Any, Literal, get_args

from indelible.core.effects.calls import HARMLESS, OnCrash, SideEffect, check_name
from indelible.core.effects.identity import Ref, with_added
from indelible.core.effects.request_keys import request_key_of
from indelible.core.privacy.redaction import Screen
from indelible.core.scopes import Authenticated
from indelible.core.values.canonical import decode
from indelible.core.values.tags import Encrypted
from indelible.errors import BadCall, EffectErased, KeyUnusable

_TOKEN_TAG = b"indelible/claim/v1\0"
_BOUND_TAG = b"indelible/claim-of/v1\0"
_ASKER_TAG = b"indelible/asker/v1\0"
ERASED_TEXT = "(erased)"
ERASED_DIGEST = "0" * 64
"""Is what an effect keeps of its digest when its arguments were erased: a hash of them could be tried out."""

Status = Literal["requires_approval", "ready", "processing", "succeeded", "failed", "denied", "canceled", "in_doubt"]
STATUSES: tuple[Status, ...] = get_args(Status)
# From these no move leads on by itself: every later call gets the same answer.
SETTLED: frozenset[Status] = frozenset({"succeeded", "failed"})
ENDED: frozenset[Status] = SETTLED | {"denied", "canceled"}


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; `value` is what was recorded."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised; `error` is its message and `error_type` the name of its class."""

    error: str
    error_type: str = "Error"


Outcome = Succeeded | Failed


_KINDS = ("agent", "person", "system")
_VIAS = ("process", "api_key", "passkey", "signature", "link", "oidc")


@dataclass(frozen=True, slots=True)
class Actor:
    """Says who did something and how we know: `via` is process, api_key, passkey, signature, link or oidc.

    `credential` is the id of the API key, where one was used: a vote rests on it. It makes nobody another actor.
    """

    id: str
    kind: Literal["agent", "person", "system"] = "person"
    via: Literal["process", "api_key", "passkey", "signature", "link", "oidc"] = "process"
    authenticated: Authenticated | None = field(default=None, compare=False, repr=False)
    """What a server knows by the credential that was sent; None for a program that opened the ledger itself."""
    credential: str | None = field(default=None, compare=False, repr=False)
    """The API key that was sent, if one was."""

    def __post_init__(self) -> None:
        check_name("actor", self.id)
        if self.kind not in _KINDS or self.via not in _VIAS:
            raise BadCall(f"an actor's kind is one of {', '.join(_KINDS)}, and via one of {', '.join(_VIAS)}")

    @property
    def holder(self) -> str:
        """Return the name that claims and calls are bound to, the same for every key of one principal.

        Empty without a credential: a program that opened the ledger itself acts as it says.
        """
        known = self.authenticated
        return "" if known is None else dumps([self.kind, self.id, known.principal])


GRANT_MARK = "grant:"
"""Stands before the id of a grant where the id of an approval could stand."""
ELSEWHERE = f"{GRANT_MARK}elsewhere"
"""Stands for a permission that another ledger has: it allows nothing here, but the call takes one ever after."""


def approval_named(permission_id: str | None) -> str | None:
    """Return the approval that a permission's id names; None if it names a standing grant, or there is none."""
    return None if permission_id is None or permission_id.startswith(GRANT_MARK) else permission_id


SYSTEM = Actor("indelible", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Records one tool call: its identity, its status, who may settle it, and what came of it.

    `version` counts its moves, so that a writer can say which state it decided on. `attempt` counts entries into the
    handler and is the fence. `detail_json` is the recorded result, error or reason, whichever the status calls for.
    """

    tenant: str
    scope: str
    key: str
    id: str
    run_id: str
    tool: str
    side_effect: SideEffect
    on_crash: OnCrash
    call_id: str | None
    digest: str
    status: Status
    attempt: int
    version: int
    token_hash: str = field(repr=False)
    """What the token of the newest attempt is known by; before the first attempt, what its caller is known by."""
    lease_until: datetime | None
    opened_seq: int
    detail_seq: int | None
    created_at: datetime
    updated_at: datetime
    args_json: bytes | None = field(repr=False)
    detail_json: bytes | None = field(repr=False)
    permission_id: str | None = None
    """The newest approval that was asked for; before the first one, the standing grant it was entered on, marked."""
    charges_json: bytes | None = None
    """Is what it has reserved of budgets."""
    turn: str | None = None
    """Names the turns of the conversation that asked for it before it ended, as `core.effects.turns` writes them."""
    doubted: int | None = None
    """The attempt that may have happened and was followed by the newest one without a person's word; else None."""

    def moved(
        self,
        *,
        status: Status,
        at: datetime,
        attempt: int,
        token_hash: str,
        lease_until: datetime | None,
        detail_seq: int | None,
        detail_json: bytes | None,
    ) -> Effect:
        """Gives this effect one move later. Written out, for it is on the way of every call and `replace` is slow."""
        return Effect(
            tenant=self.tenant,
            scope=self.scope,
            key=self.key,
            id=self.id,
            run_id=self.run_id,
            tool=self.tool,
            side_effect=self.side_effect,
            on_crash=self.on_crash,
            call_id=self.call_id,
            digest=self.digest,
            status=status,
            attempt=attempt,
            version=self.version + 1,
            token_hash=token_hash,
            lease_until=lease_until,
            opened_seq=self.opened_seq,
            detail_seq=detail_seq,
            created_at=self.created_at,
            updated_at=at,
            args_json=self.args_json,
            detail_json=detail_json,
            permission_id=self.permission_id,
            charges_json=self.charges_json,
            turn=self.turn,
            doubted=self.doubted,
        )

    @property
    def ref(self) -> Ref:
        """Locates this effect in its store."""
        return Ref(self.tenant, self.scope, self.key)

    @property
    def approval_id(self) -> str | None:
        """Return the id of the newest approval that was asked for, or None."""
        return approval_named(self.permission_id)

    @property
    def fence(self) -> int:
        """Numbers this attempt; hand it to a downstream that can refuse an older one."""
        return self.attempt

    def request_key(self, method: str, url: str, name: str | None = None) -> str:
        """Return the idempotency key that our transports give a request of this effect's handler.

        A probe uses it to ask the provider what became of the request.

        Args:
            method: The HTTP method.
            url: The whole address. Its fragment and its credentials do not count.
            name: The name from `effect.request(name)`. Default: none.

        Returns:
            64 hexadecimal digits, the same in every attempt.

        Raises:
            BadCall: The address has no scheme or host, or cannot be read.
        """
        return request_key_of(self.key, method, url, name)

    @property
    def args(self) -> dict[str, Any]:
        """Gives the recorded arguments, a fresh copy each time; raises `EffectErased` when they were erased."""
        if self.args_json is None:
            raise EffectErased(f"{self.tool}: the arguments of {self.id} were erased", effect=self)
        value = decode(self.args_json)
        if isinstance(value, Encrypted):
            raise _unopened(self)
        assert isinstance(value, dict)
        return value

    @property
    def outcome(self) -> Outcome | None:
        """Gives what came of it, or None while it is not settled; raises `EffectErased` when the result was erased."""
        if self.status == "succeeded":
            return Succeeded(self.detail)
        if self.status == "failed":
            if self.is_detail_erased:
                return Failed(ERASED_TEXT)
            error: Any = self.detail or {}
            return Failed(error.get("message", ""), error.get("type", "Error"))
        return None

    @property
    def detail(self) -> Any:
        """Gives the recorded result, error or reason; None before there is one, `EffectErased` when it was erased."""
        if self.is_detail_erased:
            raise detail_erased(self)
        value = None if self.detail_json is None else decode(self.detail_json)
        if isinstance(value, Encrypted):
            raise _unopened(self)
        return value

    @property
    def detail_field(self) -> str:
        """Name what the detail is: the result, the error or the reason."""
        return {"succeeded": "result", "failed": "error"}.get(self.status, "reason")

    @property
    def is_detail_erased(self) -> bool:
        """Was the result, error or reason recorded and then erased, here or before a packet brought the effect?"""
        return self.detail_json is None and (self.detail_seq is not None or self.is_settled)

    @property
    def are_args_erased(self) -> bool:
        """Were the arguments erased?"""
        return self.args_json is None

    @property
    def is_settled(self) -> bool:
        """Is the outcome known?"""
        return self.status in SETTLED

    def is_abandoned(self, now: datetime) -> bool:
        """Did its worker let the lease run out while the handler may have been at work?"""
        return self.status == "processing" and self.lease_until is not None and self.lease_until <= now

    def is_overdue(self, now: datetime) -> bool:
        """Is there something to be done about it now: was it abandoned, or did the time to decide it run out?"""
        waits = self.status in ("processing", "requires_approval", "in_doubt")
        return waits and self.lease_until is not None and self.lease_until <= now


def doubted_next(status: str, side_effect: str, attempt: int) -> int | None:
    """Return the newest attempt if it may have happened, so that the next one cannot deny it by what it reports."""
    return attempt if status in ("processing", "in_doubt") and side_effect not in HARMLESS else None


def detail_erased(effect: Effect) -> EffectErased:
    """Gives the refusal to tell a result, error or reason that was erased."""
    return EffectErased(
        f"{effect.tool}: {effect.id} is {effect.status}, and its {effect.detail_field} was erased; it is not run "
        "again, and what came of it can only be learnt where it was done. When and by whom: indelible effects show "
        f"{effect.id}",
        effect=effect,
    )


def _unopened(effect: Effect) -> KeyUnusable:
    """Gives the refusal to tell what is encrypted, where the ledger was opened without its keys."""
    return KeyUnusable(
        f"{effect.tool}: what is recorded of {effect.id} is encrypted; open the ledger again where its data keys are, "
        "with encrypt=True. If they are here, it was altered: indelible verify"
    )


def hash_of(token: str, holder: str = "") -> str:
    """Return what an effect keeps of its claim's token: enough to know it again, not enough to make it.

    Args:
        token: The token.
        holder: The principal whose token it is: sent by another one, it is another token. Default: nobody's.
    """
    if not holder:
        return sha256(_TOKEN_TAG + token.encode()).hexdigest()
    bound_to = sha256(holder.encode()).digest()
    return sha256(_BOUND_TAG + bound_to + token.encode()).hexdigest()


def asked_by(holder: str) -> str:
    """Return what an effect keeps of its caller until it is first entered."""
    return sha256(_ASKER_TAG + holder.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Claim:
    """Is the right to execute one attempt of an effect and to report it; at a server, the right of who claimed it.

    Effects are shown to everybody, so they hold only a hash of the token.
    """

    effect: Effect
    token: str = field(repr=False)
    screen: Screen | None = field(default=None, repr=False, compare=False)
    """Stands between this claim's call and the record, if not everything of it may be recorded."""
    holder: str = field(default="", repr=False, compare=False)
    """The principal that the token is bound to, as a server knows it; empty without a server."""
    added: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The values of parameters that a version of the tool before them did not record."""

    @property
    def args(self) -> dict[str, Any]:
        """Return the recorded arguments, with the values of `added` that an older version did not record."""
        return with_added(self.effect.args, self.added)

    @property
    def token_hash(self) -> str:
        """Is what the effect keeps of the token while the claim is good."""
        return hash_of(self.token, self.holder)

    @property
    def attempt(self) -> int:
        """Is the number of this attempt."""
        return self.effect.attempt
