"""Looking again and again at many effects that hardly ever move, at little cost.

Every write to the file rings for everybody, and does not say what it was about. So whoever waits for a thousand effects
looks at all of them each time: first only at what shows that one has moved, and then at those that have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw

from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.macs import Macs
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.bulk import select_rows
from indelible.stores.sqlite.pen import read_effect
from indelible.stores.sqlite.statements import SQL

_FEW = 8
_MOST_REMEMBERED = 10_000
_LARGE = 4096  # bytes of arguments that are rather read again than remembered
# Erasing leaves an effect's version as it is, and these are not erased: who waits for them needs what they hold.
_WAITED_FOR = frozenset({"processing", "requires_approval"})

_Mark = tuple[int, int | None]
MacsOf = Callable[[str], Macs | None]


class Watched:
    """Remembers effects as they were read last, each by the mark that tells whether it has changed since."""

    def __init__(self) -> None:
        self._known: dict[Ref, tuple[_Mark, Effect]] = {}

    def look(self, connection: apsw.Connection, refs: Sequence[Ref], macs_of: MacsOf) -> list[Effect | None]:
        """Gives the effects as they are, and reads only those that are not as they were."""
        if len(refs) < _FEW:
            return [read_effect(connection, ref, macs_of(ref.tenant)) for ref in refs]
        try:
            connection.execute("BEGIN")  # all of it at one moment
            marks = _marks(connection, refs)
            return [self._read(connection, ref, marks.get(ref), macs_of) for ref in refs]
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")

    def _read(self, connection: apsw.Connection, ref: Ref, mark: _Mark | None, macs_of: MacsOf) -> Effect | None:
        if mark is None:
            return None
        known = self._known.get(ref)
        if known is not None and known[0] == mark:
            return known[1]
        effect = read_effect(connection, ref, macs_of(ref.tenant))
        self._known.pop(ref, None)
        if effect is not None and effect.status in _WAITED_FOR and len(effect.args_json or b"") < _LARGE:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[ref] = (mark, effect)
        return effect


def _marks(connection: apsw.Connection, refs: Sequence[Ref]) -> dict[Ref, _Mark]:
    found = select_rows(connection, SQL["marks_at"], [rows.place(ref) for ref in refs])
    return {Ref(tenant, scope, key.hex()): (version, lease) for tenant, scope, key, version, lease in found}
