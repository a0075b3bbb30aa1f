"""Compares disclosed values with what events committed to, and accounts for those that are not there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from indelible.core.events import SALT_BYTES, commitment
from indelible.core.values.canonical import is_canonical
from indelible.core.verifying.bodies import unquoted
from indelible.core.verifying.findings import Caught, Payloads

KEY_BYTES = 32
_BASES = ("request", "subject", "retention")


class Disclosed(NamedTuple):
    """Is a value that an event commits to, as it was handed over."""

    entry: int
    field: str
    salt: bytes
    value: bytes


def _names_payloads(one: Any) -> bool:
    return (
        type(one) is dict
        and one.keys() == {"fields", "seq"}
        and type(one["seq"]) is int
        and type(one["fields"]) is list
        and all(type(name) is str for name in one["fields"])
    )


def erased_by(facts: Mapping[str, Any]) -> set[tuple[int, str]]:
    """Name which values a `payload_erased` event says are gone: event and field; what is malformed names none."""
    named = facts.get("erased")
    found = [one for one in named if _names_payloads(one)] if type(named) is list else []
    return {(one["seq"], name) for one in found for name in one["fields"]}


def _is_written_right(name: str, value: bytes) -> bool:
    """Say whether a value is written in its one way; a key is a hash, and the name of a side effect bare text."""
    if name == "key":
        return len(value) == KEY_BYTES
    if name == "side_effect_key":
        return value.decode("utf-8", "replace").encode() == value
    return is_canonical(value)


class PayloadTally:
    """Counts values that are present, and explains those that are not: erased by an event, withheld, or missing.

    With `keeps_absent`, each absent value is remembered until an event says that it was erased, so what grows is the
    number of erased values. Without it only their number is known, which is enough where values were withheld anyway.
    """

    def __init__(self, *, keeps_absent: bool) -> None:
        self._keeps_absent = keeps_absent
        self._absent: dict[tuple[str, int], set[str]] = {}
        self._absent_count = 0
        self._named = 0
        self._erased = 0
        self._present = 0
        self.excused_unsigned = 0
        """Counts values that are gone and that only an event under no signed head says were erased."""

    def take(self, run: str, seq: int, commits: Mapping[str, str], shown: Mapping[str, Disclosed]) -> None:
        """Compares the values of one event; raises `Caught` at one that it did not commit to."""
        for name, one in shown.items():
            expected = commits.get(name)
            if expected is None:
                raise Caught(f"a value is here for {name}, which this event does not commit to")
            found = commitment(one.salt, name, one.value) if len(one.salt) == SALT_BYTES else "a salt of another length"
            if found != expected:
                raise Caught(f"its {name} is not the value it committed to", expected=expected, found=found)
            if not _is_written_right(name, one.value):
                raise Caught(f"its {name} is not written canonically")
        self._present += len(shown)
        if len(shown) < len(commits):
            self.lack(run, seq, [name for name in commits if name not in shown])

    def lack(self, run: str, seq: int, names: list[str]) -> None:
        """Takes in that these values of an event are not here."""
        self._absent_count += len(names)
        if self._keeps_absent:
            self._absent[run, seq] = set(names)

    def count_absent(self, number: int) -> None:
        """Takes in that so many values are not here, when nothing was disclosed at all."""
        self._absent_count += number

    def erase(self, run: str, facts: Mapping[str, Any], *, is_signed: bool = True) -> None:
        """Takes in which values a `payload_erased` event says are gone; raises `Caught` for anything malformed."""
        if facts.keys() != {"basis", "erased"} or facts["basis"] not in _BASES or type(facts["erased"]) is not list:
            raise Caught("a payload_erased says on what basis and what was erased")
        for one in facts["erased"]:
            if not _names_payloads(one):
                raise Caught("a payload_erased names numbers of events and fields")
            self._named += len(one["fields"])
            left = self._absent.get((run, one["seq"]))
            if left is not None:
                gone = left.intersection(one["fields"])
                self._erased += len(gone)
                self.excused_unsigned += 0 if is_signed else len(gone)
                left -= gone
                if not left:
                    del self._absent[run, one["seq"]]

    def runs_lacking(self) -> set[str]:
        """Gives the runs that have values nobody accounted for."""
        return {run for run, _ in self._absent}

    def close(self, withheld: int | None, *, must_be_whole: bool) -> Payloads:
        """Gives the numbers; `withheld` is how many the exporter says to have held back, None if nobody says.

        Raises `Caught` when values are missing that nobody erased or held back.
        """
        erased = self._erased if self._keeps_absent else min(self._named, self._absent_count)
        unexplained = self._absent_count - erased
        if withheld is None:
            return Payloads(self._present, erased, unexplained, 0)
        if withheld > self._absent_count:
            what = "more values are said to be withheld than are absent"
            raise Caught(what, expected=f"at most {self._absent_count}", found=str(withheld))
        if not self._keeps_absent:
            # Nobody noted which values were erased, so what is absent and not withheld counts as erased if it can be.
            erased = min(self._named, self._absent_count - withheld)
            unexplained = self._absent_count - erased
        missing = max(0, unexplained - withheld)
        if must_be_whole and missing:
            raise self._missing()
        return Payloads(self._present, erased, withheld, missing)

    def _missing(self) -> Caught:
        for (run, seq), names in self._absent.items():
            what = f"its {', '.join(sorted(names))} is missing, and no event says that it was erased"
            return Caught(what, run=unquoted(run), seq=seq)
        return Caught("values are missing that no event erased and nobody withheld")
