"""Ready probes for `reconcile=`: they ask a provider what became of an effect in doubt.

A probe returns `Succeeded(value)`, `Failed(error)`, or None while it cannot tell. It raises `NothingHappened` only if
you said that the provider's answer is complete (`absent="nothing_happened"`). An error on the way to the provider
leaves the effect in doubt. It is logged under `indelible.probes`, and never raised.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlencode

from indelible.core.effects.effect import Effect, Failed, Outcome, Succeeded
from indelible.errors import BadCall, NothingHappened

if TYPE_CHECKING:
    import httpx2

__all__ = ["NOT_THERE", "get_by_key", "stripe_outcome", "stripe_search"]

log = logging.getLogger("indelible.probes")

Absent = Literal["unknown", "nothing_happened"]
Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]
Opener = Callable[[str, Mapping[str, str]], tuple[int, bytes]]
"""Sends a GET request with these headers, and returns the status and the body."""
Probe = Callable[[Effect], Outcome | None]

_MOST_BYTES = 4 * 1024 * 1024
_MOST_PAGES = 20
_STRIPE = "https://api.stripe.com"
_SEARCHED = ("charges", "payment_intents")
_LISTED = (*_SEARCHED, "refunds")
_PLACE = re.compile(r"\{([^{}]*)\}")
_CLOCK_ERROR = timedelta(hours=1)
_MOST_SEEN = 10_000


class _NotThere:
    """Says that the provider has no record of the effect."""

    def __repr__(self) -> str:
        return "NOT_THERE"


NOT_THERE: Final = _NotThere()
"""Is what `found` returns for an answer that holds no record, such as an empty list."""


def get_by_key(
    url_template: str,
    *,
    found: Callable[[Any], Outcome | _NotThere | None],
    client: httpx2.Client | None = None,
    opener: Opener | None = None,
    headers: Headers | None = None,
    absent: Absent = "unknown",
    settle_after: timedelta = timedelta(minutes=5),
    clock_error: timedelta = _CLOCK_ERROR,
    timeout: timedelta = timedelta(seconds=10),
) -> Probe:
    """Make a probe that asks a provider with GET by the effect's key.

    Args:
        url_template: An address with `{key}`, `{id}`, `{run_id}` or `{tool}` in it. Each is filled in and quoted.
        found: Maps the JSON of a 200 answer to `Succeeded`, `Failed`, `NOT_THERE`, or None while it cannot tell.
        client: An `httpx2.Client` to ask with. Default: one of its own, which needs the extra `http`.
        opener: A function that sends the request instead: it gets address and headers, and returns status and body.
        headers: Headers of the request, or a function that returns them. Default: none.
        absent: What 404 or `NOT_THERE` means. `unknown` leaves the effect in doubt. `nothing_happened` lets the next
            call run it: say so only if the provider's answer is complete. Default: `unknown`.
        settle_after: With `nothing_happened`, how long after the effect came in doubt the answer counts. A search
            index lags, and a request may still be on its way. Default: 5 minutes.
        clock_error: How far the clocks of two machines may differ. Another process left the doubt, and the record has
            that one's time, so the answer counts this much later. It counts after `settle_after` alone if this probe
            itself has seen the doubt for so long. Default: 1 hour.
        timeout: How long to wait for the provider. Default: 10 seconds.

    Returns:
        A probe for `reconcile=`.

    Raises:
        BadCall: The template or a parameter is wrong.

    Example:
        `reconcile=get_by_key("https://api.example/payments/{key}", found=lambda paid: Succeeded({"id": paid["id"]}))`
    """
    _filled(url_template, {"key": "", "id": "", "run_id": "", "tool": ""})
    absence = _Absence(absent, settle_after, clock_error)
    ask = _asking(client, opener, headers, timeout)

    def probe(effect: Effect) -> Outcome | None:
        absence.see(effect)
        names = {"key": effect.key, "id": effect.id, "run_id": effect.run_id, "tool": effect.tool}
        content = ask(effect, _filled(url_template, names))
        answer = content if content is None or content is NOT_THERE else found(content)
        return absence.meant(effect, answer)

    return probe


def stripe_search(
    resource: str = "payment_intents",
    *,
    api_key: str | Callable[[], str],
    metadata: str = "indelible_key",
    by: Literal["search", "list"] = "search",
    value: Callable[[Mapping[str, Any]], Any] | None = None,
    outcome: Callable[[Mapping[str, Any]], Outcome | None] | None = None,
    client: httpx2.Client | None = None,
    opener: Opener | None = None,
    base_url: str = _STRIPE,
    absent: Absent = "unknown",
    settle_after: timedelta = timedelta(minutes=15),
    clock_error: timedelta = _CLOCK_ERROR,
    timeout: timedelta = timedelta(seconds=10),
) -> Probe:
    """Make a probe that looks for the effect's key in the metadata of Stripe's objects.

    The handler puts the key there: `stripe.PaymentIntent.create(…, metadata={"indelible_key": effect.key})`.

    Args:
        resource: `payment_intents`, `charges`, or with `by="list"` also `refunds`. Default: `payment_intents`.
        api_key: Your secret key, or a function that returns it. A restricted key that may only read is enough.
        metadata: The name under which the handler puts the key. Default: `indelible_key`.
        by: `search` asks Stripe's search index, which lags by about a minute. `list` reads all objects that were made
            since the effect was opened, which is complete and slower. Default: `search`.
        value: Maps the object to the result that callers get. Default: its id, status, amount and currency.
        outcome: Maps one object to an outcome instead. Default: `stripe_outcome`.
        client: An `httpx2.Client` to ask with. Default: one of its own, which needs the extra `http`.
        opener: A function that sends the request instead: it gets address and headers, and returns status and body.
        base_url: Where Stripe is. Default: `https://api.stripe.com`.
        absent: What it means that Stripe has no such object; see `get_by_key`. Default: `unknown`.
        settle_after: With `nothing_happened`, how long after the effect came in doubt the answer counts. Default: 15
            minutes.
        clock_error: How far clocks may differ; see `get_by_key`. `by="list"` also reads objects that were made this
            long before the effect was opened. Default: 1 hour.
        timeout: How long to wait for each answer. Default: 10 seconds.

    Returns:
        A probe for `reconcile=`.

    Raises:
        BadCall: A parameter is wrong.
    """
    known = _SEARCHED if by == "search" else _LISTED
    if by not in ("search", "list") or resource not in known:
        raise BadCall(f"stripe_search: by={by!r} knows {', '.join(known)}, not {resource!r}")
    if not metadata or any(letter in metadata for letter in "'\"[]\\"):
        raise BadCall(f"stripe_search: metadata={metadata!r} cannot be the name of metadata")
    absence = _Absence(absent, settle_after, clock_error)

    def authorized() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key() if callable(api_key) else api_key}"}

    ask = _asking(client, opener, authorized, timeout)
    place = f"{base_url.rstrip('/')}/v1/{resource}"
    judge = outcome or (lambda one: stripe_outcome(one, value=value))

    def probe(effect: Effect) -> Outcome | None:
        absence.see(effect)
        found: list[Mapping[str, Any]] = []
        address, words = f"{place}/search", _query(effect, metadata)
        if by == "list":
            address, words = place, _since(effect, clock_error)
        for _ in range(_MOST_PAGES):
            page = ask(effect, f"{address}?{urlencode(words)}")
            if not _is_page(page, by):
                return None  # Stripe said something else, so nothing is known
            found += [one for one in page["data"] if (one.get("metadata") or {}).get(metadata) == effect.key]
            if not page.get("has_more"):
                return absence.meant(effect, _together(effect, list(map(judge, found))))
            words |= {"page": page["next_page"]} if by == "search" else {"starting_after": page["data"][-1]["id"]}
        return None  # there is more than we look through

    return probe


def stripe_outcome(
    found: Mapping[str, Any], *, value: Callable[[Mapping[str, Any]], Any] | None = None
) -> Outcome | None:
    """Return what a charge, payment intent or refund of Stripe's means; None while it can still change.

    Args:
        found: The object, as Stripe's API and webhooks have it.
        value: Maps the object to the result that callers get. Default: its id, status, amount and currency.

    Returns:
        `Succeeded`, `Failed`, or None.
    """
    status = found.get("status")
    if status == "succeeded":
        names = ("id", "status", "amount", "currency")
        return Succeeded({name: found.get(name) for name in names} if value is None else value(found))
    if status == "failed" and found.get("payment_intent"):
        return None  # its payment intent may be tried with another card
    if status in ("failed", "canceled"):
        reasons = (found.get(name) for name in ("failure_message", "failure_reason", "cancellation_reason"))
        why = next((reason for reason in reasons if reason), status)
        return Failed(f"{found.get('object', 'object')} {found.get('id')}: {why}", f"Stripe.{status}")
    return None


# Asking


def _asking(
    client: httpx2.Client | None, opener: Opener | None, headers: Headers | None, timeout: timedelta
) -> Callable[[Effect, str], Any]:
    """Make the function that asks: it returns JSON, `NOT_THERE` for 404, and None for anything else."""
    if client is not None and opener is not None:
        raise BadCall("give a client or an opener, not both")
    send = opener or _opener_of(client, timeout)

    def ask(effect: Effect, address: str) -> Any:
        told = headers() if callable(headers) else headers or {}
        try:
            status, body = send(address, told)
            if status == 404:
                return NOT_THERE
            if status == 200 and len(body) <= _MOST_BYTES:
                return json.loads(body)
            log.warning("%s: the provider answered the probe of %s with status %s", effect.tool, effect.id, status)
        except (OSError, HTTPException, ValueError, RecursionError) as problem:
            log.warning("%s: the probe of %s got no answer: %s", effect.tool, effect.id, type(problem).__name__)
        return None

    return ask


def _opener_of(client: httpx2.Client | None, timeout: timedelta) -> Opener:
    def send(address: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            import httpx2
        except ImportError as missing:
            raise BadCall("this probe needs httpx2, or an opener= of yours: pip install 'indelible[http]'") from missing
        used = client or httpx2.Client(follow_redirects=False)
        try:
            with used.stream("GET", address, headers=dict(headers), timeout=timeout.total_seconds()) as response:
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > _MOST_BYTES:
                        break
                return response.status_code, body
        except httpx2.HTTPError as problem:
            raise OSError(str(problem)) from problem
        finally:
            if client is None:
                used.close()

    return send


def _filled(template: str, names: Mapping[str, str]) -> str:
    try:
        address = _PLACE.sub(lambda place: quote(names[place[1]], safe=""), template)
    except KeyError as problem:
        raise BadCall(f"{template!r}: only {{{'}, {'.join(names)}}} can stand in a template") from problem
    if not address.startswith(("http://", "https://")):
        raise BadCall(f"{template!r}: an address begins with https://")
    return address


class _Absence:
    """Says what it means that the provider has no record of an effect: something only late enough, and if you said so.

    When the doubt began, only the clock of the process that left it says. So either that clock and ours may be
    wrong by `clock_error`, or this probe has seen the doubt itself for long enough, by one clock that nobody sets.
    """

    def __init__(self, absent: str, settle_after: timedelta, clock_error: timedelta) -> None:
        if absent not in ("unknown", "nothing_happened"):
            raise BadCall(f"absent={absent!r}: choose unknown or nothing_happened")
        if min(settle_after, clock_error) < timedelta(0):
            raise BadCall("settle_after and clock_error: durations from zero on are expected")
        self._counts = absent == "nothing_happened"
        self._settle_after, self._clock_error = settle_after, clock_error
        self._seen: dict[tuple[str, int], float] = {}

    def see(self, effect: Effect) -> None:
        """Remember since when this effect is known to be in doubt; what is forgotten only has to wait again."""
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.setdefault((effect.id, effect.attempt), time.monotonic())

    def meant(self, effect: Effect, answer: Any) -> Outcome | None:
        """Return what an answer means; None while it cannot be told."""
        if answer is not NOT_THERE:
            outcome: Outcome | None = answer
            return outcome
        now = time.monotonic()
        seen_for = timedelta(seconds=now - self._seen.get((effect.id, effect.attempt), now))
        told_for = datetime.now(UTC) - effect.updated_at - self._clock_error
        if not self._counts or max(seen_for, told_for) < self._settle_after:
            return None
        raise NothingHappened("the provider has no record of it")


# Stripe


def _query(effect: Effect, metadata: str) -> dict[str, str]:
    return {"query": f"metadata['{metadata}']:'{effect.key}'", "limit": "100"}


def _since(effect: Effect, clock_error: timedelta) -> dict[str, str]:
    """Select what was made since the effect was opened; the clock of the process that opened it may be wrong."""
    opened_at = min(effect.created_at, datetime.now(UTC))
    return {"created[gte]": str(int((opened_at - clock_error).timestamp())), "limit": "100"}


def _is_page(page: Any, by: str) -> bool:
    """Is this a list of objects, as Stripe's API has it?"""
    data = page.get("data") if isinstance(page, Mapping) else None
    is_list = isinstance(data, list) and all(isinstance(one, Mapping) and "id" in one for one in data)
    if not is_list or not page.get("has_more"):
        return is_list
    return "next_page" in page if by == "search" else bool(data)


def _together(effect: Effect, outcomes: Sequence[Outcome | None]) -> Outcome | _NotThere | None:
    """Return what several objects with one key mean: one success is a success, and all have to have failed to fail."""
    succeeded = [one for one in outcomes if isinstance(one, Succeeded)]
    if len(succeeded) > 1:
        log.error("%s: the provider did %s %s times under one key; look there", effect.tool, effect.id, len(succeeded))
    if succeeded or not outcomes:
        return succeeded[0] if succeeded else NOT_THERE
    failed = [one for one in outcomes if isinstance(one, Failed)]
    return failed[0] if len(failed) == len(outcomes) else None
