"""Claude Code: what its hooks say before and after each tool is begun and settled in the ledger.

Before a tool runs, one process begins the effect; after it, another one reports what came of it. In between, the right
to report lies in a file that only its owner can read. A call that is never reported is in doubt when its lease ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible import (
    Claim,
    Claimed,
    Failed,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    Outcome,
    Replayed,
    Succeeded,
    ToolCall,
)
from indelible.errors import BadCall, NotRun
from indelible.integrations.calling_again import OPEN, meant
from indelible.integrations.claude_calls import BuiltIn, call_of, folder_in, turn_in, without_folder
from indelible.integrations.claude_words import SKILL, cut, decided, may_run, was_done
from indelible.integrations.injected import recorded
from indelible.integrations.results import ToolError
from indelible.integrations.telling import heard_of, heard_of_answer
from indelible.integrations.terms import Named, hash_of
from indelible.integrations.ways import Watch

Answer = dict[str, Any]
"""Is what a hook prints; empty when it has nothing to decide."""

# Nobody renews the lease between two hooks, and a command, or whoever is asked about it, may take long.
_LEASE = timedelta(hours=1)
_NAME = "Claude Code"
UNGUARDED = "claude_code.unguarded"
"""The event by which a run's record names what Claude Code ran without asking the ledger."""


class ClaudeCodeHook:
    """Let each tool call of a Claude Code session run at most once and with permission, and record what came of it.

    Args:
        ledger: The ledger.
        claims: The folder that keeps the right to report a call between two hooks.
        run: The run that calls belong to. Default: the session.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        allows: Claude Code does not ask about what the ledger lets run. Default: False.
        defers: A call that waits for a person ends a `claude -p`; resuming the session makes it again. Default: False.
        strict: Refuse skills and slash commands, whose commands run before any hook hears of them. Default: False.
        allow: Names of skills and slash commands that strict mode lets run.
        usual: The words of `terms` for all tools.
    """

    def __init__(
        self,
        ledger: Ledger,
        claims: Path,
        *,
        run: str | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        allows: bool = False,
        defers: bool = False,
        strict: bool = False,
        allow: Collection[str] = (),
        **usual: Any,
    ) -> None:
        self._ledger = ledger
        self._watch = Watch(strict, allow)
        self._claims = claims
        self._run = run
        self._terms = BuiltIn(terms, {"lease": _LEASE, **usual})
        self._allows = allows
        self._defers = defers
        self._begun: tuple[Claim, _Token] | None = None

    def answer(self, event: Mapping[str, Any]) -> Answer:
        """Gives what to answer to one event; raises when the ledger cannot tell, and then nothing may run."""
        match event.get("hook_event_name"):
            case "PreToolUse":
                return self._before(event)
            case "PostToolUse":
                return self._after(event, Succeeded(_recordable(event.get("tool_response"))))
            case "PostToolUseFailure":
                said = _recordable(str(event.get("error")))
                return self._after(event, MayHaveHappened(said) if event.get("is_interrupt") else ToolError(said))
            case "UserPromptExpansion":
                return self._expanded(event)
            case str():  # another event is none of our business
                return {}
            case _:
                raise BadCall("this is no event of Claude Code's hooks: it has no hook_event_name")

    def _expanded(self, event: Mapping[str, Any]) -> Answer:
        """Record a slash command, or block it: its text may run commands before any hook hears of them."""
        name = _text(event, "command_name")
        try:
            self._watch.note(_NAME, "slash commands", [name])
        except BadCall as refused:
            return {"decision": "block", "reason": f"Indelible: {refused}"}
        self._ledger.record(self._run_of(event), UNGUARDED, {"way": "slash commands", "name": name})
        return {}

    def _before(self, event: Mapping[str, Any]) -> Answer:
        call = self._call(event)
        if call.tool == SKILL:
            try:
                self._watch.note(_NAME, "skills", [str(call.args.get("skill"))])
            except BadCall as refused:
                return decided("deny", str(refused))
        token = _Token(self._place(event))
        try:
            begun = self._ledger.begin(call, **self._terms.options(call.tool))
        except NotRun as refused:
            heard = heard_of(refused, call.tool)
            return decided("deny", str(refused) if heard is None else heard.text)
        match begun:
            case Claimed(claim):
                return self._let_in(claim, call, token)
            case Replayed(value):
                return decided("deny", was_done(begun.effect, value))
            case _:
                heard = heard_of_answer(begun, call.tool)
                return decided("defer" if heard.outcome == "waits" and self._defers else "deny", cut(heard.text))

    def _let_in(self, claim: Claim, call: ToolCall, token: _Token) -> Answer:
        if claim.screen is None:
            args = claim.effect.args
        elif claim.screen.recorded_args == claim.effect.args_json:
            args = dict(call.args)  # parts of what is recorded are marks; what was said is what runs
        else:
            why = "its arguments were edited, and parts of them are redacted, so Claude Code cannot be told them"
            self._ledger.commit(claim, Failed(why))
            return decided("deny", f"{call.tool} was not carried out: {why}")
        token.keep(claim)
        self._begun = claim, token
        return may_run(without_folder(args, call), without_folder(call.args, call), allows=self._allows)

    def take_back(self) -> None:
        """Give back the call that the last answer let in. Call it if that was not told, and the tool is stopped."""
        if self._begun is not None:
            claim, token = self._begun
            self._ledger.commit(claim, NothingHappened("Claude Code could not be told that it may run"))
            token.remove()

    def _after(self, event: Mapping[str, Any], outcome: Outcome | Exception) -> Answer:
        """Reports what came of a call; one that was not begun here is none of ours."""
        token = _Token(self._place(event))
        kept = token.read()
        if kept is not None:
            self._declare(_text(event, "tool_name"))
            effect = self._ledger.get_effect(kept["effect"])
            if effect is None:
                raise BadCall(f"{_text(event, 'tool_name')} was begun in another ledger; name that one with --url")
            self._ledger.commit(Claim(effect, kept["token"]), outcome)
            token.remove()
        return {}

    def _declare(self, tool: str) -> None:
        """Tell the ledger how this tool is treated: what of its results is redacted, and what its errors mean."""
        self._ledger.tool(tool, **self._terms.options(tool))(_runs_elsewhere)

    def _call(self, event: Mapping[str, Any]) -> ToolCall:
        args, tool, run = event.get("tool_input"), _text(event, "tool_name"), self._run_of(event)
        if not isinstance(args, Mapping):
            raise BadCall("tool_input: an object is expected here")
        named = Named(
            tool=tool,
            args=args,
            run_id=run,
            call_id=_text(event, "tool_use_id"),
            schema=hash_of(["claude code", tool]),  # its arguments are complete as they are
            turn=turn_in(event),
            injected=recorded(folder_in(event, tool), self._terms.unbound(tool)),
        )
        call = call_of(self._terms, named)
        if call.dedupe != "call":
            return call
        found = (self._ledger.effects(run_id=run, tool=tool, status=status) for status in OPEN)
        return meant(call, (effect for page in found for effect in page))

    def _run_of(self, event: Mapping[str, Any]) -> str:
        return self._run or _text(event, "session_id")

    def _place(self, event: Mapping[str, Any]) -> Path:
        """Gives where the right to report this call lies; both hooks know the name, and nobody learns it from there."""
        ledger = (self._ledger.address, self._ledger.tenant)
        known_as = json.dumps([*ledger, _text(event, "session_id"), _text(event, "tool_use_id")])
        return self._claims / f"{hashlib.sha256(known_as.encode()).hexdigest()}.json"


class _Token:
    """Is the right to report one call, in a file of its own."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # told now, when nothing has begun, if it cannot be
        self._path = path

    def keep(self, claim: Claim) -> None:
        """Keeps the right; the file is there whole or not at all."""
        handle, written = tempfile.mkstemp(dir=self._path.parent)
        with os.fdopen(handle, "w") as file:
            json.dump({"effect": claim.effect.id, "token": claim.token}, file)
        Path(written).replace(self._path)

    def read(self) -> dict[str, str] | None:
        """Gives the right; None when there is none."""
        try:
            kept: dict[str, str] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        return kept

    def remove(self) -> None:
        """Forgets the right, which is used up."""
        with suppress(FileNotFoundError):
            self._path.unlink()


def _runs_elsewhere(**args: Any) -> None:
    """Stands for a tool of Claude Code's, which nobody enters here."""
    raise NotImplementedError("Claude Code runs it")


def _text(event: Mapping[str, Any], name: str) -> str:
    found = event.get(name)
    if not isinstance(found, str) or not found:
        raise BadCall(f"{name}: a text is expected here")
    return found


def _recordable(value: Any) -> Any:
    """Gives what a tool said as what can be recorded: a command may print bytes that are no text."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
