"""Of ledger, tool and call, none takes away what another demands."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.calls import (
    Idempotent,
    IdentityWords,
    Options,
    Resource,
    Retry,
    ToolCall,
    handling_of,
)
from indelible.core.effects.tightening import (
    HANDLED,
    IDENTITY,
    OPTIONS,
    Demand,
    demanded,
    handling_for,
    identified_by,
    occurring,
    strictest_word,
)
from indelible.errors import BadCall

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
ONE, OTHER = (Resource(namespace="shop", type="order", id=number) for number in "12")


def told(word: str) -> st.SearchStrategy[Any]:
    rule = OPTIONS[word]
    assert isinstance(rule, Demand)
    return st.sampled_from([None, *(each for each in rule.order if each != "resend")])


demands = st.builds(
    Options,
    **{word: told(word) for word, rule in OPTIONS.items() if isinstance(rule, Demand)},
    redact=st.sampled_from([None, ["card"], ["args.x"]]),
    exclusive=st.sampled_from([None, ONE, OTHER]),
)


def test_every_word_has_a_rule_and_the_page_tells_it() -> None:
    assert OPTIONS.keys() == {each.name for each in fields(Options)}
    assert IDENTITY.keys() == {*IdentityWords.__annotations__, "resource", "adopted_key"}
    section = PAGE.partition("## Ledger, tool and call")[2].partition("\n## ")[0]
    kinds = {"all": "demand", "declared": "declared", "free": "free"}
    rows = {
        word: line for line in section.splitlines() if line.startswith("| `") for word in line.split("|")[1].split(",")
    }
    said = {word.strip(" `"): line.split("|")[2].strip() for word, line in rows.items()}
    for word, rule in OPTIONS.items():
        assert said[word] == ("demand" if isinstance(rule, Demand) else kinds[rule]), word
    assert all(said[word] == "declared" for word in IDENTITY)


@given(ledger=demands, tool=st.none() | demands, call=st.none() | demands)
def test_what_holds_is_never_weaker_than_the_strictest_of_the_three(
    ledger: Options, tool: Options | None, call: Options | None
) -> None:
    handling = handling_for(ledger, tool, call, "pay")
    levels = [level for level in (ledger, tool, call) if level is not None]
    handled = {"approval": "required" if handling.needs_approval else "none", "await_inclusion": None}
    for word, rule in OPTIONS.items():
        said = [value for level in levels if (value := getattr(level, word)) is not None]
        if isinstance(rule, Demand) and said and word != "await_inclusion":
            holds = handled.get(word) or getattr(handling, word)
            assert all(rule.order.index(holds) >= rule.order.index(value) for value in said), word
    if any(level.await_inclusion for level in levels):
        assert handling.inclusion == "awaited"
    assert {rule for level in levels for rule in level.redact or ()} == set(handling.redact)
    assert {level.exclusive for level in levels} - {None} == set(handling.exclusive)
    classes = {level.side_effect for level in levels} - {None}
    assert classes <= {*handling.judged_as, handling.side_effect}, "the policy judges each class that is named"


@given(ledger=demands, tool=demands, call=demands)
def test_a_registered_tool_is_complete_and_a_call_only_goes_above_it(
    ledger: Options, tool: Options, call: Options
) -> None:
    """Also above its defaults: what a tool does not say of a payment is not for a call to say."""
    usual, handling = handling_for(ledger, tool, None, "pay"), handling_for(ledger, tool, call, "pay")
    for word, rule in HANDLED.items():
        assert rule.order.index(getattr(handling, word)) >= rule.order.index(getattr(usual, word)), word
    assert usual.side_effect in (*handling.judged_as, handling.side_effect)


def test_for_a_tool_that_is_not_registered_the_call_says_what_is_known_of_it() -> None:
    ledger = Options(failed_on=ValueError, lease=timedelta(seconds=9), wait=5.0)
    call = Options(side_effect="payment", on_crash="retry", failed_on=OSError, wait=False)
    handling = handling_for(ledger, None, call, "pay")
    assert (handling.on_crash, handling.failed_on, handling.lease) == ("retry", (OSError,), timedelta(seconds=9))
    assert handling.wait == timedelta(0)
    assert handling_for(ledger, None, None, "pay").failed_on == (ValueError,)


def test_a_tool_says_what_is_known_of_it_and_the_ledger_says_it_for_those_that_do_not() -> None:
    retry = Retry(on=(OSError,))
    ledger = Options(retry=retry, nothing_on=KeyError)
    tool = Options(nothing_on=ValueError)
    handling = handling_for(ledger, tool, Options(nothing_on=ValueError, timeout=timedelta(seconds=1)), "pay")
    assert (handling.nothing_on, handling.retry, handling.timeout) == ((ValueError,), retry, timedelta(seconds=1))
    for words in ({"nothing_on": KeyError}, {"retry": retry}, {"downstream": Idempotent()}):
        with pytest.raises(BadCall):
            handling_for(ledger, tool, Options(**words), "pay")


def test_a_provider_that_honours_the_key_is_sent_to_again_and_not_merely_entered_again() -> None:
    resending = Options(downstream=Idempotent())
    assert handling_for(Options(on_crash="retry"), resending, None, "pay").on_crash == "resend"
    assert handling_for(Options(on_crash="hold"), resending, None, "pay").on_crash == "hold"
    assert handling_for(Options(), resending, Options(on_crash="retry"), "pay").on_crash == "resend"


def test_the_strictest_of_what_is_said() -> None:
    assert strictest_word("on_crash", "retry", None) == "retry"
    assert strictest_word("on_crash", "resend", "retry", "hold") == "hold"


def test_what_nobody_says_is_as_before() -> None:
    assert handling_for(Options(), None, None, "pay") == handling_of(Options())


def call(**words: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"order": 1, "memo": ""}, **words)


def test_a_tool_completes_what_a_call_does_not_say_and_leaves_what_the_tool_does_not() -> None:
    said = {"key": ["order"], "dedupe": "ask"}
    assert identified_by(call(), said) == {"key": ["order"], "dedupe": "ask"}
    assert identified_by(call(key=["order"], scope="mine", varies=["memo"]), said) == {"dedupe": "ask"}
    assert identified_by(call(dedupe="turn"), said)["dedupe"] == "ask"
    assert identified_by(call(resource=ONE), {}) == {}
    assert identified_by(call(turn="t1"), {}) == {}
    same = ["order"]
    assert identified_by(replace(call(), key=same), {"key": same}) == {}


def test_a_tool_that_names_the_turn_overrules_the_one_that_adapters_name_for_every_call() -> None:
    assert identified_by(call(turn="t2"), {"turn": "t1"}) == {"turn": "t1"}


@pytest.mark.parametrize("said", [{"key": ["order"]}, {"resource": ONE}])
def test_39_what_a_tool_names_identifies_its_calls_in_every_turn_and_by_every_call_id(said: Any) -> None:
    for words in ({"dedupe": "turn"}, {"dedupe": "call", "call_id": "c1"}):
        assert identified_by(call(**words), said) == {"dedupe": "args", **said}
    assert identified_by(call(dedupe="turn"), {**said, "dedupe": "turn"}) == said


def test_39_a_tool_that_says_what_is_usual_says_it() -> None:
    assert identified_by(call(dedupe="turn"), {"dedupe": "args"}) == {"dedupe": "args"}
    with pytest.raises(BadCall):
        identified_by(call(on_reuse="replay"), {"on_reuse": "refuse"})


@pytest.mark.parametrize("said", [None, "none", "read", "payment"])
@pytest.mark.parametrize("strictest", ["read", "payment"])
def test_39_a_call_is_repeated_as_a_read_only_if_it_is_one(said: Any, strictest: Any) -> None:
    read = call(dedupe="call", call_id="c1")
    handling = handling_of(Options(side_effect=strictest))
    is_misread = strictest == "payment" and said in ("none", "read")
    assert occurring(read, said, handling) == (replace(read, dedupe="turn") if is_misread else read)
    assert occurring(call(), said, handling) == call()


def test_a_call_names_no_other_resource_than_its_tool() -> None:
    said = {"resource": ONE}
    assert identified_by(call(resource=ONE), said) == {}
    with pytest.raises(BadCall):
        identified_by(call(resource=OTHER), said)


@pytest.mark.parametrize(
    "words",
    [{"key": ["memo"]}, {"scope": "b"}, {"varies": ["other"]}, {"resource": ONE}, {"adopted_key": "ab" * 32}],
    ids=lambda words: next(iter(words)),
)
def test_a_call_names_no_other_identity_than_its_tool(words: Any) -> None:
    with pytest.raises(BadCall):
        identified_by(call(**words), {"key": ["order"], "scope": "a", "varies": ["memo"]})


@pytest.mark.parametrize(
    ("said", "others", "both"),
    [
        ({"side_effect": "read"}, {"side_effect": "payment"}, {"side_effect": "payment"}),
        ({"side_effect": "payment"}, {"side_effect": "read"}, {"side_effect": "payment"}),
        ({}, {"side_effect": "read", "approval": "required"}, {"approval": "required"}),
        ({"approval": "none"}, {"approval": "required"}, {"approval": "required"}),
        ({"timeout": 1}, {"timeout": 2, "lease": 3, "approval": None}, {"timeout": 1}),
    ],
)
def test_39_a_tool_in_the_place_of_a_called_one_is_held_to_what_either_demands(
    said: Any, others: Any, both: Any
) -> None:
    assert demanded(said, others) == both
