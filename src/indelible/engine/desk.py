"""Turns what a caller says into walks. Both ledgers are this desk with a driver behind it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, get_args, overload

from indelible.core.approvals.approval import Approval
from indelible.core.commands import Cancel, Command, Expire, Reopen, Stamp
from indelible.core.effects import outcomes, walk
from indelible.core.effects.calls import (
    DEFAULT_TENANT,
    SIDE_EFFECTS,
    Dedupe,
    Handling,
    Options,
    OptionWords,
    SideEffect,
    ToolCall,
    check_name,
    check_run_id,
    handling_of,
)
from indelible.core.effects.effect import SYSTEM, Actor, Claim, Effect, Failed, Outcome, Status, Succeeded
from indelible.core.effects.identity import Identity, Ref, identify
from indelible.core.effects.requests import Mint, Prepared, Request, Walk
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import Signer
from indelible.core.journal.notes import Note, TreeHead, log_name, parse_head
from indelible.core.journal.receipts import Receipt
from indelible.core.policy.verdicts import Verdict
from indelible.core.ports import Clock, Filter, Store
from indelible.core.privacy.redaction import Redactor, Screen, subject_of
from indelible.core.values.canonical import encode
from indelible.engine.approving import Approving
from indelible.engine.engine import Engine, Handler
from indelible.engine.forgetting import Forgetting
from indelible.engine.judging import Judging, policy_from
from indelible.engine.notary import Notary, OnUnsealed, signer_maker
from indelible.engine.running import _current_run
from indelible.errors import BadCall, UnknownEffect
from indelible.journal.keys.files import has_data_keys
from indelible.journal.keys.redaction_key import RedactionKey
from indelible.journal.sealing import receipt_of
from indelible.stores import Reach, is_postgres, is_remote, open_store
from indelible.tool import Tool, ToolDecorator

if TYPE_CHECKING:
    from indelible.aio import AsyncLedger
    from indelible.core.policy.policy import Policy
    from indelible.journal.encrypting_store import EncryptingStore
    from indelible.journal.exports.exporting import Exported, Form
    from indelible.journal.keys.data_keys import DataKeys
    from indelible.journal.witnesses.asking import Witness
    from indelible.ledger import Ledger
    from indelible.notify.channels import Channel
    from indelible.notify.hooks import Hook
    from indelible.notify.outbox import Outbox
    from indelible.runs.desk import RunsDesk

AGENT = Actor("agent", "agent")
MEBIBYTE = 1024 * 1024
_KEY_DIGITS = 64
_MOST_REMEMBERED = 1000

Self = TypeVar("Self", bound="Desk")
P = ParamSpec("P")
R = TypeVar("R")


class Desk:
    """Knows the tenant, the defaults and the tools of a ledger, and prepares every walk."""

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
        self._approving = Approving(engine, tenant, self._screen_for, self._verdict_on_edit, self._opened_payload)
        self._principal = principal
        self._outbox = outbox
        self._runs: RunsDesk | None = None
        self._tools: dict[str, Tool[Any, Any]] = {}
        self._usual_handling: dict[str, Handling] = {}
        self.tenant = tenant

    @classmethod
    def open(
        cls: type[Self],
        url: str | None = None,
        *,
        token: str | None = None,
        reach: Reach | None = None,
        store: Store | None = None,
        tenant: str | None = None,
        actor: Actor | str = AGENT,
        clock: Clock | None = None,
        wakeups: bool = True,
        max_args_bytes: int | None = MEBIBYTE,
        max_result_bytes: int | None = 16 * MEBIBYTE,
        seal: bool | None = None,
        keys: str | Path | None = None,
        signer: Signer | None = None,
        witnesses: Sequence[Witness] = (),
        sign_events: bool = False,
        on_unsealed: OnUnsealed = "continue",
        encrypt: bool = False,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        principal: str | None = None,
        environment: str | None = None,
        channels: Sequence[Channel] = (),
        on_approval_required: Hook | None = None,
        **options: Unpack[OptionWords],
    ) -> Self:
        """Opens the ledger at an address: `sqlite:///file.db`, `:memory:`, `postgresql://…` or a server's `https://…`.

        Without one, $INDELIBLE_URL names it, or else it is `.indelible/ledger.db` in the current folder. Options given
        here hold for every call that its tool or the call itself does not tell otherwise.

        A server wants a `token` ($INDELIBLE_TOKEN), which says whose tenant it is, and judges and seals by itself;
        `reach` says how it is reached, and `indelible.connect` is the short way. A `store` that is open already is used
        as it is, and stays open when this ledger is closed.

        `seal` says whether this process seals the journal: by default a SQLite ledger does, with a key that is made on
        first use in the folder `keys` ($INDELIBLE_KEYS, else ~/.indelible/keys), and a PostgreSQL one leaves it to
        `indelible worker`. `sign_events` lets each event carry a signature of this process. When the journal cannot be
        sealed, calls that await it `continue` with an alarm in the log, or are refused. With `encrypt`, arguments,
        results and texts are recorded encrypted, with a key for each person or run that `erase` destroys.

        `policy` judges every call, besides the one that `apply_policy` keeps in the ledger: the stricter verdict
        holds. `principal` is the person the agent acts for, who cannot approve what it asks. `environment`
        ($INDELIBLE_ENVIRONMENT) is what rules may look at. Approvals are told to `channels`, and to the function
        `on_approval_required`.
        """
        own = Options(**options)
        agent = Actor(actor, "agent") if isinstance(actor, str) else actor
        check_name("tenant", DEFAULT_TENANT if tenant is None else tenant)
        _check_on_unsealed(on_unsealed)
        if principal is not None:
            check_name("principal", principal)
        # What is wrong with these is told before anything is opened.
        own_policy = None if policy is None else policy_from(policy)
        all_channels = _channels(channels, on_approval_required)
        with ExitStack() as undone:  # what is open when a later step fails is closed again
            is_own = store is None
            if store is None:
                store = open_store(url, clock=clock, wakeups=wakeups, token=token, reach=reach)
                undone.callback(store.close)
            tenant = _tenant_of(store, tenant)
            is_sealed_elsewhere = is_postgres(store.address) or is_remote(store.address)
            if seal is None:
                seal = signer is not None or keys is not None or not is_sealed_elsewhere
            notary = Notary(
                store,
                tenant,
                make_signer=signer_maker(store, tenant, keys, signer),
                seal=seal,
                witnesses=witnesses,
                sign_events=sign_events,
                on_unsealed=on_unsealed,
            )
            undone.callback(notary.close)
            folder = None if keys is None else Path(keys)
            redaction_key = RedactionKey(store, folder)
            view: EncryptingStore | None = None
            if encrypt and is_remote(store.address):
                raise BadCall("a ledger behind a server is encrypted by the server: indelible serve --encrypt")
            if encrypt or (not is_remote(store.address) and has_data_keys(store.ledger_name, folder)):
                from indelible.journal.encrypting_store import encrypting_view  # only whoever encrypts loads it

                view = encrypting_view(store, folder, redaction_key, is_encrypting=encrypt)
            judging = Judging(
                store,
                tenant,
                own_policy,
                os.environ.get("INDELIBLE_ENVIRONMENT", "") if environment is None else environment,
                tuple(channel.name for channel in all_channels),
            )
            engine = Engine(store, notary, view, judging, owns_store=is_own)
            desk = cls(
                engine,
                tenant=tenant,
                actor=agent,
                max_args_bytes=max_args_bytes,
                max_result_bytes=max_result_bytes,
                options=own,
                redaction_key=redaction_key,
                data_keys=None if view is None else view.keys,
                principal=principal,
                outbox=_outbox(engine, tenant, all_channels),
            )
            undone.pop_all()
            return desk

    def _run_desk(self) -> RunsDesk:
        """Gives what sees to runs; only whoever starts or resumes one loads it."""
        if self._runs is None:
            from indelible.runs.desk import RunsDesk

            self._runs = RunsDesk(self, self._actor)
        return self._runs

    def _await_sealed(self, run_id: str, seq: int) -> None:
        self._engine.notary.await_event(run_id, seq)

    def _close(self) -> None:
        if self._runs is not None:
            self._runs.close()
        if self._outbox is not None:
            self._outbox.close()
        self._engine.close()

    @property
    def blocking(self) -> Ledger:
        """Is this ledger with verbs that block, for code that cannot await; closing either closes both."""
        from indelible.ledger import Ledger

        return self._as(Ledger)

    @property
    def awaited(self) -> AsyncLedger:
        """Is this ledger with verbs to await, for code in an event loop; closing either closes both."""
        from indelible.aio import AsyncLedger  # only whoever asks loads an event loop's modules

        return self._as(AsyncLedger)

    def _as(self, kind: type[Self]) -> Self:
        """Gives the same desk another face: they share everything they know, also what comes later."""
        if isinstance(self, kind):
            return self
        other = kind.__new__(kind)
        other.__dict__ = self.__dict__
        return other

    @property
    def address(self) -> str:
        """Names the store this ledger is kept in."""
        return self._engine.store.address

    @property
    def journal_name(self) -> str:
        """Names this tenant's journal, as its signed heads do."""
        return log_name(self._engine.store.ledger_name, self.tenant)

    @contextmanager
    def in_run(self, run_id: str) -> Iterator[str]:
        """Makes tools called inside belong to this run."""
        check_run_id(run_id)
        token = _current_run.set(run_id)
        try:
            yield run_id
        finally:
            _current_run.reset(token)

    @overload
    def tool(self, name: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: str | None = None,
        dedupe: Dedupe = "args",
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> ToolDecorator: ...

    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: str | None = None,
        dedupe: Dedupe = "args",
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> Any:
        """Decorates a function so that each of its calls happens at most once.

        Arguments are bound against the signature, defaults included, and the body gets them as they were recorded. A
        function stays what it is: blocking, or a coroutine function.
        """
        if not idempotent:
            raise BadCall("idempotent=False: leave the decorator away to call a function without the ledger")
        own = Options(**options)
        if callable(name):  # the decorator stands without brackets
            return ToolDecorator(self, name=None, key=key, scope=scope, dedupe=dedupe, options=own)(name)
        return ToolDecorator(self, name=name, key=key, scope=scope, dedupe=dedupe, options=own)

    def _register(self, tool: Tool[Any, Any]) -> None:
        known = self._tools.get(tool.name)
        if known is not None and not known.is_same_as(tool):
            raise BadCall(f'two tools are named {tool.name!r}; give one of them another name: @ledger.tool("…")')
        self._tools[tool.name] = tool
        self._usual_handling.pop(tool.name, None)

    def _running(self, call: ToolCall, handler: Handler, words: OptionWords) -> Walk:
        """Gives the walk of a call; what cannot be called is refused before anything is claimed."""
        if not callable(handler):
            raise BadCall(f"{call.tool}: the handler is {handler!r}, which cannot be called; pass a function")
        return self._walking(self._prepare(call, words))

    def _walking(self, prepared: Prepared) -> Walk:
        """Gives the walk of a call; one of a run that this process drives also keeps the run safe."""
        steps = walk.run(prepared, self._mint)
        driven = None if self._runs is None else self._runs.driven.get(prepared.call.run_id)
        return steps if driven is None else driven.around(steps, prepared)

    def _prepare(self, call: ToolCall, words: OptionWords | None = None) -> Prepared:
        handling = self._handling(call.tool, words)
        if handling.redact or handling.subject is not None:
            return self._prepare_screened(call, handling)
        return Prepared(
            call=call,
            identity=identify(call, self.tenant, max_bytes=self._max_args_bytes),
            handling=handling,
            actor=self._actor,
            max_result_bytes=self._max_result_bytes,
            principal=self._principal,
            driver_token=self._driver_token(call),
        )

    def _driver_token(self, call: ToolCall) -> str | None:
        """Gives the right to drive the call's run, if this process has it, or had it until somebody else took it."""
        driven = None if self._runs is None else self._runs.driven.get(call.run_id)
        return None if driven is None else driven.token

    def _prepare_screened(self, call: ToolCall, handling: Handling) -> Prepared:
        """Prepares a call of which not everything may be recorded, or that is about a person."""
        args_json = encode(call.args, root="args", max_bytes=self._max_args_bytes)
        redactor = self._forgetting.redactor(handling.redact)
        screen = None if redactor is None else redactor.screen(args_json)
        subject = None if handling.subject is None else subject_of(handling.subject, args_json, call.tool)
        return Prepared(
            call=call,
            identity=identify(call, self.tenant, args_json=args_json if screen is None else screen.recorded_args),
            handling=handling,
            actor=self._actor,
            max_result_bytes=self._max_result_bytes,
            screen=screen,
            subject_json=None if subject is None else self._forgetting.subject_mark(subject),
            principal=self._principal,
            plain_args_json=args_json,
            driver_token=self._driver_token(call),
        )

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
        verdict = self._engine.judging.verdict_on(prepared)
        if verdict.question is None or verdict.question.notify:
            return verdict
        # Whoever was told of the question is told of its edit: this process may have no channels of its own.
        return replace(verdict, question=replace(verdict.question, notify=approval.question.notify))

    def _screen_of(self, effect: Effect) -> Screen | None:
        return self._screen_for(effect.tool)

    def _screen_for(self, tool: str) -> Screen | None:
        return self._forgetting.screen(self._handling(tool, None).redact)

    def _handling(self, tool_name: str, words: OptionWords | None) -> Handling:
        """Gives how a call is treated: as it says itself, else as its tool says, else as the ledger says."""
        usual = self._usual_handling.get(tool_name)
        if usual is not None and not words:
            return usual
        tool = self._tools.get(tool_name)
        options = self._options if tool is None else tool.options.over(self._options)
        if words:
            return handling_of(Options(**words).over(options))
        if len(self._usual_handling) < _MOST_REMEMBERED:
            self._usual_handling[tool_name] = handling_of(options)
        return handling_of(options)

    def _lease(self, words: OptionWords) -> timedelta:
        return handling_of(Options(**words).over(self._options)).lease

    # Walks that need more than one line

    def _commit(
        self, claim: Claim, outcome: Outcome, mint: Mint | None = None, known: Effect | None = None
    ) -> Generator[Request, Any, Any]:
        mint = mint or self._mint
        if not isinstance(outcome, Succeeded | Failed):
            raise BadCall(f"commit with Succeeded(value) or Failed(error), not {type(outcome).__name__}")
        self._own(claim.effect)
        value = None
        screen = claim.screen or self._screen_of(claim.effect)
        if isinstance(outcome, Succeeded):
            most = self._max_result_bytes
            value = yield from walk.finish_with_value(claim, outcome.value, most, mint, screen, known)
        else:
            yield from walk._finish(claim, outcome, outcomes.outcome_json(outcome, screen), mint, known=known)
        words: OptionWords = {"side_effect": claim.effect.side_effect}
        yield from walk.await_seal(claim.effect, self._handling(claim.effect.tool, words))
        return value

    def _settle(
        self, effect: Effect, outcome: Outcome, by: Actor | str, evidence: str
    ) -> Generator[Request, Any, Effect]:
        if not isinstance(outcome, Succeeded | Failed):
            raise BadCall(f"settle with Succeeded(value) or Failed(error), not {type(outcome).__name__}")
        if not evidence:
            raise BadCall("settle needs evidence: say how you know, for example the provider's id of the charge")
        screen = self._screen_of(effect)
        return walk.settle(effect, outcome, self._mint, actor=_person(by), evidence=evidence, screen=screen)

    def _reopen(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Reopen(ref=effect.ref, stamp=stamp, detail_json=why, attempt=effect.attempt)

        return self._command(make, effect, by, reason)

    def _cancel(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Cancel(ref=effect.ref, stamp=stamp, detail_json=why)

        return self._command(make, effect, by, reason)

    def _command(
        self, make: Callable[[Stamp, bytes], Command], effect: Effect, by: Actor | str, reason: str
    ) -> Generator[Request, Any, Effect]:
        screen = self._screen_of(effect)
        why = encode(reason if screen is None else screen.text(reason), root="reason")
        return walk.carry_out(make(self._mint.stamp(_person(by)), why), effect)

    def _reconcile_one(self, effect: Effect) -> Generator[Request, Any, Effect]:
        """Calls an abandoned effect in doubt, then asks its tool's probe, if this ledger knows one."""
        if effect.status == "processing":
            effect = yield from walk.carry_out(Expire(ref=effect.ref, stamp=self._mint.stamp(SYSTEM)), effect)
        tool = self._tools.get(effect.tool)
        reconcile = (self._options if tool is None else tool.options.over(self._options)).reconcile
        if effect.status != "in_doubt" or reconcile is None:
            return effect
        return (yield from walk.probe(effect, reconcile, self._mint, self._screen_of(effect)))

    # The journal

    def _seal(self) -> Note | None:
        return self._engine.notary.sealer().seal()

    def _tree_head(self) -> TreeHead | None:
        note = self._engine.notary.newest_head()
        return None if note is None else parse_head(note.text)

    def _export(
        self,
        path: str | Path,
        form: Form,
        run_id: str | None,
        withhold: Iterable[str],
        payloads: bool,
        force: bool,
        progress: Callable[[int, int | None], None] | None,
    ) -> Exported:
        # Only whoever exports loads what writes bundles, tables and pages.
        from indelible.journal.exports.exporting import export
        from indelible.journal.exports.selecting import Disclosure, OfRun

        self._seal()
        return export(
            self._engine.recorded,
            self.tenant,
            path,
            form=form,
            selection=None if run_id is None else OfRun(run_id),
            disclosure=Disclosure(frozenset(withhold), is_without_payloads=not payloads),
            force=force,
            progress=progress,
        )

    def _continue_journal(self) -> TreeHead:
        return self._engine.notary.sealer().resume_after_loss()

    def _receipt(self, run_id: str, seq: int) -> Receipt:
        return receipt_of(self._engine.recorded, self.tenant, run_id, seq)

    # Reading

    def _get_effect(self, effect_id: str) -> Effect | None:
        try:
            check_name("effect id", effect_id)
        except BadCall:
            return None  # nothing can have such an id
        return self._engine.store.get_effect(self.tenant, effect_id)

    def key_of(self, call: ToolCall) -> str:
        """Gives the key of a call, by which its effect is found; the same one that its handler gets to pass on."""
        return self._prepare(call).identity.ref.key

    def _find_by_key(self, key: str, scope: str | None) -> Effect | None:
        if not is_key(key):
            raise BadCall(f"{key!r} is no key; a key has {_KEY_DIGITS} hexadecimal digits")
        return self._engine.store.find_by_key(self.tenant, key, scope)

    def _events(self, run_id: str, after: int, limit: int) -> list[Event]:
        check_name("run_id", run_id)
        check_limit(limit)
        return self._engine.store.events(self.tenant, run_id, after, limit)

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

    def _run_redactor(self) -> Redactor | None:
        """Gives what keeps secrets out of what is told of runs, by the rules that hold for the whole ledger."""
        rules = self._options.redact
        return self._forgetting.redactor(tuple(rules)) if rules else None

    def _find(self, name: str | Effect) -> Effect:
        """Finds an effect by its id, the beginning of its id, or its key; raises when there is none."""
        if isinstance(name, Effect):
            return self._own(name)
        found = self._find_by_key(name, None) if is_key(name) else self._get_effect(name)
        if found is None:
            raise UnknownEffect(
                f"no effect of tenant {self.tenant!r} has the id or key {name}; see: indelible effects list"
            )
        return found

    def _own(self, effect: Effect) -> Effect:
        """Gives an effect back if it is this tenant's; to all others it does not exist."""
        if effect.tenant != self.tenant:
            raise UnknownEffect(f"no effect of tenant {self.tenant!r} has the id {effect.id}")
        return effect

    def _filter(
        self,
        status: Status | None,
        tool: str | None,
        run_id: str | None,
        side_effect: SideEffect | None,
        before: str | None,
        limit: int,
    ) -> Filter:
        if status is not None and status not in get_args(Status):
            raise BadCall(f"status={status!r}: choose one of {', '.join(get_args(Status))}")
        if side_effect is not None and side_effect not in SIDE_EFFECTS:
            raise BadCall(f"side_effect={side_effect!r}: choose one of {', '.join(SIDE_EFFECTS)}")
        check_limit(limit)
        return Filter(status=status, tool=tool, run_id=run_id, side_effect=side_effect, before=before, limit=limit)


def _channels(channels: Sequence[Channel], hook: Hook | None) -> Sequence[Channel]:
    """Gives all channels, the program's own function among them; each has a name of its own."""
    if not channels and hook is None:
        return ()
    from indelible.notify.channels import Channels
    from indelible.notify.hooks import HookChannel

    own = () if hook is None else (HookChannel(hook),)
    return Channels((*channels, *own), link=getattr(channels, "link", None))


def _outbox(engine: Engine, tenant: str, channels: Sequence[Channel]) -> Outbox | None:
    """Starts what sends messages about approvals, where there is anywhere to send them."""
    if not channels:
        return None
    from indelible.notify.outbox import Outbox

    outbox = Outbox(engine, tenant, channels)
    outbox.start()
    return outbox


def _tenant_of(store: Store, asked: str | None) -> str:
    """Gives the tenant to work for: the one asked for, unless a credential says whose it is."""
    given: str | None = getattr(store, "tenant", None)
    if given is None:
        return asked or DEFAULT_TENANT
    if asked not in (None, given):
        raise BadCall(f"the credential for {store.address} is for the tenant {given!r}, not {asked!r}")
    return given


def _check_on_unsealed(choice: str) -> None:
    if choice not in get_args(OnUnsealed):
        raise BadCall(f"on_unsealed={choice!r}: choose one of {', '.join(get_args(OnUnsealed))}")


def check_limit(limit: int) -> None:
    """Raises `BadCall` unless a page of so many makes sense."""
    if limit < 1:
        raise BadCall(f"limit={limit}: ask for one or more")


def is_key(name: str) -> bool:
    """Does this text have the form of a key?"""
    return len(name) == _KEY_DIGITS and all(digit in "0123456789abcdef" for digit in name)


def _person(by: Actor | str) -> Actor:
    return Actor(by) if isinstance(by, str) else by
