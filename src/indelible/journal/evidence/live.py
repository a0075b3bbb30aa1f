"""A live ledger as evidence: its journal, read through the store. Others may write meanwhile: sizes are fixed first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from indelible.core.journal.journal import Entry, Tree, Waiting
from indelible.core.journal.merkle import HASH_BYTES, leaf_hash
from indelible.core.journal.notes import TreeHead, parse_head, parse_note
from indelible.core.journal.tiles import WIDTH, tile_path
from indelible.core.macs import Macs, is_after_losses, losses_needed
from indelible.core.ports import Store
from indelible.core.verifying.bodies import EffectBody, quoted, read_effect_body
from indelible.core.verifying.examination import Row
from indelible.core.verifying.findings import CannotTell, Caught, Tail
from indelible.core.verifying.payloads import Disclosed
from indelible.core.verifying.unsealed import is_by_holder
from indelible.errors import BadNote, JournalError, KeyUnusable, StoreError
from indelible.journal.evidence.evidence import Evidence
from indelible.journal.evidence.live_tables import Tables
from indelible.journal.sealing import is_elsewhere

_PAGE = 512
_TRIES = 5
_MOST_WAITING = 100_000
_LOWEST = -(2**62)


class LiveEvidence(Evidence):
    """Reads a tenant's journal out of its store."""

    has_values = True
    withheld = 0

    def __init__(self, store: Store, tenant: str, seal: Callable[[], object] | None = None) -> None:
        """Read the journal of a tenant; `seal` signs what is not signed yet, where the key is at hand."""
        self.source = f"tenant {tenant} of {store.address}"
        self.given_tile = self._tile
        self.tables = Tables(store, tenant)
        self._store = store
        self._tenant = tenant
        self._heads: list[tuple[str, bytes]] = []
        self._tree = Tree(0, b"")
        self._seal = seal
        self._last: TreeHead | None = None
        self.tail = Tail(0)
        self.is_left = False
        """Was the tenant moved to another database, as the signed part says? Then the newest head is there."""
        self.remarks: list[str] = []

    def prepare(self) -> None:
        """Seals, where it can, then fixes what is looked at: the heads, the tree and what waits as they are now."""
        for _ in range(_TRIES if self._seal is not None else 1):  # others may be writing
            if self._seal is not None:
                self._seal_first(self._seal)
            # The memory before the heads and the heads before the tree: each is covered by what is read after it.
            self._last = self._read_memory()
            self._read_heads()
            self._tree = self._store.journal.tree(self._tenant)
            if self._heads and self._count_tail() == 0:
                break
        for name, content in self._heads:
            self._check_place(name, content.decode())
        if self._heads:
            self.is_left = is_elsewhere(self._store, self._tenant) and not self.tail.events
            return
        if self._last is not None:
            what = f"the signer signed {self._last.size} entries, and no signed head is here: they were taken out"
            raise Caught(what, expected=f"a head of {self._last.size} entries", found="none")
        raise CannotTell("no head was signed yet: run: indelible journal seal")

    def _seal_first(self, seal: Callable[[], object]) -> None:
        try:
            seal()
        # A ledger that lacks what was signed, or whose tree was changed, is found out by what is compared; and a user
        # of the database may be one who only reads.
        except (JournalError, StoreError) as problem:
            self.remarks = [f"it could not be sealed first: {problem}"]

    def _count_tail(self) -> int:
        newest = parse_head(parse_note(self._heads[0][1]).text)
        if self._last is not None and self._last.size < newest.size and self._read_memory() == newest:
            self._last = newest  # it was signed while the heads were read
        events = self._tree.size - newest.size + self._store.journal.waiting(self._tenant)
        self.tail = Tail(events, events > 0 and self._is_by_holders(newest.size))
        return events

    def _is_by_holders(self, signed: int) -> bool:
        """Say whether key holders wrote every event past the newest head; False where the writer keys are not here."""
        if self._store.macs is None:
            return False
        macs, journal = self._store.macs(self._tenant), self._store.journal
        places = {(run_id, seq): hash_ for run_id, seq, hash_ in journal.pending(self._tenant, _MOST_WAITING + 1)}
        if len(places) > _MOST_WAITING:
            return False
        # After those that wait, so that one which is taken into the tree meanwhile is not missed.
        for start in range(signed, journal.tree(self._tenant).size, _PAGE):
            entries = journal.entries(self._tenant, start, _PAGE)
            if not entries:  # the tree says that it has more
                return False
            places |= {(entry.run_id, entry.seq): entry.hash for entry in entries}
        try:
            losses = losses_needed(macs.newest, signed)
            return all(self._is_by_holder(macs, losses, *place, hash_) for place, hash_ in places.items())
        except KeyUnusable:
            return False

    def _is_by_holder(self, macs: Macs, losses: int, run_id: str, seq: int, hash_: str) -> bool:
        found = self._store.events(self._tenant, run_id, seq - 1, 1)
        if not found or found[0].seq != seq:
            return False
        one = Waiting(run_id, seq, bytes.fromhex(hash_), found[0].body, found[0].mac)
        return is_by_holder(macs, one) and is_after_losses(found[0].read()["type"], found[0].mac, losses)

    def _read_memory(self) -> TreeHead | None:
        compare = self._store.compare
        try:
            return None if compare is None else compare.last(self._store.origin(self._tenant))
        except KeyUnusable as problem:
            raise CannotTell(f"what was signed cannot be read: {problem}") from problem

    def remembered(self, origin: str) -> TreeHead | None:
        """Is what the folder of keys said, where it is at hand."""
        return self._last

    def _read_heads(self) -> None:
        """Reads the heads; the tree is read after them, so that it covers them."""
        self._heads = []
        journal = self._store.journal
        up_to: int | None = None
        while page := journal.heads(self._tenant, _PAGE, up_to):
            for note in page:
                size = self._size_in(note)
                if up_to is not None and size > up_to:
                    raise Caught(
                        "a signed head is kept under another size than its own", expected=str(up_to), found=str(size)
                    )
                self._heads.append((f"the kept head of size {size}", note.encode()))
                up_to = size - 1

    def _size_in(self, note: str) -> int:
        try:
            return parse_head(parse_note(note).text).size
        except BadNote as problem:
            raise Caught(f"a kept head cannot be read: {problem}") from problem

    def _check_place(self, name: str, note: str) -> None:
        """Raises unless the head is found under its own size; the column is no part of what was signed."""
        size, heads = self._size_in(note), self._store.journal.heads
        if heads(self._tenant, 1, size)[:1] != [note] or heads(self._tenant, 1, size - 1)[:1] == [note]:
            raise Caught(f"{name} is kept under another size than its own")

    def newest(self) -> tuple[str, bytes]:
        """Is the largest head."""
        name, note = self._heads[0]
        origin, own = parse_head(parse_note(note).text).origin, self._store.origin(self._tenant)
        if origin != own:
            raise Caught("the ledger has another name than its journal was signed with", expected=origin, found=own)
        return name, note

    def older(self) -> list[tuple[str, bytes]]:
        """Is every other head."""
        return self._heads[1:]

    def size(self, signed: int) -> int:
        """Is the whole tree, also what nobody signed yet."""
        return self._tree.size

    def _tile(self, level: int, number: int, width: int) -> bytes:
        try:
            tile = self._store.journal.tile(self._tenant, level, number)
        except LookupError:
            raise Caught(f"{tile_path(level, number, width)} is gone from the database") from None
        has_grown = len(tile) > width * HASH_BYTES and self._store.journal.tree(self._tenant).size > self._tree.size
        return tile[: width * HASH_BYTES] if has_grown else tile

    def rows(self, size: int) -> Iterator[Row]:
        """Reads entries, each with the values that are kept for it."""
        for start in range(0, size, WIDTH):
            width = min(WIDTH, size - start)
            entries = self._store.journal.entries(self._tenant, start, width)
            for index, entry in zip(range(start, start + width), [*entries, None], strict=False):
                if entry is None or entry.index != index:
                    raise Caught("it is gone from the database", index=index)
                _check_place(entry)
            signatures = {entry.index: entry.signature for entry in entries if entry.signature is not None}
            yield Row([entry.body for entry in entries], self._values(entries), signatures)

    def _values(self, entries: list[Entry]) -> dict[int, dict[str, Disclosed]]:
        places: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for entry in entries:
            places[entry.run_id][entry.seq] = entry.index
        shown: dict[int, dict[str, Disclosed]] = defaultdict(dict)
        for run_id, indexes in places.items():
            for payload in self._store.payloads(self._tenant, run_id, list(indexes)):
                index = indexes[payload.seq]
                shown[index][payload.field] = Disclosed(index, payload.field, payload.salt, payload.value)
        return shown

    def check_tree(self, size: int, root: bytes) -> None:
        """Raises `Caught` unless the tree's row is what the entries give, and no leaf lies outside of it."""
        if root != self._tree.root:
            what = "the root kept for the tree is not that of its entries"
            raise Caught(what, expected=root.hex(), found=self._tree.root.hex())
        journal, tenant = self._store.journal, self._tenant
        outside = journal.entries(tenant, _LOWEST, -_LOWEST) or journal.entries(tenant, size, 1)
        if outside and not 0 <= outside[0].index < journal.tree(tenant).size:
            raise Caught("a leaf lies outside of the tree", index=outside[0].index)


def _check_place(entry: Entry) -> None:
    if leaf_hash(entry.body).hex() != entry.hash:
        what = "its content is not what the leaf kept for it says"
        raise Caught(what, index=entry.index, run=entry.run_id, seq=entry.seq)
    values = read_effect_body(entry.body.decode("utf-8", "replace"))
    if values is not None and (EffectBody(*values).run, EffectBody(*values).seq) != (
        quoted(entry.run_id),
        str(entry.seq),
    ):
        raise Caught(
            "the leaf names another event than its content", index=entry.index, run=entry.run_id, seq=entry.seq
        )
