"""Claude Code: what its hooks say before and after each tool is begun and settled in the ledger.

Before a tool runs, one process begins the effect; after it, another one reports what came of it. In between, the right
to report lies in a file that only its owner can read. A call that is never reported is in doubt when its lease ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible import (
    AwaitingApproval,
    Canceled,
    Claim,
    Claimed,
    Denied,
    Failed,
    InDoubt,
    InFlight,
    Ledger,
    Outcome,
    Replayed,
    ReplayedFailure,
    Succeeded,
    ToolCall,
)
from indelible.errors import BadCall, NotRun
from indelible.integrations.calling_again import OPEN, meant_call_id
from indelible.integrations.claude_words import decided, has_failed, may_run, was_done
from indelible.integrations.telling import waits
from indelible.integrations.terms import Named, Terms

Answer = dict[str, Any]
"""Is what a hook prints; empty when it has nothing to decide."""

# Nobody renews the lease between two hooks, and a command, or whoever is asked about it, may take long.
_LEASE = timedelta(hours=1)


class ClaudeCodeHook:
    """Lets each tool call of a Claude Code session run at most once and with permission, and records what came of it.

    Calls belong to the run `run`, by default the session. `terms` says how single tools are treated, in the words of
    `@ledger.tool`; further words hold for all. With `allows`, Claude Code does not ask about what the ledger lets run;
    with `defers`, a call that waits for a person ends a `claude -p`, and resuming the session makes it again.
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
        **usual: Any,
    ) -> None:
        self._ledger = ledger
        self._claims = claims
        self._run = run
        self._terms = Terms(terms, {"lease": _LEASE, **usual})
        self._allows = allows
        self._waiting = "defer" if defers else "deny"

    def answer(self, event: Mapping[str, Any]) -> Answer:
        """Gives what to answer to one event; raises when the ledger cannot tell, and then nothing may run."""
        match event.get("hook_event_name"):
            case "PreToolUse":
                return self._before(event)
            case "PostToolUse":
                return self._after(event, Succeeded(_recordable(event.get("tool_response"))))
            case "PostToolUseFailure" if event.get("is_interrupt") is not True:
                return self._after(event, Failed(_recordable(str(event.get("error"))), "ToolError"))
            case str():  # one that was cut short is in doubt when its lease ends; others are none of our business
                return {}
            case _:
                raise BadCall("this is no event of Claude Code's hooks: it has no hook_event_name")

    def _before(self, event: Mapping[str, Any]) -> Answer:
        call = self._call(event)
        token = _Token(self._place(event))
        try:
            begun = self._ledger.begin(call, **self._terms.options(call.tool))
        except NotRun as refused:
            return decided("deny", str(refused))
        match begun:
            case Claimed(claim):
                return self._let_in(claim, call, token)
            case Replayed(value):
                return decided("deny", was_done(f"{call.tool} ({begun.effect.id})", value))
            case ReplayedFailure(error):
                return decided("deny", has_failed(f"{call.tool} ({begun.effect.id})", error))
            case AwaitingApproval(approval):
                return decided("defer" if self._waiting == "defer" else "deny", waits(approval))
            case Denied(reason) | Canceled(reason):
                return decided("deny", f"{call.tool} was {begun.effect.status}: {reason}")
            case InFlight(effect):
                return decided("deny", f"{call.tool} ({effect.id}) is being carried out, or was cut short")
            case InDoubt(effect):
                settle = f"a person settles it: indelible effects show {effect.id}"
                return decided("deny", f"{call.tool} may have happened, so it is not repeated; {settle}")

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
        return may_run(args, call.args, allows=self._allows)

    def _after(self, event: Mapping[str, Any], outcome: Outcome) -> Answer:
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
        """Tells the ledger what of this tool's results must not be recorded."""
        rules = self._terms.options(tool).get("redact")
        if rules is not None:
            self._ledger.tool(tool, redact=rules)(_runs_elsewhere)

    def _call(self, event: Mapping[str, Any]) -> ToolCall:
        args, tool, run = event.get("tool_input"), _text(event, "tool_name"), self._run_of(event)
        if not isinstance(args, Mapping):
            raise BadCall("tool_input: an object is expected here")
        found = (self._ledger.effects(run_id=run, tool=tool, status=status) for status in OPEN)
        call_id = meant_call_id((effect for page in found for effect in page), args, _text(event, "tool_use_id"))
        return self._terms.call(Named(tool=tool, args=args, run_id=run, call_id=call_id))

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
