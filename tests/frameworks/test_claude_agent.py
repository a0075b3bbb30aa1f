"""The Claude Agent SDK behind the ledger: tools of one's own replay, and Claude Code's run once or are denied."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from textwrap import indent
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, query, tool

from indelible import AsyncLedger, MayHaveHappened, NothingHappened, Refused, Retry, Succeeded
from indelible.errors import BadCall
from indelible.integrations.claude_agent import LedgerHooks
from indelible.integrations.results import ToolError
from tests.frameworks.claude_script import Heard, Interrupted, ScriptedClaude, Use, play

pytestmark = pytest.mark.anyio
PUSH = {"command": "git push"}
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations" / "claude-agent-sdk.md"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(sqlite_url: str) -> AsyncIterator[AsyncLedger]:
    async with AsyncLedger.open(sqlite_url, seal=False) as opened:
        yield opened


class Till:
    """Has one tool, and counts."""

    def __init__(self, raises: Exception | None = None, says: dict[str, Any] | None = None, **words: Any) -> None:
        self.charged: list[int] = []
        self.raises, self.says, self.words = raises, says, words

    @property
    def tool(self) -> Any:
        @tool("charge", "Charges", {"order": str, "amount": int})
        async def charge(args: dict[str, Any]) -> dict[str, Any]:
            self.charged.append(args["amount"])
            if self.raises is not None:
                raise self.raises
            if "gives" in self.words:
                return self.words["gives"]  # type: ignore[no-any-return]
            return self.says or {"content": [{"type": "text", "text": f"charged {args['amount']}"}]}

        return charge


class Shell:
    """Is Claude Code's Bash, and counts."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.ran: list[str] = []
        self.raises = raises

    def run(self, args: dict[str, Any]) -> dict[str, Any]:
        self.ran.append(args["command"])
        if self.raises is not None:
            raise self.raises
        return {"stdout": "pushed", "interrupted": False}


def charging(use: str = "toolu_1", amount: int = 5) -> Use:
    return Use(id=use, tool="mcp__till__charge", args={"order": "o1", "amount": amount})


def pushing(use: str = "toolu_1") -> Use:
    return Use(id=use, tool="Bash", args=PUSH)


async def charge(ledger: AsyncLedger, till: Till, *uses: Use, **words: Any) -> Heard:
    async with LedgerHooks(ledger, **words) as gate:
        options = ClaudeAgentOptions(mcp_servers={"till": gate.server("till", [till.tool])}, hooks=gate.hooks(".*"))
        return await play(options, *(uses or (charging(),)))


async def push(ledger: AsyncLedger, shell: Shell, *uses: Use, **words: Any) -> Heard:
    async with LedgerHooks(ledger, **words) as gate:
        options = ClaudeAgentOptions(hooks=gate.hooks("Bash|Edit"))
        return await play(options, *(uses or (pushing(),)), built_in={"Bash": shell.run})


async def statuses(ledger: AsyncLedger) -> dict[str | None, str]:
    return {effect.call_id: effect.status for effect in await ledger.effects()}


async def test_a_tool_of_ones_own_runs_once_and_the_model_gets_what_it_gave_again(ledger: AsyncLedger) -> None:
    till = Till()
    for _ in range(2):
        heard = await charge(ledger, till, charging(), charging("toolu_2", 6))
        assert heard.results == {"toolu_1": "charged 5", "toolu_2": "charged 6"}
    assert till.charged == [5, 6]
    (newest, _) = await ledger.effects()
    assert (newest.run_id, newest.tool, newest.call_id) == ("session-1", "charge", "toolu_2")


async def test_the_same_key_with_other_arguments_is_told_and_not_run(ledger: AsyncLedger) -> None:
    till = Till()
    await charge(ledger, till, key=["order"])
    heard = await charge(ledger, till, charging("toolu_2", amount=5000), key=["order"])
    assert "already done with" in heard.errors["toolu_2"].lower()
    assert till.charged == [5]


async def test_a_model_that_repeats_itself_gets_the_recorded_result_and_hears_so(ledger: AsyncLedger) -> None:
    till = Till()
    heard = await charge(ledger, till, charging(), charging("toolu_2"))
    assert heard.results["toolu_1"] == "charged 5"
    assert heard.results["toolu_2"].startswith("charged 5")
    assert "Nothing was run now" in heard.results["toolu_2"]
    assert till.charged == [5]


async def test_a_default_that_the_model_leaves_out_is_judged_recorded_and_the_same_call(ledger: AsyncLedger) -> None:
    amounts: list[int] = []
    properties = {"order": {"type": "string"}, "amount": {"type": "integer", "default": 5000}}

    @tool("charge", "Charges", {"type": "object", "properties": properties, "required": ["order"]})
    async def charged(args: dict[str, Any]) -> dict[str, Any]:
        amounts.append(args["amount"])
        return {"content": [{"type": "text", "text": "charged"}]}

    for use, args in (("toolu_1", {"order": "o1"}), ("toolu_2", {"order": "o1", "amount": 5000})):
        async with LedgerHooks(ledger) as gate:
            options = ClaudeAgentOptions(mcp_servers={"till": gate.server("till", [charged])}, hooks=gate.hooks())
            await play(options, Use(id=use, tool="mcp__till__charge", args=args))
    assert amounts == [5000]
    assert [effect.args for effect in await ledger.effects()] == [{"order": "o1", "amount": 5000}]


async def test_what_waits_for_a_person_ends_the_session_and_goes_on_when_it_is_resumed(ledger: AsyncLedger) -> None:
    till = Till()
    for _ in range(2):
        assert (await charge(ledger, till, approval="required")).deferred == "toolu_1"
    (question,) = await ledger.approvals(status="pending")
    await ledger.approve(question, digest=question.digest, by="ana")
    for _ in range(2):
        assert (await charge(ledger, till, approval="required")).results == {"toolu_1": "charged 5"}
    assert till.charged == [5]


async def test_or_it_is_told_to_the_model_which_calls_again_under_a_new_id(ledger: AsyncLedger) -> None:
    till, words = Till(), {"approval": "required", "defers": False}
    heard = await charge(ledger, till, **words)
    (question,) = await ledger.approvals(status="pending")
    assert f"indelible approvals show {question.id}" in heard.errors["toolu_1"]
    await ledger.approve(question, digest=question.digest, by="ana")
    assert (await charge(ledger, till, charging("toolu_2"), **words)).results == {"toolu_2": "charged 5"}
    assert await statuses(ledger) == {"toolu_1": "succeeded"}
    assert "Nothing was run now" in (await charge(ledger, till, charging("toolu_3"), **words)).results["toolu_3"]
    assert till.charged == [5]


async def test_a_denial_is_told_to_the_model_and_edited_arguments_are_those_that_run(ledger: AsyncLedger) -> None:
    till = Till()
    await charge(ledger, till, approval="required")
    (question,) = await ledger.approvals(status="pending")
    edited = await ledger.edit_approval(question, {"order": "o1", "amount": 4}, digest=question.digest, by="ana")
    await ledger.approve(edited, digest=edited.digest, by="bob")
    assert (await charge(ledger, till, approval="required")).results == {"toolu_1": "charged 4"}
    await charge(ledger, till, charging("toolu_2", 6), approval="required")
    (question,) = await ledger.approvals(status="pending")
    await ledger.deny(question, by="ana", reason="too much")
    heard = await charge(ledger, till, charging("toolu_2", 6), approval="required")
    assert "too much" in heard.errors["toolu_2"]
    assert till.charged == [4]


@pytest.mark.parametrize(
    ("till", "said", "status"),
    [
        (Till(raises=Refused("no funds")), "no funds", "failed"),
        (Till(raises=KeyError("no funds")), "no funds", "failed"),
        (Till(says={"content": [{"type": "text", "text": "declined"}], "is_error": True}), "declined", "failed"),
        (Till(raises=ConnectionError("reset")), "may have happened", "in_doubt"),
        (Till(raises=MayHaveHappened("no answer")), "may have happened", "in_doubt"),
        (Till(raises=TimeoutError("no answer")), "may have happened", "in_doubt"),
    ],
)
async def test_what_a_tool_says_when_it_fails_it_says_again(
    ledger: AsyncLedger, till: Till, said: str, status: str
) -> None:
    for _ in range(2):
        assert said in (await charge(ledger, till, failed_on=(KeyError, ToolError))).errors["toolu_1"]
    assert till.charged == [5]
    assert await statuses(ledger) == {"toolu_1": status}


@pytest.mark.parametrize("gave", [None, "charged", 5])
@pytest.mark.parametrize("words", [{"side_effect": "write"}, {"side_effect": "payment", "failed_on": Exception}])
async def test_83_a_tool_that_returned_what_the_sdk_cannot_take_may_have_happened(
    ledger: AsyncLedger, gave: Any, words: Any
) -> None:
    till = Till(gives=gave)
    for _ in range(2):
        assert "may have happened" in (await charge(ledger, till, terms={"charge": words})).errors["toolu_1"]
    assert till.charged == [5]
    assert await statuses(ledger) == {"toolu_1": "in_doubt"}


@pytest.mark.parametrize("content", [[{"type": "text"}], None, ["declined"], [{"type": "text", "text": 5}]])
async def test_83_an_error_that_a_tool_tells_without_words_is_still_its_own(ledger: AsyncLedger, content: Any) -> None:
    till = Till(gives={"content": content, "is_error": True})
    await charge(ledger, till, failed_on=ToolError)
    (effect,) = await ledger.effects()
    assert (effect.status, getattr(effect.outcome, "error_type", None)) == ("failed", "ToolError")
    assert till.charged == [5]


async def test_what_a_person_settled_by_hand_is_told_as_they_said_it(ledger: AsyncLedger) -> None:
    till = Till(raises=MayHaveHappened("no answer"))
    await charge(ledger, till)
    (effect,) = await ledger.effects(status="in_doubt")
    await ledger.settle(effect, Succeeded({"receipt": 7}), by="ana", evidence="the statement")
    assert (await charge(ledger, till)).results == {"toolu_1": '{"receipt": 7}'}
    assert till.charged == [5]


async def test_a_tool_that_did_nothing_may_be_called_again(ledger: AsyncLedger) -> None:
    till = Till(raises=NothingHappened("the line is busy"))
    assert "Nothing was done" in (await charge(ledger, till)).errors["toolu_1"]
    till.raises = None
    assert (await charge(ledger, till)).results == {"toolu_1": "charged 5"}


async def test_a_tool_that_may_be_repeated_is_by_what_its_terms_say(ledger: AsyncLedger) -> None:
    till = Till(raises=ConnectionError("busy"))
    retry = Retry(on=(ConnectionError,), attempts=2, backoff=timedelta(0))
    words = {"retry": retry, "failed_on": ConnectionError}
    assert "busy" in (await charge(ledger, till, terms={"charge": words})).errors["toolu_1"]
    assert till.charged == [5, 5]
    doubtful = Till(raises=MayHaveHappened("no answer"))
    heard = await charge(ledger, doubtful, charging("toolu_2", 5), run="two", terms={"charge": {"on_crash": "retry"}})
    assert "no answer" in heard.errors["toolu_2"]
    assert doubtful.charged == [5]


async def test_a_tool_that_no_hook_announced_is_not_entered(ledger: AsyncLedger) -> None:
    till = Till()
    gate = LedgerHooks(ledger)
    options = ClaudeAgentOptions(mcp_servers={"till": gate.server("till", [till.tool])})
    assert "Put gate.hooks() into the options" in (await play(options, charging())).errors["toolu_1"]
    assert till.charged == []
    with pytest.raises(BadCall, match="use the characters"):
        gate.server("my till", [till.tool])


async def test_without_the_ledger_nothing_runs(sqlite_url: str) -> None:
    till, shell = Till(), Shell()
    ledger = AsyncLedger.open(sqlite_url, seal=False)
    await ledger.close()
    assert "hook failed" in (await charge(ledger, till)).errors["toolu_1"]
    assert "hook failed" in (await push(ledger, shell)).errors["toolu_1"]
    assert till.charged == shell.ran == []


async def test_a_tool_of_claude_codes_is_recorded_and_denied_when_it_comes_again(ledger: AsyncLedger) -> None:
    shell = Shell()
    assert (await push(ledger, shell)).results == {"toolu_1": {"stdout": "pushed", "interrupted": False}}
    heard = await push(ledger, shell)
    assert "Nothing was run now" in heard.errors["toolu_1"]
    assert '"stdout": "pushed"' in heard.errors["toolu_1"]
    await push(ledger, shell, pushing("toolu_2"))
    assert shell.ran == ["git push", "git push"]
    assert await statuses(ledger) == {"toolu_1": "succeeded", "toolu_2": "succeeded"}


@pytest.mark.parametrize(
    ("raises", "status", "says"),
    [(ValueError("Exit code 1"), "failed", "Exit code 1"), (Interrupted("stopped"), "in_doubt", "may have happened")],
)
async def test_a_declared_failure_is_recorded_as_one_and_an_interruption_is_in_doubt(
    ledger: AsyncLedger, raises: Exception, status: str, says: str
) -> None:
    shell = Shell(raises=raises)
    await push(ledger, shell, failed_on=ToolError)
    assert await statuses(ledger) == {"toolu_1": status}
    assert says in (await push(ledger, shell)).errors["toolu_1"]
    assert shell.ran == ["git push"]


async def test_what_nobody_reported_is_in_doubt_when_the_agent_ends(ledger: AsyncLedger) -> None:
    shell = Shell()
    async with LedgerHooks(ledger) as gate:
        only_before = {"PreToolUse": gate.hooks("Bash")["PreToolUse"]}
        await play(ClaudeAgentOptions(hooks=only_before), pushing(), built_in={"Bash": shell.run})
        assert await statuses(ledger) == {"toolu_1": "processing"}
    assert await statuses(ledger) == {"toolu_1": "in_doubt"}


async def test_claude_codes_tools_are_denied_until_a_person_has_decided(ledger: AsyncLedger) -> None:
    shell, words = Shell(), {"approval": "required", "allows": True}
    heard = await push(ledger, shell, **words)
    (question,) = await ledger.approvals(status="pending")
    assert f"indelible approvals show {question.id}" in heard.errors["toolu_1"]
    await ledger.approve(question, digest=question.digest, by="ana")
    assert "toolu_2" in (await push(ledger, shell, pushing("toolu_2"), **words)).results
    await ledger.stop(by="ana", reason="enough")
    assert "all effects are stopped" in (await push(ledger, shell, pushing("toolu_3"))).errors["toolu_3"]
    assert shell.ran == ["git push"]


async def test_claude_codes_tools_get_the_arguments_that_were_edited(ledger: AsyncLedger) -> None:
    shell, words = Shell(), {"approval": "required", "allows": True}
    await push(ledger, shell, **words)
    (question,) = await ledger.approvals(status="pending")
    dry = {"command": "git push --dry-run"}
    edited = await ledger.edit_approval(question, dry, digest=question.digest, by="ana")
    await ledger.approve(edited, digest=edited.digest, by="bob")
    await push(ledger, shell, **words)
    assert shell.ran == ["git push --dry-run"]


async def test_96_an_edit_that_claude_code_would_read_as_another_is_not_carried_out(ledger: AsyncLedger) -> None:
    shell, words = Shell(), {"approval": "required", "allows": True}
    await push(ledger, shell, **words)
    (question,) = await ledger.approvals(status="pending")
    edit = {"command": "git push", "timeout": 2**53 + 1}
    edited = await ledger.edit_approval(question, edit, digest=question.digest, by="ana")
    await ledger.approve(edited, digest=edited.digest, by="bob")
    assert "toolu_1" in (await push(ledger, shell, **words)).errors
    effect = await ledger.get_effect(question.effect_id)
    assert effect is not None
    assert (effect.status, shell.ran) == ("failed", [])


class Beside(ScriptedClaude):
    """Subagents at once: every PreToolUse, then every tool, then every PostToolUse."""

    async def _work(self) -> None:
        for use in self._uses:
            for one in self._matching(use, "PreToolUse"):
                await self._hook(use, "PreToolUse", one)
        for use in self._uses:
            event, told = await self._carried_out(use, dict(use.args))
            for one in self._matching(use, event):
                await self._hook(use, event, one, told)
        result = {"type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False,
                  "num_turns": 1, "session_id": self._session, "result": "done"}  # fmt: skip
        self._out.put_nowait(result)
        self._out.put_nowait(None)


async def play_beside(options: ClaudeAgentOptions, *uses: Use, built_in: Any = None) -> None:
    async for _ in query(prompt="go", options=options, transport=Beside("session-1", uses, built_in or {})):
        pass


NO_CHARGES = {"rules": [{"name": "none", "match": {"tool": "charge"}, "then": "refuse"}]}


@tool("quote", "Says what it would cost", {"order": str, "amount": int})
async def quote(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"quoted {args['amount']}"}]}


async def test_96_a_tool_is_entered_under_its_own_name_whatever_id_another_call_has(sqlite_url: str) -> None:
    """Subagents work beside each other, and the model of each numbers its calls from zero."""
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False, policy=NO_CHARGES) as ledger, LedgerHooks(ledger) as gate:
        server = gate.server("till", [till.tool, quote])
        options = ClaudeAgentOptions(mcp_servers={"till": server}, hooks=gate.hooks())
        asking = Use(id="call_0", tool="mcp__till__quote", args={"order": "o1", "amount": 7})
        await play_beside(options, charging("call_0", 500), asking)
        assert [(one.tool, one.args["amount"]) for one in await ledger.effects()] == [("quote", 7)]
    assert till.charged == []


async def test_96_calls_of_one_tool_under_one_number_are_each_entered_for_their_own_arguments(
    ledger: AsyncLedger,
) -> None:
    till = Till()
    async with LedgerHooks(ledger) as gate:
        options = ClaudeAgentOptions(mcp_servers={"till": gate.server("till", [till.tool])}, hooks=gate.hooks())
        await play_beside(options, charging("call_0", 5), charging("call_0", 7))
    assert till.charged == [5, 7]
    assert sorted(one.args["amount"] for one in await ledger.effects(status="succeeded")) == [5, 7]


async def test_96_a_call_that_two_sessions_announced_alike_is_entered_for_neither(ledger: AsyncLedger) -> None:
    till = Till()
    async with LedgerHooks(ledger) as gate:
        options = ClaudeAgentOptions(mcp_servers={"till": gate.server("till", [till.tool])}, hooks=gate.hooks())
        (announce,) = gate.hooks()["PreToolUse"][0].hooks
        other: Any = {"session_id": "session-2", "tool_name": "mcp__till__charge", "tool_use_id": "call_0"}
        await announce({**other, "tool_input": charging().args}, None, {"signal": None})
        await play(options, charging("call_0"))
        assert till.charged == []
        await play(options, charging("call_0"))
    assert till.charged == [5]
    assert [one.run_id for one in await ledger.effects()] == ["session-1"]


async def test_96_reports_of_calls_under_one_number_settle_each_its_own(ledger: AsyncLedger) -> None:
    def bash(args: dict[str, Any]) -> dict[str, Any]:
        if "bob" in args["command"]:
            raise RuntimeError("card declined")
        return {"stdout": "paid"}

    async with LedgerHooks(ledger, terms={"Bash": {"side_effect": "write"}}) as gate:
        uses = [Use(id="call_0", tool="Bash", args={"command": f"pay {who}"}) for who in ("bob", "eve")]
        await play_beside(ClaudeAgentOptions(hooks=gate.hooks("Bash")), *uses, built_in={"Bash": bash})
    stand = {one.args["command"]: one.status for one in await ledger.effects()}
    assert stand == {"pay bob": "failed", "pay eve": "succeeded"}


async def test_96_a_batch_gives_back_only_calls_of_its_own_agent(ledger: AsyncLedger) -> None:
    async with LedgerHooks(ledger) as gate:
        hooks = gate.hooks("Bash")
        (before,), (batched,) = hooks["PreToolUse"][0].hooks, hooks["PostToolBatch"][0].hooks
        call = {"tool_name": "Bash", "tool_use_id": "call_0", "tool_input": PUSH}
        for agent in ("sub-1", "sub-2"):
            event: Any = {"session_id": "s", "agent_id": agent, "hook_event_name": "PreToolUse", **call}
            await before(event, None, {"signal": None})
        batch: Any = {"session_id": "s", "agent_id": "sub-1", "hook_event_name": "PostToolBatch", "tool_calls": [call]}
        await batched(batch, None, {"signal": None})
        assert sorted(one.status for one in await ledger.effects()) == ["processing", "ready"]


@pytest.mark.parametrize("name", ["till__eu", "till_", "a b"])
async def test_96_a_server_name_that_can_be_read_as_another_is_refused(ledger: AsyncLedger, name: str) -> None:
    with pytest.raises(BadCall):
        LedgerHooks(ledger).server(name, [quote])


async def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its program runs; Claude Code is the scripted one."""
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    refunding = Use(id="toolu_1", tool="mcp__till__refund", args={"charge_id": "ch_1", "amount": 5})

    def query(prompt: str, options: ClaudeAgentOptions) -> AsyncIterator[Any]:
        return claude_agent_sdk.query(
            prompt=prompt, options=options, transport=ScriptedClaude("session-1", [refunding], {})
        )

    program = program.replace("import ClaudeAgentOptions, query, tool", "import ClaudeAgentOptions, tool")
    names: dict[str, Any] = {"query": query}
    exec(f"async def page():\n{indent(program, '    ')}\n    return ledger", names)
    with await names["page"]() as ledger:
        assert [effect.status for effect in ledger.effects()] == ["requires_approval"]
    assert "ResultMessage" in capsys.readouterr().out


def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(tmp_path: Path) -> None:
    said = []
    for words in ([], ["--decide"], []):
        command = [sys.executable, str(ROOT / "examples" / "claude_agent.py"), *words]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
        said.append(ran.stdout)
    first, second, third = said
    assert "charging 1000" in first
    assert "waits for a person: indelible approvals show apr_" in first
    assert "charging" not in second + third
    assert "refunding 50" in second
    assert "refunding" not in third
    assert second.endswith("refunded\n")
    assert third.endswith("refunded\n")
