"""Claude Code's hooks: what one process begins another one reports, and what the ledger does not let run is denied."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, Succeeded, migrate
from indelible.core.approvals.edits import stands_for
from indelible.errors import BadCall
from indelible.integrations.claude_code import ClaudeCodeHook
from indelible.integrations.results import ToolError
from indelible.integrations.telling import TEXTS, Outcome

INDELIBLE = (sys.executable, "-m", "indelible.cli")
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "claude-code.md"
PUSH = {"command": "git push", "description": "Pushes"}
PUSHED = {**PUSH, "cwd": "/work"}  # as it is recorded


def told(event: str = "PreToolUse", use: str = "toolu_1", args: Any = PUSH, **more: Any) -> dict[str, Any]:
    """Gives what Claude Code 2.1.325 writes to a hook, as it was seen to."""
    return {
        "session_id": "6f0f3a0e-7a3c-4c0e-9c39-3f1f0c1d2e3f",
        "transcript_path": "/home/ana/.claude/projects/-work/6f0f3a0e.jsonl",
        "cwd": "/work",
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": args,
        "tool_use_id": use,
        **more,
    }


def after(use: str = "toolu_1", **more: Any) -> dict[str, Any]:
    response = {"stdout": "pushed", "stderr": "", "interrupted": False, "isImage": False}
    return told("PostToolUse", use, tool_response=response, duration_ms=48, **more)


def failure(use: str = "toolu_1", *, is_interrupt: bool = False) -> dict[str, Any]:
    return told("PostToolUseFailure", use, error="Exit code 1", is_interrupt=is_interrupt)


def denial(answer: dict[str, Any], decision: str = "deny") -> str:
    output = answer["hookSpecificOutput"]
    assert (output["hookEventName"], output["permissionDecision"]) == ("PreToolUse", decision)
    reason: str = output["permissionDecisionReason"]
    return reason


class Commands:
    """Runs the hook as Claude Code does: a process for each event."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.environment = {**os.environ, "INDELIBLE_CLAIMS": str(folder / "claims"), "INDELIBLE_URL": url}

    def run(self, event: dict[str, Any], *options: str) -> dict[str, Any]:
        ran = self.ran(json.dumps(event), *options)
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout) if ran.stdout else {}
        return answer

    def ran(self, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [*INDELIBLE, "hook", "claude-code", *options]
        return subprocess.run(
            command, input=text, env=self.environment, capture_output=True, text=True, check=False, timeout=200
        )


@pytest.fixture
def commands(store_url: str, tmp_path: Path) -> Commands:
    migrate(store_url)
    return Commands(store_url, tmp_path)


def test_a_call_is_begun_by_one_process_reported_by_another_and_denied_to_a_third(commands: Commands) -> None:
    assert commands.run(told()) == {}, "Claude Code asks for permission as it always does"
    assert commands.run(after()) == {}
    reason = denial(commands.run(told()))
    assert "Nothing was run now" in reason
    assert '"stdout": "pushed"' in reason
    with Ledger.open(commands.url, seal=False) as ledger:
        (effect,) = ledger.effects()
        assert (effect.status, effect.run_id, effect.call_id) == ("succeeded", told()["session_id"], "toolu_1")
        assert effect.args == PUSHED


def test_what_waits_for_a_person_is_denied_and_runs_when_the_model_calls_again(commands: Commands) -> None:
    reason = denial(commands.run(told(), "--approval", "required"))
    with Ledger.open(commands.url, seal=False) as ledger:
        (question,) = ledger.approvals(status="pending")
        assert f"indelible approvals show {question.id}" in reason
        ledger.approve(question, digest=question.digest, by="ana")
    answer = commands.run(told(use="toolu_2"), "--approval", "required", "--allow")  # a model gives it a new id
    assert denial(answer, "allow")
    commands.run(after("toolu_2"))
    with Ledger.open(commands.url, seal=False) as ledger:
        assert [(effect.status, effect.call_id) for effect in ledger.effects()] == [("succeeded", "toolu_1")]


def test_a_session_killed_in_a_tool_leaves_it_in_doubt_and_denied(commands: Commands, tmp_path: Path) -> None:
    terms = tmp_path / "tools.toml"
    terms.write_text("[tools.Bash]\nlease_s = 0.01\n")
    assert commands.run(told(), "--terms", str(terms)) == {}
    reason = denial(commands.run(told(), "--terms", str(terms)))
    assert "may have happened" in reason
    with Ledger.open(commands.url, seal=False) as ledger:
        (effect,) = ledger.effects(status="in_doubt")
        assert effect.id in reason


@pytest.mark.parametrize(
    ("text", "url", "says"),
    [
        ("{", "sqlite:///here.db", "JSON is expected"),
        (json.dumps(told()), "postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
        (json.dumps(told()), "sqlite:////dev/null/ledger.db", "/dev/null"),
    ],
)
def test_when_the_ledger_cannot_tell_the_tool_is_stopped(text: str, url: str, says: str, tmp_path: Path) -> None:
    """Of all exit codes, 2 alone stops it."""
    commands = Commands(url, tmp_path)
    commands.environment["CLAUDE_PROJECT_DIR"] = str(tmp_path)
    ran = commands.ran(text)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, seal=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("words", "is_interrupt", "status", "outcome"),
    [
        ({}, False, "in_doubt", "in_doubt"),
        ({"side_effect": "write"}, False, "failed", "failed"),
        ({"failed_on": ToolError}, False, "failed", "failed"),
        ({"failed_on": ToolError}, True, "in_doubt", "in_doubt"),
    ],
)
def test_a_failure_that_claude_code_reports_means_what_the_tool_declares(
    ledger: Ledger, tmp_path: Path, words: dict[str, Any], is_interrupt: bool, status: str, outcome: Outcome
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", **words)
    assert hook.answer(told()) == {}
    assert hook.answer(failure(is_interrupt=is_interrupt)) == {}
    (effect,) = ledger.effects()
    assert effect.status == status
    made = TEXTS[outcome].format(tool="Bash", effect=effect.id, why="Exit code 1")
    assert denial(hook.answer(told())) == f"Indelible: {made}"


def test_a_shell_is_known_by_the_id_and_an_mcp_tool_by_its_arguments_within_a_prompt(
    ledger: Ledger, tmp_path: Path
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims")
    for use in ("toolu_1", "toolu_2"):
        assert hook.answer(told(use=use)) == {}
        assert hook.answer(after(use)) == {}

    def charge(use: str, prompt: str) -> dict[str, Any]:
        event = told(use=use, args={"amount": 5}, prompt_id=prompt, tool_name="mcp__till__charge")
        answer = hook.answer(event)
        if not answer:
            hook.answer({**event, "hook_event_name": "PostToolUse", "tool_response": "charged"})
        return answer

    assert charge("toolu_3", "p1") == {}
    assert "Nothing was run now" in denial(charge("toolu_4", "p1"))
    assert "waits for a person" in denial(charge("toolu_5", "p2"))
    (question,) = ledger.approvals(status="pending")
    ledger.approve(question, digest=question.digest, by="ana")
    assert charge("toolu_6", "p2") == {}
    assert [effect.status for effect in ledger.effects(tool="mcp__till__charge")] == ["succeeded", "succeeded"]


def test_the_same_key_with_other_arguments_is_told_and_not_run(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", key=["description"])
    assert hook.answer(told()) == {}
    assert hook.answer(after()) == {}
    assert "git push" in denial(hook.answer(told(use="toolu_2", args={**PUSH, "command": "rm -rf /"})))
    assert len(ledger.effects()) == 1


def test_what_a_person_denies_stays_denied_under_its_id_and_a_call_that_waits_can_be_deferred(
    ledger: Ledger, tmp_path: Path
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", defers=True)
    assert "waits for a person" in denial(hook.answer(told()), "defer")
    assert "waits for a person" in denial(hook.answer(told(use="toolu_2")), "defer")
    (question,) = ledger.approvals(status="pending")
    ledger.deny(question, by="ana", reason="not on a Friday")
    assert "not on a Friday" in denial(hook.answer(told()))


@pytest.mark.parametrize(("allows", "decision"), [(True, "allow"), (False, "ask")])
def test_arguments_that_were_edited_are_those_that_run(
    ledger: Ledger, tmp_path: Path, allows: bool, decision: str
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", defers=True, allows=allows)
    hook.answer(told())
    (question,) = ledger.approvals(status="pending")
    dry = {"command": "git push --dry-run", "description": "Pushes"}
    edited = ledger.edit_approval(question, {**dry, "cwd": "/work"}, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bob")
    answer = hook.answer(told())
    denial(answer, decision)
    assert answer["hookSpecificOutput"]["updatedInput"] == dry


@pytest.mark.parametrize("says", ["what it said first", "what it was edited to"])
def test_48_what_was_edited_and_approved_runs_once_when_the_model_calls_again(
    store_url: str, tmp_path: Path, says: str
) -> None:
    """The call has a new id; each repeat was a new question, and each answer left one more approved call open."""
    migrate(store_url)
    dry = {"command": "git push --dry-run", "description": "Pushes"}
    with Ledger.open(store_url, seal=False) as ledger:
        hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", allows=True)
        denial(hook.answer(told()))
        (question,) = ledger.approvals(status="pending")
        edited = ledger.edit_approval(question, {**dry, "cwd": "/work"}, digest=question.digest, by="ana")
        ledger.approve(edited, digest=edited.digest, by="bob")
        again = PUSH if says == "what it said first" else dry
        answer = hook.answer(told(use="toolu_2", args=again))
        denial(answer, "allow")
        assert answer["hookSpecificOutput"].get("updatedInput", dry) == dry
        assert list(ledger.approvals(status="pending")) == []
        hook.answer(after("toolu_2", args=dry))
        (ran,) = ledger.effects(status="succeeded")
        assert (ran.id, ran.args) == (question.effect_id, {**dry, "cwd": "/work"})
        denial(hook.answer(told(use="toolu_3", args=again)))
        (asked,) = ledger.approvals(status="pending")
        assert asked.effect_id != ran.id, "one approval is for one call"


def test_what_must_not_be_recorded_is_not_and_still_runs(ledger: Ledger, tmp_path: Path) -> None:
    terms = {"Bash": {"redact": ["token"], "approval": "required"}}
    secret = {"command": "curl -H 'Authorization: Bearer abcdefghijklmnop0123'"}
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", terms=terms, allows=True, defers=True)
    hook.answer(told(args=secret))
    (question,) = ledger.approvals(status="pending")
    ledger.approve(question, digest=question.digest, by="ana")
    answer = hook.answer(told(args=secret))
    denial(answer, "allow")
    assert "updatedInput" not in answer["hookSpecificOutput"], "the tool gets what was said, not what is recorded"
    reporting = ClaudeCodeHook(ledger, tmp_path / "claims", terms=terms)
    reporting.answer({**after(), "tool_response": {"stdout": "sent Bearer abcdefghijklmnop0123"}})
    (effect,) = ledger.effects()
    assert effect.status == "succeeded"
    assert b"abcdefghijklmnop0123" not in (effect.args_json or b"") + (effect.detail_json or b"")


@pytest.mark.parametrize("redact", [["token"], ["args.command"]])
def test_a_read_with_redacted_parts_that_is_called_again_is_the_call_that_was_asked_about(
    ledger: Ledger, tmp_path: Path, redact: list[str]
) -> None:
    terms = {"Bash": {"redact": redact, "side_effect": "read", "approval": "required"}}
    secret = {"command": "curl -H 'Authorization: Bearer abcdefghijklmnop0123'"}
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", terms=terms, allows=True)
    denial(hook.answer(told(use="toolu_1", args=secret)))
    denial(hook.answer(told(use="toolu_2", args={"command": secret["command"] + "4"})))
    asked = ledger.approvals(status="pending")
    assert len(asked) == 2, "another secret is another call"
    for question in asked:
        ledger.approve(question, digest=question.digest, by="ana")
    denial(hook.answer(told(use="toolu_3", args=secret)), "allow")
    assert len(ledger.effects()) == 2


def test_edited_arguments_with_redacted_parts_are_not_carried_out(ledger: Ledger, tmp_path: Path) -> None:
    terms = {"Bash": {"redact": ["args.key"], "approval": "required"}}
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", terms=terms, defers=True)
    hook.answer(told(args={"command": "push", "key": "hunter2hunter2"}))
    (question,) = ledger.approvals(status="pending")
    recorded = ledger.get_effect(question.effect_id)
    assert recorded is not None
    edited = {**recorded.args, "command": "push --dry-run"}
    asked = ledger.edit_approval(question, edited, digest=question.digest, by="ana")
    ledger.approve(asked, digest=asked.digest, by="bob")
    assert "parts of them are redacted" in denial(hook.answer(told(args={"command": "push", "key": "hunter2hunter2"})))
    failed = ledger.get_effect(question.effect_id)
    assert failed is not None
    assert failed.status == "failed"
    (place,) = (effect for effect in ledger.effects() if effect.id != failed.id)
    assert stands_for(place) == failed.id, "what stands at the place of the edited call"


UNTELLABLE = [2**53 + 1, -(2**53) - 1, 10**23, 10**400, Decimal("1.1"), {"deep": [2**60 + 1]}]


@pytest.mark.parametrize("value", UNTELLABLE, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("allows", [True, False])
def test_96_an_edit_that_claude_code_would_read_as_another_is_not_carried_out(
    ledger: Ledger, tmp_path: Path, value: Any, allows: bool
) -> None:
    """Claude Code is JavaScript: it would run another number than the one that was shown and approved."""
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", defers=True, allows=allows)
    hook.answer(told(args={"command": "pay", "to": 1}))
    (question,) = ledger.approvals(status="pending")
    edit = {"command": "pay", "to": value, "cwd": "/work"}
    edited = ledger.edit_approval(question, edit, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bob")
    denial(hook.answer(told(args={"command": "pay", "to": 1})))
    effect = ledger.get_effect(question.effect_id)
    assert effect is not None
    assert effect.status == "failed"


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**53 + 2, 1.5, 10**22, True, [1], "9007199254740993"])
def test_an_edit_that_claude_code_reads_as_it_is_runs(ledger: Ledger, tmp_path: Path, value: Any) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", defers=True, allows=True)
    hook.answer(told(args={"command": "pay", "to": 1}))
    (question,) = ledger.approvals(status="pending")
    edit = {"command": "pay", "to": value, "cwd": "/work"}
    edited = ledger.edit_approval(question, edit, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bob")
    answer = hook.answer(told(args={"command": "pay", "to": 1}))
    assert json.loads(json.dumps(answer))["hookSpecificOutput"]["updatedInput"]["to"] == value


def test_each_question_is_about_its_own_arguments(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required")
    for n, command in enumerate(("git push", "git push --force")):
        denial(hook.answer(told(use=f"toolu_{n}", args={"command": command})))
    pushed = next(one for one in ledger.approvals() if ledger.get_effect(one.effect_id).call_id == "toolu_0")  # type: ignore[union-attr]
    ledger.approve(pushed, digest=pushed.digest, by="ana")
    assert "waits" in denial(hook.answer(told(use="toolu_7", args={"command": "git push --force"})))
    assert hook.answer(told(use="toolu_8", args={"command": "git push"})) == {}


def test_a_stop_denies_and_a_report_that_comes_late_resolves_the_doubt(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", lease=timedelta(microseconds=1))
    assert hook.answer(told()) == {}
    assert "may have happened" in denial(hook.answer(told()))
    assert hook.answer(after()) == {}
    assert [effect.status for effect in ledger.effects()] == ["succeeded"]
    ledger.stop(by="ana", reason="too much")
    assert "all effects are stopped" in denial(hook.answer(told(use="toolu_2")))


def test_what_a_command_prints_need_not_be_text(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims")
    assert hook.answer(told()) == {}
    assert hook.answer({**after(), "tool_response": {"stdout": "a\ud800b"}}) == {}
    (effect,) = ledger.effects()
    assert effect.outcome == Succeeded({"stdout": "a?b"})


def test_what_is_no_call_is_refused_and_what_is_none_of_ours_is_let_be(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims")
    wrong: list[dict[str, Any]] = [{}, told(use=""), told(args="git push"), {**told(), "session_id": 5}]
    for event in wrong:
        with pytest.raises(BadCall, match=r"expected|hook_event_name"):
            hook.answer(event)
    assert hook.answer(told("Stop")) == hook.answer(after("never-begun")) == {}
    assert ledger.effects() == []


def test_the_right_to_report_is_for_its_owner_and_for_the_ledger_it_is_of(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims")
    assert hook.answer(told()) == {}
    (kept,) = (tmp_path / "claims").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "effect": "eff_of_another"}))
    with pytest.raises(BadCall, match="begun in another ledger"):
        hook.answer(after())
    (effect,) = ledger.effects()
    assert effect.status == "processing"


def test_the_page_shows_settings_that_can_be_used() -> None:
    text = PAGE.read_text()
    settings = json.loads(text.split("```json\n")[1].split("```")[0])
    assert set(settings["hooks"]) == {"PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptExpansion"}
    for event, groups in settings["hooks"].items():
        (group,) = groups
        (hook,) = group["hooks"]
        assert hook["command"].startswith("indelible hook claude-code")
        assert hook.get("onFailure") == ("block" if event == "PreToolUse" else None)


@pytest.mark.parametrize("use", ["toolu_1", "toolu_2"])
def test_89_an_approval_is_for_the_folder_that_was_shown(use: str, store_url: str, tmp_path: Path) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required")
        denial(hook.answer(told(cwd="/home/ana/shop")))
        (question,) = ledger.approvals(status="pending")
        (effect,) = ledger.effects()
        assert effect.args == {**PUSH, "cwd": "/home/ana/shop"}
        ledger.approve(question, digest=question.digest, by="ana")
        denial(hook.answer(told(use=use, cwd="/home/ana/bank")))
        (asked,) = ledger.approvals(status="pending")
        assert asked.id != question.id
        if use != "toolu_1":
            assert hook.answer(told(use="toolu_3", cwd="/home/ana/shop")) == {}


def test_89_a_folder_may_be_left_out(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", unbound=["cwd"])
    denial(hook.answer(told(cwd="/home/ana/shop")))
    (question,) = ledger.approvals(status="pending")
    ledger.approve(question, digest=question.digest, by="ana")
    assert hook.answer(told(use="toolu_2", cwd="/home/ana/bank")) == {}


def test_89_an_edit_cannot_move_a_call_to_another_folder(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required")
    denial(hook.answer(told()))
    (question,) = ledger.approvals(status="pending")
    edited = ledger.edit_approval(question, {**PUSH, "cwd": "/elsewhere"}, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bob")
    denial(hook.answer(told()))
    assert [effect.status for effect in ledger.effects() if effect.status == "processing"] == []


BOB, EVE = {"command": "pay bob 5"}, {"command": "pay eve 9"}


def reports(*, use: str, is_late: bool, tool: str = "Bash", args: Any = BOB) -> list[dict[str, Any]]:
    """Return what two subagents' hooks are told: bob's call fails, the other succeeds."""
    failed = told("PostToolUseFailure", use, BOB, error="card declined", agent_id="sub-1")
    done = told("PostToolUse", use, args, tool_name=tool, tool_response={"stdout": "paid"}, agent_id="sub-2")
    return [done, failed] if is_late else [failed, done]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(("tool", "args"), [("Bash", EVE), ("PowerShell", BOB)])
def test_96_reports_of_calls_under_one_number_settle_each_its_own(
    commands: Commands, tmp_path: Path, tool: str, args: Any, is_late: bool
) -> None:
    """Subagents work beside each other, and the model of each numbers its calls from zero."""
    terms = tmp_path / "tools.toml"
    terms.write_text('[tools.Bash]\nside_effect = "write"\n[tools.PowerShell]\nside_effect = "write"\n')
    begun = [told(use="call_0", args=BOB), told(use="call_0", args=args, tool_name=tool)]
    for event in [*begun, *reports(use="call_0", is_late=is_late, tool=tool, args=args)]:
        commands.run(event, "--terms", str(terms))
    with Ledger.open(commands.url, seal=False) as ledger:
        stand = {(one.tool, one.args["command"]): one.status for one in ledger.effects()}
    assert stand == {("Bash", "pay bob 5"): "failed", (tool, args["command"]): "succeeded"}
    assert list((tmp_path / "claims").iterdir()) == []


def test_96_calls_that_say_the_same_under_one_number_are_reported_once_each(ledger: Ledger, tmp_path: Path) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", terms={"Bash": {"side_effect": "write"}})
    for _ in range(2):
        assert hook.answer(told(use="call_0", args=BOB)) == {}
    for event in reports(use="call_0", is_late=False):
        hook.answer(event)
    assert sorted(one.status for one in ledger.effects()) == ["failed", "succeeded"]


@pytest.mark.parametrize(("use", "status"), [("toolu_1", "succeeded"), ("call_0", "processing")])
def test_96_a_report_with_another_input_is_believed_by_an_id_that_is_unique(
    ledger: Ledger, tmp_path: Path, use: str, status: str
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims")
    hook.answer(told(use=use, args=BOB))
    hook.answer(told("PostToolUse", use, EVE, tool_response={"stdout": "paid"}))
    assert [one.status for one in ledger.effects()] == [status]


def test_96_what_another_session_reports_settles_no_call_of_this_one(ledger: Ledger, tmp_path: Path) -> None:
    """Each session numbers its calls from zero, and both may say the same."""
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", terms={"Bash": {"side_effect": "write"}})
    paid = told("PostToolUse", "call_0", BOB, tool_response={"stdout": "paid"})
    assert hook.answer(told(use="call_0", args=BOB)) == {}
    hook.answer({**paid, "session_id": "another session"})
    assert [one.status for one in ledger.effects()] == ["processing"]
    hook.answer(paid)
    assert [one.status for one in ledger.effects()] == ["succeeded"]


@pytest.mark.parametrize("told_input", [BOB, EVE])
def test_96_an_edited_call_is_reported_with_what_was_said_or_with_what_ran(
    ledger: Ledger, tmp_path: Path, told_input: Any
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", dedupe="args")
    hook.answer(told(use="call_0", args=BOB))
    (question,) = ledger.approvals(status="pending")
    edited = ledger.edit_approval(question, {**EVE, "cwd": "/work"}, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bea")
    hook.answer(told(use="call_0", args=BOB))
    hook.answer(told("PostToolUse", "call_0", told_input, tool_response={"stdout": "paid"}))
    assert len(ledger.effects(status="succeeded")) == 1


@pytest.mark.parametrize(("said", "approved"), [(True, 1), (0, False)])
def test_52_an_edit_to_a_value_that_python_takes_for_equal_is_told(
    ledger: Ledger, tmp_path: Path, said: Any, approved: Any
) -> None:
    hook = ClaudeCodeHook(ledger, tmp_path / "claims", approval="required", dedupe="args")
    hook.answer(told(args={"n": said}))
    (question,) = ledger.approvals(status="pending")
    edited = ledger.edit_approval(question, {"n": approved, "cwd": "/work"}, digest=question.digest, by="ana")
    ledger.approve(edited, digest=edited.digest, by="bea")
    answer = hook.answer(told(args={"n": said}))
    assert json.dumps(answer["hookSpecificOutput"]["updatedInput"]) == json.dumps({"n": approved})


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_96_a_hook_reads_utf_8_in_every_locale(sqlite_url: str, tmp_path: Path, encoding: str) -> None:
    migrate(sqlite_url)
    environment = {**Commands(sqlite_url, tmp_path).environment, "PYTHONIOENCODING": encoding}
    event = json.dumps(told(args={"command": "pay café"}), ensure_ascii=False).encode()
    hook: Any = [*INDELIBLE, "hook", "claude-code", "--approval", "required"]
    for text, code in ((event, 0), (event.replace("é".encode(), b"\xe9"), 2)):
        ran = subprocess.run(hook, input=text, env=environment, capture_output=True, check=False, timeout=200)
        assert ran.returncode == code
    with Ledger.open(sqlite_url, seal=False) as ledger:
        (effect,) = ledger.effects()
        assert effect.args["command"] == "pay café"


ENDED_WHILE_LOADING = """
import os, signal, sys

class Ends:
    def find_spec(self, name, path=None, target=None):
        if name == "indelible":
            os.kill(os.getpid(), signal.{name})

sys.meta_path.insert(0, Ends())
sys.argv = ["indelible", "--tenant", "t", "hook", "claude-code"]
import indelible_command
sys.exit(indelible_command.main())
"""


ENDED_WHILE_IT_LEAVES = """
import os, signal, sys

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.{name}):
        kill(process, number)

sys.late = Late()  # goes when Python ends
sys.argv = ["indelible", "hook", "claude-code", "--allow"]
import indelible_command
sys.exit(indelible_command.main())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_10_a_hook_that_is_ended_while_it_leaves_has_told_its_exit_code(
    sqlite_url: str, tmp_path: Path, name: str
) -> None:
    migrate(sqlite_url)
    environment = Commands(sqlite_url, tmp_path).environment
    for event, code in ((json.dumps(told()), 0), ("no JSON", 2)):
        hook = [sys.executable, "-c", ENDED_WHILE_IT_LEAVES.replace("{name}", name)]
        ran = subprocess.run(hook, input=event.encode(), env=environment, capture_output=True, check=False, timeout=100)
        assert ran.returncode == code
        assert (b"allow" in ran.stdout) == (code == 0)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_96_a_hook_that_is_ended_while_it_loads_stops_the_tool(name: str) -> None:
    code = ENDED_WHILE_LOADING.replace("{name}", name)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=100)
    assert ended.returncode == 2
    script = tomllib.loads((PAGE.parents[2] / "pyproject.toml").read_text())["project"]["scripts"]["indelible"]
    assert script == "indelible_command:main"
