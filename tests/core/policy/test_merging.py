"""Promises of several policies at once: the strictest decides, and nobody's condition is lost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Escalation, Need, Person, Question, lacking
from indelible.core.policy.policy import strictest
from indelible.core.policy.verdicts import ALLOWED, STRICTEST, Charge, Verdict

PEOPLE = st.none() | st.dictionaries(
    st.sampled_from(["ana", "bob", "eva"]),
    st.builds(Person, st.sampled_from([(), ("finance",), ("finance", "legal")]), st.sampled_from([None, b"1", b"2"])),
)
NEEDS = st.lists(
    st.builds(Need, st.integers(1, 3), st.sampled_from([None, "finance", "legal"])), min_size=1, max_size=3
)
QUESTIONS = st.builds(
    Question,
    rule=st.sampled_from(["a", "b"]),
    needs=NEEDS.map(tuple),
    people=PEOPLE,
    needs_signature=st.booleans(),
    may_edit=st.booleans(),
    expires=st.integers(1, 5).map(lambda hours: timedelta(hours=hours)),
    notify=st.lists(st.sampled_from(["slack", "mail"]), unique=True).map(tuple),
    escalations=st.lists(st.integers(1, 9), unique=True, max_size=2).map(
        lambda hours: tuple(Escalation(timedelta(hours=hour), {"max": Person(("legal",))}) for hour in sorted(hours))
    ),
)
CHARGES = st.lists(
    st.builds(
        Charge,
        budget=st.sampled_from(["x", "y"]),
        limit=st.integers(1, 3).map(Decimal),
        window=st.just(timedelta(hours=1)),
        amount=st.integers(1, 3).map(Decimal),
    ),
    max_size=2,
).map(tuple)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    decision = draw(st.sampled_from(STRICTEST))
    question = draw(QUESTIONS) if decision == "ask" else None
    return Verdict(
        decision=decision,
        rule=draw(st.sampled_from(["", "r", "s"])),
        policy=draw(st.sampled_from(["", "1" * 64, "2" * 64])),
        why=draw(st.sampled_from(["", "w"])),
        question=question,
        charges=draw(CHARGES),
    )


def ask(**words: Any) -> Verdict:
    return Verdict(decision="ask", rule="r", policy="p", question=Question(**{"rule": "r", **words}))


def question(*questions: Verdict) -> Question:
    found = strictest(questions).question
    assert found is not None
    return found


@given(st.lists(verdicts(), min_size=1, max_size=4))
def test_the_strictest_decision_holds(given: list[Verdict]) -> None:
    found = strictest(given)
    assert found.decision == min((each.decision for each in given), key=STRICTEST.index)
    assert found.rule in {each.rule for each in given} or ";" in found.rule


@given(verdicts(), verdicts(), verdicts())
def test_the_decision_does_not_depend_on_order_or_grouping(one: Verdict, two: Verdict, three: Verdict) -> None:
    assert strictest([one, two]).decision == strictest([two, one]).decision
    assert strictest([one, two]).policy == strictest([two, one]).policy
    grouped = strictest([strictest([one, two]), three]), strictest([one, strictest([two, three])])
    assert grouped[0].decision == grouped[1].decision == strictest([one, two, three]).decision
    assert strictest([one, one]).decision == one.decision
    assert strictest([one]) is one


@given(
    QUESTIONS, QUESTIONS, st.lists(st.sampled_from([None, frozenset({"finance"}), frozenset({"legal"})]), max_size=8)
)
def test_whoever_satisfies_both_at_once_satisfies_each(one: Question, other: Question, voters: list[Any]) -> None:
    both = question(ask(**_words(one)), ask(**_words(other)))
    assert lacking(both.needs, voters) >= max(lacking(one.needs, voters), lacking(other.needs, voters))
    assert both.expires == min(one.expires, other.expires)
    assert set(both.notify) == {*one.notify, *other.notify}
    assert both.needs_signature == (one.needs_signature or other.needs_signature)
    assert both.may_edit == (one.may_edit and other.may_edit)
    for each in (one, other):
        assert each.people is None or set(both.people or {}) <= set(each.people)
        ever = {*(each.people or {}), *(name for step in each.escalations for name in step.people)}
        assert each.people is None or all(set(step.people) <= ever for step in both.escalations)


def _words(of: Question) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Question.__dataclass_fields__}


def test_a_question_with_itself_is_itself() -> None:
    asking = ask(needs=(Need(1, "finance"), Need(1, "finance"), Need(1)), people={"ana": Person(("finance",), b"k")})
    assert question(asking, asking).needs == (Need(2, "finance"), Need(1))
    assert question(asking, asking).people == {"ana": Person(("finance",), b"k")}
    assert question(asking, asking).rule == "r"


def test_of_two_numbers_for_one_role_the_larger_holds() -> None:
    three, one = ask(needs=(Need(3, "finance"),)), ask(needs=(Need(1, "finance"), Need(2)))
    assert question(three, one).needs == (Need(3, "finance"), Need(2))
    assert question(one, three).needs == (Need(3, "finance"), Need(2))


def test_people_are_those_that_both_name_with_what_both_say_of_them() -> None:
    one = ask(people={"Ana": Person(("finance", "legal"), b"k"), "bob": Person((), b"1"), "eva": Person()})
    other = ask(people={"ana": Person(("legal",)), "bob": Person(("legal",), b"2")})
    assert question(one, other).people == {"Ana": Person(("legal",), b"k"), "bob": Person()}
    assert question(one, ask()).people == one.question.people  # type: ignore[union-attr]
    assert question(ask(), one).people == one.question.people  # type: ignore[union-attr]


def test_an_escalation_lets_in_nobody_whom_the_other_does_not_name() -> None:
    late = Escalation(timedelta(hours=1), {"max": Person(), "ana": Person()}, ("pager",))
    one, other = ask(people={"ana": Person()}, escalations=(late,)), ask(people={"ana": Person()})
    (step,) = question(one, other).escalations
    assert (set(step.people), step.notify) == ({"ana"}, ("pager",))
    assert set(question(one, ask()).escalations[0].people) == {"max", "ana"}


def test_what_no_question_can_ask_refuses() -> None:
    verdict = strictest([ask(needs=(Need(60, "a"),)), ask(needs=(Need(60, "b"),))])
    assert (verdict.decision, verdict.question) == ("refuse", None)
    assert "at most" in verdict.why


def test_versions_of_all_policies_count_also_of_those_that_allow() -> None:
    allow, asking = Verdict(decision="allow", policy="1" * 64), ask()
    both = strictest([allow, asking]).policy
    assert len(both) == 64
    assert both not in ("1" * 64, "p")
    assert strictest([allow, asking, asking]).policy == both
    assert strictest([allow, ALLOWED]).policy == "1" * 64
    assert strictest([ALLOWED, ALLOWED]).policy == ""
    assert strictest([]) is ALLOWED


def test_each_budget_is_charged_once_with_the_smaller_limit() -> None:
    def charging(budget: str, limit: int, amount: int, hours: int = 1) -> Verdict:
        window = timedelta(hours=hours)
        charge = Charge(budget=budget, limit=Decimal(limit), window=window, amount=Decimal(amount))
        return Verdict(decision="allow", charges=(charge,))

    merged = strictest(
        [charging("x", 9, 1), charging("x", 5, 2), charging("y", 1, 1), charging("x", 1, 1, hours=2)]
    ).charges
    told = [(each.budget, each.limit, each.amount, each.window // timedelta(hours=1)) for each in merged]
    assert told == [("x", 5, 2, 1), ("y", 1, 1, 1), ("x", 1, 1, 2)]
    assert strictest([charging("x", 9, 1), Verdict(decision="refuse")]).charges == ()


@pytest.mark.parametrize("decision", ["refuse", "ask"])
def test_all_rules_that_decided_are_named(decision: Any) -> None:
    def deciding(name: str) -> Verdict:
        asked = Question(rule=name) if decision == "ask" else None
        return Verdict(decision=decision, rule=name, why=f"why {name}", question=asked)

    merged = strictest([deciding("a"), ALLOWED, deciding("b"), deciding("a")])
    assert (merged.rule, merged.why) == ("a; b", "why a; why b")
