"""agent-ledger's `EffectLedger` over a ledger of ours: its verbs, and one path behind all of them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, get_args

from indelible import AsyncLedger, AwaitingApproval, IndelibleError, NothingHappened, Resource
from indelible import ToolCall as OurCall
from indelible.compat.agent_ledger.begun import Begun
from indelible.compat.agent_ledger.errors import (
    EffectLedgerError,
    EffectLedgerInvariantError,
    EffectLedgerValidationError,
    EffectTimeoutError,
    told_as_there,
)
from indelible.compat.agent_ledger.keys import (
    canonicalize,
    check_size,
    compute_idem_key,
    resource_id_canonical,
    validate_args,
)
from indelible.compat.agent_ledger.observability import get_logger
from indelible.compat.agent_ledger.stores.base import EffectStore, TxT
from indelible.compat.agent_ledger.types import (
    BeginResult,
    CommitFailed,
    CommitOutcome,
    CommitSucceeded,
    ConcurrencyOptions,
    Effect,
    LedgerDefaults,
    LedgerHooks,
    RunOptions,
    ToolCall,
)
from indelible.compat.agent_ledger.waiting import Patience
from indelible.compat.agent_ledger.words import effect_as_there
from indelible.errors import ApprovalExpired, ApprovalPending, StillRunning, VoteRefused

KeyScheme = Literal["indelible", "agent-ledger"]
Handler = Callable[[Effect], Awaitable[Any] | Any]
NOTIFY = "agent_ledger.on_approval_required"
"""Names the tool by which a hook is told of a question: an effect like any other, so it is told once."""
_REPLAYED = frozenset({"succeeded", "denied", "canceled"})
"""Are those that never run again, so no hook is asked about them. What failed can be opened again, by a person."""
_DECIDED = frozenset({"not_pending", "expired", "replaced"})


@dataclass(frozen=True, kw_only=True)
class EffectLedgerOptions(Generic[TxT]):
    """Says where effects are kept, and how calls are treated that do not say so themselves.

    `key_scheme` and `approver` are ours: whether keys are computed as ours or as agent-ledger's, and who is on record
    as having decided where `approve` and `deny` do not say.

    Args:
        failed_on: Exception types of a handler that mean `failed`. Default: every `Exception`, as in agent-ledger.
            With `()` an exception leaves the effect in doubt, unless the handler raises `indelible.Refused`.
        on_reuse: What a call gets whose key belongs to a settled call with other arguments. Default: "replay", as in
            agent-ledger. With "refuse" it raises `EffectLedgerInvariantError`.
    """

    store: EffectStore[TxT]
    defaults: LedgerDefaults | None = None
    max_args_size_bytes: int | None = None
    key_scheme: KeyScheme = "indelible"
    approver: str = "operator"
    failed_on: type[BaseException] | tuple[type[BaseException], ...] = Exception
    on_reuse: Literal["refuse", "replay"] = "replay"

    def __post_init__(self) -> None:
        if not isinstance(self.store, EffectStore):
            raise EffectLedgerValidationError(
                "store: give a MemoryStore, a PostgresStore or a LedgerStore; a store of one's own would lead past the "
                "ledger",
                "store",
            )
        if self.key_scheme not in get_args(KeyScheme):
            raise EffectLedgerValidationError(f"key_scheme: one of {', '.join(get_args(KeyScheme))}", "key_scheme")
        if self.max_args_size_bytes is not None and self.max_args_size_bytes <= 0:
            raise EffectLedgerValidationError("max_args_size_bytes: must be more than nothing", "max_args_size_bytes")


class EffectLedger(Generic[TxT]):
    """Makes every tool call happen at most once, by the verbs of agent-ledger."""

    def __init__(self, options: EffectLedgerOptions[TxT]) -> None:
        self._options = options
        self._store = options.store
        self._defaults = (options.defaults and options.defaults.run) or RunOptions()
        self._begun: dict[str, Begun] = {}

    # Calling

    async def run(
        self,
        call: ToolCall,
        handler: Handler,
        tx: TxT | None = None,
        run_options: RunOptions | None = None,
        hooks: LedgerHooks | None = None,
    ) -> Any:
        """Runs a call at most once and gives its recorded result; a repeat gets the same without the handler."""
        _refuse_transaction(tx)
        if not callable(handler):
            raise EffectLedgerValidationError("handler: give a function of the effect", "handler")
        return await self._walk(call, handler, (run_options or RunOptions()).over(self._defaults), hooks)

    async def begin(self, call: ToolCall, tx: TxT | None = None) -> BeginResult:
        """Asks to execute a call by hand: what is not `cached` is the caller's alone to do, and to `commit`.

        Whoever is second waits for the first. A failure, a denial and an effect in doubt are raised.
        """
        _refuse_transaction(tx)
        begun = Begun(call, lambda handler: self._walk(call, handler, self._defaults, None))
        if await begun.is_ours():
            self._begun[begun.effect.id] = begun
            return BeginResult(begun.effect, cached=False, idempotency_status="fresh")
        found = await self._store.find_ours(await self._key_of(call))
        effect = effect_as_there(found, _resource_of(call))
        return BeginResult(effect, cached=True, idempotency_status="replayed", cached_result=begun.value)

    async def commit(self, effect_id: str, outcome: CommitOutcome, tx: TxT | None = None) -> bool:
        """Reports what came of a call that was begun here; says whether that was recorded.

        Only whoever began it can: everybody else, and whoever reports twice, is told False.
        """
        _refuse_transaction(tx)
        if not isinstance(outcome, CommitSucceeded | CommitFailed):
            raise EffectLedgerValidationError("outcome: give CommitSucceeded(…) or CommitFailed(…)", "outcome")
        begun = self._begun.pop(effect_id, None)
        if begun is None:
            return False
        await begun.finish(outcome)
        return True

    async def _walk(self, call: ToolCall, handler: Handler, options: RunOptions, hooks: LedgerHooks | None) -> Any:
        """Walks a call to its value: everything that this face runs goes this way, and then the ledger's own."""
        hooks = hooks or LedgerHooks()
        ours, ledger = self._ours(call), await self._store.ledger()
        key = _key(ledger, ours)
        self._store.remember(key, call.workflow_id)
        words = await self._words(call, key, options, hooks)
        body = _Body(handler, _resource_of(call))
        patience = Patience(options.concurrency or ConcurrencyOptions())
        asked: str | None = None
        while True:
            await _refuse_replaced(ledger, asked)
            try:
                return await ledger.run(ours, body.entered, wait=patience.next_wait(), **words)
            except (ApprovalPending, StillRunning, ApprovalExpired) as waiting:
                if waiting is body.raised:
                    raise
                if patience.is_over(waiting):
                    raise EffectTimeoutError(key, patience.limit_of(waiting)) from waiting
                if isinstance(waiting, ApprovalPending):
                    asked = waiting.approval.id
                    await self._tell(ledger, hooks, waiting, _resource_of(call))
            except IndelibleError as problem:
                if problem is body.raised:
                    raise
                raise told_as_there(problem, key) from problem

    async def _words(self, call: ToolCall, key: str, options: RunOptions, hooks: LedgerHooks) -> Any:
        """Gives the options of our ledger; a hook that raises keeps the call from running."""
        is_asked = bool(options.requires_approval)
        if hooks.requires_approval is not None and not is_asked:
            found = await self._store.find_ours(key)
            if found is None or found.status not in _REPLAYED:
                is_asked = bool(await _finished(hooks.requires_approval(call)))
        words: dict[str, Any] = {"failed_on": self._options.failed_on}
        if is_asked:
            words["approval"] = "required"
        return words | Patience.lease_words(options.stale)

    async def _tell(
        self, ledger: AsyncLedger, hooks: LedgerHooks, pending: ApprovalPending, resource: str | None
    ) -> None:
        """Tells the caller's hook of a question, once for all callers; when that fails, the next round tries again."""
        hook, effect = hooks.on_approval_required, pending.effect
        if hook is None or effect is None:
            return
        shown = replace(effect_as_there(effect, resource), digest=pending.approval.digest)

        async def told(running: Any) -> None:
            try:
                await _finished(hook(shown))
            except Exception as error:
                raise NothingHappened(f"{type(error).__name__}: {error}") from error

        call = OurCall(tool=NOTIFY, args={"approval": pending.approval.id}, run_id=effect.run_id)
        try:
            await ledger.run(call, told, side_effect="notification", on_crash="retry", wait=False)
        except StillRunning:
            return  # another caller is in the hook
        except (IndelibleError, NothingHappened) as problem:
            said = "%s: on_approval_required did not finish for %s and is called again: %s"
            get_logger().warning(said, shown.tool, pending.approval.id, problem)

    # Looking

    def idem_key(self, call: ToolCall) -> str:
        """Gives the key of a call; opens the store if it is not open yet, unless keys are agent-ledger's."""
        ours = self._ours(call)
        return ours.adopted_key or _key(self._store.open().awaited, ours)

    async def _key_of(self, call: ToolCall) -> str:
        return _key(await self._store.ledger(), self._ours(call))

    async def get_effect(self, effect_id: str, tx: TxT | None = None) -> Effect | None:
        """Gives the effect with this id."""
        return await self._store.find_by_id(effect_id)

    async def find_by_idem_key(self, idem_key: str, tx: TxT | None = None) -> Effect | None:
        """Gives the effect with this key."""
        return await self._store.find_by_idem_key(idem_key)

    # Deciding

    async def request_approval(self, idem_key: str, tx: TxT | None = None) -> bool:
        """Says whether somebody is asked about this call, and asks about one that was begun here and is not done yet.

        Whoever began it says by this that nothing was done, and can no longer commit. Any other call cannot be asked
        about once it may be running: it says itself that it needs approval, by its options, a hook, or the policy.

        These are two steps: the claim is given back, then somebody is asked. Whoever dies between them, or is overtaken
        by another caller of this key (then it says False), has asked nobody; nothing was done, and the call is as new.
        """
        _refuse_transaction(tx)
        begun = next((one for one in self._begun.values() if one.effect.idem_key == idem_key), None)
        if begun is not None:
            del self._begun[begun.effect.id]
            await begun.put_back()
            return await self._asked(begun.call, idem_key)
        found = await self._store.find_ours(idem_key)
        if found is not None and found.status == "processing":
            raise EffectLedgerInvariantError(
                f"effect {found.id} may be running, so it is too late to ask; say requires_approval when calling"
            )
        return found is not None and found.status == "requires_approval"

    async def _asked(self, call: ToolCall, idem_key: str) -> bool:
        try:
            answer = await (await self._store.ledger()).ask(self._ours(call), approval="required")
        except IndelibleError as problem:
            raise told_as_there(problem, idem_key) from problem
        return isinstance(answer, AwaitingApproval)

    async def approve(
        self, idem_key: str, tx: TxT | None = None, *, by: str | None = None, digest: str | None = None
    ) -> bool:
        """Approves what is asked about a call, and says whether it may run now; False if nothing is asked.

        With `digest`, only if that is still what is asked. Without, it is refused where other content was asked about
        before under the same key: nobody could know which of the two was seen.
        """
        _refuse_transaction(tx)
        ledger, approval = await self._question(idem_key)
        if approval is None:
            return False
        if digest is None:
            await _refuse_other_content(ledger, approval)
        voting = ledger.approve(approval.id, digest=digest or approval.digest, by=by or self._options.approver)
        return await self._voted(voting, idem_key) == "approved"

    async def deny(
        self, idem_key: str, reason: str | None = None, tx: TxT | None = None, *, by: str | None = None
    ) -> bool:
        """Denies what is asked about a call; False if nothing is asked."""
        _refuse_transaction(tx)
        ledger, approval = await self._question(idem_key)
        if approval is None:
            return False
        voting = ledger.deny(approval.id, by=by or self._options.approver, reason=reason or "denied")
        return await self._voted(voting, idem_key) == "denied"

    async def _question(self, idem_key: str) -> tuple[AsyncLedger, Any]:
        """Gives the question that is open about a call; None where there is none."""
        ledger = await self._store.ledger()
        found = await self._store.find_ours(idem_key)
        if found is None or found.approval_id is None:
            return ledger, None
        approval = await ledger.get_approval(found.approval_id)
        return ledger, approval if approval is not None and approval.status == "pending" else None

    async def _voted(self, voting: Awaitable[Any], idem_key: str) -> str | None:
        try:
            return str((await voting).status)
        except VoteRefused as refused:
            if refused.code in _DECIDED:  # somebody else was quicker
                return None
            raise EffectLedgerInvariantError(str(refused)) from refused
        except IndelibleError as problem:
            raise told_as_there(problem, idem_key) from problem

    # Saying it in our words

    def _ours(self, call: ToolCall) -> OurCall:
        if self._options.max_args_size_bytes is not None:
            check_size(canonicalize(dict(call.args)), self._options.max_args_size_bytes)
        words: dict[str, Any] = {"run_id": call.workflow_id, "tool": call.tool, "args": call.args}
        words["call_id"], words["on_reuse"] = call.call_id, self._options.on_reuse
        is_theirs = self._options.key_scheme == "agent-ledger"
        if is_theirs:
            validate_args(call.args, self._options.max_args_size_bytes)
            words["adopted_key"] = compute_idem_key(call)
        if call.resource is not None:
            words["resource"] = _resource(call, is_one_text=is_theirs)
        elif call.idempotency_keys is not None:
            words["key"] = sorted(call.idempotency_keys)
        try:
            return OurCall(**words)
        except IndelibleError as problem:
            raise told_as_there(problem, "") from problem


class _Body:
    """Is the caller's handler as our ledger enters it; it keeps what the handler itself raised."""

    def __init__(self, handler: Handler, resource: str | None) -> None:
        self._handler = handler
        self._resource = resource
        self.raised: BaseException | None = None

    @property
    def entered(self) -> Callable[[Any], Any]:
        """Is a coroutine function if the handler is one, for others have a thread of their own."""
        is_async = inspect.iscoroutinefunction(self._handler) or inspect.iscoroutinefunction(
            getattr(self._handler, "__call__", None)  # noqa: B004  # it is looked at, not asked whether it is there
        )
        return self._awaited if is_async else self._called

    async def _awaited(self, running: Any) -> Any:
        try:
            return await _finished(self._handler(effect_as_there(running.effect, self._resource)))
        except BaseException as error:
            self.raised = error
            raise

    def _called(self, running: Any) -> Any:
        try:
            return self._handler(effect_as_there(running.effect, self._resource))
        except BaseException as error:
            self.raised = error
            raise


async def _finished(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _refuse_replaced(ledger: AsyncLedger, approval_id: str | None) -> None:
    """Refuses to go on waiting when what was asked about has changed, as when a call with other content has asked.

    Were it to ask anew, the two would take each other's place for ever.
    """
    approval = None if approval_id is None else await ledger.get_approval(approval_id)
    if approval is not None and approval.status == "stale":
        raise EffectLedgerInvariantError(
            f"{approval.tool}: {approval.id} is no longer about what would run: another call with the same key has "
            "taken its place, or the policy has changed; call again to ask anew"
        )


async def _refuse_other_content(ledger: AsyncLedger, approval: Any) -> None:
    """Refuse to approve, without a digest, other arguments than the hook was shown."""
    if approval.editors:
        raise EffectLedgerInvariantError(
            f"{approval.id} was edited by {approval.editors[-1]} after it was asked; look at it, then "
            "approve(idem_key, digest=…) with the digest that it has now"
        )
    earlier = approval
    while earlier is not None and earlier.replaces is not None:
        earlier = await ledger.get_approval(earlier.replaces)
        if earlier is not None and earlier.args_seq != approval.args_seq:
            raise EffectLedgerInvariantError(
                f"{approval.id} asks about other arguments than {earlier.id} did under the same key; look at it, then "
                "approve(idem_key, digest=…) with the digest that the hook was given"
            )


def _key(ledger: AsyncLedger, call: OurCall) -> str:
    try:
        return ledger.key_of(call)
    except IndelibleError as problem:
        raise told_as_there(problem, "") from problem


def _resource(call: ToolCall, *, is_one_text: bool) -> Resource:
    """Gives what a call is about; where keys are agent-ledger's, as the one text that its table keeps of it."""
    assert call.resource is not None, "asked only where there is one"
    if is_one_text:
        return Resource(namespace="agent-ledger", type="resource", id=resource_id_canonical(call.resource))
    named = call.resource
    return Resource(namespace=named.namespace, type=named.type, id=canonicalize(dict(named.id)))


def _resource_of(call: ToolCall) -> str | None:
    return None if call.resource is None else resource_id_canonical(call.resource)


def _refuse_transaction(tx: Any) -> None:
    if tx is not None:
        raise EffectLedgerValidationError(
            "tx: the ledger writes in transactions of its own; to write together with an effect, open "
            "indelible.current_effect().transaction() in its handler",
            "tx",
        )


__all__ = ["EffectLedger", "EffectLedgerError", "EffectLedgerOptions", "KeyScheme"]
