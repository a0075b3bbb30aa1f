"""How much one caller may ask: so many requests a second, and so many under way at once.

Whoever has shown a credential has a measure of their own. Everybody else shares one with all who come from the same
address, and so do those who try credentials that are none. Requests that only wait, and streams, are counted apart:
they cost little and last long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from indelible.core.remote.admitting import Caller
from indelible.errors import AskedTooOften, NotAuthenticated
from indelible.server.requests.asking import Authenticate

TICKET = "indelible.ticket"
"""Is where a request carries its ticket."""
_MOST_KNOWN = 10_000
_WAITING_PATHS = ("/v1/events/stream", "/v1/store/await")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Says how much is allowed; `rate` and `strangers_rate` are requests a second, and nothing limits where it is 0."""

    rate: float = 1000
    in_flight: int = 256
    waiting: int = 256
    strangers_rate: float = 20

    @property
    def policy(self) -> bytes:
        """Is the header that tells them: `q` requests in each window of `w` seconds."""
        return f'"default";q={max(1, round(self.rate))};w=1'.encode()


@dataclass(slots=True)
class _Measure:
    """Is what one caller has left: a bucket that fills by itself, twice as deep as what flows in each second."""

    rate: float
    left: float
    at: float
    under_way: list[int] = field(default_factory=lambda: [0, 0])
    """Counts the requests that are being carried out, and those that wait."""

    def take(self, now: float, amount: int = 1) -> float:
        """Takes a request out of the bucket; gives in how many seconds there will be one, 0 if there was."""
        self.left = min(2 * self.rate, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left < 1:
            return (1 - self.left) / self.rate
        self.left -= amount
        return 0.0


@dataclass(slots=True)
class Ticket:
    """Is one request on its way: whose measure it is taken from, and what its answer tells of that."""

    gate: Gate
    scope: Scope
    measure: _Measure | None = None
    is_waiting: bool = False
    is_stranger: bool = False
    is_unproven: bool = False
    refused_for: float | None = None

    def count_as_stranger(self) -> None:
        """Takes the request from what its address may ask unknown, once; raises `AskedTooOften` when that is gone."""
        if not self.is_stranger and self.gate.limits.strangers_rate:
            self.is_stranger = True
            self._check(self.gate.wait_of_strangers(self.scope), "too many requests without a credential from here")

    def count_unless_shown(self) -> None:
        """Take the request from what its address may ask unknown, unless it shows a credential.

        One that has let nobody in yet may be good. It is looked at, and counted by `give_back` if nobody looked.
        """
        shown = shown_by(self.scope)
        self.is_unproven = not self.gate.is_known(shown)
        if not shown:
            self.count_as_stranger()
        elif self.is_unproven:
            self.check_stranger()

    def check_stranger(self) -> None:
        """Raises `AskedTooOften` when too much came from the address that let nobody in; takes nothing by itself."""
        if self.gate.limits.strangers_rate:
            self._check(self.gate.wait_of_strangers(self.scope, takes=False), "too many credentials from here are none")

    def _check(self, wait: float, why: str) -> None:
        if wait:
            self.refused_for = wait
            raise AskedTooOften(f"{why}; ask again in {wait:.2f} seconds", retry_after=wait)

    def admit(self, caller: Caller) -> None:
        """Takes the request from the caller's measure, once; raises `AskedTooOften` when that is used up."""
        if self.measure is None:
            self.measure = self.gate.measure_of(caller)
            self.is_waiting = _waits(self.scope)
            wait, why = self.gate.count(self.measure, is_waiting=self.is_waiting)
            self._check(wait, why)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Are what the answer carries of it, in the words of the IETF's draft."""
        found = []
        if self.measure is not None and self.gate.limits.rate:
            left = max(0, int(self.measure.left))
            soon = 0 if left else 1
            found = [(b"ratelimit-policy", self.gate.policy), (b"ratelimit", b'"default";r=%d;t=%d' % (left, soon))]
        if self.refused_for is not None:
            found.append((b"retry-after", b"%d" % max(1, math.ceil(self.refused_for))))
        return found

    def give_back(self) -> None:
        """Says that the request is no longer under way."""
        if self.measure is not None:
            self.measure.under_way[self.is_waiting] -= 1
        elif self.is_unproven and self.refused_for is None:
            with suppress(AskedTooOften):  # it is answered
                self.count_as_stranger()


class Gate:
    """Counts requests, in the loop's own thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.policy = limits.policy
        self._clock = clock
        self._callers: dict[Any, _Measure] = {}
        self._addresses: dict[str, _Measure] = {}
        self._known: set[bytes] = set()

    def ticket(self, scope: Scope) -> Ticket:
        """Gives a request its ticket."""
        ticket = scope[TICKET] = Ticket(self, scope)
        return ticket

    def is_known(self, shown: bytes) -> bool:
        """Was this let in before, and not refused since?"""
        return shown in self._known

    def note(self, shown: bytes, *, is_good: bool) -> None:
        """Remembers what let somebody in, or forgets it."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        (self._known.add if is_good else self._known.discard)(shown)

    def wait_of_strangers(self, scope: Scope, *, takes: bool = True) -> float:
        """Takes one request from an address, or only looks; gives in how many seconds it may ask, 0 if it may now."""
        client = scope.get("client")
        name = client[0] if client else ""
        return self._kept(self._addresses, name, self.limits.strangers_rate).take(self._clock(), int(takes))

    def measure_of(self, caller: Caller) -> _Measure:
        """Gives the measure of a credential."""
        return self._kept(self._callers, (caller.tenant, caller.credential_id or caller.actor), self.limits.rate)

    def _kept(self, among: dict[Any, _Measure], name: Any, rate: float) -> _Measure:
        found = among.get(name)
        if found is None:
            if len(among) >= _MOST_KNOWN:
                self._forget_quiet(among)
            found = among[name] = _Measure(rate, 2 * rate, self._clock())
        return found

    def _forget_quiet(self, among: dict[Any, _Measure]) -> None:
        """Forgets whose bucket is full again; if all are busy, the older half goes."""
        now = self._clock()
        quiet = [name for name, each in among.items() if each.left + (now - each.at) * each.rate >= 2 * each.rate]
        for name in quiet or list(among)[: len(among) // 2]:
            del among[name]

    def count(self, measure: _Measure, *, is_waiting: bool) -> tuple[float, str]:
        """Takes a request from a measure; gives for how many seconds it comes too early, and why."""
        limits = self.limits
        most = limits.waiting if is_waiting else limits.in_flight
        measure.under_way[is_waiting] += 1
        if limits.rate and (wait := measure.take(self._clock())):
            return wait, f"this credential may ask {limits.rate:g} times a second"
        if most and measure.under_way[is_waiting] > most:
            what = "wait for something" if is_waiting else "be carried out"
            return 1.0, f"{most} requests of this credential may {what} at once"
        return 0.0, ""


def counting(authenticate: Authenticate) -> Authenticate:
    """Gives what authenticates and counts; where nobody limits, it only authenticates."""

    async def counted(request: Any) -> Caller:
        ticket: Ticket | None = request.scope.get(TICKET)
        if ticket is None:
            return await authenticate(request)
        gate, shown = ticket.gate, shown_by(request.scope)
        is_known = gate.is_known(shown)
        if not is_known:
            ticket.check_stranger()
        try:
            caller = await authenticate(request)
        except NotAuthenticated:
            # Only now: many who come at once with good ones, as after a restart, are no strangers.
            gate.note(shown, is_good=False)
            ticket.count_as_stranger()
            raise
        if not is_known:
            gate.note(shown, is_good=True)
        ticket.admit(caller)
        return caller

    return counted


def shown_by(scope: Scope) -> bytes:
    """Gives what a request shows of who sent it; nothing when it shows nothing."""
    for name, value in scope["headers"]:  # on the way of every request: no list is made
        if name == b"authorization" or name == b"cookie":
            shown: bytes = value
            return shown
    return b""


def _waits(scope: Scope) -> bool:
    return scope["path"] in _WAITING_PATHS or b"wait=" in scope["query_string"]
