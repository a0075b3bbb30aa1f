"""Every way in which Claude Code runs code for the Agent SDK is tried, with Claude Code itself and a scripted model.

It meets the ledger, or is named, and refused in strict mode. The numbers are those of the faults that were found.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from indelible import Ledger, instrument, migrate
from indelible.errors import BadCall
from indelible.integrations.claude_agent import LedgerHooks
from indelible.integrations.claude_words import decided
from indelible.integrations.ways import WAYS
from indelible.testing.claude_model import scripted_model, text, use
from tests.frameworks.conftest import OTHERS, decide, row_of, table_of

NAME = "Claude Agent SDK"
STRICT: dict[str, Any] = {"strict": True, "allow": [*OTHERS, "crewai"]}
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations" / "claude-agent-sdk.md"
PAYS = "!`echo paid >> did`"


@dataclass
class Session:
    """A folder in which Claude Code works, and what its scripted model was told."""

    folder: Path
    heard: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[Any, list[Any]] | None = None
    """The hooks of ours that its options have."""
    last: ResultMessage | None = None

    def __post_init__(self) -> None:
        for name in ("home", "work"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        trusted = {"projects": {str(self.work): {"hasTrustDialogAccepted": True}}}
        (self.folder / "home" / ".claude.json").write_text(json.dumps(trusted))

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def options(self, model: Mapping[str, str], **words: Any) -> ClaudeAgentOptions:
        environment = {**model, "HOME": str(self.folder / "home")}
        allowed = ["Bash", "Write", "Edit", "WebFetch", "Skill", "Agent", "mcp__till__pay", "mcp__bank__pay"]
        usual: dict[str, Any] = {"setting_sources": [], "allowed_tools": allowed, "hooks": self.own}
        return ClaudeAgentOptions(cwd=self.work, env=environment, **{**usual, **words})

    def says(self, turns: Sequence[Sequence[Any]]) -> Callable[[Mapping[str, str]], Sequence[Any]]:
        """Return a model that makes each turn's calls until it has heard of them."""

        def said(heard: Mapping[str, str]) -> Sequence[Any]:
            self.heard = heard
            return next((turn for turn in turns if any(one["id"] not in heard for one in turn)), [text("done")])

        return said

    def ask(self, *turns: Sequence[Any], prompt: str = "go", **words: Any) -> Session:
        """Let Claude Code work in a process of its own."""

        async def prompts() -> AsyncIterator[Any]:  # Claude Code asks for permission only in a stream
            yield {"type": "user", "message": {"role": "user", "content": prompt}, "parent_tool_use_id": None}

        async def work() -> None:
            with scripted_model(self.says(turns)) as model:
                options = self.options(model, **words)
                async for message in query(prompt=prompts() if options.can_use_tool else prompt, options=options):
                    if isinstance(message, ResultMessage):
                        self.last = message

        asyncio.run(work())
        return self

    @property
    def did(self) -> list[str]:
        """What the commands wrote."""
        done = self.work / "did"
        return done.read_text().split() if done.exists() else []


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "claude")


def bash(call_id: str, word: str = "paid") -> dict[str, Any]:
    return use(call_id, "Bash", {"command": f"echo {word} >> did", "description": "Writes"})


def ran_bash(session: Session) -> None:
    session.ask([bash("toolu_1")])


def wrote(session: Session) -> None:
    written = str(session.work / "did")
    session.ask([use("toolu_1", "Write", {"file_path": written, "content": "paid\n"})])


def fetched(session: Session) -> None:
    session.ask([use("toolu_1", "WebFetch", {"url": "http://127.0.0.1:1/pay", "prompt": "pay"})])


def own_tool(session: Session) -> Any:
    @tool("pay", "Pays.", {"amount": int})
    async def pay(args: dict[str, Any]) -> dict[str, Any]:
        with (session.work / "did").open("a") as lines:
            lines.write("paid\n")
        return {"content": [{"type": "text", "text": "paid"}]}

    return pay


def ran_own_tool(session: Session) -> None:
    server = create_sdk_mcp_server("till", tools=[own_tool(session)])
    session.ask([use("toolu_1", "mcp__till__pay", {"amount": 5})], mcp_servers={"till": server})


def ran_mcp_tool(session: Session) -> None:
    command = {"command": sys.executable, "args": ["-m", "tests.frameworks.crewai_bank", str(session.work / "did")]}
    server = {"type": "stdio", **command, "env": {"PYTHONPATH": str(ROOT)}}
    session.ask([use("toolu_1", "mcp__bank__pay", {"amount": 5})], mcp_servers={"bank": server})


def ran_subagent(session: Session) -> None:
    asked = {"description": "pay", "prompt": "pay", "subagent_type": "general-purpose", "run_in_background": False}
    session.ask([use("toolu_1", "Agent", asked)], [bash("toolu_2")])


def slash_command(session: Session) -> None:
    commands = session.work / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "pay.md").write_text(f"---\nallowed-tools: Bash(echo:*)\n---\nResult: {PAYS}\n")
    session.ask(prompt="/pay", setting_sources=["project"])


def skill(session: Session) -> None:
    skills = session.work / ".claude" / "skills" / "pay"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text(f"---\nname: pay\ndescription: pays\nallowed-tools: Bash(echo:*)\n---\n{PAYS}\n")
    session.ask([use("toolu_1", "Skill", {"skill": "pay"})], setting_sources=["project"])


def other_hook(session: Session) -> None:
    async def pays(event: Any, call_id: str | None, context: Any) -> Any:
        (session.work / "did").write_text("paid\n")
        return {}

    session.ask(hooks={**(session.own or {}), "UserPromptSubmit": [HookMatcher(hooks=[pays])]})


def settings(session: Session) -> None:
    hook = {"type": "command", "command": f"echo paid >> {session.work}/did"}
    session.ask(settings=json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))


def plugin(session: Session) -> None:
    folder = session.folder / "plugin"
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "pays", "version": "1.0.0"}))
    (folder / "hooks").mkdir()
    hook = {"type": "command", "command": f"echo paid >> {session.work}/did"}
    (folder / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    session.ask(plugins=[{"type": "local", "path": str(folder)}])


TRIED: dict[str, Callable[[Session], None]] = {
    "Bash": ran_bash,
    "Write and Edit": wrote,
    "WebFetch": fetched,
    "tools of your own": ran_own_tool,
    "tools of MCP servers": ran_mcp_tool,
    "subagents and their tools": ran_subagent,
    "slash commands": slash_command,
    "skills": skill,
    "hooks of others": other_hook,
    "settings files": settings,
    "plugins": plugin,
}
GUARDED = [way.name for way in WAYS[NAME] if way.is_guarded]
UNGUARDED = [way.name for way in WAYS[NAME] if not way.is_guarded and way.name in TRIED]


def test_88_every_way_is_tried_and_on_the_page() -> None:
    assert {way.name for way in WAYS[NAME]} == {*TRIED, "clients connected before"}
    assert table_of(PAGE) == [row_of(way) for way in WAYS[NAME]]


@pytest.mark.parametrize("way", GUARDED)
def test_88_what_counts_as_guarded_meets_the_ledger(ledger: Ledger, session: Session, way: str) -> None:
    with instrument(ledger, **STRICT) as report, ledger.in_run("order-1"):
        assert NAME in report.wrapped
        TRIED[way](session)
        tools = {effect.tool for effect in ledger.effects(run_id="order-1")}
        assert tools, f"{way} met no ledger"
        assert way != "subagents and their tools" or tools == {"Agent", "Bash"}
        once = session.did
        assert len(once) == (0 if way == "WebFetch" else 1), "nothing answers there"
        TRIED[way](Session(session.folder))
        assert session.did == once, "the same call again is denied with what was recorded"
    assert report.seen_unguarded == ()


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger: Ledger, session: Session, way: str) -> None:
    allow = [*STRICT["allow"], "project"] if way in ("slash commands", "skills") else STRICT["allow"]
    with instrument(ledger, strict=True, allow=allow), ledger.in_run("order-1"):
        if way in ("slash commands", "skills"):  # Claude Code comes upon them while it works: it is told no
            TRIED[way](session)
        else:
            with pytest.raises(BadCall, match="strict mode refuses"):
                TRIED[way](session)
    assert session.did == []


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_what_is_not_guarded_is_named(ledger: Ledger, session: Session, way: str) -> None:
    with instrument(ledger) as report, ledger.in_run("order-1"):
        (found,) = [one for one in report.findings if one.framework == NAME]
        assert way in found.unguarded
        TRIED[way](session)
        assert any(f"({way})" in one for one in report.seen_unguarded)
    assert session.did == ["paid"]


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_hooks_of_ours_loosen_no_strict_mode(ledger: Ledger, session: Session, way: str) -> None:
    session.own = LedgerHooks(ledger, run="order-1").hooks(".*")
    test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger, session, way)


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_what_is_not_guarded_is_named_beside_hooks_of_ours(ledger: Ledger, session: Session, way: str) -> None:
    session.own = LedgerHooks(ledger, run="order-1").hooks(".*")
    test_88_what_is_not_guarded_is_named(ledger, session, way)


def test_88_a_client_that_was_connected_before_is_refused_and_later_ones_are_guarded(
    ledger: Ledger, session: Session
) -> None:
    async def work() -> None:
        with scripted_model(session.says([[bash("toolu_1")]])) as model:
            async with ClaudeSDKClient(session.options(model)) as client:
                with instrument(ledger, **STRICT), ledger.in_run("order-1"):
                    with pytest.raises(BadCall, match="strict mode refuses"):
                        await client.query("go")
                    async with ClaudeSDKClient(session.options(model)) as later:
                        await later.query("go")
                        async for _ in later.receive_response():
                            pass

    asyncio.run(work())
    assert [effect.status for effect in ledger.effects(run_id="order-1")] == ["succeeded"]
    assert session.did == ["paid"]


def test_an_adapter_of_ours_is_left_its_tools(ledger: Ledger, session: Session) -> None:
    async def work() -> None:
        with scripted_model(session.says([[bash("toolu_1")]])) as model:
            async with LedgerHooks(ledger, run="own") as gate:
                options = replace(session.options(model), hooks=gate.hooks("Bash"))
                async for _ in query(prompt="go", options=options):
                    pass

    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        asyncio.run(work())
    assert [(effect.run_id, effect.status) for effect in ledger.effects()] == [("own", "succeeded")]


# Claude Code's own questions to people


class Person:
    """Answers what Claude Code asks, and remembers it."""

    def __init__(self, *answers: bool) -> None:
        self._answers = iter(answers)
        self.asked: list[Any] = []

    async def __call__(self, tool: str, args: dict[str, Any], context: Any) -> Any:
        self.asked.append(args)
        return PermissionResultAllow() if next(self._answers) else PermissionResultDeny(message="no")


PAY = use("toolu_1", "mcp__till__pay", {"amount": 5})


def paid(session: Session, ledger: Ledger | None, person: Person, **words: Any) -> Session:
    """Let Claude Code call a tool of ours, which it asks about by itself."""

    async def work() -> None:
        gate = None if ledger is None else LedgerHooks(ledger, run="order-1", approval="required")
        tools, hooks = [own_tool(session)], words.pop("hooks", {})
        server = create_sdk_mcp_server("till", tools=tools) if gate is None else gate.server("till", tools)
        ours: Any = {} if gate is None else gate.hooks()
        both = {event: [*hooks.get(event, ()), *ours.get(event, ())] for event in (*hooks, *ours)}
        more = {"mcp_servers": {"till": server}, "hooks": both, "can_use_tool": person, "allowed_tools": [], **words}

        async def prompts() -> AsyncIterator[Any]:
            yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

        with scripted_model(session.says([[PAY]])) as model:
            async for message in query(prompt=prompts(), options=session.options(model, **more)):
                if isinstance(message, ResultMessage):
                    session.last = message

    asyncio.run(work())
    return session


async def _asks(event: Any, call_id: str | None, context: Any) -> Any:
    return decided("ask", "a person looks at payments")


ASKING_HOOK = {"PreToolUse": [HookMatcher(matcher="mcp__till__.*", hooks=[_asks])]}


@pytest.mark.parametrize("hooks", [{}, ASKING_HOOK], ids=["permission", "ask hook"])
def test_85_claude_codes_own_question_about_a_tool_of_ours_comes_after_ours_and_once(
    hooks: Any, store_url: str, tmp_path: Path
) -> None:
    """Each pass is a process of Claude Code's, and the session is resumed."""
    native, person = Session(tmp_path / "native"), Person(True)
    words: dict[str, Any] = {"hooks": hooks, "allowed_tools": ["mcp__till__pay"]} if hooks else {}
    assert paid(native, None, person, **words).did == ["paid"]
    assert len(person.asked) == 1
    migrate(store_url)
    session, person = Session(tmp_path / "ours"), Person(True)
    with Ledger.open(store_url, seal=False) as ledger:
        assert paid(session, ledger, person, **words).last.deferred_tool_use.id == "toolu_1"  # type: ignore[union-attr]
        resumed = {**words, "resume": session.last.session_id}  # type: ignore[union-attr]
        paid(session, ledger, person, **resumed)
        assert (person.asked, session.did) == ([], []), "while the ledger's approver has not decided, no one else is"
        decide(ledger)
        paid(session, ledger, person, **resumed)
        assert (person.asked, session.did) == ([{"amount": 5}], ["paid"])
        assert [effect.status for effect in ledger.effects()] == ["succeeded"]


def test_85_a_no_to_claude_codes_own_question_is_no_doubt(store_url: str, tmp_path: Path) -> None:
    """The ledger let it run, and the person at Claude Code did not: nothing happened, and it may be called again."""
    migrate(store_url)
    session, person = Session(tmp_path / "ours"), Person(False, True)
    with Ledger.open(store_url, seal=False) as ledger:

        def go(call_id: str) -> None:
            async def work() -> None:
                async with LedgerHooks(ledger, run="order-1", approval="required") as gate:
                    with scripted_model(session.says([[bash(call_id)]])) as model:
                        more = {"hooks": gate.hooks("Bash"), "can_use_tool": person, "allowed_tools": []}

                        async def prompts() -> AsyncIterator[Any]:
                            yield {"type": "user", "message": {"role": "user", "content": "go"}}

                        async for _ in query(prompt=prompts(), options=session.options(model, **more)):
                            pass

            asyncio.run(work())

        go("toolu_1")
        assert person.asked == [], "the ledger's approver comes first"
        decide(ledger)
        go("toolu_2")
        assert (len(person.asked), session.did) == (1, [])
        assert [effect.status for effect in ledger.effects()] == ["ready"]
        decide(ledger)
        go("toolu_3")
        assert (len(person.asked), session.did) == (2, ["paid"])
        assert [effect.status for effect in ledger.effects()] == ["succeeded"]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_85_arguments_that_an_approver_edited_are_those_that_claude_code_asks_about(
    is_allowed: bool, store_url: str, tmp_path: Path
) -> None:
    """Where it would ask about nothing, it asks about nothing."""
    migrate(store_url)
    session, person = Session(tmp_path / "ours"), Person(True)
    with Ledger.open(store_url, seal=False) as ledger:

        def go(call_id: str) -> None:
            async def work() -> None:
                async with LedgerHooks(ledger, run="order-1", approval="required") as gate:
                    with scripted_model(session.says([[bash(call_id)]])) as model:
                        allowed = ["Bash"] if is_allowed else []
                        more = {"hooks": gate.hooks("Bash"), "can_use_tool": person, "allowed_tools": allowed}

                        async def prompts() -> AsyncIterator[Any]:
                            yield {"type": "user", "message": {"role": "user", "content": "go"}}

                        async for _ in query(prompt=prompts(), options=session.options(model, **more)):
                            pass

            asyncio.run(work())

        go("toolu_1")
        (question,) = ledger.approvals(status="pending")
        (effect,) = ledger.effects()
        edited = {**effect.args, "command": "echo less >> did"}
        asked = ledger.edit_approval(question, edited, digest=question.digest, by="ana")
        ledger.approve(asked, digest=asked.digest, by="bob")
        go("toolu_1")
    assert session.did == ["less"]
    assert [args["command"] for args in person.asked] == ([] if is_allowed else ["echo less >> did"])
