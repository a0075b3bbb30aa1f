"""Macs: what shows that a row was written by a holder of a tenant's writer keys. Pure.

A program that can only write to the database has no key, so a row that it adds or changes is not believed. A tenant
has two keys. The *effects* key is symmetric, and every process that writes has it: each row of events, payloads,
effects and sheets carries a mac made with it. The *rights* key is a pair: credentials, people, grants, votes, the
policy and the stop also carry a signature, which every writer can check and only a holder of the private half can make.

An old row that is put back has a valid mac. So the newest version of each right is remembered outside the database, and
of each budget how many reservations were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from hmac import compare_digest
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from indelible.core.effects.effect import Effect
from indelible.core.policy.budgets import read_budget
from indelible.core.sheets import Sheet, SheetFilter, SheetRef, Sheets
from indelible.core.values.canonical import decode, encode
from indelible.errors import KeyUnusable, RecordForged

if TYPE_CHECKING:
    from indelible.core.events import Payload

KEY_BYTES = 32
MAC_BYTES = 16
SIGNATURE_BYTES = 64
_TABLES = ("event", "payload", "effect", "sheet")
_RIGHT_TAG = b"indelible/right/v1\0"
_KEY_USES = ("effects", "rights")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_list = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode

RIGHTS = frozenset({"credential", "delegation", "grant", "person", "policy", "provider", "stop"})
"""Names the kinds of sheets that give or take a right."""
REMEMBERED = RIGHTS | {"budget"}
"""Names the kinds of sheets whose newest version is remembered outside the database."""
RIGHT_EVENTS = frozenset(
    {"approval_received", "approval_voted", "credential_given", "credential_revoked", "delegation_ended"}
    | {"delegation_given", "effects_let_go", "effects_stopped", "grant_ended", "invitation_ended", "passkey_added"}
    | {"passkey_removed", "person_disallowed", "person_invited", "person_revoked", "person_signed_in"}
    | {"person_signed_out", "policy_applied", "provider_changed"}
    | {"hold_lifted", "hold_placed", "key_registered", "key_revoked", "key_rotated", "log_continued"}
)
"""Names the events that tell of a right, of a legal hold or of the keys that sign, which need the rights key."""
BOUND_EVENTS = RIGHT_EVENTS | {"tool_call_released"}
"""Names the events that are bound to the losses declared before them: put in again later, they would give a right that
ended in the part that is lost, or one more attempt."""
ENDS = "ends"
"""Names the kind of what is remembered of ends: the newest version of a person that took something from them, and of
the tenant's stop."""
LOSSES = SheetRef(ENDS, "losses")
"""Names how many losses were declared."""
OUTLASTING = RIGHTS | {ENDS}
"""Names the kinds that are remembered also where a person declared a loss: what ended does not come back."""
TAKING = frozenset({"passkey_removed", "person_disallowed", "person_invited", "person_revoked"})
"""Names the events that may take something from a person which an older row would give back."""
_USED = frozenset({"before", "uses_left", "version"})
"""What of a grant changes when a call uses it."""
ENDED = 2**53 - 1
"""Is remembered as the version of a grant that a person ended: no version is newer, so no later row revives it."""
_OPEN = ("pending", "approved")
_STOPPED = "stopped"
_LOSS, _LOST = "loss ", "lost "
_BY_NO_HOLDER = "was not written by a holder of the ledger's keys"


Known = Mapping[SheetRef, int]
"""Maps sheets to the newest versions that are known of them."""


class Newest(Protocol):
    """Remembers the newest version of sheets of the remembered kinds, outside the database."""

    def version(self, ref: SheetRef) -> int:
        """Return the newest version that was seen; 0 if none was."""

    def versions(self, kind: str) -> Mapping[SheetRef, int]:
        """Return the newest version of each sheet of a kind, as `version` does; later notes change nothing in it."""

    def kept(self, kinds: Iterable[str]) -> Known:
        """Return what was kept of some kinds, as of one moment, without what was only noted here."""

    def note(self, ref: SheetRef, version: int) -> None:
        """Note a version that was seen."""

    def keep(self, versions: Mapping[SheetRef, int]) -> None:
        """Keep versions that were sealed; MUST be durable when it returns."""

    def reset(self) -> None:
        """Forget all but rights and ends: the ledger goes on from an older state, as a person said."""

    def forget(self) -> None:
        """Forget what was noted here of anything but rights and ends: another process declared a loss."""


class _Right(NamedTuple):
    """Is what of a sheet only the rights key can make; of a grant also how many uses it has at most.

    What is not in force needs no signature, and keeps the one that it has.
    """

    content: bytes
    uses: int = 0
    is_in_force: bool = True


def derived_key(master: bytes, tenant: str, use: str) -> bytes:
    """Return the key of a tenant for `effects`, or the seed of its pair for `rights`."""
    assert use in _KEY_USES, "there are two keys"
    return blake2b(tenant.encode(), key=master, digest_size=KEY_BYTES, person=f"ind-key:{use}".encode()).digest()


class Macs:
    """Makes and checks the macs of one tenant's rows.

    Args:
        tenant: The tenant.
        key: The effects key.
        verify: Takes a message and a signature; returns whether the rights key made it.
        sign: Makes a signature with the rights key. None where only the effects key is at hand.
        newest: Remembers the newest versions.
        tell: Is told once of each row that is not believed.
        origin: What the tenant's journal is called, as its keys say. None if only the database says it.
    """

    def __init__(
        self,
        tenant: str,
        key: bytes,
        *,
        verify: Callable[[bytes, bytes], bool],
        sign: Callable[[bytes], bytes] | None,
        newest: Newest,
        tell: Callable[[str], None],
        origin: str | None = None,
    ) -> None:
        self.tenant = tenant
        self.newest = newest
        self.origin = origin
        self._states = {
            table: blake2b(key=key, digest_size=MAC_BYTES, person=f"ind-mac:{table}".encode()) for table in _TABLES
        }
        self._verify = verify
        self._sign = sign
        self._tell = tell
        self._told: set[str] = set()
        self.has_written = False
        self._seen_losses = self._forgot = 0

    def _losses(self) -> int:
        """Return how many losses were declared: as is remembered, or as another key holder bound a row to them."""
        return max(self._seen_losses, self.newest.version(LOSSES))

    def _learn(self, losses: int) -> None:
        """Take in how many losses were declared; what was seen here of a part that is lost counts for nothing more."""
        if losses <= self._seen_losses:
            return
        if losses > self._losses():
            self.newest.forget()
            self._forgot += 1
        self._seen_losses = losses

    def declare_loss(self, size: int, lost: int, root: str) -> None:
        """Remember one more loss that is declared: what is written from now on is bound to it.

        Args:
            size: The size of the tree that goes on.
            lost: The size of the tree that is lost.
            root: The root of that tree.
        """
        number = self._losses() + 1
        head = SheetRef(ENDS, f"{_LOST}{lost} {root}")
        self.newest.keep({LOSSES: number, SheetRef(ENDS, f"{_LOSS}{number}"): size, head: 1})

    def lost_heads(self) -> list[tuple[int, str]]:
        """List the trees that were declared lost, by size and root."""
        lost = (ref.id.split(" ") for ref in self.newest.kept((ENDS,)) if ref.id.startswith(_LOST))
        return sorted((int(size), root) for _, size, root in lost)

    def _mac(self, table: str, content: bytes) -> bytes:
        state = self._states[table].copy()
        state.update(content)
        return state.digest()

    def _is_own(self, table: str, content: bytes, mac: bytes | None) -> bool:
        return mac is not None and compare_digest(self._mac(table, content), mac[:MAC_BYTES])

    def _signed(self, message: bytes) -> bytes:
        if self._sign is None:
            raise KeyUnusable(
                f"this process has no key for the rights of tenant {self.tenant}, so it cannot decide approvals, "
                "change people, tokens, grants or the policy, or stop effects. Do it where the keys are, or through "
                "the server; a process that is trusted with it gets the key with: indelible keys export-writer --rights"
            )
        return self._sign(message)

    def check_signs(self) -> None:
        """Raise `KeyUnusable` if this process cannot write of rights: it could not stop effects either."""
        self._signed(b"")

    # Events

    def of_event(self, event_type: str, hash_: str) -> bytes:
        """Return the mac of an event, with a signature if it tells of a right, and the losses that it is bound to."""
        self.has_written = True
        losses = _losses_bytes(self._losses()) if event_type in BOUND_EVENTS else b""
        content = hash_.encode() + losses
        own = self._mac("event", content)
        return own + (self._signed(_RIGHT_TAG + content) if event_type in RIGHT_EVENTS else b"") + losses

    def is_of_event(self, event_type: str, hash_: str, mac: bytes | None) -> bool:
        """Return whether a key holder wrote an event, and one who may, if it tells of a right."""
        if mac is None:
            return False
        losses = _after_mac_of_event(event_type, mac)
        content = hash_.encode() + losses
        if not self._is_own("event", content, mac):
            return False
        if event_type not in RIGHT_EVENTS:
            return True
        if not self._verify(_RIGHT_TAG + content, mac[MAC_BYTES : MAC_BYTES + SIGNATURE_BYTES]):
            return False
        self._learn(int.from_bytes(losses, "big"))
        return True

    def check_head(self, run_id: str, hash_: str, found: tuple[str, str, bytes | None] | None) -> None:
        """Raise `RecordForged` unless a key holder wrote the event that a run's chain ends with: type, hash and mac."""
        if found is None or found[1] != hash_ or not self.is_of_event(found[0], hash_, found[2]):
            raise self._forged(f"the newest event of run {run_id}")

    # Payloads

    def of_payload(self, run_id: str, seq: int, field: str, value: bytes) -> bytes:
        """Return the mac of a value that an event commits to."""
        return self._mac("payload", _payload_content(run_id, seq, field, value))

    def is_of_payload(self, payload: Payload) -> bool:
        """Return whether a key holder wrote a value that an event commits to."""
        content = _payload_content(payload.run_id, payload.seq, payload.field, payload.value)
        return self._is_own("payload", content, payload.mac)

    # Effects

    def of_effect(self, effect: Effect) -> bytes:
        """Return the mac of an effect's row: all of it but its lease, which the database counts by its own clock."""
        return self._mac("effect", _effect_content(effect))

    def check_effect(self, effect: Effect, mac: bytes | None, args_mac: bytes | None, detail_mac: bytes | None) -> None:
        """Raise `RecordForged` unless a key holder wrote an effect's row, its arguments and its detail."""
        if not self._is_own("effect", _effect_content(effect), mac):
            raise self._forged(f"the row of effect {effect.id}")
        for seq, field, value, value_mac in (
            (effect.opened_seq, "args", effect.args_json, args_mac),
            (effect.detail_seq, effect.detail_field, effect.detail_json, detail_mac),
        ):
            if value is None or seq is None:
                continue
            if not self._is_own("payload", _payload_content(effect.run_id, seq, field, value), value_mac):
                raise self._forged(f"the {field} of effect {effect.id}")

    # Sheets

    def of_sheet(self, sheet: Sheet, before: Sheet | None) -> bytes:
        """Return the mac of a sheet's row, with a signature of what is a right in it.

        A signature that holds for the state before is kept: a call that uses a vote or a grant gives no new right.
        """
        own = self._mac("sheet", _sheet_content(self.tenant, sheet))
        right = _right_in(sheet)
        if right is None:
            return own
        kept = None if before is None else self._kept(before, right)
        if kept is not None:
            return own + kept
        if not right.is_in_force:
            return own
        uses = (self._losses() if sheet.kind == "stop" else right.uses).to_bytes(8, "big")
        return own + self._signed(_right_message(self.tenant, sheet, right.content, uses)) + uses

    def _kept(self, before: Sheet, right: _Right) -> bytes | None:
        was = None if before.body is None else _right_in(before)
        signature = (before.mac or b"")[MAC_BYTES:]
        if was is None or not signature or was.content != right.content:
            return None
        return signature if right.uses <= int.from_bytes(signature[SIGNATURE_BYTES:], "big") else None

    def known(self, refs: Iterable[SheetRef]) -> Known:
        """Return the newest versions of some sheets. Ask before you read their rows.

        A row that another thread changes after you read it, and whose new version that thread notes, was not put back.
        """
        return {ref: self.newest.version(ref) for ref in refs if ref.kind in REMEMBERED}

    def known_of(self, selected: SheetFilter) -> Known:
        """Return the newest versions of the sheets that are asked for. Ask before you read their rows."""
        if selected.id is not None:
            return self.known([SheetRef(selected.kind, selected.id)])
        return self.newest.versions(selected.kind) if selected.kind in REMEMBERED else {}

    def checked(self, sheet: Sheet, known: Known) -> Sheet:
        """Return a sheet as it may be believed: without its body if no key holder wrote it, or if it was put back.

        Nothing can be decided on a sheet without a body.

        Args:
            sheet: The sheet.
            known: The newest versions as they were known before its row was read.

        Raises:
            RecordForged: It is of a kind that no event commits to, so there is nothing that could be shown of it.
        """
        if sheet.body is None and sheet.is_recorded:
            return sheet
        if sheet.body is None or not self._is_written_by_holder(sheet):
            return self._disbelieved(sheet, _BY_NO_HOLDER)
        if sheet.kind not in REMEMBERED:
            return sheet
        if sheet.kind == "grant" and is_ended(sheet.kind, sheet.read()):  # it gives nothing, so it is never too old
            self.newest.note(sheet.ref, ENDED)
            return sheet
        newest, version = known.get(sheet.ref, 0), _remembered_version(sheet)
        if version >= newest:
            self.newest.note(sheet.ref, version)
            return sheet
        if sheet.kind == "stop" and sheet.status == _STOPPED:  # an old stop is believed: it lets nothing run
            return replace(sheet, version=newest, row_version=sheet.version)
        return self._disbelieved(sheet, "is an older one that was put back")

    def believed(self, sheets: Sheets, known: Known) -> Sheets:
        """Return the sheets at some places as they may be believed."""
        forgot = self._forgot
        stops = {ref: self._believed_at(ref, sheet, known) for ref, sheet in sheets.items() if ref.kind == "stop"}
        if self._forgot > forgot:  # it tells of a loss, so what was known of the lost part counts for nothing
            known = {ref: version for ref, version in known.items() if ref.kind in OUTLASTING}
        return {
            ref: stops[ref] if ref in stops else self._believed_at(ref, sheet, known) for ref, sheet in sheets.items()
        }

    def _believed_at(self, ref: SheetRef, sheet: Sheet | None, known: Known) -> Sheet | None:
        return self._missing(ref, known) if sheet is None else self.checked(sheet, known)

    def believed_list(self, found: list[Sheet], selected: SheetFilter, known: Known) -> list[Sheet]:
        """Return what a filter found as it may be believed.

        Of runs that are listed with those that were never started, the row is not shown, and what stands there is
        what an event commits to.
        """
        if selected.with_unstarted:
            return found
        if not found and selected.id is not None:
            missing = self._missing(SheetRef(selected.kind, selected.id), known)
            return [] if missing is None else [missing]
        return [self.checked(sheet, known) for sheet in found]

    def _missing(self, ref: SheetRef, known: Known) -> Sheet | None:
        """Return what stands for a sheet that is not there: None, or one without a body if it was taken away."""
        if not known.get(ref):
            return None
        return self._disbelieved(Sheet(kind=ref.kind, id=ref.id, version=0, status="", body=None), "is gone")

    def _is_written_by_holder(self, sheet: Sheet) -> bool:
        if not self._is_own("sheet", _sheet_content(self.tenant, sheet), sheet.mac):
            return False
        right = _right_in(sheet)
        if right is None or not right.is_in_force:
            return True
        assert sheet.mac is not None, "it was compared above"
        signature = sheet.mac[MAC_BYTES : MAC_BYTES + SIGNATURE_BYTES]
        uses = sheet.mac[MAC_BYTES + SIGNATURE_BYTES :]
        message = _right_message(self.tenant, sheet, right.content, uses)
        number = int.from_bytes(uses, "big")
        if right.uses > number or not self._verify(message, signature):
            return False
        if sheet.kind == "stop":  # every claim is decided on it, so whoever claims learns of a loss here
            self._learn(number)
        return True

    def _disbelieved(self, sheet: Sheet, why: str) -> Sheet:
        forged = self._forged(f"the row of {sheet.kind} {sheet.id}", why)
        if not sheet.is_recorded:
            raise forged
        # The versions of a grant are told without gaps, and its end is believed whatever its version.
        newest = self.newest.version(sheet.ref) if sheet.kind in REMEMBERED - {"grant"} else 0
        return replace(sheet, body=None, version=max(newest, sheet.version), row_version=sheet.version)

    def _forged(self, what: str, why: str = _BY_NO_HOLDER) -> RecordForged:
        text = f"{what} {why}; nothing was run on it. See what else was changed: indelible verify"
        if text not in self._told:
            self._told.add(text)
            self._tell(text)
        return RecordForged(text)


class Unchecked(Macs):
    """Believes each row of a tenant and writes none, where the keys are not at hand: for a process that only reads.

    Args:
        tenant: The tenant.
        newest: Remembers the newest versions.
        why: Says why the keys are not at hand, to whoever has a mac made or compared.
    """

    def __init__(self, tenant: str, newest: Newest, why: str) -> None:
        self.tenant = tenant
        self.newest = newest
        self.origin = None
        self._why = why

    def _mac(self, table: str, content: bytes) -> bytes:
        raise KeyUnusable(self._why)

    def check_signs(self) -> None:
        """Raise `KeyUnusable`."""
        raise KeyUnusable(self._why)

    def check_effect(self, effect: Effect, mac: bytes | None, args_mac: bytes | None, detail_mac: bytes | None) -> None:
        """Believe an effect's row."""

    def checked(self, sheet: Sheet, known: Known) -> Sheet:
        """Return the sheet."""
        return sheet

    def believed(self, sheets: Sheets, known: Known) -> Sheets:
        """Return the sheets."""
        return sheets

    def believed_list(self, found: list[Sheet], selected: SheetFilter, known: Known) -> list[Sheet]:
        """Return what was found."""
        return found


def is_after_losses(event_type: str, mac: bytes | None, losses: int) -> bool:
    """Return whether an event may come after this many declared losses, as a mac says that is believed."""
    bound = b"" if mac is None else _after_mac_of_event(event_type, mac)
    return event_type not in BOUND_EVENTS or int.from_bytes(bound, "big") >= losses


def losses_kept(newest: Newest) -> Known:
    """Return what is remembered of declared losses: it goes with a tenant to another place."""
    return {ref: number for ref, number in newest.kept((ENDS,)).items() if ref.id.startswith((LOSSES.id, _LOSS, _LOST))}


def losses_needed(newest: Newest, index: int) -> int:
    """Return how many losses were declared before the entry at an index was taken into the tree."""
    return max((number for number, size in _declared(newest) if size <= index), default=0)


def next_loss(newest: Newest, index: int) -> int | None:
    """Return where in the tree, past an index, the next declared loss ends what was in the copy; None if nowhere."""
    return min((size for _, size in _declared(newest) if size > index), default=None)


def _declared(newest: Newest) -> list[tuple[int, int]]:
    if not newest.version(LOSSES):
        return []
    kept = newest.kept((ENDS,)).items()
    return [(int(ref.id.removeprefix(_LOSS)), size) for ref, size in kept if ref.id.startswith(_LOSS)]


def _losses_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big") if number else b""


def _after_mac_of_event(event_type: str, mac: bytes) -> bytes:
    if event_type not in BOUND_EVENTS:
        return b""
    return mac[MAC_BYTES + (SIGNATURE_BYTES if event_type in RIGHT_EVENTS else 0) :]


def _remembered_version(sheet: Sheet) -> int:
    """Return what only grows of a sheet; a budget that an older one is put in place of takes reservations again."""
    return read_budget(sheet).taken if sheet.kind == "budget" else sheet.version


def is_ended(kind: str, content: Mapping[str, Any]) -> bool:
    """Return whether a sheet is a grant that a person ended. Its uses may be signed for, but it never comes back."""
    return kind == "grant" and content.get("is_ended") is True


def _micros(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _payload_content(run_id: str, seq: int, field: str, value: bytes) -> bytes:
    return f"{len(run_id)}:{run_id}:{seq}:{field}:".encode() + value


def _effect_content(effect: Effect) -> bytes:
    charges = effect.charges_json
    return _list(
        (
            *(effect.tenant, effect.scope, effect.key, effect.id, effect.run_id, effect.tool, effect.side_effect),
            *(effect.on_crash, effect.call_id, effect.digest, effect.status, effect.attempt, effect.version),
            *(effect.token_hash, effect.opened_seq, effect.detail_seq, _micros(effect.created_at)),
            *(_micros(effect.updated_at), effect.permission_id, None if charges is None else charges.decode("latin-1")),
            *(effect.turn, effect.doubted),
        )
    ).encode()


def _sheet_content(tenant: str, sheet: Sheet) -> bytes:
    assert sheet.body is not None, "what is written has a body"
    place = (tenant, sheet.kind, sheet.id, sheet.version, sheet.status, sheet.topic, _micros(sheet.due_at))
    return _list((*place, sheet.run_id, sheet.seq, _micros(sheet.created_at))).encode() + sheet.body


def _right_message(tenant: str, sheet: Sheet, content: bytes, uses: bytes) -> bytes:
    return _RIGHT_TAG + _list((tenant, sheet.kind, sheet.id)).encode() + uses + content


def _right_in(sheet: Sheet) -> _Right | None:
    """Return what of a sheet needs the rights key: votes that count, a grant but for its use, else all of it."""
    if sheet.kind == "approval":
        body: Any = sheet.read()
        if not body["votes"]:
            return None
        # A used approval keeps its signature: it is given back if the handler did nothing.
        return _Right(encode({"digest": body["digest"], "votes": body["votes"]}), is_in_force=sheet.status in _OPEN)
    if sheet.kind not in RIGHTS:
        return None
    assert sheet.body is not None, "what is written has a body"
    if sheet.kind != "grant":
        return _Right(encode(sheet.version) + sheet.body)
    grant: Any = decode(sheet.body)
    return _Right(encode({name: grant[name] for name in grant.keys() - _USED}), grant["uses_left"])
