"""The raw limit on PostgreSQL: the least SQL that keeps an effect, its run's head and one event per transition.

One caller sends one statement per transition, prepared and autocommitted: two durable transactions a call. The lane is
the same work for many callers: whatever waits is flushed by one thread in one statement over arrays.
There is no policy, no lease, no fence, no canonical encoding and no waiting here: nothing can be faster and still be
a ledger, so it is the yardstick and not a rival.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks.calls import RESULT, TOOL, Call
from benchmarks.contestant import Blocking
from benchmarks.raw_lane import Lane, Transition, claim_of, key_of, settlement_of

SCHEMA = """
CREATE TABLE IF NOT EXISTS raw_run (
    tenant text NOT NULL, run_id text NOT NULL, seq bigint NOT NULL, head bytea NOT NULL,
    PRIMARY KEY (tenant, run_id));
CREATE TABLE IF NOT EXISTS raw_effect (
    tenant text NOT NULL, run_id text NOT NULL, key bytea NOT NULL, tool text NOT NULL, status text NOT NULL,
    args bytea NOT NULL, result bytea,
    PRIMARY KEY (tenant, run_id, key));
CREATE TABLE IF NOT EXISTS raw_event (
    tenant text NOT NULL, run_id text NOT NULL, seq bigint NOT NULL, hash bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (tenant, run_id, seq));
"""

CLAIM = """
WITH effect AS (
    INSERT INTO raw_effect (tenant, run_id, key, tool, status, args)
    VALUES ('default', %(run)s, %(key)b, %(tool)s, 'processing', %(payload)b)
), run AS (
    INSERT INTO raw_run (tenant, run_id, seq, head) VALUES ('default', %(run)s, 0, %(hash)b)
    ON CONFLICT (tenant, run_id) DO UPDATE SET seq = raw_run.seq + 1, head = excluded.head
    RETURNING seq
)
INSERT INTO raw_event (tenant, run_id, seq, hash, body)
SELECT 'default', %(run)s, run.seq, %(hash)b, %(body)b FROM run
"""

SETTLE = """
WITH effect AS (
    UPDATE raw_effect SET status = 'succeeded', result = %(payload)b
    WHERE tenant = 'default' AND run_id = %(run)s AND key = %(key)b AND status = 'processing'
    RETURNING 1
), run AS (
    UPDATE raw_run SET seq = seq + 1, head = %(hash)b
    WHERE tenant = 'default' AND run_id = %(run)s
    RETURNING seq
)
INSERT INTO raw_event (tenant, run_id, seq, hash, body)
SELECT 'default', %(run)s, run.seq, %(hash)b, %(body)b FROM run, effect
"""

REPLAY = """
SELECT status, result FROM raw_effect WHERE tenant = 'default' AND run_id = %(run)s AND key = %(key)b
"""

# Claims and settlements of one batch in one statement. A run takes part once in a batch, because its caller waits; were
# another process to move its head meanwhile, the event's primary key would refuse the whole statement.
# The tenant comes as a column: as a constant it would tempt the planner to read all of the tenant's rows.
BATCH = """
WITH claimed AS MATERIALIZED (
    SELECT 'default'::text AS tenant, c.*
    FROM unnest(%(claim_runs)b::text[], %(claim_keys)b::bytea[], %(claim_payloads)b::bytea[],
                %(claim_hashes)b::bytea[], %(claim_bodies)b::bytea[]) AS c (run_id, key, payload, hash, body)
), settled AS MATERIALIZED (
    SELECT 'default'::text AS tenant, s.*
    FROM unnest(%(settle_runs)b::text[], %(settle_keys)b::bytea[], %(settle_payloads)b::bytea[],
                %(settle_hashes)b::bytea[], %(settle_bodies)b::bytea[]) AS s (run_id, key, payload, hash, body)
), headed AS MATERIALIZED (
    SELECT c.*, coalesce(r.seq + 1, 0) AS seq FROM claimed AS c
    LEFT JOIN raw_run AS r ON r.tenant = c.tenant AND r.run_id = c.run_id
), opened AS (
    INSERT INTO raw_effect (tenant, run_id, key, tool, status, args)
    SELECT tenant, run_id, key, %(tool)s, 'processing', payload FROM headed
), closed AS (
    UPDATE raw_effect AS e SET status = 'succeeded', result = s.payload FROM settled AS s
    WHERE e.tenant = s.tenant AND e.run_id = s.run_id AND e.key = s.key AND e.status = 'processing'
), started AS (
    INSERT INTO raw_run (tenant, run_id, seq, head) SELECT tenant, run_id, seq, hash FROM headed
    ON CONFLICT (tenant, run_id) DO UPDATE SET seq = excluded.seq, head = excluded.head
), moved AS (
    UPDATE raw_run AS r SET seq = r.seq + 1, head = s.hash FROM settled AS s
    WHERE r.tenant = s.tenant AND r.run_id = s.run_id
    RETURNING s.tenant, s.run_id, r.seq, s.hash, s.body
)
INSERT INTO raw_event (tenant, run_id, seq, hash, body)
SELECT tenant, run_id, seq, hash, body FROM headed
UNION ALL
SELECT tenant, run_id, seq, hash, body FROM moved
"""

# Every row is reached by its primary key. A planner that has no statistics yet would rather read all of a tenant.
LANE_SETTINGS = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


def prepare(url: str) -> None:
    """Creates the raw tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SCHEMA)


def _row(step: Transition) -> dict[str, Any]:
    return {
        "run": step.run,
        "key": step.key,
        "payload": step.payload,
        "hash": step.hash,
        "body": step.body,
        "tool": TOOL,
    }


class RawOne(Blocking):
    """One caller, one connection, two prepared statements."""

    def open(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._cursor = self._connection.cursor()

    def call(self, call: Call) -> Any:
        claim = claim_of(call)
        self._cursor.execute(CLAIM, _row(claim), prepare=True)
        self._cursor.execute(SETTLE, _row(settlement_of(call, claim.key)), prepare=True)
        return RESULT

    def replay(self, call: Call) -> Any:
        self._cursor.execute(REPLAY, {"run": call.run_id, "key": key_of(call)}, prepare=True)
        found = self._cursor.fetchone()
        if found is None:
            raise LookupError(call.run_id)
        return json.loads(found[1])

    def close(self) -> None:
        self._connection.close()


class RawLane(Lane):
    """Many callers, one connection, one statement per batch."""

    def connect(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, options=LANE_SETTINGS)
        self._cursor = self._connection.cursor()

    def write(self, claims: Sequence[Transition], settlements: Sequence[Transition]) -> None:
        columns = _columns("claim", claims) | _columns("settle", settlements) | {"tool": TOOL}
        self._cursor.execute(BATCH, columns, prepare=True)

    def disconnect(self) -> None:
        self._connection.close()


def _columns(word: str, steps: Sequence[Transition]) -> dict[str, Any]:
    return {
        f"{word}_runs": [step.run for step in steps],
        f"{word}_keys": [step.key for step in steps],
        f"{word}_payloads": [step.payload for step in steps],
        f"{word}_hashes": [step.hash for step in steps],
        f"{word}_bodies": [step.body for step in steps],
    }
