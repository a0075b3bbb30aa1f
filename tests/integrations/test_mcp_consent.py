"""What a person approves at an MCP gate is what was recorded, shown whole, listed now, and all that reaches the tool.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from indelible import AsyncLedger, migrate
from indelible.errors import NotPermitted, StoreUnavailable
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_words import IDEMPOTENCY_KEY, MOST_SHOWN
from indelible.integrations.telling import TEXTS

pytestmark = pytest.mark.anyio
MODES = ("2026-07-28", "legacy")
ASKED = {"approval": "required", "approver": "ana"}
REFUSED = TEXTS["failed"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url, seal=False) as opened:
        yield opened


class Bank:
    """An MCP server with one tool, which remembers all that it was sent."""

    def __init__(self) -> None:
        self.sent: list[types.CallToolRequestParams] = []
        properties = {"to": {"type": "string"}, "amount": {"type": "integer", "default": 7}}
        schema = {"type": "object", "properties": properties, "required": ["to"], "additionalProperties": False}
        self.tool = types.Tool(name="pay", description="Pays.", input_schema=schema)
        self.asks: types.InputRequiredResult | None = None
        self.server: Server[Any] = Server("bank", on_list_tools=self._list, on_call_tool=self._call)

    @property
    def paid(self) -> list[dict[str, Any]]:
        return [dict(one.arguments or {}) for one in self.sent]

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        """List the tool on the second page."""
        if params is None or params.cursor is None:
            return types.ListToolsResult(tools=[], next_cursor="2")
        return types.ListToolsResult(tools=[self.tool])

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.sent.append(params)
        if self.asks is not None and params.request_state is None:
            return self.asks
        return types.CallToolResult(content=[types.TextContent(text="paid")], structured_content={"paid": 1})


class Person:
    """Answers the forms of a client, does something before, and remembers what was shown and what could be chosen."""

    def __init__(self, action: str = "accept", before: Callable[[], Any] | None = None, **content: Any) -> None:
        self.shown: list[str] = []
        self.could_vote: list[bool] = []
        self.action, self.content, self.before = action, content, before

    async def __call__(self, ctx: Any, params: Any) -> types.ElicitResult:
        self.shown.append(params.message)
        self.could_vote.append("decision" in params.requested_schema["properties"])
        if self.before is not None:
            await self.before()
        return types.ElicitResult(action=self.action, content=self.content or None)  # type: ignore[arg-type]


@asynccontextmanager
async def behind(
    ledger: AsyncLedger, bank: Bank, person: Person | None = None, *, mode: str = MODES[0], **words: Any
) -> AsyncIterator[Client]:
    async with (
        Client(bank.server) as upstream,
        Client(
            ledger_proxy(ledger, upstream, run="order-1", **words),
            mode=mode,
            elicitation_callback=person,
            input_required_max_rounds=2,
        ) as client,
    ):
        yield client


def text(result: types.CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def statuses(ledger: AsyncLedger) -> list[str]:
    """Return how calls stand; an edit leaves another, canceled, at the place of the edited call."""
    found = [effect.status for effect in await ledger.effects(run_id="order-1")]
    return [status for status in found if status != "canceled"]


async def edited(ledger: AsyncLedger, args: dict[str, Any]) -> None:
    (question,) = await ledger.approvals(status="pending")
    await ledger.edit_approval(question, args, digest=question.digest, by="mallory")


EVIL = {"to": "mallory", "amount": 999999}


@pytest.mark.parametrize("mode", MODES)
async def test_84_the_form_shows_what_would_run_and_not_what_the_caller_says(ledger: AsyncLedger, mode: str) -> None:
    bank, ana = Bank(), Person(decision="approve")
    async with behind(ledger, bank, mode="legacy", **ASKED) as client:  # it cannot be asked, so the call waits
        await client.call_tool("pay", {"to": "bob", "amount": 7})
    await edited(ledger, EVIL)
    async with behind(ledger, bank, ana, mode=mode, **ASKED) as client:
        await client.call_tool("pay", {"to": "bob", "amount": 7})
    assert ana.shown
    assert all("mallory" in one and "999999" in one and "bob" not in one for one in ana.shown)
    assert bank.paid == [EVIL]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_84_a_vote_on_what_was_edited_while_it_was_shown_does_not_count(
    ledger: AsyncLedger, mode: str, decision: str
) -> None:
    bank = Bank()
    ana = Person(decision=decision, before=lambda: edited(ledger, EVIL))
    async with behind(ledger, bank, ana, mode=mode, **ASKED) as client:
        told = await client.call_tool("pay", {"to": "bob", "amount": 7})
    assert told.is_error
    assert (bank.paid, await statuses(ledger)) == ([], ["requires_approval"])
    (question,) = await ledger.approvals(status="pending")
    assert question.votes == ()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("content", [{}, {"decision": "approve"}], ids=["accepts", "approves"])
async def test_84_what_is_too_large_to_be_shown_is_not_decided_there(
    ledger: AsyncLedger, mode: str, content: dict[str, Any]
) -> None:
    """Following the form, or answering more than it asks, neither approves nor denies: it says where to decide."""
    bank, ana = Bank(), Person(**content)
    large = {"to": "b" * MOST_SHOWN, "amount": 7}
    async with behind(ledger, bank, ana, mode=mode, **ASKED) as client:
        if mode == "legacy":
            ana.before = lambda: _decided_elsewhere(ledger, bank)
            assert text(await client.call_tool("pay", large)) == "paid"
        else:
            asked = await client.session.call_tool("pay", large, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            assert asked.input_requests is not None
            answer = {name: types.ElicitResult(action="accept", content=content) for name in asked.input_requests}
            again = await client.session.call_tool(
                "pay", large, request_state=asked.request_state, input_responses=answer, allow_input_required=True
            )
            assert isinstance(again, types.InputRequiredResult), "it was looked at, and still waits"
            await _decided_elsewhere(ledger, bank)
            done = await client.session.call_tool(
                "pay", large, request_state=again.request_state, input_responses=answer, allow_input_required=True
            )
            assert isinstance(done, types.CallToolResult)
            (form,) = again.input_requests.values()  # type: ignore[union-attr]
            ana.shown.append(form.params.message)  # type: ignore[union-attr]
            ana.could_vote.append("decision" in form.params.requested_schema["properties"])  # type: ignore[union-attr]
    (question,) = await ledger.approvals()
    assert [f"indelible approvals show {question.id}" in one for one in ana.shown] == [True]
    assert ana.could_vote == [False]
    assert [vote.by for vote in question.votes] == ["eve"]
    assert bank.paid == [large]


async def _decided_elsewhere(ledger: AsyncLedger, bank: Bank) -> None:
    (question,) = await ledger.approvals(status="pending")
    assert (question.votes, bank.paid) == ((), [])
    await ledger.approve(question, digest=question.digest, by="eve")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("failure", [NotPermitted("may not vote"), StoreUnavailable("away")], ids=repr)
async def test_09_a_vote_that_cannot_be_cast_leaves_the_call_waiting_and_says_why(
    ledger: AsyncLedger, monkeypatch: pytest.MonkeyPatch, failure: Exception, mode: str
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise failure

    async def breaks() -> None:
        monkeypatch.setattr(AsyncLedger, "approve", fails)

    bank = Bank()
    async with behind(ledger, bank, Person(before=breaks, decision="approve"), mode=mode, **ASKED) as client:
        told = await client.call_tool("pay", {"to": "bob"})
    (approval,) = await ledger.approvals(status="pending")
    assert str(failure) in text(told)
    assert approval.id in text(told)
    assert bank.paid == []


async def test_84_a_form_that_comes_back_without_a_decision_is_no_vote(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank, Person(reason="hm"), mode="legacy", **ASKED) as client:
        told = await client.call_tool("pay", {"to": "bob"})
    (question,) = await ledger.approvals()
    assert (told.is_error, question.status, question.votes) == (True, "pending", ())


@pytest.mark.parametrize(
    "args",
    [
        {"to": "bob", "cc": "mallory"},
        {"amount": 7},
        {"to": 5},
        {"to": "bob", "amount": "many"},
        {"to": "bob", "_meta": 1},
    ],
)
async def test_91_arguments_that_do_not_fit_the_schema_are_not_recorded_and_not_sent(
    ledger: AsyncLedger, args: dict[str, Any]
) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        told = await client.call_tool("pay", args)
    assert told.is_error
    assert "was not called" in text(told)
    assert (bank.sent, await statuses(ledger)) == ([], [])


async def test_91_edited_arguments_that_do_not_fit_are_not_sent_either(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank, mode="legacy", **ASKED) as client:
        await client.call_tool("pay", {"to": "bob"})
        await edited(ledger, {"to": "bob", "amount": "many"})
        (question,) = await ledger.approvals(status="pending")
        await ledger.approve(question, digest=question.digest, by="eve")
        told = await client.call_tool("pay", {"to": "bob"})
    assert told.is_error
    assert "was not called" in text(told)
    assert (bank.sent, await statuses(ledger)) == ([], ["ready"])


async def test_91_a_default_of_the_schema_is_judged(ledger: AsyncLedger) -> None:
    bank = Bank()
    rule = {"name": "small", "match": {"args": {"amount": {"gte": 7}}}, "then": "refuse"}
    await ledger.apply_policy({"rules": [rule]}, by="ana")
    async with behind(ledger, bank) as client:
        assert (await client.call_tool("pay", {"to": "bob"})).is_error
        assert not (await client.call_tool("pay", {"to": "bob", "amount": 6})).is_error
    assert bank.paid == [{"to": "bob", "amount": 6}]


def _described_anew(tool: types.Tool) -> list[types.Tool]:
    more = {**tool.input_schema, "properties": {**tool.input_schema["properties"], "fee": {"type": "integer"}}}
    hints = types.ToolAnnotations(destructive_hint=True)
    updates: list[dict[str, Any]] = [
        {"description": "Pays, and takes a fee."},
        {"title": "Pay twice"},
        {"input_schema": more},
        {"output_schema": {"type": "object"}},
        {"annotations": hints},
    ]
    return [tool.model_copy(update=update) for update in updates]


@pytest.mark.parametrize("number", range(5))
async def test_91_a_tool_that_was_described_anew_is_asked_about_anew(ledger: AsyncLedger, number: int) -> None:
    """The proxy keeps running: it lists the tools before each call."""
    bank = Bank()
    async with behind(ledger, bank, mode="legacy", **ASKED) as client:
        await client.call_tool("pay", {"to": "bob"})
        (question,) = await ledger.approvals(status="pending")
        await ledger.approve(question, digest=question.digest, by="eve")
        bank.tool = _described_anew(bank.tool)[number]
        await client.call_tool("pay", {"to": "bob"})
        assert bank.sent == []
        (asked_anew,) = await ledger.approvals(status="pending")
        assert asked_anew.replaces == question.id
        await ledger.approve(asked_anew, digest=asked_anew.digest, by="eve")
        assert text(await client.call_tool("pay", {"to": "bob"})) == "paid"
    assert bank.paid == [{"to": "bob", "amount": 7}]


async def test_91_a_tool_that_is_no_longer_listed_is_not_called(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        await client.list_tools(cursor="2")
        bank.tool = bank.tool.model_copy(update={"name": "refund"})
        with pytest.raises(MCPError, match="no tool is named"):
            await client.call_tool("pay", {"to": "bob"})
    assert (bank.sent, await statuses(ledger)) == ([], [])


BESIDE = {"com.example/account": "mallory", "traceparent": "x", "claudecode/toolUseId": "toolu_1"}


def meta(**more: Any) -> types.RequestParamsMeta:
    return cast("types.RequestParamsMeta", {**BESIDE, **more})


def beside(sent: types.CallToolRequestParams) -> dict[str, Any]:
    return {name: value for name, value in (sent.meta or {}).items() if not name.startswith("io.modelcontextprotocol/")}


async def test_92_what_a_client_sends_beside_the_arguments_does_not_reach_the_tool(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        await client.call_tool("pay", {"to": "bob"}, meta=meta())
    (effect,) = await ledger.effects()
    (sent,) = bank.sent
    assert beside(sent) == {IDEMPOTENCY_KEY: effect.key}
    assert effect.args == {"to": "bob", "amount": 7}


async def test_92_what_the_terms_list_is_recorded_shown_approved_and_sent(ledger: AsyncLedger) -> None:
    bank, ana = Bank(), Person(decision="approve")
    words = {**ASKED, "terms": {"pay": {"meta": ["com.example/account"]}}}
    async with behind(ledger, bank, ana, **words) as client:
        await client.call_tool("pay", {"to": "bob"}, meta=meta())
        await client.call_tool("pay", {"to": "bob"}, meta=meta(**{"com.example/account": "eve"}))
        clash = await client.call_tool("pay", {"to": "bob", "_meta": {"com.example/account": "x"}})
    assert clash.is_error
    assert ["mallory" in one for one in ana.shown] == [True, False]
    effects = {effect.key: effect for effect in await ledger.effects()}
    assert len(effects) == 2
    assert len(bank.sent) == 2
    for sent in bank.sent:
        account = (sent.meta or {})["com.example/account"]
        effect = effects[str((sent.meta or {})[IDEMPOTENCY_KEY])]
        assert beside(sent) == {"com.example/account": account, IDEMPOTENCY_KEY: effect.key}
        assert effect.args == {"to": "bob", "amount": 7, "_meta": {"com.example/account": account}}
        assert sent.arguments == {"to": "bob", "amount": 7}


def asks_for_pin() -> types.InputRequiredResult:
    form = types.ElicitRequestFormParams(message="PIN?", requested_schema={"type": "object", "properties": {}})
    return types.InputRequiredResult(input_requests={"pin": types.ElicitRequest(params=form)}, request_state="theirs")


YES = types.ElicitResult(action="accept", content={"pin": "42"})
INVENTED: list[dict[str, Any]] = [
    {"input_responses": {"pin": YES}},
    {"request_state": "theirs", "input_responses": {"pin": YES}},
    {"request_state": "upstream:theirs", "input_responses": {"pin": YES}},
    {"request_state": 'upstream:["theirs", ["pin"]]', "input_responses": {"pin": YES}},
    {"request_state": 'upstream:["theirs", 5]'},
    {"request_state": "indelible:apr_1:00", "input_responses": {"pin": YES}},
]


@pytest.mark.parametrize("number", range(len(INVENTED)))
async def test_92_an_answer_that_nobody_asked_for_is_refused(ledger: AsyncLedger, number: int) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        with pytest.raises(MCPError, match="no open question"):
            await client.session.call_tool("pay", {"to": "bob"}, allow_input_required=True, **INVENTED[number])
    assert (bank.sent, await statuses(ledger)) == ([], [])


async def test_92_the_answer_to_a_tools_own_question_is_recorded_and_belongs_to_that_call(ledger: AsyncLedger) -> None:
    bank = Bank()
    bank.asks = asks_for_pin()
    async with behind(ledger, bank) as client:
        asked = await client.session.call_tool("pay", {"to": "bob"}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        for args, answers in ({"to": "eve"}, {"pin": YES}), ({"to": "bob"}, {"pin": YES, "more": YES}):
            with pytest.raises(MCPError, match="no open question"):
                await client.session.call_tool(
                    "pay", args, request_state=asked.request_state, input_responses=answers, allow_input_required=True
                )
        done = await client.session.call_tool(
            "pay", {"to": "bob"}, request_state=asked.request_state, input_responses={"pin": YES}
        )
        with pytest.raises(MCPError, match="no open question"):  # it was answered
            await client.session.call_tool(
                "pay", {"to": "bob"}, request_state=asked.request_state, input_responses={"pin": YES}
            )
    assert text(done) == "paid"
    assert [one.request_state for one in bank.sent] == [None, "theirs"]
    events: list[Any] = []
    await ledger.run_story("order-1", each=events.append)
    (given,) = [event for event in events if event.type == "mcp.input_given"]
    assert given.payload["input"]["pin"]["content"] == {"pin": "42"}


async def test_92_a_tool_that_asks_for_more_than_was_approved_is_not_continued(ledger: AsyncLedger) -> None:
    """Its approver has not seen the answer. It is entered once, whatever it did before it asked."""
    bank, ana = Bank(), Person(decision="approve", pin="42")
    bank.asks = asks_for_pin()
    async with behind(ledger, bank, ana, **ASKED) as client:
        told = [await client.call_tool("pay", {"to": "bob"}) for _ in range(2)]
    assert [one.is_error for one in told] == [True, True]
    assert (len(bank.sent), await statuses(ledger)) == (1, ["failed"])
