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
from typing import Any, NamedTuple

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
from indelible.integrations.claude_calls import (
    BuiltIn,
    call_of,
    folder_in,
    said_hash,
    told_of,
    turn_in,
    without_folder,
)
from indelible.integrations.claude_words import SKILL, cut, decided, may_run, was_done, why_untellable
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
        kept = self._kept(event)
        try:
            begun = self._ledger.begin(call, **self._terms.options(call.tool))
        except NotRun as refused:
            heard = heard_of(refused, call.tool)
            return decided("deny", str(refused) if heard is None else heard.text)
        match begun:
            case Claimed(claim):
                return self._let_in(claim, call, kept)
            case Replayed(value):
                return decided("deny", was_done(begun.effect, value))
            case _:
                heard = heard_of_answer(begun, call.tool)
                return decided("defer" if heard.outcome == "waits" and self._defers else "deny", cut(heard.text))

    def _let_in(self, claim: Claim, call: ToolCall, kept: _Kept) -> Answer:
        if claim.screen is None:
            args = claim.effect.args
        elif claim.screen.recorded_args == claim.effect.args_json:
            args = dict(call.args)  # parts of what is recorded are marks; what was said is what runs
        else:
            why = "its arguments were edited, and parts of them are redacted, so Claude Code cannot be told them"
            return self._not_told(claim, why)
        approved, said = without_folder(args, call), without_folder(call.args, call)
        untellable = why_untellable(approved, said)
        if untellable is not None:
            return self._not_told(claim, untellable)
        self._begun = claim, kept.keep(claim, {said_hash(said), said_hash(approved)})
        return may_run(approved, said, allows=self._allows)

    def _not_told(self, claim: Claim, why: str) -> Answer:
        self._ledger.commit(claim, Failed(why))
        return decided("deny", f"{claim.effect.tool} was not carried out: {why}")

    def take_back(self) -> None:
        """Give back the call that the last answer let in. Call it if that was not told, and the tool is stopped."""
        if self._begun is not None:
            claim, token = self._begun
            self._ledger.commit(claim, NothingHappened("Claude Code could not be told that it may run"))
            token.remove()

    def _after(self, event: Mapping[str, Any], outcome: Outcome | Exception) -> Answer:
        """Report what came of a call. One that was not begun here, or cannot be told from others, is not reported."""
        token = self._kept(event).take(_text(event, "tool_use_id"), event.get("tool_input"))
        if token is None:
            return {}
        try:
            self._declare(_text(event, "tool_name"))
            effect = self._ledger.get_effect(token.effect)
            if effect is None:
                raise BadCall(f"{_text(event, 'tool_name')} was begun in another ledger; name that one with --url")
            self._ledger.commit(Claim(effect, token.secret), outcome)
        except BaseException:
            token.path.rename(token.path.with_suffix(".json"))
            raise
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
        words = self._terms.options(tool)
        return meant(self._ledger, call, words, (effect for page in found for effect in page))

    def _run_of(self, event: Mapping[str, Any]) -> str:
        return self._run or _text(event, "session_id")

    def _kept(self, event: Mapping[str, Any]) -> _Kept:
        """Find where the rights to report calls of this session, tool and id lie. Nobody learns these from there."""
        ledger = (self._ledger.address, self._ledger.tenant)
        named = (_text(event, name) for name in ("session_id", "tool_use_id", "tool_name"))
        return _Kept(self._claims, hashlib.sha256(json.dumps([*ledger, *named]).encode()).hexdigest())


class _Token(NamedTuple):
    """The right to report one call, in a file of its own."""

    path: Path
    effect: str
    secret: str

    def remove(self) -> None:
        """Forget the right, which is used up."""
        self.path.unlink(missing_ok=True)


class _Kept:
    """The rights to report the calls of one session, tool and id. A model that numbers its calls has several at once.

    Args:
        folder: Where the files lie.
        name: What their names begin with.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # told now, when nothing has begun, if it cannot be
        self._folder = folder
        self._name = name

    def keep(self, claim: Claim, said: Collection[str]) -> _Token:
        """Keep the right to report a call with these inputs. The file is there whole or not at all."""
        path = self._folder / f"{self._name}-{claim.effect.id}-{claim.attempt}.json"
        handle, written = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "w") as file:
            json.dump({"effect": claim.effect.id, "token": claim.token, "said": sorted(said)}, file)
        Path(written).replace(path)
        return _Token(path, claim.effect.id, claim.token)

    def take(self, call_id: str, tool_input: Any) -> _Token | None:
        """Take the right to report the call that a hook tells of; None if there is none, or it cannot be told."""
        while (token := told_of(self._begun(), call_id, tool_input)) is not None:
            with suppress(FileNotFoundError):  # the same call may be reported beside this one
                return token._replace(path=token.path.rename(token.path.with_suffix(".taken")))
        return None

    def _begun(self) -> list[tuple[list[str], _Token]]:
        begun = []
        for path in sorted(self._folder.glob(f"{self._name}-*.json"), key=_written):
            with suppress(FileNotFoundError):
                kept = json.loads(path.read_text())
                begun.append((kept["said"], _Token(path, kept["effect"], kept["token"])))
        return begun


def _written(path: Path) -> int:
    """Return when a file was written; 0 if it is gone."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


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
