"""A walk driven by hand: what it asks for, answered one by one, and how it ended."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import timedelta
from typing import Any

from indelible.core.commands import Claimed, Moved, Relinquish
from indelible.core.effects import walk
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.requests import Judge, Judged, Raised, Submit
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.values.canonical import decode
from tests.core.making import CountingMint, asked, claim_of, effect, prepared

CLAIM = claim_of(effect("processing", side_effect="external_mutation"))
CLAIMED = Claimed(CLAIM)
RUNNING = effect("processing")
WAITING, PENDING = asked(effect("requires_approval"))
LATER = timedelta(seconds=3)
DOUBTFUL = effect("in_doubt")
MOVED = Moved(effect("succeeded"))


class Played:
    """Is what a walk asked for, and how it ended. What it asked of the policy stands apart."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.judged: list[Judge] = []
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def commands(self) -> list[Any]:
        return [request.command for request in self.asked if isinstance(request, Submit)]


def play(steps: Generator[Any, Any, Any], *answers: Any, verdicts: Iterable[Judged] = ()) -> Played:
    """Gives the walk one answer after the other; an exception is thrown in, a function is asked with the request.

    The policy gives these verdicts, and then lets everything pass.
    """
    played = Played()
    given_verdicts = iter(verdicts)
    given: list[Any] = [None, *answers]
    try:
        for answer in given:
            if isinstance(answer, BaseException):
                request = steps.throw(answer)
            else:
                request = steps.send(answer(played.asked[-1]) if callable(answer) else answer)
            while isinstance(request, Judge):
                played.judged.append(request)
                request = steps.send(next(given_verdicts, Judged(ALLOWED)))
            played.asked.append(request)
    except StopIteration as end:
        if isinstance(end.value, Raised):
            played.error = end.value.error
        else:
            played.value = end.value
    except BaseException as error:
        played.error = error
    else:
        raise AssertionError(f"the walk went on: it wants {played.asked[-1]}")
    assert len(played.asked) == len(answers), "the walk ended before all answers were given"
    return played


def run(*answers: Any, call: ToolCall | None = None, max_result_bytes: int | None = None, **options: Any) -> Played:
    steps = walk.run(prepared(call, max_result_bytes=max_result_bytes, **options), CountingMint())
    return play(steps, *answers)


def reason_of(command: Relinquish) -> Any:
    return decode(command.detail_json)
