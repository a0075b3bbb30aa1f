"""Claude Code itself, as the SDK brings it, with a scripted model and `indelible hook claude-code` in its settings."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, query

from indelible import AsyncLedger, Effect, Ledger, migrate
from indelible.core.approvals.edits import stands_for
from indelible.integrations.claude_agent import LedgerHooks
from indelible.integrations.claude_code import UNGUARDED
from indelible.testing.claude_model import scripted_model, text, use
from tests.frameworks.conftest import table_of

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
INDELIBLE = Path(sys.executable).with_name("indelible")
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "claude-code.md"


class Project:
    """Is a folder with the settings that the page shows, and a Claude Code that works in it."""

    def __init__(self, folder: Path, url: str, options: str = "") -> None:
        self.folder, self.url = folder / "project", url
        migrate(url)  # a hook makes no ledger
        (self.folder / ".claude").mkdir(parents=True)
        (folder / "home").mkdir()
        trusted = {"projects": {str(self.folder): {"hasTrustDialogAccepted": True}}}
        (folder / "home" / ".claude.json").write_text(json.dumps(trusted))
        shown = PAGE.read_text().split("```json\n")[1].split("```")[0]
        shown = shown.replace("indelible hook claude-code", f"{INDELIBLE} hook claude-code --allow {options}".strip())
        (self.folder / ".claude" / "settings.json").write_text(shown)
        self.environment = {
            **os.environ,
            "HOME": str(folder / "home"),
            "INDELIBLE_URL": url,
            "INDELIBLE_CLAIMS": str(folder / "claims"),
        }
        self.heard: Mapping[str, str] = {}

    def asked(self, *turns: Sequence[Any], words: Sequence[str] = (), prompt: str = "go") -> dict[str, Any]:
        """Lets Claude Code work, with a model that makes each turn's calls until it has heard of them."""

        def says(heard: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
            self.heard = heard
            return next((turn for turn in turns if any(one["id"] not in heard for one in turn)), [text("done")])

        with scripted_model(says) as model:
            command = [str(CLAUDE), "-p", prompt, "--output-format", "json", *words]
            ran = subprocess.run(
                command,
                cwd=self.folder,
                env={**self.environment, **model},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=100,
            )
        result: dict[str, Any] = json.loads(ran.stdout)
        return result

    def did(self) -> list[str]:
        """Gives what the commands wrote."""
        done = self.folder / "did"
        return done.read_text().split() if done.exists() else []

    def effects(self) -> list[Effect]:
        with Ledger.open(self.url, seal=False) as ledger:
            return ledger.effects()[::-1]


def bash(call_id: str, word: str, then: str = "true") -> dict[str, Any]:
    return use(call_id, "Bash", {"command": f"echo {word} >> did; {then}", "description": "Writes"})


def test_calls_run_once_are_recorded_and_denied_when_they_come_again(sqlite_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, sqlite_url, "--run release-7")
    project.asked([bash("toolu_1", "one")], [bash("toolu_2", "two", "false")])
    assert project.did() == ["one", "two"]
    assert [(one.call_id, one.status) for one in project.effects()] == [
        ("toolu_1", "succeeded"),
        ("toolu_2", "in_doubt"),
    ], "a command that fails may have done something before"
    assert not list((tmp_path / "claims").iterdir())
    project.asked([bash("toolu_1", "one")])
    assert project.effects()[0].id in project.heard["toolu_1"]
    assert project.did() == ["one", "two"]


def test_what_waits_is_denied_and_runs_when_somebody_has_decided(sqlite_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, sqlite_url, "--approval required")
    first = project.asked([bash("toolu_1", "one")])
    assert "waits for a person" in project.heard["toolu_1"]
    assert project.did() == []
    with Ledger.open(sqlite_url, seal=False) as ledger:
        (question,) = ledger.approvals(status="pending")
        ledger.approve(question, digest=question.digest, by="ana")
    project.asked([bash("toolu_2", "one")], words=["--resume", first["session_id"]])
    assert project.did() == ["one"]
    assert [(one.call_id, one.status) for one in project.effects()] == [("toolu_1", "succeeded")]


def test_a_deferred_call_is_made_when_the_session_is_resumed(sqlite_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, sqlite_url, "--approval required --defer")
    first = project.asked([bash("toolu_1", "one")])
    assert first["deferred_tool_use"]["id"] == "toolu_1"
    with Ledger.open(sqlite_url, seal=False) as ledger:
        (question,) = ledger.approvals(status="pending")
        edited = {**project.effects()[0].args, **bash("toolu_1", "two")["input"]}
        asked = ledger.edit_approval(question, edited, digest=question.digest, by="ana")
        ledger.approve(asked, digest=asked.digest, by="bob")
    project.asked([bash("toolu_1", "one")], words=["--resume", first["session_id"]])
    assert project.did() == ["two"], "what was approved is what runs"
    made, place = project.effects()
    assert (made.status, made.args["command"]) == ("succeeded", edited["command"])
    assert stands_for(place) == made.id, "what stands at the place of the edited call"


@pytest.mark.parametrize("breaks", ["store", "command"])
def test_when_the_ledger_cannot_tell_nothing_runs(sqlite_url: str, tmp_path: Path, breaks: str) -> None:
    project = Project(tmp_path, sqlite_url)
    if breaks == "store":
        project.environment["INDELIBLE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    else:
        settings = project.folder / ".claude" / "settings.json"
        settings.write_text(settings.read_text().replace(str(INDELIBLE), "/nowhere/indelible"))
    project.asked([bash("toolu_1", "one")])
    assert ("cannot be reached" if breaks == "store" else 'onFailure is "block"') in project.heard["toolu_1"]
    assert project.did() == []


def test_the_hooks_of_the_sdk_begin_and_report_claude_codes_own_tools(sqlite_url: str, tmp_path: Path) -> None:
    """What test_claude_agent.py tries with a script, tried once with Claude Code itself."""
    heard: list[Mapping[str, str]] = [{}]

    def says(known: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        heard[0] = known
        left = [one for one in (bash("toolu_1", "one"), bash("toolu_2", "two", "false")) if one["id"] not in known]
        return left[:1] or [text("done")]

    async def work() -> None:
        async with (
            AsyncLedger.open(sqlite_url, seal=False) as ledger,
            LedgerHooks(ledger, run="r", allows=True) as gate,
        ):
            with scripted_model(says) as model:
                options = ClaudeAgentOptions(
                    hooks=gate.hooks("Bash"), setting_sources=[], cwd=tmp_path, env={**model, "HOME": str(tmp_path)}
                )
                async for _ in query(prompt="go", options=options):
                    pass

    for _ in range(2):
        asyncio.run(work())
    assert (tmp_path / "did").read_text().split() == ["one", "two"]
    with Ledger.open(sqlite_url, seal=False) as ledger:
        effects = {str(one.call_id): one for one in ledger.effects()}
    assert {call_id: one.status for call_id, one in effects.items()} == {
        "toolu_1": "succeeded",
        "toolu_2": "in_doubt",
    }
    assert all(one.id in heard[0][call_id] for call_id, one in effects.items())


# Every way in which Claude Code runs code, with the settings of the page

PAYS = "!`echo one >> did`"


def with_mcp_server(project: Project) -> None:
    command = {"command": sys.executable, "args": ["-m", "tests.frameworks.crewai_bank", str(project.folder / "did")]}
    server = {**command, "env": {"PYTHONPATH": str(PAGE.parents[2])}}
    words = ["--mcp-config", json.dumps({"mcpServers": {"bank": server}})]
    project.asked([use("toolu_1", "mcp__bank__pay", {"amount": 5})], words=words)


def with_subagent(project: Project) -> None:
    asked = {"description": "pay", "prompt": "pay", "subagent_type": "general-purpose", "run_in_background": False}
    project.asked([use("toolu_1", "Agent", asked)], [bash("toolu_2", "one")])


def with_skill(project: Project) -> None:
    skills = project.folder / ".claude" / "skills" / "pay"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text(f"---\nname: pay\ndescription: pays\nallowed-tools: Bash(echo:*)\n---\n{PAYS}\n")
    project.asked([use("toolu_1", "Skill", {"skill": "pay"})], words=["--allowedTools", "Bash"])


def with_slash_command(project: Project) -> None:
    commands = project.folder / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "pay.md").write_text(f"---\nallowed-tools: Bash(echo:*)\n---\nResult: {PAYS}\n")
    project.asked(prompt="/pay", words=["--allowedTools", "Bash"])


WAYS: dict[str, tuple[set[str], Callable[[Project], Any]]] = {
    "Bash": ({"Bash"}, lambda project: project.asked([bash("toolu_1", "one")])),
    "Write and Edit": (
        {"Write"},
        lambda project: project.asked(
            [use("toolu_1", "Write", {"file_path": str(project.folder / "did"), "content": "one"})]
        ),
    ),
    "WebFetch": (
        {"WebFetch"},
        lambda project: project.asked([use("toolu_1", "WebFetch", {"url": "http://127.0.0.1:1/", "prompt": "pay"})]),
    ),
    "tools of MCP servers": ({"mcp__bank__pay"}, with_mcp_server),
    "subagents and their tools": ({"Agent", "Bash"}, with_subagent),
}
BESIDE = {"slash commands": with_slash_command, "skills": with_skill}


def test_88_the_page_says_which_ways_are_guarded() -> None:
    rows = [row.strip("| ").split(" | ") for row in table_of(PAGE)]
    assert {name for name, says in rows if says == "guarded"} == set(WAYS)
    assert {name for name, says in rows if "--strict" in says} == set(BESIDE)
    assert [name for name, says in rows if says == "not guarded"] == ["hooks of others, plugins, status lines"]


@pytest.mark.parametrize("way", WAYS)
def test_88_what_the_page_calls_guarded_meets_the_ledger(way: str, sqlite_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, sqlite_url)
    tools, play = WAYS[way]
    play(project)
    assert {effect.tool for effect in project.effects()} == tools
    assert len(project.did()) == (0 if way == "WebFetch" else 1), "nothing answers there"


@pytest.mark.parametrize("way", BESIDE)
@pytest.mark.parametrize("options", ["", "--strict", "--strict --strict-allow pay"])
def test_88_skills_and_slash_commands_are_on_the_record_and_blocked_in_strict_mode(
    options: str, way: str, sqlite_url: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, sqlite_url, f"--run release-7 {options}".strip())
    BESIDE[way](project)
    assert project.did() == ([] if options == "--strict" else ["one"])
    if options == "":
        with Ledger.open(sqlite_url, seal=False) as ledger:
            named = [event.type for event in ledger.events("release-7") if event.type == UNGUARDED]
            assert named == ([UNGUARDED] if way == "slash commands" else [])
            assert [effect.tool for effect in ledger.effects()] == ([] if way == "slash commands" else ["Skill"])
