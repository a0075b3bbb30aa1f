"""What an exception means: every line of the table, and that no exception type proves that nothing happened."""

from __future__ import annotations

import http.client
import pickle
import re
import smtplib
import socket
import sys
import urllib.error
from pathlib import Path
from typing import Any, get_args

import pytest

from indelible.core.effects.calls import HARMLESS, Options, SideEffect, handling_of
from indelible.core.effects.effect import Status
from indelible.core.effects.meaning import (
    DOUBTFUL,
    ENDING,
    KNOWN_REFUSALS,
    Meaning,
    fate_of,
    is_about,
    meaning_of,
)
from indelible.errors import (
    BadCall,
    EffectCanceled,
    EffectDenied,
    EffectInDoubt,
    KeyReused,
    MayHaveHappened,
    NothingHappened,
    Refused,
    ResultNotRecorded,
    StillRunning,
    Stopped,
    StoreUnavailable,
)
from tests.core.making import effect

EFFECT = "eff_1"


def meant(error: BaseException, *, has_sent: bool = True, is_interruption: bool = False, **options: Any) -> Meaning:
    handling = handling_of(Options(**{"side_effect": "payment", **options}))
    return meaning_of(error, handling, EFFECT, has_sent=has_sent, is_interruption=is_interruption)


def about(kind: Any, effect_id: str) -> Any:
    error = kind("x")
    assert is_about(error, effect_id)
    return error


LOST = [
    *(ConnectionResetError("x"), BrokenPipeError("x"), ConnectionRefusedError("x"), TimeoutError("x"), EOFError("x")),
    *(socket.gaierror("x"), http.client.RemoteDisconnected("x"), http.client.IncompleteRead(b"")),
    *(urllib.error.URLError("x"), OSError("x"), KeyError("x"), ValueError("x"), RuntimeError("x")),
    *(ExceptionGroup("x", [ValueError("y")]), BadCall("x")),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("side_effect", get_args(SideEffect))
def test_an_undeclared_exception_leaves_doubt_where_something_outside_may_have_happened(
    error: Exception, side_effect: SideEffect
) -> None:
    assert meant(error, side_effect=side_effect) == ("in_doubt" if side_effect in DOUBTFUL else "failed")


OPEN = [
    *(EffectInDoubt("x"), StillRunning("x"), StoreUnavailable("x"), ResultNotRecorded("x", value=1)),
    *(about(NothingHappened, "eff_2"), ExceptionGroup("x", [ValueError("y"), Stopped("z")])),
]
ENDED = [
    *(EffectDenied("x"), EffectCanceled("x"), KeyReused("x"), about(Refused, "eff_2")),
    ExceptionGroup("x", [OSError("y")]),
]


def test_37_the_errors_that_end_an_inner_call_are_those_that_the_page_lists() -> None:
    """`NotAuthenticated`, `IllegalMove` and `VoteRefused` ended it too: none of them says what became of the call."""
    page = (Path(__file__).parents[3] / "docs" / "exceptions.md").read_text()
    listed = page.partition("Exceptions are those that end it:")[2].partition("After these")[0]
    assert {kind.__name__ for kind in ENDING} == set(re.findall(r"`(\w+)`", listed))


@pytest.mark.parametrize("side_effect", get_args(SideEffect))
def test_04_what_leaves_an_inner_call_open_settles_no_outer_one(side_effect: SideEffect) -> None:
    for error in OPEN:
        assert meant(error, side_effect=side_effect) == ("nothing" if side_effect in HARMLESS else "in_doubt")
        assert meant(error, side_effect=side_effect, failed_on=Exception) == "failed", "as the tool declares"
    for error in ENDED:
        assert meant(error, side_effect=side_effect) == ("in_doubt" if side_effect in DOUBTFUL else "failed")


def test_04_what_an_inner_handler_raised_is_known_in_the_outer_one() -> None:
    lost = TimeoutError("lost")
    assert meaning_of(lost, handling_of(Options(side_effect="payment")), "eff_2") == "in_doubt"
    assert meant(lost, side_effect="write") == "in_doubt"
    assert meant(lost, side_effect="read") == "nothing"
    known = ValueError("x")
    assert meaning_of(known, handling_of(Options(side_effect="write")), "eff_2") == "failed"
    assert meant(known, side_effect="write") == "failed"


def test_doubt_is_the_default_of_these_classes() -> None:
    assert {"payment", "external_mutation", "notification", "delegation"} == DOUBTFUL
    assert meaning_of(ValueError("x"), handling_of(Options()), EFFECT) == "in_doubt", "also where no class is named"


@pytest.mark.parametrize(
    ("error", "options", "meaning"),
    [
        (NothingHappened("x"), {}, "nothing"),
        (about(NothingHappened, EFFECT), {}, "nothing"),
        (about(NothingHappened, "eff_2"), {}, "in_doubt"),
        (MayHaveHappened("x"), {}, "in_doubt"),
        (MayHaveHappened("x"), {"side_effect": "read"}, "in_doubt"),
        (MayHaveHappened("x"), {"failed_on": MayHaveHappened}, "in_doubt"),
        (KeyboardInterrupt(), {}, "in_doubt"),
        (SystemExit(), {"side_effect": "read"}, "in_doubt"),
        (KeyboardInterrupt(), {"nothing_on": KeyboardInterrupt}, "in_doubt"),
        (Refused("x"), {}, "failed"),
        (about(Refused, EFFECT), {}, "failed"),
        (about(Refused, "eff_2"), {}, "in_doubt"),
        (OSError("x"), {"nothing_on": OSError}, "nothing"),
        (ConnectionError("x"), {"nothing_on": (ValueError, OSError)}, "nothing"),
        (ValueError("x"), {"nothing_on": (OSError,)}, "in_doubt"),
        (ValueError("x"), {"failed_on": ValueError}, "failed"),
        (UnicodeError("x"), {"failed_on": (ValueError,)}, "failed"),
        (OSError("x"), {"failed_on": (ValueError,)}, "in_doubt"),
        (OSError("x"), {"nothing_on": OSError, "failed_on": OSError}, "nothing"),
        (ValueError("declined"), {"refused": lambda error: "declined" in str(error)}, "failed"),
        (ValueError("reset"), {"refused": lambda error: "declined" in str(error)}, "in_doubt"),
        (ValueError("x"), {"refused": lambda error: "yes"}, "in_doubt"),
    ],
)
def test_a_word_of_the_tool_decides(error: BaseException, options: dict[str, Any], meaning: str) -> None:
    assert meant(error, **options) == meaning


@pytest.mark.parametrize("has_sent", [True, False])
@pytest.mark.parametrize("marks_sending", [True, False])
def test_nothing_happened_only_if_the_tool_marks_its_sending_and_nothing_was_sent(
    marks_sending: bool, has_sent: bool
) -> None:
    found = meant(ConnectionRefusedError("x"), marks_sending=marks_sending, has_sent=has_sent)
    assert found == ("nothing" if marks_sending and not has_sent else "in_doubt")


def test_a_refusal_is_a_refusal_also_if_nothing_was_sent() -> None:
    assert meant(Refused("x"), marks_sending=True, has_sent=False) == "failed"


@pytest.mark.parametrize("side_effect", get_args(SideEffect))
def test_an_interruption_leaves_doubt_whatever_was_declared(side_effect: SideEffect) -> None:
    words: Any = {"side_effect": side_effect, "failed_on": Exception, "nothing_on": Exception, "marks_sending": True}
    assert meant(TimeoutError("x"), is_interruption=True, has_sent=False, **words) == "in_doubt"


def test_a_predicate_that_raises_proves_nothing_and_says_so() -> None:
    error = ValueError("x")
    assert meant(error, refused=lambda error: 1 / 0) == "in_doubt"
    assert any("ZeroDivisionError" in note for note in error.__notes__)


@pytest.mark.parametrize(("side_effect", "package", "name"), sorted(KNOWN_REFUSALS))
def test_a_typed_refusal_of_a_known_sdk_is_known_by_its_name(side_effect: Any, package: str, name: str) -> None:
    """Also below it, and in an inner module, as SDKs define them; nothing has to be installed."""
    kind = type(name, (Exception,), {"__module__": f"{package}._error"})
    words: Any = {"side_effect": side_effect}
    assert meant(kind("x"), **words) == meant(type("Own", (kind,), {})("x"), **words) == "failed"
    assert meant(type(name, (Exception,), {"__module__": f"my{package}"})("x"), **words) == "in_doubt"
    assert meant(type(f"{name}Not", (Exception,), {"__module__": package})("x"), **words) == "in_doubt"
    assert meant(kind("x"), side_effect="delegation") == "in_doubt", "there it speaks of something beside the deed"


def test_a_known_refusal_of_an_inner_call_says_nothing_of_the_outer_one() -> None:
    error = type("CardError", (Exception,), {"__module__": "stripe"})("declined")
    inner, outer = (handling_of(Options(side_effect="payment")) for _ in range(2))
    assert meaning_of(error, inner, "eff_inner") == "failed"
    assert meaning_of(error, outer, "eff_outer") == "in_doubt"


def test_a_known_refusal_that_takes_no_attribute_is_believed() -> None:
    def refuse(self: Any, name: str, value: Any) -> None:
        raise AttributeError(name)

    error = type("CardError", (Exception,), {"__module__": "stripe", "__setattr__": refuse})("declined")
    assert meant(error) == "failed"


def test_the_real_classes_of_the_standard_library_are_known() -> None:
    assert meant(smtplib.SMTPRecipientsRefused({}), side_effect="notification") == "failed"
    assert meant(smtplib.SMTPRecipientsRefused({})) == "in_doubt", "the receipt of a payment could not be mailed"
    assert meant(smtplib.SMTPServerDisconnected("x"), side_effect="notification") == "in_doubt"
    assert "stripe" not in sys.modules, "nothing is imported for it"


@pytest.mark.parametrize("word", ["failed_on", "nothing_on"])
@pytest.mark.parametrize("kinds", ["ValueError", (ValueError, "x"), int, [ValueError]])
def test_what_is_no_exception_type_is_refused_when_it_is_said(word: str, kinds: Any) -> None:
    with pytest.raises(BadCall, match=word):
        Options(**{word: kinds})


def test_the_table_in_the_docstring_has_a_line_for_every_rule() -> None:
    from indelible.core.effects import meaning

    assert meaning.__doc__ is not None
    rows = [line for line in meaning.__doc__.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [row[2] for row in rows] == [str(number) for number in range(1, 9)]


@pytest.mark.parametrize("status", get_args(Status))
def test_37_only_what_the_record_says_is_known_of_a_call_that_was_entered(status: Status) -> None:
    known = {"succeeded": "succeeded", "failed": "failed", "ready": "nothing"}
    assert fate_of(effect(status)) == known.get(status, "in_doubt")


def test_37_a_call_that_was_entered_may_have_happened_if_the_ledger_cannot_be_asked() -> None:
    assert fate_of(None) == "in_doubt"


def test_37_an_exception_object_speaks_of_the_call_that_it_came_out_of_first() -> None:
    """A future raises what it holds to each handler that asks for its result, and so does a pickled one."""
    paying, writing = (handling_of(Options(side_effect=side_effect)) for side_effect in ("payment", "write"))
    nothing, refused, lost = NothingHappened("x"), Refused("x"), TimeoutError("lost")
    assert [meaning_of(one, paying, "eff_1") for one in (nothing, refused, lost)] == ["nothing", "failed", "in_doubt"]
    assert [meaning_of(one, paying, "eff_1") for one in (nothing, refused)] == ["nothing", "failed"], "the same call"
    for one in (nothing, refused, lost, pickle.loads(pickle.dumps(nothing))):
        assert meaning_of(one, paying, "eff_2") == "in_doubt"
    assert [meaning_of(one, writing, "eff_2") for one in (nothing, refused, lost)] == ["in_doubt", "failed", "in_doubt"]


@pytest.mark.parametrize("error", [NothingHappened("x"), Refused("x"), KeyError("x")])
def test_37_what_leaves_the_doubt_of_an_attempt_before_leaves_it_in_the_outer_call_too(error: Exception) -> None:
    words = handling_of(Options(side_effect="payment", failed_on=KeyError))
    assert meaning_of(error, words, "eff_2", is_doubted=True) == "in_doubt"
    assert meant(error) == meant(error, side_effect="write") == "in_doubt"


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        (StillRunning("x"), "in_doubt"),
        (NothingHappened("x"), "in_doubt"),
        (BadCall("x"), "failed"),
        (KeyError(), "failed"),
    ],
)
def test_37_what_an_exception_was_raised_from_speaks_of_the_inner_call(cause: Exception, wanted: Meaning) -> None:
    inner, outer = (handling_of(Options(side_effect=side_effect)) for side_effect in ("payment", "write"))
    if isinstance(cause, NothingHappened):
        assert meaning_of(cause, inner, "eff_inner") == "nothing"
    error = ValueError("wrapped")
    error.__cause__ = RuntimeError("wrapped too")
    error.__cause__.__cause__ = cause
    if wanted == "failed":
        cause.__cause__ = error  # a circle has an end
    assert meaning_of(error, outer, "eff_outer") == wanted
