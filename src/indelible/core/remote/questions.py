"""What can be asked of a ledger's store from afar: each question with its types, and who may ask it.

The server answers by this table and the client asks by it, so the two cannot disagree. Writing is one question more,
`apply`; what may be written is decided in `core.remote.admitting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from indelible.core.commands import Answer, Command
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import Entry, Tree
from indelible.core.ports import Filter, Outline, Seen
from indelible.core.privacy.forgetting import Prunable
from indelible.core.rights import RIGHTS, VerbName
from indelible.core.scopes import Scope
from indelible.core.sheets import Sheet, SheetFilter

PROTOCOL = 1
"""Is what both sides have to agree on; it grows when an older side could misread a newer one."""
PROTOCOL_HEADER = "Indelible-Protocol"
LEDGER_HEADER = "Indelible-Ledger"
"""Names the ledger that a question is meant for: a server that keeps another one must not answer it."""
MOST_AT_ONCE = 256
"""Is how many commands, places or numbers one question may name."""
MOST_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """Is one thing to ask: the types of what is passed, the type of what comes back, and whose it is to ask."""

    words: Mapping[str, Any]
    answer: Any
    verb: VerbName = "read"

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return the scopes of which one is needed."""
        return RIGHTS[self.verb].scopes


APPLY = Question({"commands": tuple[Command, ...]}, list[Answer])
Refs = tuple[Ref, ...]
RunEnds = list[tuple[str, int, str]]

QUESTIONS: dict[str, Question] = {
    "look": Question({"refs": Refs}, Seen),
    "watch": Question({"refs": Refs}, Seen),
    "await": Question({"refs": Refs, "versions": tuple[int, ...], "seconds": int}, list[Ref]),
    "heartbeat": Question({"claim": Claim, "lease": timedelta}, bool, "report"),
    "get_effect": Question({"effect_id": str}, Effect | None),
    "find_by_key": Question({"key": str, "scope": str | None}, Effect | None),
    "effects": Question({"selected": Filter}, list[Effect]),
    "outlines": Question({"since": str, "before": str | None, "limit": int}, list[Outline]),
    "alike": Question({"digests": tuple[str, ...], "since": datetime, "limit": int}, list[Outline]),
    "abandoned": Question({"limit": int}, list[Effect]),
    "events": Question({"run_id": str, "after": int, "limit": int}, list[Event]),
    "payloads": Question({"run_id": str, "seqs": tuple[int, ...]}, list[Payload]),
    "sheets": Question({"selected": SheetFilter}, list[Sheet]),
    "packet": Question({"run_id": str}, bytes, "drive_runs"),
    "journal.tree": Question({}, Tree),
    "journal.tile": Question({"level": int, "number": int}, bytes),
    "journal.entries": Question({"start": int, "count": int}, list[Entry]),
    "journal.index_of": Question({"run_id": str, "seq": int}, int | None),
    "journal.heads": Question({"limit": int, "up_to": int | None}, list[str]),
    "journal.waiting": Question({}, int),
    "journal.pending": Question({"limit": int}, RunEnds),
    "journal.runs": Question({"after": str, "limit": int}, RunEnds),
    "forgetting.of_subject": Question({"subject_json": bytes}, list[tuple[str, int]], "administer"),
    "forgetting.prunable": Question({"before": datetime, "after": str, "limit": int}, list[Prunable], "administer"),
    "forgetting.refusals": Question({"after": tuple[str, int], "limit": int}, list[Event], "administer"),
    "forgetting.drop": Question({"sheets": tuple[Sheet, ...]}, int, "administer"),
    "forgetting.holds": Question({}, list[Event], "audit"),
    "forgetting.redaction_check": Question({}, str | None),
    "forgetting.keep_redaction_check": Question({"check": str}, str, "administer"),
    "forgetting.clear_away": Question({"rewrite": bool | None}, list[str], "administer"),
}

# What rules an agent is under is not the agent's to read: the server judges its calls.
_NOT_FOR_AGENTS = frozenset({"policy", "grant", "budget", "delegation", "delivery"})
_SEE_RULES: frozenset[str] = RIGHTS["read_rules"].scopes
_AUDIT: frozenset[str] = RIGHTS["audit"].scopes
# How the server knows whom is shown, and changed, by resources of its own: never as it is kept.
FOR_NOBODY = frozenset({"credential", "person", "provider", "challenge", "seen"})


def unseen_kinds(scopes: frozenset[str]) -> frozenset[str]:
    """Names the kinds of sheets that somebody with these scopes is not shown."""
    return FOR_NOBODY if scopes & _SEE_RULES else FOR_NOBODY | _NOT_FOR_AGENTS


def unseen_payloads(scopes: frozenset[str], run_id: str) -> frozenset[str]:
    """Name the values in the ledger's own runs that somebody with these scopes is not shown: states of such sheets.

    Auditors see all of them, as in an export.
    """
    if not run_id.startswith(OWN_RUNS):
        return frozenset()
    kinds = unseen_kinds(scopes)
    return kinds - FOR_NOBODY if scopes & _AUDIT else kinds


def may_read_sheets(scopes: frozenset[Scope], kind: str) -> bool:
    """May somebody with these scopes see what is on sheets of this kind?"""
    return kind not in unseen_kinds(scopes)
