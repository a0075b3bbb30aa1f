"""What a ledger behind a server needs: that each server is there, can work, and lets the token in."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from indelible import Ledger
from indelible.cli.doctor.command import Check, check_effects, check_skew, told
from indelible.cli.opening import Where
from indelible.errors import IndelibleError, Misconfigured, NotAuthenticated
from indelible.stores import Reach

PATIENCE = 5.0


def examine(place: Where) -> Iterator[Check]:
    """Looks at each server that the address names, then at what the token lets us see."""
    try:
        import httpx2
    except ImportError:
        yield Check("server", "bad", "the HTTP client is not installed", "pip install 'indelible[http]'")
        return
    trusted = os.environ.get("INDELIBLE_CA")
    try:
        Reach(allow_http=True).servers(place.address)
        verify = True if not trusted else ssl.create_default_context(cafile=trusted)
    except Misconfigured as problem:
        yield told("server", problem, "mend the address in --url or INDELIBLE_URL")
        return
    except OSError as problem:
        yield Check("server", "bad", f"INDELIBLE_CA={trusted} cannot be used: {problem}", "name a file of certificates")
        return
    with httpx2.Client(timeout=PATIENCE, verify=verify) as client:
        for server in place.address.split(","):
            address = server.strip().rstrip("/")
            try:
                answer = client.get(f"{address}/readyz")
            except httpx2.HTTPError as problem:
                says = f"{address} does not answer: {type(problem).__name__}"
                yield Check("server", "bad", says, "start it: indelible serve; or name another with --url")
                continue
            yield from check_ready(address, answer.status_code, _content(answer))
            if "date" in answer.headers:
                yield check_skew(parsedate_to_datetime(answer.headers["date"]), datetime.now(UTC))
    yield from check_token(place)


def check_ready(address: str, status: int, told: Any) -> Iterator[Check]:
    """Can this server work, and does somebody go the rounds?"""
    try:
        state, store, worker, sealing = told["status"], told["store"], told["worker"], told["sealing"]
        schema, lag, problems = store["schema_version"], sealing["lag_s"], worker["problems"]
    except (KeyError, TypeError):
        yield Check("server", "bad", f"{address} is no Indelible server (status {status})", "look at --url")
        return
    if state == "ready":
        yield Check("server", "ok", f"{address} is ready, schema {schema}")
    else:
        yield Check("server", "bad", f"{address} is {state}: {told.get('detail')}", "look at the server's log")
    if worker["status"] == "nobody":
        fix = "start a server without --no-worker, or: indelible worker --all-tenants"
        yield Check("worker", "warn", "nobody seals, sends and clears up", fix)
    elif problems:
        said = f"{problems} of its duties cannot be done at the moment"
        yield Check("worker", "warn", said, "look at the server's log for: indelible.server.worker")
    elif worker["status"] == "elsewhere":
        yield Check("worker", "ok", "this server has none: indelible worker has to run beside it")
    else:
        yield Check("worker", "ok", f"{worker['status']}")
    if sealing["status"] == "late":
        yield Check("sealing", "warn", f"{lag:.0f} s behind", "look at the server's log for: seal")


def check_token(place: Where) -> Iterator[Check]:
    """Does the token let us in, and what waits in its tenant?"""
    try:
        with Ledger.open(place.address, wakeups=False) as ledger:
            yield Check("token", "ok", f"lets us in, for tenant {ledger.tenant}")
            yield from check_effects(ledger, place, datetime.now(UTC))
    except NotAuthenticated as error:
        fix = "set INDELIBLE_TOKEN to a token of: indelible apikeys create NAME --scope auditor"
        yield told("token", error, fix)
    except Misconfigured as error:
        yield told("token", error)
    except IndelibleError as error:
        yield told("token", error, "see to the server, then run indelible doctor again")


def _content(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
