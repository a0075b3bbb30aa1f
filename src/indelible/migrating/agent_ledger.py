"""Takes over the table of agent-ledger: what was done there is never done again here.

Its effects keep their keys, so calls find them under `key_scheme="agent-ledger"`. Its table is only read, and taking it
over twice changes nothing: so whoever was stopped starts again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

from indelible.core.commands import Adopt, Illegal
from indelible.core.effects.calls import Resource, ToolCall
from indelible.core.effects.effect import Actor, Effect, Status
from indelible.core.effects.identity import identify
from indelible.core.events import instant, instant_or_none
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, IndelibleError, Misconfigured
from indelible.ledger import Ledger
from indelible.migrating.taking import Progress, Taking, untold

TABLE = "effects"
COLUMNS = (
    *("id", "idem_key", "workflow_id", "call_id", "tool", "status", "args_canonical", "resource_id_canonical"),
    *("result", "error", "dedup_count", "created_at", "completed_at"),
)
"""Are those of its table that are read; they are the same in 0.1.1 and 0.2.1."""
_AT_ONCE = 200
_BY = Actor("migrate from agent-ledger", "system")
_UNDER_WAY = "it was under way in agent-ledger when it was taken over; nobody knows what came of it"
# What each status becomes. What waited for a person waits for one here: who approved it there is not on record.
_BECOMES: Mapping[str, Status] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "denied": "denied",
    "canceled": "canceled",
    "processing": "in_doubt",
}
_ASKED = frozenset({"requires_approval", "ready"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Is one effect as agent-ledger's table has it."""

    id: str
    idem_key: str
    workflow_id: str
    call_id: str
    tool: str
    status: str
    args_canonical: str
    resource_id_canonical: str
    result: Any
    error: Any
    dedup_count: int
    created_at: datetime
    completed_at: datetime | None

    @property
    def call(self) -> ToolCall:
        """Gives the call it is of, as the face makes it; raises `BadCall` when no call can be so."""
        try:
            args = json.loads(self.args_canonical)
        except ValueError as problem:
            raise BadCall(f"its arguments are no JSON: {problem}") from problem
        resource = None
        if self.resource_id_canonical not in ("", self.tool):
            resource = Resource(namespace="agent-ledger", type="resource", id=self.resource_id_canonical)
        return ToolCall(
            tool=self.tool,
            args=args,
            run_id=self.workflow_id,
            resource=resource,
            call_id=self.call_id or None,
            adopted_key=self.idem_key,
        )

    @property
    def effect_id(self) -> str:
        """Gives the id it gets here: the same each time, in the order of when it was made."""
        millis = int(self.created_at.timestamp() * 1000)
        return f"eff_{max(millis, 0):012x}{sha256(self.id.encode()).hexdigest()[:16]}"


def effect_of(row: Row, tenant: str) -> Effect | Literal["ask"]:
    """Gives the effect that a row becomes, or says that somebody has to be asked; raises `BadCall` if it has none."""
    call = row.call
    if row.status in _ASKED:
        return "ask"
    status = _BECOMES.get(row.status)
    if status is None:
        raise BadCall(f"its status {row.status!r} is not known")
    identity = identify(call, tenant)
    return Effect(
        tenant=tenant,
        scope=identity.ref.scope,
        key=identity.ref.key,
        id=row.effect_id,
        run_id=call.run,
        tool=call.tool,
        side_effect="external_mutation",
        on_crash="hold",
        call_id=call.call_id,
        digest=identity.digest,
        status=status,
        attempt=0 if status in ("denied", "canceled") else 1,
        version=1,
        token_hash="0" * 64,
        lease_until=None,
        opened_seq=0,
        detail_seq=0,
        created_at=row.created_at,
        updated_at=row.completed_at or row.created_at,
        args_json=identity.args_json,
        detail_json=encode(_detail(row, status), root="result"),
    )


def _detail(row: Row, status: Status) -> Any:
    """Gives the recorded result, error or reason, whichever the status calls for."""
    if status == "succeeded":
        return row.result
    if status == "in_doubt":
        return _UNDER_WAY
    told = row.error if isinstance(row.error, Mapping) else {}
    message = str(told.get("message") or f"{row.status} in agent-ledger")
    return {"message": message, "type": str(told.get("code") or "Error")} if status == "failed" else message


def origin_of(row: Row) -> bytes:
    """Gives what is on the record of where an effect comes from: its id, its times and how it stood there."""
    told = {
        "ledger": "agent-ledger",
        "id": row.id,
        "status": row.status,
        "created_at": instant(row.created_at),
        "completed_at": instant_or_none(row.completed_at),
        "dedup_count": row.dedup_count,
    }
    return encode(told, root="origin")


class Reading:
    """Reads the table, oldest first, as it was at one moment."""

    def __init__(self, connection: Any, table: str) -> None:
        from psycopg.sql import SQL, Identifier  # only who uses PostgreSQL has the driver

        self._connection = connection
        named = {"table": Identifier(*table.split(".")), "columns": SQL(", ").join(map(Identifier, COLUMNS))}
        self._counting = SQL("SELECT count(*) FROM {table}").format(**named)
        self._listing = SQL("SELECT {columns} FROM {table} ORDER BY created_at, id").format(**named)

    def count(self) -> int:
        """Counts its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(self._counting)
            return int(cursor.fetchone()[0])

    def rows(self) -> Iterator[Row]:
        """Gives its rows, some at a time."""
        with self._connection.cursor(name="indelible_migrating") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._listing)
            for found in cursor:
                row = dict(zip(COLUMNS, found, strict=True))
                yield Row(**{**row, "id": str(row["id"])})


@contextmanager
def reading(url: str, table: str = TABLE) -> Iterator[Reading]:
    """Opens agent-ledger's table to be read, and nothing else."""
    try:
        import psycopg  # only who uses PostgreSQL has the driver
    except ImportError as missing:
        raise Misconfigured(
            f"PostgreSQL needs psycopg ({missing}); run: pip install 'indelible[postgres]'"
        ) from missing
    try:
        with psycopg.connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            yield Reading(connection, table)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as problem:
        raise Misconfigured(f"there is no table {table} of agent-ledger's; name it with --table") from problem
    except psycopg.errors.UndefinedColumn as problem:
        raise Misconfigured(f"the table {table} is not agent-ledger's: {problem.diag.message_primary}") from problem
    except psycopg.Error as problem:
        # The driver's own words name no password, unless it cannot read the address.
        is_unread = isinstance(problem, psycopg.ProgrammingError) and problem.sqlstate is None
        said = "this is no address of a PostgreSQL database" if is_unread else str(problem).partition("\n")[0]
        raise Misconfigured(
            f"agent-ledger's database cannot be read: {said}. Name it as in postgresql://user@host/database, and "
            "connect as a user who may read its table"
        ) from problem


def take_over(ledger: Ledger, source: Reading, *, progress: Progress = untold) -> Taking:
    """Takes all rows over; what has no place here is left out and named, and everything else comes."""
    taking, total = Taking(), source.count()
    some: list[tuple[Row, Effect]] = []
    done = 0
    for row in source.rows():
        done += 1
        try:
            effect = effect_of(row, ledger.tenant)
            if effect == "ask":
                _ask(ledger, row, taking)
            else:
                some.append((row, effect))
        except IndelibleError as problem:
            taking.leave_out(row.id, str(problem))
        if len(some) == _AT_ONCE:
            _adopt(ledger, some, taking)
            some = []
            progress(done, total)
    _adopt(ledger, some, taking)
    progress(done, total)
    taking.not_verified.append("agent-ledger signs nothing: the table is taken at its word")
    return taking


def _adopt(ledger: Ledger, some: Sequence[tuple[Row, Effect]], taking: Taking) -> None:
    """Takes some over in one transaction; those that are here already stay as they are."""
    here = ledger._engine.store.look([effect.ref for _, effect in some]).effects
    commands = []
    for (row, effect), known in zip(some, here, strict=True):
        if known is None:
            stamp = ledger._mint.stamp(_BY, 4)
            commands.append(Adopt(effect=effect, stamp=stamp, origin_json=origin_of(row)))
        elif known.id == effect.id:
            taking.became["here already"] += 1
        else:
            taking.leave_out(row.id, f"its key belongs to {known.id} here, which is {known.status}")
    for command, answer in zip(commands, ledger._engine.writer.do_together(commands) if commands else (), strict=True):
        if isinstance(answer, Illegal):  # somebody made the same call while it was taken over
            taking.leave_out(command.effect.id, f"{answer.effect.id} {answer.why}")
        else:
            taking.became[command.effect.status] += 1


def _ask(ledger: Ledger, row: Row, taking: Taking) -> None:
    """Asks about a call that waited for a person there, unless it is here."""
    call = row.call
    is_here = ledger._engine.store.look([identify(call, ledger.tenant).ref]).effects[0] is not None
    if not is_here:
        ledger.ask(call, approval="required")
    taking.became["here already" if is_here else "requires_approval"] += 1
