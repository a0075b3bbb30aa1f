"""Makes of a call what a walk needs: how it is treated, what identifies it, and what of it must not be recorded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.edits import holds_mark
from indelible.core.commands import AwaitingApproval, Claimed, InDoubt, InFlight, Open, Replayed, ReplayedFailure
from indelible.core.effects.calls import (
    COMPENSATION,
    DEFAULT_TENANT,
    HARMLESS,
    OWN_RECORDS,
    CompensatingCall,
    Handling,
    Options,
    OptionWords,
    OwnRecord,
    ToolCall,
    check_tool_name,
    placed,
)
from indelible.core.effects.compensations import is_compensation
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.identity import Identity, Ref, identify
from indelible.core.effects.requests import Prepared, Request, Submit, Walk
from indelible.core.effects.tightening import handling_for, merged, occurring
from indelible.core.events import Payload
from indelible.core.policy.verdicts import Verdict
from indelible.core.privacy.redaction import Redactor, Rule, Screen, Subject, subject_of
from indelible.core.values.canonical import decode, encode
from indelible.engine.approving import Approving
from indelible.engine.current_run import current_run
from indelible.engine.engine import Engine
from indelible.engine.forgetting import Forgetting
from indelible.engine.judging import keeping_resource
from indelible.engine.watched import watched
from indelible.errors import BadCall, UnfitArguments
from indelible.journal.keys.redaction_key import RedactionKey
from indelible.tool import Tool

if TYPE_CHECKING:
    from indelible.journal.keys.data_keys import DataKeys
    from indelible.notify.outbox import Outbox
    from indelible.runs.desk import RunsDesk

AGENT = Actor("agent", "agent")
MEBIBYTE = 1024 * 1024
_MOST_REMEMBERED = 1000
_MOST_SAID = 100_000


class Said(NamedTuple):
    """Holds what a call says makes it good, and what finds out what became of it."""

    compensate: Callable[[Effect], Any] | None = None
    reconcile: Callable[[Effect], Any] | None = None


NOTHING_SAID = Said()


class Preparing:
    """Knows the tenant, the defaults and the tools of a ledger, and prepares every call."""

    _runs: RunsDesk | None = None
    _binders: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType({})
    """Bind arguments of tools that are not declared here, by name: a server has them from its file of tools."""

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str = DEFAULT_TENANT,
        actor: Actor = AGENT,
        max_args_bytes: int | None = MEBIBYTE,
        max_result_bytes: int | None = 16 * MEBIBYTE,
        options: Options | None = None,
        redaction_key: Callable[[], bytes] | None = None,
        data_keys: DataKeys | None = None,
        principal: str | None = None,
        outbox: Outbox | None = None,
        run: str | None = None,
    ) -> None:
        self._engine = engine
        self._mint = engine.mint
        self._actor = actor
        self._max_args_bytes = max_args_bytes
        self._max_result_bytes = max_result_bytes
        self._options = options or Options()
        key = redaction_key or RedactionKey(engine.store, None)
        self._data_keys = data_keys
        self._forgetting = Forgetting(engine, tenant, self._options.redact, key, data_keys)
        self._approving = Approving(
            engine,
            tenant,
            self._screen_for,
            self._verdict_on_edit,
            self._opened_payload,
            self._bound,
            self._subject_of_edit,
        )
        self._principal = principal
        self._outbox = outbox
        self._run = run
        self._tools: dict[str, Tool[Any, Any]] = {}
        self._usual_handling: dict[str, Handling] = {}
        self._redact_said: dict[str, tuple[Rule, ...]] = {}
        """What calls of tools that are not registered say is redacted. It changes no other call of the tool."""
        self._said: dict[Ref, Said] = {}
        """What such calls say makes them good, or finds out about them."""
        self.tenant = tenant

    def _register(self, tool: Tool[Any, Any]) -> None:
        known = self._tools.get(tool.name)
        if known is not None and not known.is_same_as(tool):
            raise BadCall(f'two tools are named {tool.name!r}; give one of them another name: @ledger.tool("…")')
        if known is not None and tool.options != known.options and tool.is_beside(known):
            # The record cannot tell them apart, so what one of them demands holds for both.
            tool.options = merged(known.options, tool.options, None, tool.name)
        self._tools[tool.name] = tool
        for name in (tool.name, tool.name + COMPENSATION):
            self._usual_handling.pop(name, None)

    def _handling(self, tool_name: str, words: OptionWords | None, older: Tool[Any, Any] | None = None) -> Handling:
        """Return how a call is treated: what it, its tool and the ledger demand, each of them.

        Args:
            tool_name: The tool.
            words: What the call says.
            older: The tool object that bound the call. If its function became a tool once more, both demands hold.
                It may be of another ledger.
        """
        tool = self._tools.get(tool_name)
        is_older = older is not None and older is not tool and (tool is None or older.options != tool.options)
        usual = self._usual_handling.get(tool_name)
        if usual is not None and not words and not is_older:
            return usual
        options = None if tool is None else tool.options
        if is_older:
            assert older is not None
            options = older.options if options is None else merged(older.options, options, None, tool_name)
        ledger = replace(self._options, **_OF_TOOL_CALLS) if tool_name in OWN_RECORDS else self._options
        if is_compensation(tool_name):  # its results are kept as its tool's are; it is about whom its effect is about
            redact = self._redact_of(tool_name.removesuffix(COMPENSATION))
            ledger = replace(ledger, redact=redact, subject=None)
        if words or is_older:
            return handling_for(ledger, options, Options(**(words or {})), tool_name)
        usual = handling_for(ledger, options, None, tool_name)
        if len(self._usual_handling) < _MOST_REMEMBERED:
            self._usual_handling[tool_name] = usual
        return usual

    def _compensation_of(self, effect: Effect) -> Callable[[Effect], Any] | None:
        """Return what makes an effect good: as its tool says, or a call of it in this process, or the ledger."""
        tool = self._tools.get(effect.tool)
        said = self._said.get(effect.ref, NOTHING_SAID).compensate if tool is None else tool.options.compensate
        if said is not None or effect.side_effect in HARMLESS:
            return said
        return self._options.compensate

    def _keep_redact(self, tool: str, words: OptionWords) -> None:
        """Keep which values a call of a tool that is not registered redacts: rules of redaction only add up."""
        redact, known = words.get("redact") or (), self._redact_said.get(tool, ())
        if not set(redact) <= set(known):
            self._redact_said[tool] = tuple(dict.fromkeys((*known, *redact)))
            self._usual_handling.pop(tool + COMPENSATION, None)

    def _keeping_said(self, steps: Walk, call: ToolCall, words: OptionWords) -> Walk:
        """Pass on the walk of a call, and keep what the call says of its effect if its tool is not registered.

        A function may know its call by a variable around it, so it is kept for the effect that this call is.
        """
        said = Said(words.get("compensate"), words.get("reconcile"))
        if not any(said) or call.tool in self._tools:
            return steps

        def note(request: Request, answer: Any) -> None:
            if not isinstance(request, Submit) or not isinstance(request.command, Open):
                return
            if isinstance(answer, Claimed | Replayed | ReplayedFailure | AwaitingApproval | InFlight | InDoubt):
                if len(self._said) >= _MOST_SAID:
                    del self._said[next(iter(self._said))]
                self._said[request.command.ref] = said

        return watched(steps, note)

    def _recorded_subject(self, effect: Effect) -> bytes | None:
        """Return the mark of the person whom an effect is about, as it is recorded; None if about no person."""
        told = self._engine.store.payloads(self.tenant, effect.run_id, [effect.opened_seq])
        return next((payload.value for payload in told if payload.field == "subject"), None)

    def _lease(self, words: OptionWords) -> timedelta:
        return handling_for(self._options, None, Options(**words), "heartbeat").lease

    def _prepare(self, call: ToolCall, words: OptionWords | None = None, *, is_bound: bool = False) -> Prepared:
        """Bind a call and decide how it is treated. Every door comes through here.

        Args:
            call: The call.
            words: What its caller says of it.
            is_bound: Its own tool has bound it a moment ago.
        """
        if not _starts_threads():
            raise BadCall(
                f"{call.tool}: the interpreter is shutting down and starts no thread, so no lease could be kept. Make "
                "the call before the main thread ends: close what makes it there"
            )
        if not isinstance(call, OwnRecord | CompensatingCall):
            check_tool_name(call.tool)
        bound_by = _tool_that_bound(call)
        tool = None if is_bound else self._tools.get(call.tool)
        if tool is not None:
            call = tool.completed(call, words)
        handling = self._handling(call.tool, words, bound_by)
        if words and call.dedupe == "call":
            call = occurring(call, words.get("side_effect"), handling)
        is_alone = False
        if call.run_id is None:
            run_id = current_run() or self._run
            is_alone = run_id is None and call.scope is None
            call = placed(call, handling.side_effect, run_id, self._mint.effect_id)
        prepared = self._prepared(call, handling, is_alone)
        if words and not is_bound and tool is None:
            self._keep_redact(call.tool, words)
        return prepared

    def _prepared(self, call: ToolCall, handling: Handling, is_alone: bool) -> Prepared:
        if handling.redact or handling.subject is not None:
            return self._prepare_screened(call, handling, is_alone)
        identity = identify(call, self.tenant, max_bytes=self._max_args_bytes)
        _check_unmarked(call, identity.args_json)
        return Prepared(
            call=call,
            identity=identity,
            handling=handling,
            actor=self._actor,
            max_result_bytes=self._max_result_bytes,
            principal=self._principal,
            driver_token=self._driver_token(call),
            is_alone=is_alone,
        )

    def _prepare_screened(self, call: ToolCall, handling: Handling, is_alone: bool) -> Prepared:
        """Prepares a call of which not everything may be recorded, or that is about a person."""
        args_json = encode(call.args, root="args", max_bytes=self._max_args_bytes, is_whole=True)
        _check_unmarked(call, args_json)
        redactor = self._forgetting.redactor(handling.redact)
        if redactor is not None:
            tool = self._tools.get(call.tool)
            redactor.check_named(call.args if tool is None else tool.as_got(call.args), args_json)
        screen = None if redactor is None else redactor.screen(args_json)
        subject_in = partial(self._subject_in, call.tool, handling.subject)
        return Prepared(
            call=call,
            identity=identify(call, self.tenant, args_json=args_json if screen is None else screen.recorded_args),
            handling=handling,
            actor=self._actor,
            max_result_bytes=self._max_result_bytes,
            screen=screen,
            subject_json=subject_in(args_json),
            subject_in=subject_in,
            principal=self._principal,
            plain_args_json=args_json,
            driver_token=self._driver_token(call),
            is_alone=is_alone,
        )

    def _subject_in(self, tool: str, subject: Subject | None, args_json: bytes) -> bytes | None:
        """Return the mark of the person whom arguments are about, by the option `subject`; None if about no person."""
        person = None if subject is None else self._subject_of(subject, args_json, tool)
        return None if person is None else self._forgetting.subject_mark(person)

    def _subject_of_edit(self, tool: str, args_json: bytes) -> bytes | None:
        return self._subject_in(tool, self._handling(tool, None).subject, args_json)

    def _subject_of(self, subject: Subject, args_json: bytes, tool_name: str) -> str | None:
        """Return whom a call is about; a path that the ledger names for all tools need not be in each of them."""
        tool = self._tools.get(tool_name)
        is_ledgers = subject == self._options.subject and (tool is None or tool.options.subject is None)
        return subject_of(subject, args_json, tool_name, is_optional=is_ledgers)

    def _driver_token(self, call: ToolCall) -> str | None:
        """Gives the right to drive the call's run, if this process has it, or had it until somebody else took it."""
        driven = None if self._runs is None else self._runs.driven.get(call.run)
        return None if driven is None else driven.token

    def _bound(self, tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments as a tool reads them; as they are where this process does not know the tool."""
        known = self._tools.get(tool)
        binds = self._binders.get(tool) if known is None else known.bound_args
        return args if binds is None else binds(args)

    def _verdict_on_edit(self, approval: Approval, effect: Effect, args_json: bytes) -> Verdict:
        """Gives what the policies say of an effect with other arguments."""
        prepared = Prepared(
            call=ToolCall(tool=effect.tool, args={}, run_id=effect.run_id, schema=approval.schema),
            identity=Identity(ref=effect.ref, digest=effect.digest, args_json=args_json),
            handling=self._handling(effect.tool, {"side_effect": effect.side_effect}),
            actor=approval.requester,
            max_result_bytes=None,
            principal=approval.principal,
        )
        self._engine.judging.refresh()
        judging = self._engine.judging
        verdict = keeping_resource(judging.verdict_on(prepared, environment=approval.naming.environment), prepared)
        if verdict.question is None or verdict.question.notify:
            return verdict
        # Whoever was told of the question is told of its edit: this process may have no channels of its own.
        return replace(verdict, question=replace(verdict.question, notify=approval.question.notify))

    # What must not be recorded, and what is recorded encrypted

    def _screen_of(self, effect: Effect) -> Screen | None:
        return self._screen_for(effect.tool)

    def _screen_for(self, tool: str) -> Screen | None:
        return self._forgetting.screen(self._redact_of(tool))

    def _redact_of(self, tool: str) -> tuple[Rule, ...]:
        """Return what is redacted in what is recorded later about calls of a tool: by its own word, or its calls'."""
        said = () if tool in self._tools else self._redact_said.get(tool, ())
        return tuple(dict.fromkeys((*self._handling(tool, None).redact, *said)))

    def _run_redactor(self) -> Redactor | None:
        """Gives what keeps secrets out of what is told of runs, by the rules that hold for the whole ledger."""
        rules = self._options.redact
        return self._forgetting.redactor(tuple(rules)) if rules else None

    def _opened_payload(self, effect: Effect, payload: Payload) -> Payload | None:
        """Gives a payload of an effect in clear; None when its data key is gone."""
        if self._data_keys is None:
            return payload
        from indelible.core.privacy.encryption import opened_value

        value = opened_value(payload.value, effect.ref, payload.field, self._data_keys.find)
        return None if value is None else payload._replace(value=value)

    def _opened_run_value(self, payload: Payload) -> bytes | None:
        """Gives what is told of a run, and of no effect, in clear; None when its data key is gone."""
        if self._data_keys is None:
            return payload.value
        from indelible.core.privacy.encryption import opened_value

        return opened_value(payload.value, Ref(self.tenant, payload.run_id, ""), payload.field, self._data_keys.find)


_OF_TOOL_CALLS: dict[str, None] = dict.fromkeys(("approval", "side_effect", "on_crash", "on_repeat", "exclusive"))
"""Names the ledger's words about every tool call. Our own records are none, and keep their own."""


def _tool_that_bound(call: ToolCall) -> Tool[Any, Any] | None:
    tool = getattr(call.binds, "__self__", None)
    return tool if isinstance(tool, Tool) else None


def _starts_threads() -> bool:
    """Return whether the interpreter still starts threads.

    Python 3.12 starts none once its main thread has ended, and does not say so: one is tried then.
    """
    if sys.is_finalizing():
        return False
    if not threading.main_thread().is_alive():
        try:
            threading.Thread(target=int, name="indelible-trial", daemon=True).start()
        except RuntimeError:
            return False
    return True


def _check_unmarked(call: ToolCall, args_json: bytes) -> None:
    """Refuse a call with marks among its arguments: its tool would run with them, not with what they stand for."""
    if isinstance(call, OwnRecord) or b"redacted" not in args_json:
        return
    if holds_mark(decode(args_json)):
        raise UnfitArguments(
            f"{call.tool}: its arguments hold the mark of a redacted value, which is not the value, so it was not run. "
            "Call again with the value itself; where a recorded model turn or state must give it back, use "
            "encrypt=True in place of the redact= rule: docs/redaction.md"
        )
