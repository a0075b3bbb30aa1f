"""Finds the approval that somebody means."""

from __future__ import annotations

import re

from indelible import Approval, Ledger
from indelible.cli.effects.command import find as find_effect
from indelible.cli.show import visible
from indelible.errors import BadCall, UnknownApproval

_ID_LENGTH = 32  # within which a beginning is looked for


def find_approval(ledger: Ledger, name: str) -> Approval:
    """Finds an approval by its id, the beginning of its id, or the id of its effect."""
    if not name.strip():
        raise BadCall("an empty ID would mean any approval; see: indelible approvals list")
    if name.startswith("eff_"):
        effect = find_effect(ledger, name)
        if effect.approval_id is None:
            raise UnknownApproval(f"nobody was asked about {effect.id}: it is {effect.status}")
        name = effect.approval_id
    found = ledger.get_approval(name)
    if found is None:
        found = _by_beginning(ledger, name)
    if found is None:
        raise UnknownApproval(
            f"no approval of tenant {ledger.tenant!r} in {ledger.address} has the id {visible(name)}; "
            "see: indelible approvals list --status all"
        )
    return found


def _by_beginning(ledger: Ledger, name: str) -> Approval | None:
    """Finds the only approval whose id begins so: ids follow each other in order, whatever their status."""
    if not re.fullmatch(r"apr_[0-9a-f]*", name) or len(name) >= _ID_LENGTH:
        return None
    fitting = [one for one in ledger.approvals(before=name.ljust(_ID_LENGTH, "z"), limit=2) if one.id.startswith(name)]
    if len(fitting) > 1:
        raise BadCall(f"{name}… is the beginning of more than one id; give more of it")
    return fitting[0] if fitting else None
