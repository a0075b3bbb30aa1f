"""The lives of effects as a journal tells them: every run dense and chained, every move one that the rules allow. Pure.

State is kept for every run (its end), for every effect that can still move, and, as three small numbers, for every
effect that ended. How the question stands is kept for effects that were asked about, and for no others.
"""

from __future__ import annotations

from indelible.core.effects.calls import HARMLESS
from indelible.core.events import NO_EVENTS
from indelible.core.runs.run import EVENT_TYPES
from indelible.core.verifying.bodies import FactBody, commits_of, read_effect_body, read_fact_body, unquoted
from indelible.core.verifying.ended import Ended
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.moves import (
    ADOPTED,
    AGAIN,
    EFFECT_TYPES,
    LATE,
    LATE_NAMES,
    MOVES,
    NOT_ASKED,
    OPENINGS,
    QUESTIONS,
    UNKNOWN,
    WORDS,
    Names,
    next_question,
)

# From these no move leads on; a late report may still come, and somebody may still look.
_ENDS = {"succeeded": 0, "denied": 1, "canceled": 2}
_UNKNOWN_END: tuple[int, str] = (-1, "")
_MOST_ATTEMPTS = 2**29


# Plain tuples, for there is one of each to an event, and names would cost more than all the rules.
End = tuple[int, str, int]
"""Is the end of a run as far as it was followed: its length, its last hash, and how many gaps it has."""
Life = tuple[str, str, str, str, str, int, int]
"""Is what is known of an effect that can still move: run, tool, side effect, on_crash, status, attempt, and the run's
gaps when it was last seen."""
Before = tuple[str, str]
"""Is how an effect stood before an event: its status, and how the question about it stood."""
Followed = tuple[str, int, str, str | dict[str, str], str, FactBody | None, tuple[str, ...] | None, Before | None]
"""Is what else is needed of an event: run, number, time, commitments, writer; its facts, or its values as in
`EffectBody`; and, if it says something of a permission, how its effect stood before."""


class Lives:
    """Follows events in the order of the journal and raises `Caught` at the first that the rules do not allow.

    `is_whole` says that every event from the beginning is shown. If not, a run may begin anywhere and have gaps; what
    lies on both sides of a gap is then not compared.
    """

    def __init__(self, log: str, *, is_whole: bool = True) -> None:
        self._log = log
        self._is_whole = is_whole
        self.runs: dict[str, End] = {}
        self._open: dict[str, Life] = {}
        self._questions: dict[str, str] = {}
        # hash(id) stands for the id: one number instead of a text, for there may be very many.
        self._ended = Ended()
        self._words: dict[str, str] = {}

    def follow(self, index: int, body: bytes, hash_: str) -> Followed:
        """Checks one event against everything before it."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Caught("its content is no UTF-8", index=index) from None
        values = read_effect_body(text)
        return self._follow_fact(index, text, hash_) if values is None else self._follow_effect(index, values, hash_)

    def _follow_effect(self, index: int, values: tuple[str, ...], hash_: str) -> Followed:
        _, at, tries, commits, effect, log, on_crash, prev, run, seq, side_effect, status, tool, kind, writer = values
        number, attempt, names = int(seq), int(tries), tuple(commits.split('"')[1::4])
        try:
            gaps = self._chain(log, run, number, prev, hash_)
            life = self._open.get(effect) or self._ended_life(effect, gaps)
            if life is None:
                life = (run, self._words.setdefault(tool, tool), side_effect, on_crash, "", 0, gaps)
            if self._is_whole or (life[4] and life[6] == gaps) or names in OPENINGS:
                is_about_permission = check_move(life, kind, status, attempt, names)
            else:
                is_about_permission = self._check_words(effect, kind, status, names)
            before = None
            if is_about_permission or effect in self._questions:
                before = (life[4], self._ask(effect, kind, names, life[4]))
            if life[0] != run or life[1] != tool or life[2] != side_effect or life[3] != on_crash:
                self._check_same(life, (run, tool, side_effect, on_crash))
        except Caught as caught:
            raise placed(caught, index, run, number) from None
        if status in _ENDS and attempt < _MOST_ATTEMPTS:
            self._open.pop(effect, None)
            was_asked = before is not None and self._questions.pop(effect, NOT_ASKED) != NOT_ASKED
            self._ended.put(hash(effect), (attempt * 2 + was_asked) * len(_ENDS) + _ENDS[status])
        else:
            self._open[effect] = (life[0], life[1], life[2], life[3], status, attempt, gaps)
        return (run, number, at, commits, writer, None, values, before)

    def _follow_fact(self, index: int, text: str, hash_: str) -> Followed:
        fact = read_fact_body(text)
        if fact is None:
            raise Caught(
                "it is no event of version 1: a member is unknown, missing, or not written canonically", index=index
            )
        try:
            self._chain(fact.log, fact.run, fact.seq, fact.prev, hash_)
            if (fact.type in EFFECT_TYPES and fact.type not in EVENT_TYPES) or "approval" in fact.commits:
                raise Caught(f"{fact.type} names its effect, and this one does not")
        except Caught as caught:
            raise placed(caught, index, fact.run, fact.seq) from None
        return (fact.run, fact.seq, fact.at, fact.commits, fact.writer, fact, None, None)

    def _chain(self, log: str, run: str, seq: int, prev: str, hash_: str) -> int:
        """Appends an event to its run's chain; gives how many gaps the run has up to here."""
        end = self.runs.get(run)
        if end is None:
            end = (NO_EVENTS if self._is_whole or seq == 0 else _UNKNOWN_END) + (0,)
        gaps = end[2]
        if log != self._log:
            raise Caught("it belongs to another journal", expected=self._log, found=log)
        if seq != end[0]:
            if self._is_whole or seq < end[0]:
                raise Caught("its number does not follow the run's event before", expected=str(end[0]), found=str(seq))
            gaps += end[0] >= 0
        elif prev != end[1]:
            raise Caught("it does not name the hash of the run's event before", expected=end[1], found=prev)
        self.runs[run] = (seq + 1, hash_, gaps)
        return gaps

    def _ended_life(self, effect: str, gaps: int) -> Life | None:
        number = self._ended.get(hash(effect))
        if number is None:
            return None
        rest, place = divmod(number, len(_ENDS))
        attempt, was_asked = divmod(rest, 2)
        if was_asked:
            self._questions[effect] = "over"
        return ("", "", "", "", tuple(_ENDS)[place], attempt, gaps)

    def _check_words(self, effect: str, kind: str, status: str, names: Names) -> bool:
        """Checks an event whose effect's state before it was not shown."""
        if (kind, status) not in WORDS or ("approval" in names and kind not in QUESTIONS):
            raise Caught(f"no {kind} leads to {status}, or none that commits to ({', '.join(names)})")
        self._questions[effect] = UNKNOWN
        return True

    def _ask(self, effect: str, kind: str, names: Names, status: str) -> str:
        """Moves the question about an effect on, if somebody was asked; gives how it stood before."""
        question = self._questions.get(effect, NOT_ASKED)
        after = next_question(question, kind, names, status)
        if after is None:
            raise Caught(_why_not_asked(question, kind, names))
        if after != NOT_ASKED:
            self._questions[effect] = after
        return question

    def _check_same(self, life: Life, found: tuple[str, ...]) -> None:
        """Raises unless nothing is left to compare: an effect that ended keeps three numbers only."""
        expected = life[:4]
        if expected != ("", "", "", ""):
            raise Caught(
                "its effect changed its run, tool, side effect or on_crash", expected=str(expected), found=str(found)
            )


def check_move(life: Life, kind: str, status: str, attempt: int, names: Names) -> bool:
    """Raises unless the rules allow this move; says whether it says something of a permission."""
    move = MOVES.get((life[4], kind, status))
    if move is None:
        return _check_late(life, kind, status, attempt, names)
    is_about_permission = move.commits.get(names)
    if is_about_permission is None:
        raise Caught(f"{kind} does not commit to ({', '.join(names)})")
    if attempt != life[5] + move.adds and kind != ADOPTED:
        raise Caught("its attempt is wrong", expected=str(life[5] + move.adds), found=str(attempt))
    if move.only_retry and life[3] == "hold" and AGAIN not in names:
        raise Caught(f"the effect was entered again while {life[4]}, though its tool holds when in doubt")
    if move.only_harmless and life[2] not in HARMLESS:
        raise Caught(f"a person was asked about an effect that is {life[4]}: it may have happened")
    return is_about_permission


def _check_late(life: Life, kind: str, status: str, attempt: int, names: Names) -> bool:
    if kind != LATE or status != life[4]:
        raise Caught(f"no {kind} leads from {life[4] or 'nothing'} to {status}")
    if names not in LATE_NAMES or attempt != life[5]:
        raise Caught("a late report changes nothing and commits to what came late")
    # Only somebody whose attempt is over can be late.
    if attempt < (2 if status == "processing" else 1):
        raise Caught(f"no attempt of this effect can be late while it is {status} at attempt {attempt}")
    return False


def _why_not_asked(question: str, kind: str, names: Names) -> str:
    """Says in one sentence what is wrong between an event and the question about its effect."""
    stands = {NOT_ASKED: "nobody was asked", "used": "it was used up", "over": "it ended"}
    how = stands.get(question, f"it is {question}")
    if kind == "tool_call_started" and "approval" not in names:
        return f"its effect was entered without the approval that was asked for: {how}"
    return f"{kind} does not fit the approval of its effect: {how}"


def placed(caught: Caught, index: int, run: str, seq: int) -> Caught:
    """Return what was caught, with the place of the event at which it was."""
    flaw = caught.flaw
    return Caught(flaw.what, index=index, run=unquoted(run), seq=seq, expected=flaw.expected, found=flaw.found)


def commitments(followed: Followed) -> dict[str, str]:
    """Gives what an event commits to, by field."""
    found = followed[3]
    return commits_of(found) if isinstance(found, str) else found
