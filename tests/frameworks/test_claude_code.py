"""Claude Code itself, as the SDK brings it, with a scripted model and `indelible hook claude-code` in its settings."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, query

from indelible import AsyncLedger, Effect, Ledger, migrate
from indelible.integrations.claude_agent import LedgerHooks
from indelible.testing.claude_model import scripted_model, text, use

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

    def asked(self, *turns: Sequence[Any], words: Sequence[str] = ()) -> dict[str, Any]:
        """Lets Claude Code work, with a model that makes each turn's calls until it has heard of them."""

        def says(heard: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
            self.heard = heard
            return next((turn for turn in turns if any(one["id"] not in heard for one in turn)), [text("done")])

        with scripted_model(says) as model:
            command = [str(CLAUDE), "-p", "go", "--output-format", "json", *words]
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
        edited = dict(bash("toolu_1", "two")["input"])
        asked = ledger.edit_approval(question, edited, digest=question.digest, by="ana")
        ledger.approve(asked, digest=asked.digest, by="bob")
    project.asked([bash("toolu_1", "one")], words=["--resume", first["session_id"]])
    assert project.did() == ["two"], "what was approved is what runs"
    made, place = project.effects()
    assert (made.status, made.args["command"]) == ("succeeded", edited["command"])
    assert (place.status, place.args) == ("canceled", made.args), "a call of what it was edited to is the same call"


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
