"""The providers whose signed webhooks the server takes, as the file of its tools names them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible.core.effects.calls import DEFAULT_TENANT, check_name
from indelible.core.effects.effect import Outcome
from indelible.errors import BadCall, Misconfigured
from indelible.server.gateway_tools import function_at, read_tables
from indelible.webhooks import Webhook, by_events, stripe_event

_WORDS = frozenset(
    {
        *("scheme", "secret", "tenant", "effect", "tolerance_s", "outcome"),
        *("succeeded", "failed", "kind", "value", "error"),
    }
)
_OF_EVENTS = ("succeeded", "failed", "kind", "value", "error")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TakenFrom:
    """Pairs a provider's webhook with the tenant whose effects it settles."""

    webhook: Webhook
    tenant: str


def load_webhooks(path: Path, environment: Mapping[str, str] | None = None) -> dict[str, TakenFrom]:
    """Read the webhooks in the file of the server's tools.

    Args:
        path: A TOML file with tables such as `[webhooks.stripe]`.
        environment: Holds the secrets. Default: the process's environment.

    Returns:
        The webhooks by the names in their addresses.

    Raises:
        Misconfigured: A table is wrong, or a secret is not set.
    """
    known = os.environ if environment is None else environment
    tables = read_tables(path)["webhooks"]
    return {name: _webhook(f"{path}: webhooks.{name}", name, told, known) for name, told in tables.items()}


def _webhook(place: str, name: str, told: Any, environment: Mapping[str, str]) -> TakenFrom:
    if not _NAME.fullmatch(name):
        raise Misconfigured(f"{place}: a name has the characters a-z 0-9 _ -")
    if not isinstance(told, dict) or set(told) - _WORDS:
        raise Misconfigured(f"{place}: is a table with some of {', '.join(sorted(_WORDS))}")
    try:
        tenant = str(told.get("tenant", DEFAULT_TENANT))
        check_name("tenant", tenant)
        made = Webhook(
            name,
            secrets=_secrets(place, told.get("secret"), environment),
            scheme=told.get("scheme", "standard"),
            outcome=_outcome(place, told),
            effect=_path(place, told["effect"]) if "effect" in told else None,
            tolerance=timedelta(seconds=float(told.get("tolerance_s", 300))),
        )
    except (BadCall, TypeError, ValueError) as problem:
        raise Misconfigured(f"{place}: {problem}") from problem
    return TakenFrom(made, tenant)


def _secrets(place: str, told: Any, environment: Mapping[str, str]) -> list[str]:
    """Read secrets from the environment: a file is no place for them."""
    found = []
    for one in told if isinstance(told, list) else [told]:
        if not isinstance(one, dict) or set(one) != {"env"} or not isinstance(one["env"], str):
            raise Misconfigured(f'{place}: secret is {{ env = "VARIABLE" }}, or a list of them while you rotate it')
        if not environment.get(one["env"]):
            raise Misconfigured(f"{place}: secret is in ${one['env']}, which is not set")
        found.append(environment[one["env"]])
    return found


def _outcome(place: str, told: Mapping[str, Any]) -> Callable[[Any], Outcome | None]:
    events = {name: told[name] for name in _OF_EVENTS if name in told}
    if "outcome" in told:
        if events:
            raise Misconfigured(f"{place}: give outcome, or {', '.join(_OF_EVENTS)}, not both")
        return function_at(place, told["outcome"], "outcome")
    if not events and told.get("scheme") == "stripe":
        return stripe_event
    for name in ("succeeded", "failed"):
        listed = events.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise Misconfigured(f"{place}: {name} is a list of the names of events")
    for name in ("kind", "value", "error"):
        if name in events:
            _path(place, events[name])
    if not events.get("succeeded") and not events.get("failed"):
        raise Misconfigured(f"{place}: say what events mean: succeeded = […] and failed = […], or outcome = a function")
    return by_events(**events)


def _path(place: str, told: Any) -> str:
    if not isinstance(told, str) or not told:
        raise Misconfigured(f"{place}: a path is a text such as data.object.metadata.indelible_effect")
    return told
