"""Answers what a client asks of the store: reads as they are, commands after they were admitted and judged here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from functools import reduce
from typing import Any

from indelible.aio import AsyncLedger
from indelible.core.approvals.edits import check_underived, check_whole, holds_mark
from indelible.core.approvals.grants import pinned_digest
from indelible.core.commands import (
    Amend,
    Answer,
    CastVote,
    Claimed,
    Command,
    EditRead,
    Finish,
    Kept,
    LimitsUnseen,
    Open,
    Outrun,
    Record,
    Relinquish,
)
from indelible.core.effects.calls import HARMLESS, UNNAMED_RUN, Handling, ToolCall
from indelible.core.effects.compensations import is_compensation
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Identity, Ref
from indelible.core.effects.requests import Judged, Prepared
from indelible.core.effects.tightening import at_least, strictest_word
from indelible.core.paging import read_sheet
from indelible.core.policy.policy import strictest
from indelible.core.policy.verdicts import Verdict
from indelible.core.remote.admissible import (
    MOST_TOLD,
    check_arguments,
    check_digits,
    check_lease,
    check_place,
    keeps_driving,
)
from indelible.core.remote.admitting import Caller, admitted, check_scopes
from indelible.core.remote.by_hand import check_dropped
from indelible.core.remote.questions import (
    APPLY,
    MOST_AT_ONCE,
    MOST_LISTED,
    QUESTIONS,
    may_read_sheets,
    unseen_payloads,
)
from indelible.core.remote.shown import plain
from indelible.core.remote.wire import from_wire
from indelible.core.rights import held_claim, permitted
from indelible.core.runs.commands import StartRun, TakeRun, Tell
from indelible.core.runs.run import hidden_driver
from indelible.core.sheets import Sheet
from indelible.core.values.canonical import decode, encode
from indelible.engine.mint import EDIT_VALUES, MOST_VALUES
from indelible.engine.running import in_own_thread, set_unless_done, tell_loop
from indelible.errors import BadCall, NotPermitted, TooLarge
from indelible.journal.erasures.erasable import Erasable
from indelible.journal.sealing import shown_heads
from indelible.server.ledgers import Ledgers
from indelible.server.requests.asking import NOBODY_SAID

LONGEST_WAIT = 30


def read_words(name: str, body: Any) -> dict[str, Any]:
    """Reads what is passed with a question; raises `BadCall` for anything that is not what the table says."""
    question = APPLY if name == "apply" else QUESTIONS.get(name)
    if question is None:
        raise BadCall(f"{name!r} is no question to a store; see the list at /docs")
    if not isinstance(body, dict):
        raise BadCall("body: an object is expected here")
    if set(body) != set(question.words):
        raise BadCall(f"body: {', '.join(question.words) or 'nothing'} is expected, got {', '.join(body) or 'nothing'}")
    words = {word: from_wire(kind, body[word], word) for word, kind in question.words.items()}
    for word, value in words.items():
        _check_size(word, value)
        if name != "apply":  # what commands hold is looked at when they are let in
            _check_texts(word, value)
    return words


def _check_texts(word: str, value: Any) -> None:
    """Refuses what no name can hold and no database looks for."""
    if isinstance(value, str) and "\0" in value:
        raise BadCall(f"{word}: holds a NUL character")
    if isinstance(value, tuple):
        for each in value:
            _check_texts(word, each)
    elif is_dataclass(value):
        for each in fields(value):
            _check_texts(f"{word}.{each.name}", getattr(value, each.name))


def _check_size(word: str, value: Any) -> None:
    if isinstance(value, tuple) and len(value) > MOST_AT_ONCE and word != "seqs":
        raise TooLarge(f"{word}: at most {MOST_AT_ONCE} at once", limit=MOST_AT_ONCE, size=len(value))
    most = value if word in ("limit", "count") else getattr(value, "limit", 0)
    if isinstance(value, tuple):
        most = len(value)
    if not 0 <= most <= MOST_LISTED:
        raise TooLarge(f"{word}: at most {MOST_LISTED} at once", limit=MOST_LISTED, size=most)


class Answering:
    """Answers for one tenant's ledger."""

    def __init__(self, ledger: AsyncLedger, caller: Caller, ledgers: Ledgers) -> None:
        self._ledger = ledger
        self._gateway = ledgers.gateway
        self._engine = ledger._engine
        self._caller = caller
        self._claims = ledgers.claims
        self._exports = ledgers.exports
        self._stopping = ledgers.stopping

    async def answer(self, name: str, words: dict[str, Any]) -> Any:
        """Gives the answer to one question."""
        if name == "apply":
            answers = await self._apply(words["commands"])
            return answers if self._caller.is_trusted else [_without_tokens(answer) for answer in answers]
        check_scopes(self._caller, QUESTIONS[name].verb)
        if name in ("look", "watch", "await"):
            self._check_places(words["refs"])
        for word in ("key", "check"):  # both are hashes
            if word in words:
                check_digits(word, words[word])
        for digest in words.get("digests", ()):
            check_digits("digests", digest)
        if name == "await":
            return await self._await(**words)
        if name == "packet":
            desk = self._ledger._run_desk().acting_as(self._caller.actor or NOBODY_SAID)
            return await in_own_thread(desk.signed_packet, words["run_id"])
        if name == "sheets" and not may_read_sheets(self._caller.scopes, words["selected"].kind):
            return []
        if name == "forgetting.drop" and not self._caller.is_trusted:
            check_dropped(words["sheets"])
        if name == "heartbeat":
            self._check_places([words["claim"].effect.ref])
            check_lease(words["lease"])
            return await in_own_thread(self._heartbeat, words["claim"], words["lease"])
        found = await in_own_thread(self._read, name, words)
        if name == "payloads" and not self._caller.is_trusted:
            unseen = unseen_payloads(self._caller.scopes, words["run_id"])
            return [payload for payload in found if payload.field not in unseen]
        is_of_drivers = name == "sheets" and words["selected"].kind == "driver" and not self._caller.is_trusted
        return [hidden_driver(sheet) for sheet in found] if is_of_drivers else found

    def _heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        known = self._engine.store.look([claim.effect.ref]).effects[0]
        if known is None:
            return False
        return self._engine.store.heartbeat(held_claim(claim, self._caller.actor, known), lease)

    def _read(self, name: str, words: dict[str, Any]) -> Any:
        part, _, method = name.rpartition(".")
        where: Any = reduce(getattr, [part] if part else [], self._engine.store)
        of_tenant = [] if method in _OF_NO_TENANT else [self._caller.tenant]
        if name == "journal.heads":
            return shown_heads(self._engine.store, self._caller.tenant, **words)
        try:
            return getattr(where, method)(*of_tenant, *words.values())
        except LookupError as none:
            if name != "journal.tile":
                raise
            del none
            return b""

    def _check_places(self, refs: Sequence[Ref]) -> None:
        if any(ref.tenant != self._caller.tenant for ref in refs):
            raise NotPermitted(f"this credential is for the tenant {self._caller.tenant!r} and for no other")
        for ref in refs:
            check_place(ref)

    # Writing

    async def _apply(self, commands: Sequence[Command]) -> list[Answer]:
        if not commands:
            return []
        ready = [await self._let_in(command) for command in commands]
        known = await self._known_of(ready)
        try:
            answers = await self._carry_out(ready, known)
            if len(ready) == 1 and isinstance(answers[0], LimitsUnseen):
                self._engine.judging.forget()
                if getattr(commands[0], "knows_limits", False):  # it was we who did not
                    answers = await self._carry_out([await self._let_in(commands[0])], known)
            return answers
        finally:
            if any(_changes_rules(command) for command in ready):  # now it is there, whoever looked before
                self._engine.judging.forget()
            if any(isinstance(command, Record) and command.erased for command in ready):
                await in_own_thread(self._exports.drop, self._caller.tenant)

    async def _carry_out(self, ready: Sequence[Command], known: dict[Ref, Effect | None]) -> list[Answer]:
        if len(ready) > 1:  # they are one transaction, and stay one
            return await in_own_thread(self._engine.writer.do_together, ready, known)
        slot = self._engine.writer.post(ready[0], known.get(ready[0].ref))
        assert slot.future is not None
        answer = permitted(await slot.future)
        if isinstance(answer, Claimed):
            self._claims.keep(answer.claim.effect)
        return [answer]

    async def _known_of(self, commands: Sequence[Command]) -> dict[Ref, Effect | None]:
        """Gives the effects of claims as we know them: what a claim says of its effect is the other side's word."""
        claims = [command.claim for command in commands if isinstance(command, Finish | Relinquish)]
        known: dict[Ref, Effect | None] = {}
        for claim in claims:
            remembered = self._claims.take(self._caller.tenant, claim.effect.id)
            known[claim.effect.ref] = remembered if remembered and remembered.ref == claim.effect.ref else None
        missing = [ref for ref, effect in known.items() if effect is None]
        if missing:
            seen = await in_own_thread(self._engine.store.look, missing)
            known.update(zip(missing, seen.effects, strict=True))
        return known

    async def _let_in(self, command: Command) -> Command:
        """Gives a command as it may be carried out: with our time, our actor, and what our policy says."""
        mint = self._engine.mint
        stamp = mint.stamp(command.stamp.actor, _salts_for(command))
        ready = admitted(command, self._caller, stamp, self._ledger._max_result_bytes)
        if isinstance(ready, Open):
            if not self._caller.is_trusted:  # ids are in order of time, and nobody else has the same
                ready = replace(ready, effect_id=mint.effect_id(), edit=self._placed(ready))
            return await self._judged(ready)
        if isinstance(ready, Amend):
            return await in_own_thread(self._edited, ready)
        if isinstance(ready, CastVote) and ready.grant is not None:
            if not self._caller.is_trusted:  # another's id would end, or take over, what they granted
                ready = replace(ready, grant_id=mint.new_id("grt"))
            return await in_own_thread(self._pinned, ready)
        if isinstance(ready, Record) and ready.erased and not self._caller.is_trusted:
            erasable = Erasable(self._engine.recorded, self._caller.tenant)
            await in_own_thread(erasable.check_may_go, ready.run_id, ready.erased)
        if keeps_driving(ready) and not self._caller.is_trusted:
            await in_own_thread(self._check_driver, ready.sheet)
        return ready

    def _placed(self, command: Open) -> EditRead | None:
        """Return how a client's tool reads an edit, with an id of ours; refuse another place than the call has."""
        edit = command.edit
        if edit is None or edit.takes is None:
            return edit
        ref = command.ref
        key = command.naming.key(ref, command.tool, edit.args_json)
        if key is None or edit.takes.ref != Ref(ref.tenant, ref.scope, key):
            raise BadCall("edit: takes is the place of the call with these arguments, and this is another one")
        return replace(edit, takes=replace(edit.takes, effect_id=self._engine.mint.effect_id()))

    def _check_driver(self, sheet: Sheet) -> None:
        """Lets nobody take a run over by a heartbeat: the right to drive only lasts longer by it, or is given back."""
        found = read_sheet(self._engine.store, self._caller.tenant, sheet.ref)
        is_new = found is None or sheet.version > found.version
        if is_new and (found is None or sheet.body != found.body):
            raise NotPermitted(f"the right to drive {sheet.id} is somebody else's; take the run over to go on with it")

    async def _judged(self, command: Open) -> Open:
        self._gateway.check_not_ours(command.tool)
        check_arguments(command.args_json, self._ledger._max_args_bytes)
        if command.edit is not None:
            check_arguments(command.edit.args_json, self._ledger._max_args_bytes)
        handling = self._tightened(command)
        prepared = Prepared(
            call=ToolCall(tool=command.tool, run_id=command.run_id, call_id=command.call_id, schema=command.schema),
            identity=Identity(ref=command.ref, digest=command.digest, args_json=command.args_json),
            handling=handling,
            actor=command.stamp.actor,
            max_result_bytes=None,
            principal=command.principal,
            edit=command.edit,
        ).judged
        if self._engine.judging.may_block(prepared) or command.verdict.decision == "ask":
            judged = await in_own_thread(self._judgement, prepared, command.verdict)
        else:
            judged = self._judgement(prepared, command.verdict)
        # Both have to know: who asks replays from the record of the run that this one was forked from.
        knows = command.knows_limits and judged.knows_limits
        handling = judged.handling or handling
        if command.on_repeat is not None:
            judged = judged.repeated(handling.on_repeat if command.dedupe == "turn" else command.on_repeat)
        if judged.verdict.decision != "refuse":
            _check_not_misread(command, handling)
        return replace(
            command,
            side_effect=handling.side_effect,
            on_crash=handling.on_crash,
            verdict=judged.verdict,
            grants=judged.grants,
            knows_limits=knows,
            naming=replace(command.naming, environment=judged.environment),
        )

    def _tightened(self, command: Open) -> Handling:
        """Return how a call is treated that demands no less than this ledger does."""
        handling = self._ledger._handling(command.tool, {"side_effect": command.side_effect})
        options, is_first = self._ledger._options, command.on_repeat is None
        on_crash = strictest_word("on_crash", command.on_crash, options.on_crash)
        on_repeat = (
            handling.on_repeat if is_first else strictest_word("on_repeat", command.on_repeat, options.on_repeat)
        )
        said = replace(handling, side_effect=command.side_effect, on_crash=on_crash, on_repeat=on_repeat)
        held = at_least(said, handling.side_effect)
        named = (*command.judged_as, command.side_effect, *handling.judged_as, handling.side_effect)
        return replace(
            handling, on_crash=held.on_crash, on_repeat=held.on_repeat, judged_as=tuple(dict.fromkeys(named))
        )

    def _judgement(self, prepared: Prepared, said: Verdict) -> Judged:
        """Gives the verdict on a call; whom it says that it is for, no credential attests, so that allows nothing."""
        judging = self._engine.judging
        if self._caller.is_trusted or prepared.principal == self._caller.principal:
            return judging.judge_besides(prepared, said)
        attested = judging.judge_besides(replace(prepared, principal=self._caller.principal), said)
        claimed = judging.judge_besides(prepared, said).verdict
        if claimed == attested.verdict:
            return attested
        return replace(attested, verdict=strictest([attested.verdict, claimed]))

    def _edited(self, command: Amend) -> Amend:
        approval = self._ledger._approving.get(command.approval_id)
        effect = self._engine.store.look([command.ref]).effects[0]
        if approval is None or effect is None:
            raise BadCall(f"no approval of this tenant has the id {command.approval_id}")
        self._gateway.check_edit(effect.tool, plain(command.args_json))
        if effect.args_json is not None:
            edited = decode(command.args_json)
            check_whole(effect.tool, edited, effect.args)
            if isinstance(edited, dict) and not holds_mark(edited):
                command = replace(command, args_json=encode(self._ledger._bound(effect.tool, edited), root="args"))
            check_underived(approval, decode(command.args_json), effect.args)
        own = self._ledger._verdict_on_edit(approval, effect, command.args_json)
        approving, args_json = self._ledger._approving, command.args_json
        return replace(
            command,
            verdict=strictest([own, self._said_of_edit(command.verdict)]),
            takes=approving.taken(approval, effect, args_json),
            subject_json=approving.subject_of(effect, args_json) or command.subject_json,
        )

    def _said_of_edit(self, said: Verdict) -> Verdict:
        """Return what an editor may add to the verdict: a refusal or charges. Who is asked is only ours to say."""
        if self._caller.is_trusted or said.decision == "refuse":
            return said
        return replace(said, decision="allow", question=None)

    def _pinned(self, command: CastVote) -> CastVote:
        effect = self._engine.store.look([command.ref]).effects[0]
        if effect is None or effect.args_json is None or command.grant is None:
            return command
        pinned = pinned_digest(effect.tenant, effect.tool, command.grant.pin, effect.args_json)
        return replace(command, pinned=pinned)

    # Waiting

    async def _await(self, refs: Sequence[Ref], versions: Sequence[int], seconds: int) -> list[Ref]:
        """Answers as soon as one of these effects is in another state than the caller has seen, or with none."""
        if len(refs) != len(versions) or not 0 <= seconds <= LONGEST_WAIT:
            raise BadCall(f"await: a version for each place, and at most {LONGEST_WAIT} seconds")
        seen = await in_own_thread(self._engine.store.look, list(refs))
        known = dict(zip(refs, versions, strict=True))
        there = [effect for effect in seen.effects if effect is not None]
        moved = [effect.ref for effect in there if effect.version != known[effect.ref]]
        return moved or await self._next_moved(there, seconds)

    async def _next_moved(self, effects: Sequence[Effect], seconds: int) -> list[Ref]:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[Ref] = loop.create_future()

        def waker(newest: Effect) -> None:
            tell_loop(loop, set_unless_done, first, newest.ref)

        for effect in effects:
            self._engine.waiting.add(effect, waker)
        try:
            async with asyncio.timeout(seconds):
                ref = await self._stopping.unless_begun(first)
                return [] if ref is None else [ref]
        except TimeoutError:
            return []
        finally:
            for effect in effects:
                self._engine.waiting.discard(effect, waker)


_OF_NO_TENANT = frozenset({"look", "watch", "redaction_check", "keep_redaction_check", "clear_away"})


def _without_tokens(answer: Answer) -> Answer:
    """Gives an answer that tells nothing by which somebody else's run could be driven."""
    if isinstance(answer, Outrun | Kept) and answer.sheet is not None and answer.sheet.kind == "driver":
        return replace(answer, sheet=hidden_driver(answer.sheet))
    return answer


def _salts_for(command: Command) -> int:
    """Gives how many values a command may have to hide, by what it tells; two of each happening."""
    if isinstance(command, Amend) or (isinstance(command, Open) and command.edit is not None):
        return EDIT_VALUES
    told = len(command.happenings) if isinstance(command, Tell) else 0
    committed = len(command.committed) if isinstance(command, Record) else 0
    return MOST_VALUES + min(2 * told + committed, 2 * MOST_TOLD)


def _check_not_misread(command: Open, handling: Handling) -> None:
    """Refuse a call with effects that its client has told apart as one that only reads: each would run anew."""
    is_misread = command.side_effect in HARMLESS and handling.side_effect not in HARMLESS
    if is_misread and (command.dedupe == "call" or command.run_id == UNNAMED_RUN):
        raise BadCall(
            f"{command.tool}: its caller says side_effect={command.side_effect!r}, and to this server it is "
            f"{handling.side_effect!r}, so a repeat must not run. Declare side_effect={handling.side_effect!r} and "
            "call it again in a run"
        )


def _changes_rules(command: Command) -> bool:
    """May calls be judged otherwise after this: by another policy, the limits of a run, or a compensation?"""
    if isinstance(command, Record):
        return command.sheet is not None and command.sheet.kind == "policy"
    undoes = isinstance(command, Open) and is_compensation(command.tool)
    return undoes or isinstance(command, StartRun | TakeRun)
