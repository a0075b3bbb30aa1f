"""What a verifier finds and what it may conclude: flaws, grounds, attacks, the report. Pure.

A report never says "valid". It says what was checked, against what, and which attacks that rules out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["verified", "tampered", "cannot_tell"]
Kind = Literal["journal", "run", "period", "receipt"]
Ground = Literal["key", "older_head", "witness", "memory", "fresh_witness"]

GROUNDS: dict[Ground, str] = {
    "key": "a key you pinned signed the newest head",
    "older_head": "the journal begins with a head you pinned",
    "witness": "enough witnesses cosigned the newest head",
    "memory": "the signer remembers this head as the newest that it signed",
    "fresh_witness": "a witness cosigned the newest head recently",
}


@dataclass(frozen=True, slots=True)
class Attack:
    """Is one way to cheat, and the grounds of which each alone, on top of the key, rules it out."""

    words: str
    stopped_by: frozenset[Ground]
    needs_everything: bool = False
    """Can it be ruled out only for a whole journal? What is not shown may have been left out."""


_KEY: frozenset[Ground] = frozenset({"key"})
_CUT: frozenset[Ground] = frozenset({"memory", "fresh_witness"})
_WITNESSED: frozenset[Ground] = frozenset({"witness", "fresh_witness"})

ATTACKS: dict[str, Attack] = {
    "edit": Attack("change an entry", _KEY),
    "delete": Attack("leave out an entry", _KEY, needs_everything=True),
    "insert": Attack("slip in an entry", _KEY),
    "reorder": Attack("swap entries", _KEY),
    "recompute": Attack("change an entry and recompute all hashes", _KEY),
    "re_sign": Attack("re-sign everything with another key", _KEY),
    "truncate_before": Attack("cut the tail before the pinned head", _CUT | {"older_head"}, needs_everything=True),
    "truncate_after": Attack("cut the tail after the pinned head", _CUT, needs_everything=True),
    "rollback": Attack("show an old state as the newest", _CUT, needs_everything=True),
    "stolen_key_before": Attack(
        "rewrite with the stolen key before the pinned or cosigned head", _WITNESSED | {"older_head"}
    ),
    "stolen_key_after": Attack("rewrite with the stolen key after the pinned head", _WITNESSED),
    "fork": Attack("show two histories to two people", _WITNESSED),
}


def ruled_out(verdict: Verdict, grounds: frozenset[Ground], *, is_whole: bool) -> dict[str, bool]:
    """Says of every attack whether it is ruled out; of none unless everything was verified."""
    if verdict != "verified":
        return dict.fromkeys(ATTACKS, False)
    return {
        name: bool(attack.stopped_by & grounds) and (is_whole or not attack.needs_everything)
        for name, attack in ATTACKS.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Is the first thing that is not as it should be, and where."""

    what: str
    index: int | None = None
    run: str | None = None
    seq: int | None = None
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        place = [] if self.index is None else [f"entry {self.index}"]
        place += [] if self.run is None else [f"run {self.run}"]
        place += [] if self.seq is None else [f"seq {self.seq}"]
        text = f"{', '.join(place)}: {self.what}" if place else self.what
        if self.expected is not None:
            text += f"; expected {self.expected}, found {self.found}"
        return text


class Caught(Exception):
    """Something is not as it should be: the journal, or what was handed over as one, was changed."""

    def __init__(self, what: str, **where: Any) -> None:
        self.flaw = Flaw(what=what, **where)
        super().__init__(str(self.flaw))


class CannotTell(Exception):
    """What is here neither shows that the journal is what was signed nor that it is not; the message says why."""


@dataclass(slots=True)
class Payloads:
    """Counts the values that events commit to."""

    present: int = 0
    erased: int = 0
    withheld: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """Is what a live ledger has beyond the newest signed head: no verdict covers it."""

    events: int
    is_authenticated: bool = False
    """Did a holder of the writer keys write each of these events? False where the keys are not at hand."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts what was looked at."""

    events: int = 0
    runs: int = 0
    older_heads: int = 0
    signatures: int = 0
    """Counts events whose own signature was checked."""
    payloads: Payloads | None = None
    """Is None when commitments were not followed."""
    approvals: int = 0
    """Counts approvals that calls ran on, and whose votes were counted again."""
    vote_signatures: int = 0
    """Counts votes whose voter's own signature was checked."""


@dataclass(slots=True, kw_only=True)
class Report:
    """Says what a verifier concluded, from what, and what it could not rule out."""

    verdict: Verdict
    why: str
    source: str
    kind: Kind | None = None
    flaw: Flaw | None = None
    origin: str | None = None
    size: int | None = None
    root: str | None = None
    signed_by: str | None = None
    newest_event_at: str | None = None
    witnesses: Mapping[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    tail: Tail | None = None
    """Is None for what ends with its head, as every export does."""
    grounds: frozenset[Ground] = frozenset()
    rotations: list[str] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_verified(self) -> bool:
        """Did everything hold that could be checked, against a key from outside?"""
        return self.verdict == "verified"

    @property
    def exit_code(self) -> int:
        """Is what a command ends with: 0 verified, 1 tampered, 2 cannot tell."""
        return {"verified": 0, "tampered": 1, "cannot_tell": 2}[self.verdict]

    @property
    def ruled_out(self) -> dict[str, bool]:
        """Says of every attack whether it is ruled out."""
        return ruled_out(self.verdict, self.grounds, is_whole=self.kind == "journal")

    def as_json(self) -> dict[str, Any]:
        """Gives the report for programs."""
        payloads, flaw = self.counts.payloads, self.flaw
        return {
            "verdict": self.verdict,
            "why": self.why,
            "source": self.source,
            "kind": self.kind,
            "first_bad": None if flaw is None else {name: getattr(flaw, name) for name in Flaw.__slots__},
            "head": {"origin": self.origin, "size": self.size, "root": self.root, "signed_by": self.signed_by},
            "newest_event_at": self.newest_event_at,
            "witnesses": dict(self.witnesses),
            "counts": {
                "events": self.counts.events,
                "runs": self.counts.runs,
                "older_heads": self.counts.older_heads,
                "signatures": self.counts.signatures,
                "approvals": self.counts.approvals,
                "vote_signatures": self.counts.vote_signatures,
                "payloads": None
                if payloads is None
                else {name: getattr(payloads, name) for name in Payloads.__slots__},
            },
            "tail": None
            if self.tail is None
            else {"events": self.tail.events, "is_authenticated": self.tail.is_authenticated},
            "grounds": sorted(self.grounds),
            "attacks": {name: "ruled out" if is_out else "not ruled out" for name, is_out in self.ruled_out.items()},
            "rotations": self.rotations,
            "continuations": self.continuations,
            "remarks": self.remarks,
        }
