"""Promises of reading a policy: nothing is guessed, every problem is told with its place, no misspelt word passes."""

from __future__ import annotations

import copy
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.approvals.approval import Need, Person
from indelible.core.policy.conditions import TESTS, Argument
from indelible.core.policy.content import read_content
from indelible.core.policy.policy import Policy, examine, policy_of
from indelible.core.policy.reading import Problem, Reading, written
from indelible.errors import BadPolicy
from tests.core.policies import ANAS, BOBS, CIDS, FULL, WITNESS, changed_at, full, places, problems

WORDS = [
    (place, word)
    for place, part in places(FULL)
    if isinstance(part, dict) and place not in (("people",), ("tools",)) and place[-1:] != ("args",)
    for word in part
]
"""Names every word in a policy that uses all of them; names of people, tools and arguments are free."""


BOBS_RAW = b64encode(BOBS.raw).decode()
DAY = datetime(2030, 1, 1, tzinfo=UTC)
MISSPELL = [lambda w: w + "s", lambda w: w[:-1], lambda w: w.upper(), lambda w: w[1:] + w[0], lambda w: f" {w}"]


def rule(**words: Any) -> dict[str, Any]:
    return {"rules": [{"name": "r", "then": "ask", **words}]}


def budget(**words: Any) -> dict[str, Any]:
    return {"budgets": [{"name": "b", "limit": 1, "window": "1h", **words}]}


def match(**words: Any) -> dict[str, Any]:
    return rule(match=words)


def args(**tests: Any) -> dict[str, Any]:
    return match(args={"x": tests})


def test_a_policy_that_uses_every_word_can_be_used() -> None:
    assert problems(FULL) == []
    assert len({word for _, word in WORDS}) > 40


@pytest.mark.parametrize(("place", "word"), WORDS, ids=lambda part: written(part) if isinstance(part, tuple) else part)
@pytest.mark.parametrize("misspell", MISSPELL, ids=["longer", "shorter", "louder", "turned", "spaced"])
def test_a_misspelt_word_is_always_a_problem(place: Any, word: str, misspell: Any) -> None:
    wrong = misspell(word)
    if wrong in TESTS:
        return  # gte that became gt is another word, and not a misspelt one
    content = changed_at(
        FULL, place, lambda part: {wrong if name == word else name: value for name, value in part.items()}
    )
    assert any(told.startswith((written((*place, wrong)), written(place))) for told in problems(content))


@pytest.mark.parametrize("foreign", [None, 5, "text", [], {}, True, 1.5, ["x"], {"x": 1}, DAY])
def test_nothing_of_another_kind_is_taken_for_what_should_be_there(foreign: Any) -> None:
    """What a policy says changes with each part of it, so a part of another kind is a problem or another policy."""
    version, tried = policy_of(FULL).version, 0
    for place, part in places(FULL):
        if not place or type(part) is type(foreign):
            continue
        tried += 1
        content = changed_at(FULL, place, lambda _: copy.deepcopy(foreign))
        told = problems(content)
        assert told or policy_of(content).version != version
        is_free = place[-1] in ("eq", "ne") or place[-2:-1] == ("in",) or place[-3:-2] == ("in",)
        if isinstance(part, dict | list) and not isinstance(foreign, str | list | dict) and not is_free:
            assert told, written(place)
    assert tried > 20


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (5, "policy", "has to be an object"),
        ([], "policy", "has to be an object"),
        ({"rule": []}, "rule", "did you mean rules?"),
        ({"xyzzy": []}, "xyzzy", "known are people, approvals"),
        ({"rules": []}, "rules", "has to be a list with something in it"),
        ({"rules": {}}, "rules", "has to be a list"),
        ({"rules": [5]}, "rules[0]", "has to be an object"),
        ({"rules": [{"name": "r"}]}, "rules[0]", "lacks the word then"),
        ({"rules": [{"then": "ask"}]}, "rules[0]", "lacks the word name"),
        (rule(then="deny"), "rules[0].then", "has to be one of refuse, ask, allow"),
        (rule(then=True), "rules[0].then", "has to be one of"),
        (rule(name=""), "rules[0].name", "1 to 500"),
        (rule(name="a\0"), "rules[0].name", "without NUL"),
        (rule(name="x" * 501), "rules[0].name", "1 to 500"),
        (rule(name="unknown tools"), "rules[0].name", "another use"),
        (rule(name="a {b}"), "rules[0].name", "another use"),
        (rule(why=""), "rules[0].why", "1 to 2000"),
        (rule(match=None), "rules[0].match", "is null"),
        (rule(then="allow", approvals={"quorum": 1}), "rules[0].approvals", "goes with then: ask, and not with allow"),
        ({"rules": [{"name": "r", "then": "ask"}] * 2}, "rules[1].name", "as another one's"),
        (match(tool="a b"), "rules[0].match.tool", "cannot be the name of a tool"),
        (match(tool=[]), "rules[0].match.tool", "something in it"),
        (match(tool=["a", "a"]), "rules[0].match.tool", "twice"),
        (match(tool=["a", 5]), "rules[0].match.tool[1]", "has to be a text, and is a number"),
        (match(agent=""), "rules[0].match.agent", "1 to 500"),
        (match(side_effect="pay"), "rules[0].match.side_effect", "one of none, read"),
        (match(unknown_tool="yes"), "rules[0].match.unknown_tool", "true or false"),
        (match(args={"x": {}}), "rules[0].match.args.x", "asks nothing"),
        (match(args={"x": 5}), "rules[0].match.args.x", "has to be an object"),
        (match(args={"args.x": {"eq": 1}}), "rules[0].match.args.args.x", "leave it away"),
        (match(args={"a..b": {"eq": 1}}), "rules[0].match.args.a..b", "is no path"),
        (args(gt="5"), "rules[0].match.args.x.gt", "has to be a number, and is a text"),
        (args(gt=True), "rules[0].match.args.x.gt", "has to be a number, and is a truth value"),
        (args(gt=10**41), "rules[0].match.args.x.gt", "more than 40 digits"),
        (args(eq=Decimal("1e-45")), "rules[0].match.args.x.eq", "more than 40 digits"),
        (args(**{"in": []}), "rules[0].match.args.x.in", "something in it"),
        (args(**{"in": "abc"}), "rules[0].match.args.x.in", "has to be a list"),
        (args(**{"in": [b"x"]}), "rules[0].match.args.x.in[0]", "cannot be compared"),
        (args(eq={"a": [DAY]}), "rules[0].match.args.x.eq.a[0]", "a value of type datetime"),
        (args(matches="(a"), "rules[0].match.args.x.matches", "not closed"),
        (args(matches=""), "rules[0].match.args.x.matches", "1 to 1000"),
        (args(matches=5), "rules[0].match.args.x.matches", "has to be a text"),
        (args(length=5), "rules[0].match.args.x.length", "has to be an object"),
        (args(length={}), "rules[0].match.args.x.length", "asks nothing"),
        (args(length={"in": 1}), "rules[0].match.args.x.length.in", "no word"),
        (args(exists=1), "rules[0].match.args.x.exists", "true or false"),
        ({"tools": {}}, "tools", "declares no tool"),
        ({"tools": {"a b": {}}}, "tools.a b", "tool name"),
        ({"tools": {"a*": {}}}, "tools.a*", "tool name"),
        ({"tools": {"a": {"fields": "args.x"}}}, "tools.a.fields", "leave it away"),
        ({"tools": {"a": {"fields": ["x", "y."]}}}, "tools.a.fields[1]", "is no path"),
        ({"tools": {"a": {"schema": "abc"}}}, "tools.a.schema", "64 hexadecimal digits"),
        ({"tools": {"a": {"schema": 5}}}, "tools.a.schema", "has to be a text"),
        ({"unknown_tools": "deny"}, "unknown_tools", "one of"),
        ({"defaults": "deny"}, "defaults", "one of"),
        ({"defaults": {"money": "ask"}}, "defaults.money", "no word"),
        ({"people": {}}, "people", "names nobody"),
        ({"people": {"ana": {}, "ANA": {}}}, "people.ANA", "the same person as ana"),
        ({"people": {"a\0": {}}}, "people.a\0", "NUL"),
        ({"people": {"ana": {"roles": []}}}, "people.ana.roles", "something in it"),
        ({"people": {"ana": {"key": 5}}}, "people.ana.key", "has to be a text"),
        ({"people": {"ana": {"key": "!!!"}}}, "people.ana.key", "neither base64"),
        ({"people": {"ana": {"key": b64encode(b"short").decode()}}}, "people.ana.key", "32 bytes"),
        ({"people": {"ana": {"key": b64encode(b"\1" + bytes(31)).decode()}}}, "people.ana.key", "low order"),
        ({"people": {"ana": {"key": "bob+00000000+" + BOBS.vkey.split("+", 2)[2]}}}, "people.ana.key", "damaged"),
        ({"people": {"ana": {"key": WITNESS.vkey}}}, "people.ana.key", "witness"),
        ({"people": {"ana": {"key": BOBS_RAW}, "bob": {"key": BOBS.vkey}}}, "people.bob.key", "the key of ana too"),
        ({"people": {"ana": {"roles": ["Bob"]}, "bob": {}}}, "people", "both as a person and as a role"),
        (rule(approvals={"quorum": 0}), "rules[0].approvals.quorum", "from 1 to 100"),
        (rule(approvals={"quorum": True}), "rules[0].approvals.quorum", "from 1 to 100"),
        (rule(approvals={"quorum": 1, "needs": [{}]}), "rules[0].approvals", "quorum and needs"),
        (rule(approvals={"needs": [{"count": -1}]}), "rules[0].approvals.needs[0].count", "from 1 to 100"),
        (rule(approvals={"needs": [{"role": "x"}]}), "rules[0]", "has no people"),
        (rule(approvals={"people": ["ana"]}), "rules[0]", "has no people"),
        (rule(approvals={"escalate": [{"after": "1h", "to": "ana"}]}), "rules[0]", "has no people"),
        ({"people": {"ana": {}}, **rule(approvals={"needs": [{"role": "x"}]})}, "rules[0]", "needs the role x"),
        ({"people": {"ana": {}}, **rule(approvals={"roles": "x"})}, "rules[0]", "needs the role x"),
        ({"people": {"ana": {}}, **rule(approvals={"people": "bob"})}, "rules[0]", "names bob, who is not"),
        ({"people": {"ana": {}}, "approvals": {"people": "bob"}}, "approvals", "names bob, who is not"),
        (
            {"people": {"ana": {}}, **rule(approvals={"escalate": [{"after": "1h", "to": "bob"}]})},
            "rules[0]",
            "escalates to bob",
        ),
        (rule(approvals={"sole_approver": True}), "rules[0]", "one person may decide"),
        ({"people": {"ana": {}, "bob": {}}, **rule(approvals={"sole_approver": True})}, "rules[0]", "name only them"),
        (rule(approvals={"expires": "1w"}), "rules[0].approvals.expires", "30s, 15m, 24h or 7d"),
        (rule(approvals={"expires": 30}), "rules[0].approvals.expires", "30s, 15m"),
        (rule(approvals={"expires": "0s"}), "rules[0].approvals.expires", "30s, 15m"),
        (rule(approvals={"expires": "9999d"}), "rules[0].approvals.expires", "at most 3660d"),
        (rule(approvals={"escalate": [{"to": "x"}]}), "rules[0].approvals.escalate[0]", "lacks the word after"),
        (rule(approvals={"escalate": [{"after": "1h"}]}), "rules[0].approvals.escalate[0]", "whom does it reach"),
        (
            rule(approvals={"escalate": [{"after": "1h", "notify": "a"}, {"after": "60m", "notify": "b"}]}),
            "rules[0].approvals.escalate",
            "does not come after",
        ),
        ({"open_approvals": {"run": 0}}, "open_approvals.run", "1 or more"),
        ({"open_approvals": {"run": Decimal("1.5")}}, "open_approvals.run", "1 or more"),
        ({"open_approvals": {"tenant": "5"}}, "open_approvals.tenant", "has to be a number"),
        ({"open_approvals": {"tool": 5}}, "open_approvals.tool", "is no word of a policy"),
        (budget(limit=-1), "budgets[0].limit", "0 or more"),
        (budget(limit=10**15), "budgets[0].limit", "15 digits"),
        (budget(limit=Decimal("0.1234567891")), "budgets[0].limit", "9 after it"),
        (budget(limit="5"), "budgets[0].limit", "has to be a number"),
        (budget(window="day"), "budgets[0].window", "30s, 15m"),
        (budget(per="principal"), "budgets[0].per", "one of tool, agent, run, tenant"),
        (budget(sum="args.amount"), "budgets[0].sum", "leave it away"),
        (budget(name="a {b"), "budgets[0].name", "holds {"),
        ({"budgets": [{"name": "b"}]}, "budgets[0]", "lacks the word limit"),
        ({"budgets": budget()["budgets"] * 2}, "budgets[1].name", "as another one's"),
    ],
)  # fmt: skip
def test_a_problem_is_told_with_its_place(content: Any, place: str, message: str) -> None:
    _, _, found = examine(content)
    told = [problem for problem in found if message in problem.message]
    assert [str(problem).startswith(f"{place}: ") for problem in told[:1]] == [True], found


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BadPolicy) as bad:
        policy_of({"rulez": 1, "rules": [{"name": "", "then": "x"}], "budgets": [{}]})
    assert len(bad.value.problems) == 6
    assert all(problem in str(bad.value) for problem in bad.value.problems)


def test_a_name_that_is_no_text_is_a_problem() -> None:
    reading = Reading()
    assert reading.names({1: "a", "b": 2}, ("x",)) == {"b": 2}
    assert reading.problems == [Problem(("x",), "has a name that is a number, and no text; put it in quotes")]


@pytest.mark.parametrize("content", [{1: 2}, {"rules": float("nan")}, {"rules": {"\ud800": 1}}, {"rules": [object()]}])
def test_what_has_no_recorded_form_is_no_policy(content: Any) -> None:
    assert problems(content)


def test_what_nests_without_an_end_is_no_policy() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert problems({"rules": deep})
    around: dict[str, Any] = {}
    around["rules"] = [around]
    assert problems(around)


@pytest.mark.parametrize("number", [Decimal("1e-101"), 10.0**101, Decimal("0." + "1" * 101)])
def test_a_number_with_too_many_digits_is_no_number_of_a_policy(number: Any) -> None:
    assert "digits" in problems(args(eq=number))[0]


def test_what_is_read_is_what_was_written() -> None:
    parts, found = read_content(FULL)
    assert found == []
    assert parts.people == {
        "ana": Person(("finance",), ANAS),
        "bob": Person(("finance", "manager"), BOBS.raw),
        "cid": Person(("finance",), CIDS),
        "eva": Person(),
    }
    small, big, new = parts.rules
    assert (small.name, small.decision, small.question, big.decision) == ("small refunds", "allow", None, "ask")
    assert Argument("amount", "lte", Decimal("50.5")) in small.conditions
    question = big.question
    assert question is not None
    assert question.rule == "big refunds"
    assert question.needs == (Need(2, "finance"), Need(1, "manager"))
    assert set(question.people or {}) == {"ana", "bob", "cid"}
    assert (question.needs_signature, question.may_edit, question.expires) == (True, False, timedelta(hours=2))
    assert question.notify == ("slack", "mail")
    assert [(step.after, set(step.people), step.notify) for step in question.escalations] == [
        (timedelta(minutes=30), {"eva", "bob"}, ("pager",)),
        (timedelta(hours=1), set(), ("mail",)),
    ]
    assert new.speaks_of("unknown_tool")
    assert not new.speaks_of("unknown_fields")
    day, calls = parts.budgets
    assert (day.limit, day.window, day.per, day.sum) == (
        Decimal("500.25"),
        timedelta(days=1),
        ("agent", "tenant"),
        "amount",
    )
    assert (calls.limit, calls.per, calls.sum) == (Decimal(100), ("run",), None)


def test_a_rule_takes_from_the_terms_above_what_it_does_not_say() -> None:
    content = full(
        approvals={
            "needs": [{"role": "manager"}],
            "roles": ["finance"],
            "signed": True,
            "notify": "slack",
            "expires": "1h",
        },
        rules=[
            {"name": "a", "then": "ask"},
            {"name": "b", "then": "ask", "approvals": {"people": "eva", "quorum": 3, "signed": False}},
        ],
    )  # fmt: skip
    a, b = (each.question for each in policy_of(content).parts.rules)
    assert a is not None
    assert b is not None
    assert (a.needs, set(a.people or {}), a.needs_signature) == ((Need(1, "manager"),), {"ana", "bob", "cid"}, True)
    assert (b.needs, set(b.people or {}), b.needs_signature) == ((Need(3),), {"eva"}, False)
    assert a.notify == b.notify == ("slack",)
    assert a.expires == b.expires == timedelta(hours=1)


def test_names_of_people_are_found_however_they_are_written() -> None:
    content = {"people": {"Ana": {}}, **rule(approvals={"people": ["ＡＮＡ"]})}
    (made,) = policy_of(content).parts.rules
    assert made.question is not None
    assert set(made.question.people or {}) == {"Ana"}


def test_without_people_everybody_may_decide_and_with_people_only_they() -> None:
    (anybody,) = policy_of(rule()).parts.rules
    (somebody,) = policy_of({"people": {"ana": {}}, **rule()}).parts.rules
    assert anybody.question is not None
    assert somebody.question is not None
    assert anybody.question.people is None
    assert set(somebody.question.people or {}) == {"ana"}


def test_content_is_kept_as_it_was_given_but_for_how_numbers_are_written() -> None:
    made = Policy.of(args(eq=[1.0, Decimal("2.50"), 3, "4"]))
    assert made.content["rules"][0]["match"]["args"]["x"]["eq"] == [1, Decimal("2.5"), 3, "4"]
    assert isinstance(made.content["rules"][0]["match"]["args"]["x"]["eq"][0], int)
