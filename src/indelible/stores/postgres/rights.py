"""Who may do what in a ledger on PostgreSQL, said once: `indelible migrate` grants it and docs/postgres.md shows it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from indelible.stores.carrying import TABLES as CARRIED

Role = Literal["writer", "eraser", "reader"]
ROLES: tuple[Role, ...] = ("writer", "eraser", "reader")
TABLES = tuple(f"indelible_{table}" for table in ("migrations", *CARRIED))
MAINTAIN = "MAINTAIN"  # PostgreSQL 17 and newer; before, only the owner of a table may vacuum it


class Right(NamedTuple):
    """Is what roles may do with tables, in the words of SQL, and why they need it."""

    roles: tuple[Role, ...]
    words: tuple[str, ...]
    tables: tuple[str, ...]
    why: str


_WRITING: tuple[Role, ...] = ("writer", "eraser")

# UPDATE names columns, and none of a primary key: to rename a row is to hide it, which is as good as DELETE.
# tests/stores/postgres/test_roles.py compares this with queries.sql: the statements need all of it and nothing else.
RIGHTS = (
    Right(ROLES, ("SELECT",), TABLES, "reading, verifying, exporting"),
    Right(
        _WRITING,
        ("INSERT",),
        ("indelible_events", "indelible_payloads", "indelible_leaves", "indelible_redaction"),
        "these rows are written once and never changed",
    ),
    Right(
        _WRITING,
        (
            "INSERT",
            "UPDATE (digest, status, attempt, version, token_hash, lease_until, opened_seq, detail_seq, updated_at, "
            "awaited, approval_id, charges, turn, doubted, mac)",
        ),
        ("indelible_effects",),
        "an effect moves; an approver's edit changes the digest",
    ),
    Right(_WRITING, ("INSERT", "UPDATE (count, head)"), ("indelible_runs",), "each event moves the head of its run"),
    Right(
        _WRITING,
        ("INSERT", "UPDATE (version, status, topic, due_at, run_id, seq, body, created_at, mac)", "DELETE"),
        ("indelible_sheets",),
        "approvals, budgets and notes change; places held for a sheet that was not written, sent messages and expired "
        "sign-ins are deleted",
    ),
    Right(
        _WRITING,
        ("INSERT", "DELETE", MAINTAIN),
        ("indelible_pending",),
        "sealing takes events out of the queue, then vacuums it",
    ),
    Right(_WRITING, ("INSERT", "UPDATE (size, root)"), ("indelible_trees",), "sealing grows the tree"),
    Right(_WRITING, ("INSERT", "UPDATE (hashes)"), ("indelible_tiles",), "sealing fills the last tile of each level"),
    Right(
        _WRITING,
        ("INSERT", "UPDATE (note, at)"),
        ("indelible_heads",),
        "a head with more signatures replaces the head of the same size",
    ),
    Right(("eraser",), ("DELETE", MAINTAIN), ("indelible_payloads",), "erased values are deleted, then vacuumed away"),
    Right(
        ("eraser",),
        (MAINTAIN,),
        ("indelible_effects", "indelible_sheets"),
        "erased digests and notes are vacuumed away",
    ),
)
