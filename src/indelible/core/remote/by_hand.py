"""What people may write by hand over the wire: the few sheets and facts that have no command of their own.

Sheets are what is decided on. Whoever could write any of them would vote in other people's names, or empty a budget,
which no event would tell. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from indelible.core.approvals.approval import same_person
from indelible.core.approvals.grants import delegation_sheet, grant_sheet, read_delegation, read_grant
from indelible.core.commands import Keep, Record
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.effects.effect import Actor
from indelible.core.effects.stops import KINDS_OF_STOPS, LET_GO, STOP_REF, STOPPED, read_stop, said_by, stop_sheet
from indelible.core.events import facts_json
from indelible.core.privacy.forgetting import ERASED, HOLD_LIFTED, HOLD_PLACED
from indelible.core.remote.questions import FOR_NOBODY
from indelible.core.rights import OF_APPROVERS
from indelible.core.runs.resuming import PACKET_EXPORTED
from indelible.core.sheets import Sheet
from indelible.errors import NotPermitted

_KEPT_BY_HAND = frozenset({"driver", "delivery"})
_DROPPED_BY_HAND = frozenset({"answered", "challenge", "delivery", "mark", "replays", "reply", "seen"})
_PERMISSIONS = f"{OWN_RUNS}approvals"
_OF_FORGETTING = frozenset({ERASED, HOLD_LIFTED, HOLD_PLACED})


def by_hand(command: Record | Keep, actor: Actor, at: datetime) -> Record | Keep:
    """Return what a person may write, a stop under their own name and a delegation under their own token.

    Raises:
        NotPermitted: They may not write it, or not so.
    """
    sheet = command.sheet
    if sheet is not None and sheet.kind in FOR_NOBODY:
        raise NotPermitted("whom the server knows is changed at /v1/people and /v1/api-keys, or with indelible people")
    if isinstance(command, Record) and command.event_type == PACKET_EXPORTED:
        # By this event a packet is believed: the hash on it is of what we found in the record, not of what we are told.
        raise NotPermitted("packets are made where the ledger is: use ledger.export_packet, or POST /v1/runs/…/packet")
    if isinstance(command, Keep):
        is_theirs = command.sheet.kind in _KEPT_BY_HAND
    elif sheet is None:
        is_theirs = not command.run_id.startswith(OWN_RUNS) or command.event_type in _OF_FORGETTING
    else:
        is_theirs = _is_what_is_told(command.event_type, sheet, actor) and _is_told_so(command, sheet)
    if not is_theirs:
        what = f"a fact of {command.ref.scope}" if sheet is None else f"a sheet of the kind {sheet.kind}"
        raise NotPermitted(f"{what} is not written by hand, or not so; use the verb of the ledger that changes it")
    if sheet is not None and isinstance(command, Record) and sheet.kind == STOP_REF.kind:
        return replace(command, sheet=stop_sheet(said_by(read_stop(sheet), command.stamp.at, by=actor.id, at=at)))
    if sheet is not None and isinstance(command, Record) and command.event_type == "delegation_given":
        return replace(command, sheet=delegation_sheet(replace(read_delegation(sheet), credential=actor.credential)))
    return command


def check_dropped(sheets: Iterable[Sheet]) -> None:
    """Raises `NotPermitted` for sheets that calls and permissions are decided on: dropping one would leave no trace."""
    wrong = next((sheet.kind for sheet in sheets if sheet.kind not in _DROPPED_BY_HAND), None)
    if wrong is not None:
        raise NotPermitted(f"a sheet of the kind {wrong} is not dropped; what may go goes with: indelible prune")


def _is_what_is_told(event_type: str, sheet: Sheet, actor: Actor) -> bool:
    """Is this the sheet of which such an event tells, as this person may change it?"""
    kind, is_so = _TOLD.get(event_type, (None, None))
    if kind != sheet.kind or is_so is None:
        return False
    try:
        return is_so(sheet, actor)
    except (AssertionError, LookupError, TypeError, ValueError):  # it is no such sheet
        return False


def _is_told_so(command: Record, sheet: Sheet) -> bool:
    """Is a permission told in the run of permissions, and under its own id?"""
    is_permission = command.event_type in OF_APPROVERS
    return not is_permission or (command.run_id == _PERMISSIONS and command.facts == facts_json({"id": sheet.id}))


def _is_policy(sheet: Sheet, actor: Actor) -> bool:
    from indelible.core.policy.policy import policy_of  # only where there is a policy

    content = sheet.read()
    return sheet.id == "current" and policy_of(content["content"]).version == content["version"]


def _is_ended_grant(sheet: Sheet, actor: Actor) -> bool:
    grant = read_grant(sheet)
    return grant.is_ended and _is_same(grant_sheet(grant), sheet)


def _is_own_delegation(sheet: Sheet, actor: Actor) -> bool:
    delegation = read_delegation(sheet)
    return same_person(delegation.giver, actor.id) and _is_same(delegation_sheet(delegation), sheet)


def _is_ended_delegation(sheet: Sheet, actor: Actor) -> bool:
    delegation = read_delegation(sheet)
    return delegation.is_ended and _is_same(delegation_sheet(delegation), sheet)


def _is_stop(sheet: Sheet, actor: Actor) -> bool:
    stop = read_stop(sheet)
    return all(cause.kind in KINDS_OF_STOPS for cause in stop.causes) and _is_same(stop_sheet(stop), sheet)


def _is_same(made: Sheet, sent: Sheet) -> bool:
    """Does the sheet say outside what it says inside? Where it is told is the store's to say."""
    return made == replace(sent, run_id=None, seq=None, created_at=None)


_TOLD: Mapping[str, tuple[str, Callable[[Sheet, Actor], bool]]] = {
    "policy_applied": ("policy", _is_policy),
    "grant_ended": ("grant", _is_ended_grant),
    "delegation_given": ("delegation", _is_own_delegation),
    "delegation_ended": ("delegation", _is_ended_delegation),
    STOPPED: ("stop", _is_stop),
    LET_GO: ("stop", _is_stop),
}
