"""The lives of effects as a journal tells them: every run dense and chained, every move one that the rules allow. Pure.

`core.steps` decides which moves there are; a test derives the table here from it. State is kept for every run (its
end), for every effect that can still move, and, as two small numbers, for every effect that ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from indelible.core.events import NO_EVENTS
from indelible.core.verifying.bodies import EffectBody, FactBody, commits_of, read_effect_body, read_fact_body, unquoted
from indelible.core.verifying.ended import Ended
from indelible.core.verifying.findings import Caught


@dataclass(frozen=True, slots=True)
class Move:
    """Is a legal move: what the event commits to, how the attempt changes, and whether only `retry` allows it."""

    commits: frozenset[tuple[str, ...]]
    adds: int = 0
    only_retry: bool = False


_OPENING = frozenset({("args", "key"), ("args", "key", "subject")})
_REASON = frozenset({("reason",)})
_NOTHING: frozenset[tuple[str, ...]] = frozenset({()})
_LATE = frozenset({("late_error",), ("late_result",)})
_RESULT, _ERROR = ("result",), ("error",)
_RESULT_SHOWN, _ERROR_SHOWN = ("evidence", "result"), ("error", "evidence")

# (status before, type, status after). A late report leaves everything as it is and is treated apart.
MOVES: dict[tuple[str, str, str], Move] = {
    ("", "approval_requested", "requires_approval"): Move(_OPENING),
    ("", "tool_call_started", "processing"): Move(_OPENING, adds=1),
    ("requires_approval", "approval_received", "ready"): Move(_REASON),
    ("requires_approval", "approval_denied", "denied"): Move(_REASON),
    ("requires_approval", "tool_call_canceled", "canceled"): Move(_REASON),
    ("ready", "tool_call_started", "processing"): Move(_NOTHING, adds=1),
    ("ready", "tool_call_canceled", "canceled"): Move(_REASON),
    ("processing", "tool_call_started", "processing"): Move(_NOTHING, adds=1, only_retry=True),
    ("processing", "tool_call_finished", "succeeded"): Move(frozenset({_RESULT, _RESULT_SHOWN})),
    ("processing", "tool_call_finished", "failed"): Move(frozenset({_ERROR, _ERROR_SHOWN})),
    ("processing", "tool_call_released", "ready"): Move(_REASON),
    ("processing", "tool_call_in_doubt", "in_doubt"): Move(_REASON),
    ("in_doubt", "tool_call_started", "processing"): Move(_NOTHING, adds=1, only_retry=True),
    ("in_doubt", "tool_call_finished", "succeeded"): Move(frozenset({_RESULT_SHOWN})),
    ("in_doubt", "tool_call_finished", "failed"): Move(frozenset({_ERROR_SHOWN})),
    ("in_doubt", "tool_call_released", "ready"): Move(_REASON),
    ("failed", "tool_call_released", "ready"): Move(_REASON),
}
LATE = "tool_call_late"
EFFECT_TYPES = frozenset({LATE, *(type_ for _, type_, _ in MOVES)})
STATUSES = frozenset({status for _, _, status in MOVES})
_WORDS = frozenset({*((type_, status) for _, type_, status in MOVES), *((LATE, status) for status in STATUSES)})
# From these no move leads on; a late report may still come.
_ENDS = {"succeeded": 0, "denied": 1, "canceled": 2}
_UNKNOWN: tuple[int, str] = (-1, "")
_MOST_ATTEMPTS = 2**30


# Plain tuples, for there is one of each to an event, and names would cost more than all the rules.
End = tuple[int, str, int]
"""Is the end of a run as far as it was followed: its length, its last hash, and how many gaps it has."""
Life = tuple[str, str, str, str, str, int, int]
"""Is what is known of an effect that can still move: run, tool, side effect, on_crash, status, attempt, and the run's
gaps when it was last seen."""
Followed = tuple[str, int, str, str | dict[str, str], str, FactBody | None]
"""Is what else is needed of an event: run, number, time, commitments, writer, and its facts if it has any."""

Watch = Callable[[EffectBody], None]
"""Is told every legal move of an effect, with the event that told of it."""


class Lives:
    """Follows events in the order of the journal and raises `Caught` at the first that the rules do not allow.

    `is_whole` says that every event from the beginning is shown. If not, a run may begin anywhere and have gaps; what
    lies on both sides of a gap is then not compared.
    """

    def __init__(self, log: str, *, is_whole: bool = True, watch: Watch | None = None) -> None:
        self._log = log
        self._is_whole = is_whole
        self._watch = watch
        self.runs: dict[str, End] = {}
        self._open: dict[str, Life] = {}
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
            if self._is_whole or (life[4] and life[6] == gaps) or names in _OPENING:
                self._move(life, kind, status, attempt, names)
            else:
                self._check_words(kind, status)
            if life[0] != run or life[1] != tool or life[2] != side_effect or life[3] != on_crash:
                self._check_same(life, (run, tool, side_effect, on_crash))
        except Caught as caught:
            raise _placed(caught, index, run, number) from None
        if status in _ENDS and attempt < _MOST_ATTEMPTS:
            self._open.pop(effect, None)
            self._ended.put(hash(effect), attempt * len(_ENDS) + _ENDS[status])
        else:
            self._open[effect] = (life[0], life[1], life[2], life[3], status, attempt, gaps)
        if self._watch is not None:
            self._watch(EffectBody(*values))
        return (run, number, at, commits, writer, None)

    def _follow_fact(self, index: int, text: str, hash_: str) -> Followed:
        fact = read_fact_body(text)
        if fact is None:
            raise Caught(
                "it is no event of version 1: a member is unknown, missing, or not written canonically", index=index
            )
        try:
            self._chain(fact.log, fact.run, fact.seq, fact.prev, hash_)
            if fact.type in EFFECT_TYPES:
                raise Caught(f"a {fact.type} names its effect, and this one does not")
        except Caught as caught:
            raise _placed(caught, index, fact.run, fact.seq) from None
        return (fact.run, fact.seq, fact.at, fact.commits, fact.writer, fact)

    def _chain(self, log: str, run: str, seq: int, prev: str, hash_: str) -> int:
        """Appends an event to its run's chain; gives how many gaps the run has up to here."""
        end = self.runs.get(run)
        if end is None:
            end = (NO_EVENTS if self._is_whole or seq == 0 else _UNKNOWN) + (0,)
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
        attempt, place = divmod(number, len(_ENDS))
        return ("", "", "", "", tuple(_ENDS)[place], attempt, gaps)

    def _move(self, life: Life, kind: str, status: str, attempt: int, names: tuple[str, ...]) -> None:
        move = MOVES.get((life[4], kind, status))
        if move is None:
            self._check_late(life, kind, status, attempt, names)
        elif names not in move.commits:
            raise Caught(f"a {kind} does not commit to ({', '.join(names)})")
        elif attempt != life[5] + move.adds:
            raise Caught("its attempt is wrong", expected=str(life[5] + move.adds), found=str(attempt))
        elif move.only_retry and life[3] != "retry":
            raise Caught(f"the effect was entered again while {life[4]}, though its tool holds when in doubt")

    def _check_late(self, life: Life, kind: str, status: str, attempt: int, names: tuple[str, ...]) -> None:
        if kind != LATE or status != life[4]:
            raise Caught(f"no {kind} leads from {life[4] or 'nothing'} to {status}")
        if names not in _LATE or attempt != life[5]:
            raise Caught("a late report changes nothing and commits to what came late")
        # Only somebody whose attempt is over can be late.
        if attempt < (2 if status == "processing" else 1):
            raise Caught(f"no attempt of this effect can be late while it is {status} at attempt {attempt}")

    def _check_words(self, kind: str, status: str) -> None:
        """Checks an event whose effect's state before it was not shown."""
        if (kind, status) not in _WORDS:
            raise Caught(f"no {kind} leads to {status}")

    def _check_same(self, life: Life, found: tuple[str, ...]) -> None:
        """Raises unless nothing is left to compare: an effect that ended keeps two numbers only."""
        expected = life[:4]
        if expected != ("", "", "", ""):
            raise Caught(
                "its effect changed its run, tool, side effect or on_crash", expected=str(expected), found=str(found)
            )


def _placed(caught: Caught, index: int, run: str, seq: int) -> Caught:
    flaw = caught.flaw
    return Caught(flaw.what, index=index, run=unquoted(run), seq=seq, expected=flaw.expected, found=flaw.found)


def commitments(followed: Followed) -> dict[str, str]:
    """Gives what an event commits to, by field."""
    found = followed[3]
    return commits_of(found) if isinstance(found, str) else found
