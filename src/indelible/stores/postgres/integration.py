"""Takes waiting events into a tree: one transaction, which may be carried out again when its end got lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indelible.core.journal.journal import Examine, Places, Tree, Waiting
from indelible.core.journal.merkle import EMPTY_ROOT
from indelible.core.journal.tiles import Growth, ReadTile, grow
from indelible.errors import OutcomeUnknown, StoreUnavailable
from indelible.stores.postgres import wire
from indelible.stores.postgres.connections import Lost, Session
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.lane import BEGIN, COMMIT, ROLLBACK
from indelible.stores.postgres.rows import Named
from indelible.stores.postgres.statements import SQL

# A transaction has to end within the time that one call has, and a try may have failed because it took too many. So the
# next one takes a quarter of that, but never so few that a backlog could not be worked off.
_MOST_AGAIN, _LEAST = 16_384, 500


class Integration:
    """Is one integration: what is asked, and whether a try of it may have been committed unheard."""

    def __init__(self, tenant: str, most: int, examine: Examine | None = None) -> None:
        self._examine = examine
        self._barred: set[str] = set()
        self._tenant = tenant
        self._most = most
        self._limit = most
        self._is_sent = False
        self.count = 0

    def carry_out(self, session: Session, until: float) -> Tree | None:
        """Takes waiting events into the tree; None when none wait.

        BEGIN says READ COMMITTED, and that is what this takes. Waiting events are looked for after the tree is locked,
        by a statement with a snapshot of its own, so what the integrator before us took is gone. And nobody can see
        event n+1 of a run without event n: whoever wrote n+1 moved the head that n had left, so n was committed first.
        """
        session.command(BEGIN, until)
        tree = self._lock(session, until)
        limit, self._limit = self._limit, min(self._most, max(min(self._limit, _MOST_AGAIN) // 4, _LEAST))
        waiting = self._take(session, limit, until)
        named = self._examined(session, tree, waiting, until)
        if named:  # what waits is taken again, without these
            self._barred |= named
            session.command(ROLLBACK, until)
            return self.carry_out(session, until)
        if waiting:
            tree = self._grow(session, tree, waiting, until)
        elif not self._is_sent:
            session.command(ROLLBACK, until)
            return None
        # When a commit of ours may have come before, this one makes sure of it: the lock alone is in the server's log.
        self._is_sent = True
        session.command(COMMIT, until)
        if session.is_warned:  # nothing may be signed that a failover could take back
            raise Lost("the wait for the standbys was cut short", may_have_run=True)
        self.count = len(waiting)
        return tree

    def explained(self, problem: StoreUnavailable) -> StoreUnavailable | OutcomeUnknown:
        """Gives what the caller is told when there was no time left to find out more."""
        if not self._is_sent:
            return problem
        return OutcomeUnknown(
            f"events of {self._tenant} were taken into its journal, and whether that was committed could not be learnt "
            f"({problem.__cause__}); integrate again when the server answers, which is safe"
        )

    def _lock(self, session: Session, until: float) -> Tree:
        place = {"tenant": self._tenant.encode()}
        found = _run(session, "lock_tree", place, until)
        if not found.ntuples:
            _run(session, "plant_tree", place | {"root": EMPTY_ROOT}, until)
            found = _run(session, "lock_tree", place, until)
        if not found.ntuples:
            _run(session, "refuse", {}, until)
        tree = tree_from(found)
        assert tree is not None, "it was refused where there is none"
        return tree

    def _take(self, session: Session, most: int, until: float) -> list[Waiting]:
        values = {
            "tenant": self._tenant.encode(),
            "most": wire.bigint(most),
            "barred": wire.words(sorted(self._barred)),
            "is_examined": b"\0" if self._examine is None else b"\1",
        }
        found = _run(session, "take_pending", values, until)
        get: Callable[[int, int], Any] = found.get_value
        return [
            Waiting(get(row, 0).decode(), wire.read_bigint(get(row, 1)), *(get(row, column) for column in (2, 3, 4)))
            for row in range(found.ntuples)
        ]

    def _examined(self, session: Session, tree: Tree, waiting: list[Waiting], until: float) -> set[str]:
        def index_of(run_id: str, seq: int) -> int | None:
            return index_from(_run(session, "leaf_of", place_of(self._tenant, run_id, seq), until))

        places = Places(tree, index_of, self._tiles(session, until))
        return set() if self._examine is None or not waiting else self._examine(waiting, places)

    def _tiles(self, session: Session, until: float) -> ReadTile:
        def read_tile(level: int, number: int) -> bytes:
            place = {"tenant": self._tenant.encode(), "level": wire.bigint(level), "number": wire.bigint(number)}
            return tile_from(_run(session, "tile", place, until), level, number)

        return read_tile

    def _grow(self, session: Session, tree: Tree, waiting: list[Waiting], until: float) -> Tree:
        growth = grow(tree.size, [one.hash for one in waiting], self._tiles(session, until))
        _run(session, "grow_tree", self._values(tree, waiting, growth), until)
        return Tree(growth.size, growth.root)

    def _values(self, tree: Tree, waiting: list[Waiting], growth: Growth) -> Named:
        run_ids, seqs, hashes, *_ = zip(*waiting, strict=True)
        return {
            "tenant": self._tenant.encode(),
            "was_size": wire.bigint(tree.size),
            "run_ids": wire.words(run_ids),
            "seqs": wire.bigints(seqs),
            "hashes": wire.byteas(hashes),
            "levels": wire.bigints(level for level, _ in growth.tiles),
            "numbers": wire.bigints(number for _, number in growth.tiles),
            "tiles": wire.byteas(growth.tiles.values()),
            "size": wire.bigint(growth.size),
            "root": growth.root,
        }


def _run(session: Session, name: str, values: Mapping[str, bytes | None], until: float) -> pq.abc.PGresult:
    return session.run(SQL[name], SQL[name].ordered(values), until)


def tree_from(found: pq.abc.PGresult) -> Tree | None:
    """Reads a row of `tree` or `lock_tree`; None when there is none."""
    if not found.ntuples:
        return None
    size, root = found.get_value(0, 0), found.get_value(0, 1)
    assert size is not None
    assert root is not None
    return Tree(wire.read_bigint(size), root)


def place_of(tenant: str, run_id: str, seq: int) -> Named:
    """Locates an event for `leaf_of`."""
    return {"tenant": tenant.encode(), "run_id": run_id.encode(), "seq": wire.bigint(seq)}


def index_from(found: pq.abc.PGresult) -> int | None:
    """Reads a row of `leaf_of`; None when there is none."""
    leaf = found.get_value(0, 0) if found.ntuples else None
    return None if leaf is None else wire.read_bigint(leaf)


def tile_from(found: pq.abc.PGresult, level: int, number: int) -> bytes:
    """Reads a row of `tile`; raises LookupError when there is none."""
    tile = found.get_value(0, 0) if found.ntuples else None
    if tile is None:
        raise LookupError(f"there is no tile {number} of level {level}")
    return tile
