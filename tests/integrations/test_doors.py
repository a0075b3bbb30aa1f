"""The property over all doors: judged = shown = keyed = run, after the framework's own validation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any

import pytest
from agents import set_tracing_disabled
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

from indelible import AsyncLedger, Ledger, Policy, ToolCall, rule
from indelible.core.approvals.edits import stands_for
from indelible.core.effects.identity import identify
from indelible.core.policy.policy import Asked
from indelible.core.values.canonical import encode
from indelible.errors import BadCall
from indelible.integrations.langchain import LedgerMiddleware
from indelible.stores import migrate
from tests.integrations.doors import BY_THE_TOOL, DOORS, PAUSED, TAKES_EDITS, TOOL, VALIDATING, Made, Money, Site
from tests.integrations.langchain_agents import Scripted, calls
from tests.integrations.test_repeats import anyio_backend

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.anyio

texts = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=5)
numbers = st.integers(-(10**6), 10**6)
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    int: numbers,
    str: texts,
    bool: st.booleans(),
    list[int]: st.lists(numbers, max_size=3),
    dict[str, int]: st.dictionaries(texts, numbers, max_size=2),
    str | None: st.none() | texts,
}
MONEY = st.fixed_dictionaries({}, optional={"amount": numbers, "currency": texts})


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[inspect.Parameter], dict[str, Any], dict[str, Any]]:
    """Give the parameters of a tool, arguments that leave out some defaults, and what an approver changes."""
    parameters, args, edits = [], {}, {}
    named = [("amount", int, numbers, 5000)]
    for number, kind in enumerate(draw(st.lists(st.sampled_from(list(KINDS)), max_size=3))):
        named.append((f"p{number}", kind, KINDS[kind], draw(KINDS[kind])))
    if draw(st.booleans()):
        named.append(("money", Money, MONEY, Money()))
    for name, kind, values, default in named:
        has_default = name in ("amount", "money") or draw(st.booleans())
        chosen = default if has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=chosen, annotation=kind))
        if not has_default or draw(st.booleans()):
            args[name] = draw(values)
        if draw(st.booleans()):
            edits[name] = draw(edited(args.get(name, default), values))
    return parameters, args, edits


def edited(value: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Give what an approver may put in the place of a value: of an object, something for every member it has."""
    if isinstance(value, Money) or values is MONEY:
        return st.fixed_dictionaries({"amount": numbers, "currency": texts})
    if isinstance(value, dict):
        whole = st.fixed_dictionaries(dict.fromkeys(value, numbers))
        return st.builds(lambda more, members: more | members, values, whole)
    return values


class Bench:
    """One ledger for a case through one door, with a policy that remembers what it judged."""

    def __init__(self) -> None:
        self.judged: list[dict[str, Any]] = []

    def policy(self) -> Policy:
        def asks(asked: Asked) -> str:
            self.judged.append(dict(asked.args))
            return "refuse" if asked.args["amount"] > 1000 else "ask"

        return Policy.of(rule("asks", tool=TOOL)(asks))  # type: ignore[arg-type]


async def through(
    door: str,
    url: str,
    run: str,
    case: tuple[list[inspect.Parameter], Mapping[str, Any], Mapping[str, Any]],
    *,
    is_edited_elsewhere: bool = False,
) -> tuple[str, Any, str]:
    """Make a call through a door, let it be edited and approved, make it again; return verdict, arguments and key."""
    parameters, args, edits = case
    made, bench = Made(parameters), Bench()
    words = {"side_effect": "payment", "dedupe": "args", "scope": "all"}
    opened: Any = {"tenant": run, "seal": False, "policy": bench.policy(), "wakeups": False}
    async with Site(url, **opened) as site, AsyncLedger.open(url, **opened) as elsewhere:
        ledger = site.ledger
        await DOORS[door](site, made, args, run, words)
        effects = await ledger.effects(run_id=run)
        judged = bench.judged[0]
        assert all(each == judged for each in bench.judged), "judged alike each time"
        assert bool(effects) == (judged["amount"] <= 1000)
        if not effects:  # refused, and nothing ran
            assert made.got == []
            return "refused", judged, ""
        (effect,) = effects
        assert effect.args == judged, "recorded as it was judged"
        known = identify(ToolCall(tool=TOOL, args=judged, run_id=run, scope="all"), run)
        assert (effect.ref.key, effect.digest) == (known.ref.key, known.digest), "keyed by what was judged"
        (question,) = await ledger.approvals(status="pending")
        view = await ledger.view_approval(question)
        assert view.args == judged, "shown as it was judged"
        will_run = judged
        if edits and door in TAKES_EDITS and judged["amount"] <= 1000 and edits.get("amount", 0) <= 1000:
            will_run = made.whole({**judged, **edits})
            is_edited_elsewhere = is_edited_elsewhere or door == "server"
            desk = elsewhere if is_edited_elsewhere else site.remote() if door == "connected" else ledger
            question = await desk.edit_approval(question, {**judged, **edits}, digest=question.digest, by="ana")
            if is_edited_elsewhere:  # where the tool is not known: the caller reads the edit, and asks if it has to
                await DOORS[door](site, made, args, run, words)
                (question,) = await ledger.approvals(status="pending")
            assert (await ledger.view_approval(question)).args == will_run, "shown as it was edited"
            assert bench.judged[-1] == will_run, "judged as it was edited"
        await ledger.approve(question, digest=question.digest, by="bob")
        await DOORS[door](site, made, args, run, words)
        await DOORS[door](site, made, judged, run, words)  # every default spelled out: the same call
        assert [encode(each) for each in made.got] == [encode(will_run)], "run once, as it was shown"
        (after,) = (one for one in await ledger.effects(run_id=run) if stands_for(one) is None)
        assert (after.id, after.status) == (effect.id, "succeeded")
    return "asked", judged, known.digest


def alike(case: Any, doors: Any, url: str, runs: Iterator[int]) -> Iterator[tuple[str, str]]:
    for door in doors:
        if "money" in case[1] and door not in VALIDATING:
            continue
        yield door, f"r{next(runs)}"


async def check(case: Any, doors: Any, url: str, runs: Iterator[int]) -> None:
    parameters, args, _ = case
    verdicts = {door: await through(door, url, run, case) for door, run in alike(case, doors, url, runs)}
    whole = Made(parameters).whole(args)
    for door, (verdict, judged, _) in verdicts.items():
        assert encode(judged) == encode(whole), f"{door}: after the framework's own validation"
        assert verdict == ("refused" if whole["amount"] > 1000 else "asked"), door


@pytest.fixture(scope="module")
def runs() -> Iterator[int]:
    return iter(range(10**9))


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


MORE = {"amount": 7, "currency": "eur"}
OBJECTS = [_keyword("amount", int, 5000), _keyword("p0", dict[str, int], {}), _keyword("money", Money, Money())]
EDITED_OBJECTS = {"p0": {"a": 2, "b": 3}, "money": MORE}


@example(case=(OBJECTS, {"amount": 5, "p0": {"a": 1}}, EDITED_OBJECTS))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=cases())
async def test_judged_is_shown_is_keyed_is_run_through_every_door(
    case: Any, sqlite_url: str, runs: Iterator[int]
) -> None:
    await check(case, DOORS, sqlite_url, runs)


class Line(BaseModel):
    """An object with defaults, a second name for a field, and numbers that may come as texts."""

    model_config = ConfigDict(populate_by_name=True)
    sku: int = 7
    cents: int = Field(default=5000, alias="amountCents")


class Cart(BaseModel):
    """An object with objects inside."""

    lines: list[Line] = []
    tip: Line | None = None


as_texts = numbers | numbers.map(str)
LINE = st.fixed_dictionaries({}, optional={"sku": as_texts, "cents": as_texts, "amountCents": numbers})
OBJECTS: dict[Any, st.SearchStrategy[Any]] = {
    Line: LINE,
    Line | None: st.none() | LINE,
    list[Line]: st.lists(LINE, max_size=2),
    dict[str, Line]: st.dictionaries(texts, LINE, max_size=2),
    Cart: st.fixed_dictionaries({}, optional={"lines": st.lists(LINE, max_size=2), "tip": st.none() | LINE}),
}
EMPTY: dict[Any, Any] = {Line | None: None, list[Line]: [], dict[str, Line]: {}}


@st.composite
def object_cases(draw: st.DrawFn) -> tuple[list[inspect.Parameter], dict[str, Any], dict[str, Any]]:
    """Give a tool that takes objects, arguments that leave defaults out, and objects that an approver puts in."""
    parameters, args = [_keyword("amount", int, 5000)], {"amount": draw(st.integers(-10, 1100))}
    edits: dict[str, Any] = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from(list(OBJECTS)), min_size=1, max_size=2))):
        name = f"p{number}"
        parameters.append(_keyword(name, kind, inspect.Parameter.empty))
        args[name] = draw(OBJECTS[kind])
        if kind in EMPTY and draw(st.booleans()):  # an edit leaves out no member that is there
            args[name], edits[name] = EMPTY[kind], draw(OBJECTS[kind])
    return parameters, args, edits


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=object_cases(), is_edited_elsewhere=st.booleans())
async def test_38_what_a_tools_types_read_is_judged_shown_keyed_and_run(
    case: Any, is_edited_elsewhere: bool, sqlite_url: str, runs: Iterator[int]
) -> None:
    whole = Made(case[0]).whole(case[1])
    for door in BY_THE_TOOL:
        run = f"r{next(runs)}"
        verdict, judged, _ = await through(door, sqlite_url, run, case, is_edited_elsewhere=is_edited_elsewhere)
        assert encode(judged) == encode(whole), door
        assert verdict == ("refused" if whole["amount"] > 1000 else "asked"), door


async def test_38_a_text_for_a_number_is_refused_where_only_a_schema_is_known(store_url: str) -> None:
    migrate(store_url)
    made = Made([_keyword("amount", int, 5), _keyword("money", Money, Money())])
    async with Site(store_url, seal=False) as site:
        for args in ({"amount": "5000"}, {"money": {"amount": "5000"}}):
            await DOORS["mcp"](site, made, args, "r1", {"side_effect": "payment"})  # the model is told
        assert list(await site.ledger.effects()) == []
    assert made.got == []


@pytest.mark.parametrize("args", [{}, {"amount": 5}, {"amount": 5, "money": {"currency": "eur"}}])
async def test_38_a_default_is_judged_shown_keyed_and_run_on_both_stores(
    args: dict[str, Any], store_url: str, runs: Iterator[int]
) -> None:
    migrate(store_url)
    kinds = [("amount", int, 5000), ("money", Money, Money()), ("memo", str | None, None)]
    parameters = [_keyword(*each) for each in kinds]
    await check((parameters, args, {"memo": "by ana"}), DOORS, store_url, runs)


IN_CENTS = Annotated[int, AfterValidator(lambda euros: euros * 100)]
"""Is read otherwise when it is given: pydantic converts no default, and converts the same number if a model says it."""
AFTER_ALL = sorted(set(DOORS) - {"mcp"})
"""The doors that know how the tool reads its arguments. What a server of MCP does with them, only its schema tells."""


@pytest.mark.parametrize("args", [{}, {"memo": "by bob"}])
@pytest.mark.parametrize("door", AFTER_ALL)
async def test_38_a_default_that_is_read_otherwise_when_it_is_given_runs_as_it_was_shown(
    door: str, args: dict[str, Any], sqlite_url: str
) -> None:
    made = Made([_keyword("amount", IN_CENTS, 5), _keyword("memo", str, "")])
    async with Site(sqlite_url, seal=False, approval="required") as site:
        ledger = site.ledger
        words = {"side_effect": "payment", "dedupe": "args"}
        await DOORS[door](site, made, args, "r1", words)
        (question,) = await ledger.approvals(status="pending")
        shown = (await ledger.view_approval(question)).args
        assert shown == {"amount": 5, "memo": "", **args}
        await ledger.approve(question, digest=question.digest, by="ana")
        await DOORS[door](site, made, args, "r1", words)
        (effect,) = await ledger.effects()
        assert made.got == [effect.args] == [shown]


@pytest.mark.parametrize("door", DOORS)
async def test_38_the_default_of_a_schema_is_judged_shown_keyed_and_run_where_the_function_has_another(
    door: str, sqlite_url: str
) -> None:
    made = Made([_keyword("amount", int, 5)], own={"amount": 500})
    async with Site(sqlite_url, seal=False, approval="required") as site:
        words = {"side_effect": "payment", "dedupe": "args"}
        await DOORS[door](site, made, {}, "r1", words)
        (question,) = await site.ledger.approvals(status="pending")
        assert (await site.ledger.view_approval(question)).args == {"amount": 5}
        await site.ledger.approve(question, digest=question.digest, by="ana")
        await DOORS[door](site, made, {}, "r1", words)
        assert [one.args for one in await site.ledger.effects()] == made.got == [{"amount": 5}]


class Strict(BaseModel):
    """Arguments whose schema has a validator and an alias: what is shown of them is not always what is read."""

    order: str = Field(alias="orderId")
    amount: int = 5000

    @field_validator("amount", mode="before")
    @classmethod
    def _in_cents(cls, value: Any) -> Any:
        return int(value[1:]) * 100 if isinstance(value, str) else value


class Hidden(BaseModel):
    """Arguments of which one hides itself when it is shown."""

    token: SecretStr = SecretStr("none")
    amount: int = 5000


@pytest.mark.parametrize(
    ("schema", "args", "judged"),
    [
        (Strict, {"orderId": "1"}, {"orderId": "1", "amount": 5000}),
        (Strict, {"orderId": "1", "amount": "$70"}, {"orderId": "1", "amount": 7000}),
        (Hidden, {"token": "t"}, {"token": "t", "amount": 5000}),
        (Hidden, {}, None),
    ],
)
async def test_38_a_langchain_schema_with_validators_shows_its_defaults(
    sqlite_url: str, schema: Any, args: dict[str, Any], judged: dict[str, Any] | None
) -> None:
    bench, ran = Bench(), []

    def pay(**given: Any) -> str:
        ran.append(given)
        return "paid"

    tool = StructuredTool.from_function(pay, name=TOOL, description="Pays.", args_schema=schema)
    turns = [calls((TOOL, args, "c1")), AIMessage(content="done")]
    async with AsyncLedger.open(sqlite_url, seal=False, policy=bench.policy()) as ledger:
        behind = LedgerMiddleware(ledger, model_turns=False)
        agent = create_agent(Scripted(responses=turns), [tool], middleware=[behind], checkpointer=InMemorySaver())
        await agent.ainvoke({"messages": [("user", "pay")]}, {"configurable": {"thread_id": "t"}})  # type: ignore[call-overload]
    if judged is None:  # the default is a secret, so no JSON tells it, and the model is told so
        assert bench.judged == []
    else:
        assert bench.judged[0]["amount"] == judged["amount"] > 1000
    assert ran == []


def test_38_a_call_by_hand_shows_the_defaults_inside_of_its_values(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        tool = ledger.tool(TOOL)(_pays)
        call = tool.completed(ToolCall(tool=TOOL, args={"money": {"currency": "eur"}, "more": [{"amount": 1}]}))
        assert call.args == {
            "money": {"currency": "eur", "amount": 5000},
            "more": [{"amount": 1, "currency": "usd"}],
        }
        with pytest.raises(BadCall):
            tool.completed(ToolCall(tool=TOOL, args={"money": {"amount": "much"}}))


def _pays(money: Money, more: list[Money] = []) -> None:  # noqa: B006
    raise NotImplementedError


@pytest.mark.parametrize("door", DOORS)
async def test_53_a_model_that_repeats_itself_pays_once(door: str, store_url: str) -> None:
    migrate(store_url)
    made = Made([_keyword("amount", int, 5000)])
    async with Site(store_url, seal=False) as site:
        for args in ({}, {"amount": 5000}, {}):  # each with a call id of its own
            await DOORS[door](site, made, args, "r1", {"side_effect": "payment"})
    assert made.got == [{"amount": 5000}]


@pytest.mark.parametrize("door", sorted(TAKES_EDITS))
async def test_38_an_edit_that_leaves_an_argument_out_is_refused(door: str, sqlite_url: str) -> None:
    made = Made([_keyword("order", str, "o1"), _keyword("amount", int, 5000), _keyword("money", Money, Money())])
    async with Site(sqlite_url, seal=False) as site:
        ledger = site.ledger
        words = {"side_effect": "payment", "approval": "required", "dedupe": "args"}
        await DOORS[door](site, made, {"amount": 5}, "r1", words)
        (question,) = await ledger.approvals(status="pending")
        for left_out in ({"order": "o1", "money": MORE}, {"order": "o1", "amount": 6, "money": {"amount": 7}}):
            with pytest.raises(BadCall):
                await ledger.edit_approval(question, left_out, digest=question.digest, by="ana")
        edited = {"order": "o1", "amount": 6, "money": MORE}
        question = await ledger.edit_approval(question, edited, digest=question.digest, by="ana")
        await ledger.approve(question, digest=question.digest, by="bob")
        await DOORS[door](site, made, {"amount": 5}, "r1", words)
    assert made.got == [edited]


BY_TERMS = [door for door in DOORS if door not in (*BY_THE_TOOL, "server")]
"""The doors of adapters, which say by terms of their own how a tool is treated."""
ORDER = [_keyword("order", str, "o1"), _keyword("amount", int, 5), _keyword("memo", str, "")]
STRICT: dict[str, Any] = {"side_effect": "payment", "approval": "required"}
KNOWN_BY: dict[str, Any] = {"key": ["order"], "scope": "orders", "varies": ["memo"]}


async def _makes_one_payment(site: Site, door: str, made: Made, words: dict[str, Any]) -> None:
    """Call in one run, let it be approved, and call again in other runs and in other words."""
    ledger = site.ledger
    await DOORS[door](site, made, {"order": "o1"}, "r1", words)
    (effect,) = await ledger.effects()
    assert (effect.side_effect, effect.status, made.got) == ("payment", "requires_approval", [])
    (question,) = await ledger.approvals(status="pending")
    await ledger.approve(question, digest=question.digest, by="ana")
    for run, args, turn in (
        ("r1", {"order": "o1"}, "m1"),
        ("r1", {"order": "o1", "memo": "again"}, "m2"),
        ("r2", {"order": "o1", "amount": 5}, "m1"),
        ("r3", {"order": "o1", "amount": 6}, "m1"),
    ):
        await DOORS[door](site, made, args, run, words, turn)
        assert len(made.got) == 1, (run, args)
    assert [one.status for one in await ledger.effects()] == ["succeeded"]


@pytest.mark.parametrize("words", [{}, {"side_effect": "read"}, {"side_effect": "none", "approval": "none"}])
@pytest.mark.parametrize("door", BY_TERMS)
async def test_39_what_a_registered_tool_says_holds_behind_every_adapter(
    door: str, words: dict[str, Any], store_url: str
) -> None:
    migrate(store_url)
    made = Made(ORDER)
    async with Site(store_url, seal=False) as site:
        site.ledger.blocking.tool(TOOL, **STRICT, **KNOWN_BY)(made.function)
        await _makes_one_payment(site, door, made, words)


@pytest.mark.parametrize("door", DOORS)
async def test_39_what_a_policy_and_a_ledger_say_holds_through_every_door(door: str, store_url: str) -> None:
    migrate(store_url)
    made = Made(ORDER)
    policy = {"tools": {TOOL: {"side_effect": "payment"}}, "defaults": "ask"}
    async with Site(store_url, seal=False, policy=policy, approval="required") as site:
        await _makes_one_payment(site, door, made, {"side_effect": "read", **KNOWN_BY})


OF_MODELS = [door for door in DOORS if door not in (*BY_THE_TOOL, "server")]
BY_MEMO = {"namespace": "shop", "type": "order", "id": "args.memo"}
UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a mark": ({"memo": {"$redacted": "00ff"}}, {}, {}),
    "no text that can be written": ({"memo": "\ud800"}, {}, {}),
    "a number that is none": ({"memo": float("nan")}, {}, {}),
    "nothing that names the resource": ({"memo": ""}, {"exclusive": BY_MEMO}, {}),
    "no key field": ({"memo": {}}, {"key": ["memo.order"]}, {}),
    "too much": ({"memo": "x" * 3000}, {}, {"max_args_bytes": 2000}),
}


MADE_FIT = {
    ("mcp", "a number that is none"),
    ("openai_agents", "no text that can be written"),
    ("pydantic_ai", "no text that can be written"),
}
"""Are arguments that a client mends before it sends them, or that a framework refuses by itself."""


@pytest.mark.parametrize(("door", "unfit"), [each for each in product(OF_MODELS, UNFIT) if each not in MADE_FIT])
async def test_53_a_model_is_told_of_arguments_that_no_call_can_have(store_url: str, door: str, unfit: str) -> None:
    """They ended the agent, and with it what the user had asked for: only the model can say others."""
    args, words, opened = UNFIT[unfit]
    made = Made([_keyword("amount", int, 5), _keyword("memo", Any, inspect.Parameter.empty)])
    migrate(store_url)
    async with Site(store_url, seal=False, **opened) as site:
        told = await DOORS[door](site, made, args, "r1", {"side_effect": "payment", **words})
        assert not told.startswith(PAUSED)
        assert made.got == []
        assert list(await site.ledger.effects()) == []
        assert "paid" in await DOORS[door](site, made, {"memo": "m"}, "r1", {"side_effect": "payment"})
    assert len(made.got) == 1
