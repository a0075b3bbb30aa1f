"""MCP servers behind the ledger: each call once, with permission, asked for by the protocol's own way of asking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from indelible import AsyncLedger, Succeeded, migrate
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_words import IDEMPOTENCY_KEY, REPLAYED, TURN
from indelible.integrations.results import ToolError
from indelible.integrations.telling import TEXTS

pytestmark = pytest.mark.anyio
MODES = ("2026-07-28", "legacy")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Bank:
    """Is an MCP server with one tool; it remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.description = "Pays."
        self.currency: dict[str, Any] = {"type": "string"}
        self.answer: Callable[[], types.CallToolResult | types.InputRequiredResult] | None = None
        self.server: Server[Any] = Server("bank", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        properties = {"to": {"type": "string"}, "amount": {"type": "integer"}, "currency": self.currency}
        schema = {"type": "object", "properties": properties}
        hints = types.ToolAnnotations(read_only_hint=True)
        tool = types.Tool(name="pay", description=self.description, input_schema=schema, annotations=hints)
        return types.ListToolsResult(tools=[tool])

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.calls.append(dict(params.arguments or {}))
        self.keys.append(str((params.meta or {}).get(IDEMPOTENCY_KEY)))
        if self.answer is not None:
            return self.answer()
        return types.CallToolResult(
            content=[types.TextContent(text=f"paid {len(self.calls)}")], structured_content={"n": len(self.calls)}
        )


class Person:
    """Answers questions in a client, and remembers what was asked."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.asked: list[str] = []
        self.action, self.content = action, content

    async def __call__(self, ctx: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action=self.action, content=self.content or None)  # type: ignore[arg-type]


@asynccontextmanager
async def behind(
    ledger: AsyncLedger, bank: Bank, *, mode: str = MODES[0], person: Person | None = None, **words: Any
) -> AsyncIterator[Client]:
    async with Client(bank.server) as upstream:
        server = ledger_proxy(ledger, upstream, run="order-1", **words)
        async with Client(server, mode=mode, elicitation_callback=person) as client:
            yield client


def text(result: types.CallToolResult) -> str:
    block, *_ = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def is_noted(result: types.CallToolResult) -> bool:
    last = result.content[-1]
    return isinstance(last, types.TextContent) and last.text.startswith(TEXTS["replayed"].partition("{")[0])


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url) as opened:
        yield opened


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_reaches_the_server_once_and_its_result_is_given_again(ledger: AsyncLedger, mode: str) -> None:
    bank = Bank()
    async with behind(ledger, bank, mode=mode) as client:
        first = await client.call_tool("pay", {"to": "ana", "amount": 5})
        again = await client.call_tool("pay", {"amount": 5, "to": "ana"})
    assert bank.calls == [{"to": "ana", "amount": 5}]
    assert (text(first), text(again)) == ("paid 1", "paid 1")
    assert (is_noted(first), is_noted(again)) == (False, True), "the model hears that nothing was run now"
    assert again.structured_content == {"n": 1}
    assert (again.meta or {}).get(REPLAYED) is True
    (effect,) = await ledger.effects(run_id="order-1")
    assert bank.keys == [effect.key], "the server below gets our key, to tell repeats itself"


async def test_a_hundred_duplicates_at_once_are_one_call(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client, anyio.create_task_group() as group:
        said: list[str] = []

        async def ask() -> None:
            said.append(text(await client.call_tool("pay", {"to": "ana", "amount": 5})))

        for _ in range(100):
            group.start_soon(ask)
    assert len(bank.calls) == 1
    assert said == ["paid 1"] * 100


async def test_a_client_that_names_its_calls_may_repeat_on_purpose(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        for name in ("a", "b", "a"):
            await client.call_tool("pay", {"to": "ana"}, meta={IDEMPOTENCY_KEY: name})
        reused = await client.call_tool("pay", {"to": "bob"}, meta={IDEMPOTENCY_KEY: "a"})
    assert len(bank.calls) == 2
    assert reused.is_error
    assert "Indelible:" in text(reused)


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_in_the_client_decides_where_that_is_said(ledger: AsyncLedger, mode: str) -> None:
    bank, ana = Bank(), Person(decision="approve")
    async with behind(ledger, bank, mode=mode, person=ana, approver="ana", approval="required") as client:
        paid = await client.call_tool("pay", {"to": "bob\u202e", "amount": 5})
    assert text(paid) == "paid 1"
    assert len(ana.asked) == 1
    assert "U+202E" in ana.asked[0], "what cannot be seen is shown by its code"
    (approval,) = await ledger.approvals()
    assert [vote.by for vote in approval.votes] == ["ana"]
    assert approval.digest in ana.asked[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("person", [Person(decision="deny", reason="no"), Person("decline")], ids=["deny", "decline"])
async def test_what_a_person_denies_does_not_run(ledger: AsyncLedger, mode: str, person: Person) -> None:
    bank = Bank()
    async with behind(ledger, bank, mode=mode, person=person, approver="ana", approval="required") as client:
        denied = await client.call_tool("pay", {"to": "bob"})
        again = await client.call_tool("pay", {"to": "bob"})
    assert denied.is_error
    assert again.is_error
    assert bank.calls == []


@pytest.mark.parametrize("mode", MODES)
async def test_whoever_sits_at_the_client_approves_nothing_unless_that_is_said(ledger: AsyncLedger, mode: str) -> None:
    bank, somebody = Bank(), Person("decline")
    async with behind(ledger, bank, mode=mode, person=somebody, approval="required") as client:
        waiting = await client.call_tool("pay", {"to": "bob"})
        assert "waits for a person" in text(waiting)
        assert bank.calls == []
        (approval,) = await ledger.approvals(status="pending")
        await ledger.approve(approval.id, digest=approval.digest, by="ana")
        assert text(await client.call_tool("pay", {"to": "bob"})) == "paid 1"


async def test_an_older_client_that_cannot_be_asked_is_told_to_come_again(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank, mode="legacy", approval="required") as client:
        waiting = await client.call_tool("pay", {"to": "bob"})
    (approval,) = await ledger.approvals()
    assert waiting.is_error
    assert approval.id in text(waiting)


async def test_an_answer_holds_in_another_process_and_for_what_was_shown_alone(ledger: AsyncLedger) -> None:
    """A proxy that asked may be gone when the answer comes: the state names the question, and holds no secret."""
    bank = Bank()
    async with behind(ledger, bank, approver="ana", approval="required") as client:
        asked = await client.session.call_tool("pay", {"to": "bob"}, allow_input_required=True)
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.input_requests is not None
    yes = {name: types.ElicitResult(action="accept", content={"decision": "approve"}) for name in asked.input_requests}
    async with behind(ledger, bank, approver="ana", approval="required") as client:
        assert asked.request_state is not None
        forged = asked.request_state[:-4] + "0000"
        other = await client.session.call_tool(
            "pay", {"to": "bob"}, request_state=forged, input_responses=yes, allow_input_required=True
        )
        assert isinstance(other, types.CallToolResult)
        assert other.is_error
        assert bank.calls == []
        changed = await client.session.call_tool(
            "pay", {"to": "eve"}, request_state=asked.request_state, input_responses=yes, allow_input_required=True
        )
        assert bank.calls == [], "an answer about one call lets no other one run"
        assert isinstance(changed, types.CallToolResult)
        assert changed.is_error
        paid = await client.session.call_tool(
            "pay", {"to": "bob"}, request_state=asked.request_state, input_responses=yes, allow_input_required=True
        )
    assert isinstance(paid, types.CallToolResult)
    assert bank.calls == [{"to": "bob"}]


async def test_a_tool_that_changed_since_it_was_approved_is_asked_about_again(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank, approval="required", mode="legacy") as client:
        await client.call_tool("pay", {"to": "bob"})
    (approval,) = await ledger.approvals(status="pending")
    await ledger.approve(approval.id, digest=approval.digest, by="ana")
    bank.description = "Pays!"
    async with behind(ledger, bank, approval="required", mode="legacy") as client:
        told = await client.call_tool("pay", {"to": "bob"})
    assert told.is_error
    assert bank.calls == []


@pytest.mark.parametrize("words", [{"failed_on": ToolError}, {"side_effect": "write"}])
async def test_a_tool_that_failed_is_told_to_have_failed_again(ledger: AsyncLedger, words: dict[str, Any]) -> None:
    bank = Bank()
    bank.answer = lambda: types.CallToolResult(content=[types.TextContent(text="no funds")], is_error=True)
    async with behind(ledger, bank, **words) as client:
        first = await client.call_tool("pay", {"to": "bob"})
        again = await client.call_tool("pay", {"to": "bob"})
    assert len(bank.calls) == 1
    assert (first.is_error, text(first)) == (True, "no funds")
    assert (again.is_error, text(again)) == (True, "no funds")
    assert [effect.status for effect in await ledger.effects()] == ["failed"]


CODES = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST, types.PARSE_ERROR, types.INTERNAL_ERROR)


@pytest.mark.parametrize("code", [*CODES, None])
async def test_no_error_proves_that_nothing_happened(ledger: AsyncLedger, code: int | None) -> None:
    """A client library makes these codes of answers that it cannot read; a server may fail after the deed."""

    def refuse() -> types.CallToolResult:
        if code is not None:
            raise MCPError(code, "went wrong")
        return types.CallToolResult(content=[types.TextContent(text="went wrong")], is_error=True)

    bank = Bank()
    bank.answer = refuse
    async with behind(ledger, bank, side_effect="payment") as client:
        for _ in range(2):
            told = await client.call_tool("pay", {"to": "bob"})
            assert told.is_error
            (effect,) = await ledger.effects()
            assert effect.status == "in_doubt"
            assert text(told) == f"Indelible: {TEXTS['in_doubt'].format(tool='pay', effect=effect.id)}"
    assert len(bank.calls) == 1


async def test_what_the_server_below_asks_for_is_handed_on(ledger: AsyncLedger) -> None:
    bank, person = Bank(), Person(answer="42")
    asks = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="PIN?", requested_schema={"type": "object", "properties": {}})
    )
    first = types.InputRequiredResult(input_requests={"pin": asks}, request_state="theirs")
    answers = iter([first, types.CallToolResult(content=[types.TextContent(text="paid")])])
    bank.answer = lambda: next(answers)
    async with behind(ledger, bank, person=person) as client:
        paid = await client.call_tool("pay", {"to": "bob"})
    assert text(paid) == "paid"
    assert person.asked == ["PIN?"]
    (effect,) = await ledger.effects()
    assert effect.status == "succeeded"


async def test_a_tool_that_is_not_listed_is_not_called(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        with pytest.raises(MCPError, match="tools/list"):
            await client.call_tool("steal", {})
    assert bank.calls == []
    assert await ledger.effects() == []


@pytest.mark.parametrize("side_effect", ["payment", "read"])
async def test_a_model_that_calls_again_under_a_new_id_makes_the_call_that_was_asked_about(
    ledger: AsyncLedger, side_effect: str
) -> None:
    """It was told to; the id is the client's, and people decided about the call. An id that was chosen is kept to."""
    bank = Bank()

    async def pay(client: Client, name: str, call_id: str) -> types.CallToolResult:
        meta = cast("types.RequestParamsMeta", {name: call_id})
        return await client.call_tool("pay", {"to": "ana"}, meta=meta)

    async with behind(ledger, bank, mode="legacy", approval="required", side_effect=side_effect) as client:
        assert "waits for a person" in text(await pay(client, "claudecode/toolUseId", "toolu_1"))
        (question,) = await ledger.approvals(status="pending")
        assert "waits for a person" in text(await pay(client, IDEMPOTENCY_KEY, "another"))
        assert len(await ledger.approvals(status="pending")) == 2
        await ledger.approve(question, digest=question.digest, by="ana")
        paid = await pay(client, "claudecode/toolUseId", "toolu_2")
        assert (text(paid), is_noted(paid)) == ("paid 1", False)
        again = await pay(client, "claudecode/toolUseId", "toolu_3")
        assert is_noted(again) if side_effect == "payment" else "waits for a person" in text(again)
    assert bank.calls == [{"to": "ana"}]


async def test_a_call_of_a_later_turn_is_asked_about_and_one_of_the_same_turn_is_not_made(ledger: AsyncLedger) -> None:
    bank = Bank()

    async def pay(client: Client, turn: str) -> types.CallToolResult:
        meta = cast("types.RequestParamsMeta", {TURN: turn, "openai/toolCallId": "call_0"})
        return await client.call_tool("pay", {"to": "ana"}, meta=meta)

    async with behind(ledger, bank, mode="legacy", side_effect="payment") as client:
        assert text(await pay(client, "m1")) == text(await pay(client, "m1")) == "paid 1"
        assert "waits for a person" in text(await pay(client, "m2"))
        (question,) = await ledger.approvals(status="pending")
        await ledger.approve(question, digest=question.digest, by="ana")
        assert text(await pay(client, "m2")) == "paid 2"
    async with behind(ledger, bank, mode="legacy", side_effect="payment", turn="m3") as client:
        assert "waits for a person" in text(await client.call_tool("pay", {"to": "ana"}))
    assert len(bank.calls) == 2


async def test_a_read_of_a_client_that_sends_no_ids_reads_each_time(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank, side_effect="read") as client:
        assert [text(await client.call_tool("pay", {"to": "ana"})) for _ in range(2)] == ["paid 1", "paid 2"]


async def test_a_default_of_the_schema_is_judged_shown_sent_and_the_same_call(ledger: AsyncLedger) -> None:
    bank, ana = Bank(), Person(decision="approve")
    bank.currency = {"type": "string", "default": "usd"}
    async with behind(ledger, bank, person=ana, approver="ana", approval="required") as client:
        for args in ({"to": "bob"}, {"to": "bob", "currency": "usd"}):
            assert text(await client.call_tool("pay", args)) == "paid 1"
    assert bank.calls == [{"to": "bob", "currency": "usd"}]
    assert ['"currency": "usd"' in asked for asked in ana.asked] == [True]


async def test_what_a_person_settled_by_hand_is_told_as_they_said_it(ledger: AsyncLedger) -> None:
    bank = Bank()

    def lost() -> types.CallToolResult:
        raise MCPError(types.INTERNAL_ERROR, "the line broke")

    bank.answer = lost
    async with behind(ledger, bank) as client:
        assert "may have happened" in text(await client.call_tool("pay", {"to": "ana"}))
        (effect,) = await ledger.effects(status="in_doubt")
        await ledger.settle(effect, Succeeded({"receipt": 7}), by="ana", evidence="the statement")
        told = await client.call_tool("pay", {"to": "ana"})
    assert (text(told), told.is_error, (told.meta or {}).get(REPLAYED)) == ('{"receipt": 7}', False, True)
    assert len(bank.calls) == 1
