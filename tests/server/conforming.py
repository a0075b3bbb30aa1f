"""schemathesis asks everything that the description tells of, in every way it can think of, of a real server.

    python -m tests.server.conforming --requests 20000 --store sqlite
    python -m tests.server.conforming --requests 20000 --store postgres

An answer that is our fault, or that is not described, is a failure, and so is one without a credential that was let in,
a method that was not refused, and nonsense that was taken.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from tests.postgres import PostgresServer
from tests.server.places import WHO, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
)
# Left out: `positive_data_acceptance`, for a description cannot say everything (a filter's grammar, a tool that is
# there); `allow_header_conformance`, for it takes `/runs/start` for another address than `/runs/{run_id}`; those about
# links between operations; and the time of answers, which says nothing on a machine that others use.
ENDLESS = "/v1/events/stream"


@dataclass
class Conformity:
    """Is what was seen."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)

    def take(self, event: Any) -> None:
        """Counts what one scenario sent, and keeps what was wrong."""
        recorder = event.recorder
        for case_id, told in recorder.interactions.items():
            self.requests += 1
            self.statuses[told.response.status_code if told.response else 0] += 1
            if told.response is None:
                self.failures[f"{recorder.label}: no answer"] = case_id
            elif (wrong := wrong_with_problem(told.response)) is not None:
                self.failures[f"{recorder.label}: {wrong}"] = case_id
        if recorder.interactions:
            self.operations.add(recorder.label)
        for checks in recorder.checks.values():
            for check in checks:
                if check.status is Status.FAILURE and check.failure_info is not None:
                    failure = check.failure_info.failure
                    name = f"{recorder.label}: {check.name}: {failure.title}: {failure.message}"[:600]
                    self.failures.setdefault(name, check.failure_info.code_sample)


def wrong_with_problem(response: Any) -> str | None:
    """Says what is wrong with a problem beside its form: its type is none, or does not come with this status."""
    if response.headers.get("content-type", [""])[0] != "application/problem+json" or not response.content:
        return None
    problem = json.loads(response.content)
    told = PROBLEM_TYPES.get(problem["type"].removeprefix(PROBLEMS))
    is_told = told is not None and response.status_code == problem["status"] and problem["status"] in told.statuses
    return None if is_told else f"{problem['type']} is not told with {response.status_code}"


NOT_SENT = {"wait", "Idempotency-Key"}
"""Are left out: the first would make each request last, and generated keys are mostly the same one, so that most
answers would be about the key. `test_nonsense` and `test_repeating` send them."""


def asked_of(description: dict[str, Any]) -> dict[str, Any]:
    """Gives the description as it is asked through: without what never ends."""
    told = copy.deepcopy(description)
    told["paths"].pop(ENDLESS, None)
    for methods in told["paths"].values():
        for operation in methods.values():
            operation["parameters"] = [one for one in operation.get("parameters", []) if one["name"] not in NOT_SENT]
    for schema in told["components"]["schemas"].values():
        schema.get("properties", {}).pop("wait_s", None)
    return told


def conform(place: Place, who: str, *, examples: int, coverage: bool, seed: int, seen: Conformity) -> None:
    """Asks everything once more as one of `WHO`, and adds what was seen."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "base-url": place.served.url,
            "headers": place.headers(who),
            "continue-on-failure": True,
            "request-timeout": 60,
            "workers": 1,
            "generation": {"max-examples": examples, "database": "none", "no-shrink": True},
            "phases": {
                "examples": {"enabled": coverage},
                "coverage": {"enabled": coverage},
                "fuzzing": {"enabled": examples > 0},
                "stateful": {"enabled": False},
            },
            "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
        }
    )
    schema = schemathesis.openapi.from_dict(asked_of(place.described.openapi), config=config)
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            seen.take(event)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            info = getattr(event, "info", event)
            seen.failures.setdefault(f"{getattr(event, 'label', '')}: {getattr(info, 'title', '')} {info}"[:600], "")


def prepared(place: Place) -> None:
    """Leaves something of each kind, so that there is something to find."""
    claim = place.begin(run_id="run-1").json()
    place.commit(claim)
    place.begin(run_id="run-2", approval="required", args={"amount": 7})
    place.post("/v1/runs", {"agent": "a", "run_id": "run-3", "token": "a token of our own"})
    place.ledgers.of("acme")._seal()


def is_whole(place: Place) -> str:
    """Verifies the journal of everything that was recorded meanwhile."""
    (key,) = place.get("/.well-known/indelible-keys.json", "auditor").json()["keys"]
    place.ledgers.of("acme")._seal()
    report = place.post("/v1/journal/verify", {"keys": [key["vkey"]], "deep": True}, "auditor").json()
    return str(report["verdict"])


@contextmanager
def store_at(kind: str, folder: Path) -> Iterator[str]:
    """Gives the address of an empty store."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}"
        return
    with PostgresServer() as server:
        yield server.create_database("conforming")


def main() -> int:
    """Asks until so many requests were sent; says what was seen."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--requests", type=int, default=20_000)
    words.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    words.add_argument("--seed", type=int, default=6)
    told = words.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["INDELIBLE_KEYS"] = str(folder / "keys")
        with store_at(told.store, folder) as url:
            place = Place(url, keys=folder / "keys")
            seen = Conformity()
            try:
                prepared(place)
                people = ["admin", *(who for who in WHO if who != "admin")]
                round_ = 0
                while seen.requests < told.requests:
                    who = people[round_ % len(people)]
                    conform(place, who, examples=25, coverage=round_ < 2, seed=told.seed + round_, seen=seen)
                    place.post("/v1/stop/end", {"reason": "whoever asked everything asked for that too"}, "admin")
                    round_ += 1
                    print(f"{seen.requests} requests, {len(seen.failures)} failures, last by {who}", flush=True)
                verdict = is_whole(place)
            finally:
                place.close()
    for failure, how in seen.failures.items():
        print(f"\n{failure}\n{how}")
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(seen.statuses.items()))
    print(f"\n{told.store}: {seen.requests} requests to {len(seen.operations)} operations; {statuses}")
    print(f"{len(seen.failures)} failures; the journal is {verdict}")
    return 1 if seen.failures or verdict != "verified" else 0


if __name__ == "__main__":
    sys.exit(main())
