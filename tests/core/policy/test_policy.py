"""Promises of judging: the first rule that applies decides, whatever goes wrong refuses, and a version says it all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Need, Question
from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.core.policy.charging import BudgetRule, is_budget
from indelible.core.policy.conditions import CannotTell, Case
from indelible.core.policy.policy import Asked, Policy, policy_of, rule
from indelible.core.policy.rules import PythonRule
from indelible.core.policy.verdicts import Charge, Verdict
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall, BadPolicy
from tests.core.policies import ARGS, FULL, VALUES, asked, changed_at, full, judged, places

NO_RULES: dict[str, Any] = {}
EVERYTHING = {"name": "everything", "then": "allow"}


def rules(*given: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"rules": list(given), **others}


# ── which rule decides ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_rule_that_applies_decides() -> None:
    small, big = judged(FULL), judged(FULL, args={"amount": 1000})
    assert (small.decision, small.rule, small.why) == ("allow", "small refunds", FULL["rules"][0]["why"])
    assert (big.decision, big.rule) == ("ask", "big refunds")
    assert big.question is not None
    assert big.question.rule == "big refunds"
    for content in (rules(EVERYTHING, {"name": "no", "then": "refuse"}),):
        assert judged(content).decision == "allow"


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "stripe.refunds"},
        {"agent": "other"},
        {"principal": None},
        {"run_id": "job-1"},
        {"tenant": "other"},
        {"environment": "test"},
        {"args": {"charge": "ch_12", "amount": 50.51, "order": {"id": 1}, "reason": "duplicate"}},
        {"args": {"charge": "ch_12", "amount": 13, "order": {"id": 1}, "reason": "duplicate"}},
        {"args": {"charge": "xx", "amount": 5, "order": {"id": 1}, "reason": "duplicate"}},
        {"args": {"charge": "ch_12", "amount": 5, "order": {"id": True}, "reason": "duplicate"}},
        {"args": {"charge": "ch_12", "amount": 5, "order": {"id": 1}}},
    ],
)
def test_every_condition_of_a_rule_has_to_hold(other: dict[str, Any]) -> None:
    assert judged(FULL).rule == "small refunds"
    assert judged(FULL, **other).rule != "small refunds"


@pytest.mark.parametrize("side_effect", SIDE_EFFECTS)
def test_where_no_rule_applies_the_class_decides_and_money_is_asked_about(side_effect: Any) -> None:
    verdict = judged(NO_RULES, side_effect=side_effect)
    assert verdict.decision == ("ask" if side_effect == "payment" else "allow")
    assert verdict.rule == f"default for {side_effect}"
    assert judged({"defaults": "refuse"}, side_effect=side_effect).decision == "refuse"
    assert judged({"defaults": {side_effect: "ask"}}, side_effect=side_effect).decision == "ask"
    assert judged(FULL, tool="crm.lookup", side_effect=side_effect).decision == FULL["defaults"][side_effect]


@pytest.mark.parametrize(
    ("declared", "said", "hold"),
    [
        ("payment", "read", ["payment"]),
        ("read", "payment", ["read", "payment"]),
        ("read", "none", ["read"]),
        ("notification", "external_mutation", ["notification"]),
        ("write", "external_mutation", ["write", "external_mutation"]),
        ("external_mutation", "write", ["external_mutation"]),
    ],
)
def test_a_declared_class_holds_and_the_callers_besides_if_it_is_worse(declared: str, said: Any, hold: Any) -> None:
    made = policy_of({"tools": {"stripe.refund": {"side_effect": declared}}})
    assert [case.asked.side_effect for case in made.cases_of(asked(side_effect=said))] == hold
    assert (made.class_of("stripe.refund"), made.class_of("other")) == (declared, None)
    assert policy_of({}).class_of("stripe.refund") is None


def test_nobody_gets_round_a_rule_about_a_class_by_calling_the_call_worse() -> None:
    budget = {"name": "mails", "match": {"side_effect": "notification"}, "limit": 1, "window": "1h"}
    two = {"match": {"side_effect": "notification"}, "then": "ask", "approvals": {"quorum": 2}}
    for content, said in [
        (rules({"name": "no mails", "match": {"side_effect": "notification"}, "then": "refuse"}), "refuse"),
        (rules({"name": "two look", **two}), "ask"),
        ({"budgets": [budget], "defaults": "allow"}, "allow"),
    ]:
        tools = {"tools": {"stripe.refund": {"side_effect": "notification"}}, "defaults": {"payment": "ask"}}
        honest = judged({**tools, **content}, side_effect="notification")
        worse = judged({**tools, **content}, side_effect="payment")
        assert (worse.decision, worse.charges) == (said, honest.charges)
        assert (worse.question and worse.question.needs) == ((Need(2),) if said == "ask" else None)


# ── what no rule can lift ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_uses_only_the_tools_it_may() -> None:
    content = rules(EVERYTHING)
    for allowed in (["stripe.refund"], ["crm.*", "stripe.*"], ["*"]):
        assert judged(content, allowed_tools=frozenset(allowed)).decision == "allow"
    for allowed in ([], ["stripe"], ["crm.*"], ["stripe.refund*x"]):
        verdict = judged(content, allowed_tools=frozenset(allowed))
        assert (verdict.decision, verdict.rule) == ("refuse", "allowed tools of the run")


@pytest.mark.parametrize("schema", ["", "cd" * 32])
def test_a_tool_whose_schema_is_not_the_pinned_one_is_refused(schema: str) -> None:
    verdict = judged(full(rules=[EVERYTHING]), schema=schema)
    assert (verdict.decision, verdict.rule) == ("refuse", "pinned schemas")


def test_an_unknown_tool_is_refused_once_tools_are_declared() -> None:
    unknown: dict[str, Any] = {"tool": "shell.run", "side_effect": "read"}
    assert judged(rules(EVERYTHING), **unknown).decision == "allow"
    declared = {"tools": {"crm.lookup": {}}}
    verdict = judged(rules(EVERYTHING, **declared), **unknown)
    assert (verdict.decision, verdict.rule) == ("refuse", "unknown tools")
    asking = judged(rules(EVERYTHING, **declared, unknown_tools="ask"), **unknown)
    assert (asking.decision, asking.rule) == ("ask", "unknown tools")
    assert asking.question is not None
    assert judged(rules(EVERYTHING, **declared, unknown_tools="allow"), **unknown).decision == "allow"


def test_only_a_rule_that_speaks_of_unknown_tools_takes_the_place_of_their_default() -> None:
    unknown: dict[str, Any] = {"tool": "shell.run", "side_effect": "read"}
    declared = {"tools": {"crm.lookup": {}}}
    speaking = {"name": "new ones", "match": {"unknown_tool": True, "tool": "shell.*"}, "then": "ask"}
    assert judged(rules(speaking, **declared), **unknown).rule == "new ones"
    assert (
        judged(rules(EVERYTHING, speaking, **declared), **unknown).decision == "refuse"
    )  # the first decides, for less
    known = {"name": "known", "match": {"unknown_tool": False}, "then": "allow"}
    assert judged(rules(known, **declared), **unknown).rule == "unknown tools"
    assert judged(rules(known, **declared), tool="crm.lookup").rule == "known"


@pytest.mark.parametrize(
    ("args", "unknown"),
    [
        ({"charge": 1, "order": {"id": 1}}, []),
        ({"charge": {"any": {"thing": 1}}}, []),
        ({"order": None}, []),
        ({"x": 1}, ["x"]),
        ({"order": {"id": 1, "note": 2}}, ["order.note"]),
        ({"order": [1]}, ["order"]),
        ({"order": "text"}, ["order"]),
        ({"order.id": 1}, ["order.id"]),
        ({"charge.x": 1, "orders": 1}, ["charge.x", "orders"]),
    ],
)
def test_a_field_that_is_not_declared_is_unknown(args: Any, unknown: list[str]) -> None:
    made = policy_of({"tools": {"stripe.refund": {"fields": ["charge", "order.id"]}}})
    assert list(made.cases_of(asked(args=args))[0].unknown_fields) == unknown
    verdict = made.judge(asked(args=args, side_effect="read"))
    assert verdict.decision == ("refuse" if unknown else "allow")
    assert verdict.rule == ("unknown fields" if unknown else "default for read")


def test_a_dummy_field_dodges_nothing() -> None:
    content = {"tools": {"pay": {"fields": ["amount"]}, "free": {}}, "rules": [EVERYTHING]}
    assert judged(content, tool="pay", args={"amount": 1}).decision == "allow"
    assert judged(content, tool="pay", args={"amount": 1, "x": 2}).decision == "refuse"
    assert judged(content, tool="free", args={"amount": 1, "x": 2}).decision == "allow"
    assert judged({**content, "unknown_fields": "ask"}, tool="pay", args={"x": 2}).decision == "ask"
    speaking = {"name": "odd", "match": {"unknown_fields": True}, "then": "allow"}
    assert judged({**content, "rules": [speaking]}, tool="pay", args={"x": 2}).rule == "odd"
    many = judged(content, tool="pay", args={f"{number}{'x' * 200}": 1 for number in range(50)})
    assert len(many.why) < 1000


def test_a_rule_that_asks_is_not_asked_over_by_a_default() -> None:
    content = rules({"name": "ask", "then": "ask", "approvals": {"quorum": 2}}, tools={"a": {}}, unknown_tools="ask")
    assert judged(content, tool="b").rule == "ask"


# ── what goes wrong refuses ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_that_cannot_tell_refuses_by_its_name_and_says_no_value() -> None:
    content = rules({"name": "big", "match": {"args": {"amount": {"gt": 5}}}, "then": "ask"}, EVERYTHING)
    verdict = judged(content, args={"amount": "SECRET"})
    assert (verdict.decision, verdict.rule) == ("refuse", "big")
    assert verdict.why == "raised CannotTell: args.amount is a text, and not a number to be compared"


def raising(error: BaseException) -> Callable[[Asked], Any]:
    def judge(asked: Asked) -> Any:
        raise error

    return judge


@pytest.mark.parametrize(
    "error", [ValueError("SECRET"), RecursionError(), MemoryError(), AssertionError("SECRET"), StopIteration()]
)
def test_a_python_rule_that_raises_refuses_by_its_name_and_the_class_of_the_error(error: Exception) -> None:
    made = Policy.of(rule("mine")(raising(error)), rules(EVERYTHING))
    verdict = made.judge(asked())
    assert (verdict.decision, verdict.rule, verdict.why) == ("refuse", "mine", f"raised {type(error).__name__}")
    assert verdict.policy == made.version


def test_whoever_interrupts_is_not_taken_for_a_verdict() -> None:
    with pytest.raises(KeyboardInterrupt):
        Policy.of(rule("mine")(raising(KeyboardInterrupt()))).judge(asked())


def unchecked(**words: Any) -> Verdict:
    """Gives a verdict that nobody checked, as one would be under python -O."""
    made = Verdict(decision="allow")
    for name, value in words.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize(
    "said",
    ["Allow", "yes", "", True, 1, {}, [], object(), b"allow", unchecked(decision="deny"), unchecked(decision="ask"),
     unchecked(question=Question(rule="x"))],
)  # fmt: skip
def test_what_is_no_decision_is_never_taken_for_a_yes(said: Any) -> None:
    verdict = Policy.of(rule("mine")(lambda asked: said)).judge(asked(side_effect="read"))
    assert (verdict.decision, verdict.rule) == ("refuse", "mine")
    assert verdict.why in ("raised TypeError", "raised BadCall")


def test_a_fault_of_judging_itself_refuses() -> None:
    made = policy_of(FULL)
    for wrong in (asked(side_effect="nonsense"), asked(args=None), asked(args=5), replace(asked(), allowed_tools=5)):  # type: ignore[arg-type]
        verdict = made.judge(wrong)
        assert (verdict.decision, verdict.rule, verdict.policy) == ("refuse", "policy", made.version)


@given(args=ARGS, side_effect=st.sampled_from(SIDE_EFFECTS), tool=st.sampled_from(["stripe.refund", "mail.send", "x"]))
def test_judging_never_raises_and_always_names_the_version(args: Any, side_effect: Any, tool: str) -> None:
    made = policy_of(FULL)
    verdict = made.judge(asked(args=args, side_effect=side_effect, tool=tool))
    assert verdict.policy == made.version
    assert verdict.decision != "refuse" or not verdict.charges


RULINGS: dict[str, Any] = {
    "raises": {"matches": "a"},
    "passes": {"eq": "something else"},
    "applies": {"gt": 0},
}


@given(st.lists(st.tuples(st.sampled_from(sorted(RULINGS)), st.sampled_from(["allow", "ask", "refuse"])), max_size=6))
def test_nothing_is_allowed_when_any_rule_that_was_looked_at_raised(kinds: list[tuple[str, str]]) -> None:
    given = [
        {"name": f"r{number}", "match": {"args": {"amount": RULINGS[kind]}}, "then": then}
        for number, (kind, then) in enumerate(kinds)
    ]
    verdict = judged({"rules": given} if given else {}, side_effect="read")
    looked_at = [kind for kind, _ in kinds if kind != "passes"][:1]
    expected = {"raises": "refuse", "applies": next((then for kind, then in kinds if kind != "passes"), "")}
    assert verdict.decision == (expected[looked_at[0]] if looked_at else "allow")


@given(VALUES)
def test_a_wrapped_or_foreign_amount_never_passes_for_a_small_one(amount: Any) -> None:
    content = rules(
        {"name": "big", "match": {"args": {"order.amount": {"gt": 100}}}, "then": "refuse"},
        {"name": "small", "match": {"args": {"order.amount": {"lte": 100}}}, "then": "allow"},
        defaults="refuse",
    )
    verdict = judged(content, args={"order": {"amount": amount}})
    is_number = isinstance(amount, int | float | Decimal) and not isinstance(amount, bool)
    assert (verdict.decision == "allow") == (
        is_number and Decimal(repr(amount) if isinstance(amount, float) else amount) <= 100
    )
    assert judged(content, args={"order": amount}).decision == "refuse" or isinstance(amount, dict)


# ── rules in Python ──────────────────────────────────────────────────────────────────────────────────────────────────


@rule("weekend", tool=["stripe.*", "wire"], version="2")
def weekend(asked: Asked) -> Any:
    return "refuse" if asked.args.get("day") == "sunday" else None


@rule
def bare(asked: Asked) -> Any:
    return Verdict(decision="ask", question=Question(rule="bare", notify=("pager",)), why="because")


def test_rules_in_python_and_written_ones_stand_in_one_order() -> None:
    content = rules({"name": "written", "match": {"args": {"day": {"exists": True}}}, "then": "allow"})
    assert Policy.of(weekend, content).judge(asked(args={"day": "sunday"})).rule == "weekend"
    assert Policy.of(weekend, content).judge(asked(args={"day": "monday"})).rule == "written"
    assert Policy.of(content, weekend).judge(asked(args={"day": "sunday"})).rule == "written"
    assert Policy.of(weekend).judge(asked(tool="other", args={"day": "sunday"}, side_effect="read")).decision == "allow"
    verdict = Policy.of(bare).judge(asked())
    assert (verdict.decision, verdict.rule, verdict.why) == ("ask", "bare", "because")
    assert verdict.question is not None
    assert verdict.question.notify == ("pager",)
    assert weekend(asked(args={"day": "sunday"})) == "refuse"


def test_a_plain_ask_of_a_python_rule_asks_on_the_terms_of_the_policy() -> None:
    made = Policy.of(rule("mine")(lambda asked: "ask"), {"approvals": {"quorum": 3, "notify": "slack"}})
    question = made.judge(asked()).question
    assert question is not None
    assert (question.rule, question.needs[0].count, question.notify) == ("mine", 3, ("slack",))


def test_what_a_rule_does_to_the_arguments_reaches_nobody_else() -> None:
    @rule("meddling")
    def meddling(asked: Asked) -> None:
        asked.args["order"]["amounts"].append(1)
        asked.args.clear()  # type: ignore[attr-defined]

    args = {"order": {"amounts": [5]}}
    kept = copy.deepcopy(args)
    content = rules({"name": "after", "match": {"args": {"order.amounts": {"length": {"eq": 1}}}}, "then": "refuse"})
    assert Policy.of(meddling, content).judge(asked(args=args)).rule == "after"
    assert args == kept


def test_charges_of_a_python_rule_hold_beside_those_of_budgets() -> None:
    charge = Charge(budget="mine", limit=Decimal(1), window=timedelta(hours=1), amount=Decimal(1))
    costly = rule("costly")(lambda asked: Verdict(decision="allow", charges=(charge,)))
    content = {"budgets": [{"name": "calls", "limit": 1, "window": "1h"}], "tools": {"x": {}}, "unknown_tools": "ask"}
    assert [each.budget for each in Policy.of(costly, content).judge(asked()).charges] == [
        "mine",
        'calls {"seconds":3600}',
    ]
    refusing = rule("no")(lambda asked: Verdict(decision="refuse", charges=(charge,)))
    assert Policy.of(refusing).judge(asked()).charges == ()


async def awaited(asked: Asked) -> Any: ...


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rule("x")(awaited), "not a coroutine"),
        (lambda: rule(awaited), "not a coroutine"),
        (lambda: rule("")(weekend), "rule"),
        (lambda: rule("a {b}")(weekend), "looks like a budget"),
        (lambda: rule("x", tool="a b")(weekend), "cannot be the name of a tool"),
        (lambda: rule("x", tool=[5])(weekend), "cannot be the name of a tool"),
        (lambda: Policy.of(lambda asked: "allow"), "put @rule above"),
        (lambda: Policy.of("policy.yaml"), "neither a rule nor content"),
        (lambda: Policy.of({}, {}), "in one piece"),
    ],
)
def test_what_is_no_rule_is_refused_when_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(BadCall, match=why):
        make()


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(BadPolicy, match="two rules are named 'weekend'"):
        Policy.of(weekend, rules({"name": "weekend", "then": "ask"}))


# ── the version ──────────────────────────────────────────────────────────────────────────────────────────────────────


def typed(value: Any) -> bytes:
    return encode(value)


def shuffled(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: shuffled(content[name]) for name in reversed(content)}
    return tuple(map(shuffled, content)) if isinstance(content, list) else content


def test_equal_content_has_one_version_however_it_is_written() -> None:
    version = policy_of(FULL).version
    assert len(version) == 64
    assert policy_of(copy.deepcopy(FULL)).version == version
    assert policy_of(shuffled(FULL)).version == version
    same = changed_at(FULL, ("rules", 0, "match", "args", "amount", "lte"), lambda _: Decimal("50.50"))
    assert policy_of(same).version == version


@given(st.data())
def test_any_change_of_content_is_another_version(data: st.DataObject) -> None:
    version = policy_of(FULL).version
    place, part = data.draw(st.sampled_from([each for each in places(FULL) if each[0]]))
    if isinstance(part, bool):
        other: Any = not part
    elif isinstance(part, str):
        other = data.draw(st.sampled_from(["allow", "refuse", "bob", "read", "12m", "x", part + "x"]))
    elif isinstance(part, int | float):
        other = data.draw(st.integers(1, 100) | st.decimals(1, 100, places=2))
    elif isinstance(part, list):
        other = part[:-1]
    else:
        other = {name: value for name, value in part.items() if name != next(iter(part), None)} if part else None
    assume(other != part and other is not None)
    try:
        changed = policy_of(changed_at(FULL, place, lambda _: other))
    except BadPolicy:
        return
    assert changed.version != version


def test_rules_in_python_are_part_of_the_version() -> None:
    def made(name: str = "mine", body: Any = lambda asked: "ask", **words: Any) -> str:
        return Policy.of(rule(name, **words)(body)).version

    versions = [
        made(),
        made("other"),
        made(version="2"),
        made(tool="a"),
        made(body=weekend.judge),
        Policy.of().version,
        Policy.of(weekend, FULL).version,
        Policy.of(FULL, weekend).version,
        Policy.of(FULL).version,
        Policy.of(FULL, replace(weekend, source=weekend.source + "\n# changed")).version,
    ]
    assert len(set(versions)) == len(versions)
    assert Policy.of(FULL, weekend).version == Policy.of(FULL, weekend).version
    assert "sunday" in weekend.source


def test_values_that_a_rule_was_made_with_are_part_of_the_version() -> None:
    def at_most(limit: Any, **later: Any) -> str:
        @rule("at most")
        def judge(asked: Asked, most: Any = later) -> Any:
            return "refuse" if asked.args["amount"] > limit or most is unbound else None

        version = Policy.of(judge).version
        unbound = None
        return version

    versions = [at_most(5), at_most(6), at_most("5"), at_most(5, x=1), at_most(object())]
    assert len(set(versions)) == len(versions)
    assert at_most(5) == at_most(5)
    assert at_most(object()) == at_most(object())  # of what has no recorded form, only the kind counts


def test_a_rule_without_source_has_its_name_and_declared_version() -> None:
    made = rule("typed at a prompt", version="3")(eval("lambda asked: None"))
    assert made.source == ""
    assert made.fingerprint[:3] == ["typed at a prompt", [], "3"]
    nameless = rule(tool="x")(PythonRule(name="inner", judge=lambda asked: None))
    assert nameless.name == "PythonRule"


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

DAILY = {"name": "a day", "match": {"tool": "stripe.*"}, "limit": 100, "window": "24h", "sum": "amount", "per": "agent"}


def charges(content: dict[str, Any], **changes: Any) -> list[Charge]:
    return list(judged({"budgets": [content]}, **{"side_effect": "read", **changes}).charges)


def test_a_call_is_charged_to_the_budgets_it_is_about() -> None:
    first, second = judged(FULL).charges
    assert first == Charge(
        budget='refunds a day {"agent":"billing","seconds":86400,"sum":"amount","tenant":"default"}',
        limit=Decimal("500.25"),
        window=timedelta(days=1),
        amount=Decimal(5),
    )
    assert (second.budget, second.amount) == ('calls {"run":"order-1","seconds":60}', Decimal(1))
    assert charges(DAILY, tool="crm.lookup") == []
    assert judged({"budgets": [DAILY]}, side_effect="payment").charges != ()  # also while somebody is asked


@pytest.mark.parametrize(
    ("amount", "charged"),
    [
        (5, "5"),
        (0, "0"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (Decimal("12.34"), "12.34"),
        (10**15 - 1, "999999999999999"),
        (1e-9, "1E-9"),
    ],
)
def test_amounts_are_exact(amount: Any, charged: str) -> None:
    (charge,) = charges(DAILY, args={"amount": amount})
    assert str(charge.amount) == charged
    with localcontext() as context:
        context.prec = 3  # whoever calls us may compute as sloppily as they like
        assert charges(DAILY, args={"amount": amount}) == [charge]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({}, "is missing"),
        ({"amount": None}, "is null"),
        ({"amount": "5"}, "is a text"),
        ({"amount": True}, "is a truth value"),
        ({"amount": [5]}, "is a list"),
        ({"amount": -1}, "negative"),
        ({"amount": -0.5}, "negative"),
        ({"amount": 10**15}, "digits before the point"),
        ({"amount": Decimal("1E-10")}, "9 after it"),
    ],
)
def test_an_amount_that_is_none_refuses_by_the_budgets_name(args: Any, why: str) -> None:
    verdict = judged({"budgets": [DAILY], "rules": [EVERYTHING]}, args=args)
    assert (verdict.decision, verdict.rule, verdict.charges) == ("refuse", "a day", ())
    assert why in verdict.why


PER = st.lists(st.sampled_from(["tool", "agent", "run", "tenant"]), unique=True)
NAME = st.text(max_size=3).map(lambda text: f"n{text}") | st.text('"\\{}#,:= ', max_size=4)


@given(st.data())
def test_two_budgets_share_a_name_only_if_they_are_one(data: st.DataObject) -> None:
    def draw() -> tuple[tuple[Any, ...], str]:
        per = tuple(data.draw(PER))
        name = data.draw(st.sampled_from(["a", "a ", 'a "', "b"]))
        who = data.draw(st.tuples(NAME, NAME))
        window, counted = data.draw(st.sampled_from([60, 3600])), data.draw(st.sampled_from([None, "x"]))
        made = BudgetRule(
            name=name, conditions=(), per=per, limit=Decimal(1), window=timedelta(seconds=window), sum=counted
        )
        call = asked(agent=who[0], run_id=who[1])
        counted_by = {"tool": call.tool, "agent": who[0], "run": who[1], "tenant": call.tenant}
        identity = (name, window, counted, frozenset((word, counted_by[word]) for word in per))
        return identity, made.budget_for(call)

    one, other = draw(), draw()
    assert (one[0] == other[0]) == (one[1] == other[1])
    assert is_budget(one[1])


def test_the_name_of_a_budget_fits_into_an_index() -> None:
    long = charges({**DAILY, "per": ["agent", "run", "tool"]}, agent="a" * 500, run_id="r" * 500)[0].budget
    other = charges({**DAILY, "per": ["agent", "run", "tool"]}, agent="a" * 500, run_id="s" * 500)[0].budget
    assert len(long) < 100
    assert long != other


def test_a_budget_whose_match_cannot_be_told_refuses() -> None:
    wrong = {**DAILY, "match": {"args": {"amount": {"matches": "5"}}}}
    verdict = judged({"budgets": [wrong]}, side_effect="read")
    assert (verdict.decision, verdict.rule) == ("refuse", "a day")
    made = policy_of({"budgets": [wrong]}).parts.budgets[0]
    with pytest.raises(CannotTell):
        made.charge_for(Case(asked()))


def test_an_amount_that_is_not_recorded_is_not_added_up() -> None:
    made = policy_of({"budgets": [{**DAILY, "sum": "amount"}]}).parts.budgets[0]
    case = Case(replace(asked(), recorded_args={"amount": Redacted("0" * 64)}))
    with pytest.raises(CannotTell, match="amount is redacted"):
        made.charge_for(case)
    told = made.charge_for(Case(replace(asked(), recorded_args={"amount": 7})))
    assert told is not None
    assert told.amount == 7


def test_55_a_rule_about_the_ledgers_own_record_is_refused() -> None:
    with pytest.raises(BadPolicy):
        policy_of({"rules": [{"name": "turns", "match": {"tool": "model.turn"}, "then": "refuse"}]})
