"""Promises of core.rights: one table says who may do what to which effect, and every command is judged by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from indelible.core.commands import Claimed, Command, Forbidden, InDoubt, InFlight, Late, Moved
from indelible.core.effects.effect import STATUSES, SYSTEM, Actor, Claim, Effect, asked_by, hash_of
from indelible.core.rights import (
    REACHES,
    RIGHTS,
    VerbName,
    held_claim,
    is_own,
    may_end_run,
    may_hold,
    permitted,
    verb_of,
    why_forbidden,
)
from indelible.core.runs.commands import RunMoved
from indelible.core.scopes import SCOPES, Authenticated, Scope
from indelible.core.stamps import Stamp
from indelible.errors import NotPermitted
from tests.core.crossing import COMMANDS, one_of_each
from tests.core.making import (
    AGENT,
    LEASE,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    SECOND,
    asks,
    cancel,
    effect,
    finish,
    next_step,
    on_shelf,
    open_command,
    relinquish,
    reopen,
    settle,
    stamp,
)
from tests.core.making import asked as asked_about
from tests.core.run_world import World

TOKEN = "aa" * 16
MAY_HAVE_HAPPENED = ("processing", "in_doubt", "succeeded", "failed")


def let_in(scope: Scope = "agent", name: str = "billing", principal: str | None = None) -> Actor:
    """Gives somebody whom a server knows."""
    kind: Any = "agent" if scope == "agent" else "person"
    return Actor(name, kind, "api_key", Authenticated(frozenset({scope}), principal))


BILLING, SHIPPING, ANA = let_in(), let_in(name="shipping"), let_in("approver", "ana")
OTHERS = (SHIPPING, let_in(principal="ana"), let_in("admin", "billing"), replace(BILLING, kind="system"))


def by(actor: Actor, command: Any) -> Any:
    return replace(command, stamp=replace(command.stamp, actor=actor))


def asked(actor: Actor = BILLING, status: str = "requires_approval") -> Effect:
    """Gives a call of somebody's that was never entered."""
    return replace(effect(status, attempt=0), token_hash=asked_by(actor.holder))


def entered(status: str = "processing", actor: Actor = BILLING, **changes: Any) -> Effect:
    return replace(effect(status, **changes), token_hash=hash_of(TOKEN, actor.holder))


# The table


def test_every_command_is_of_a_verb_and_every_verb_is_in_the_table() -> None:
    assert set(RIGHTS) == set(get_args(VerbName))
    for kind in COMMANDS:
        assert verb_of(one_of_each(COMMANDS)[kind]) in RIGHTS


def test_administrators_have_every_right_and_nobody_reports_for_another() -> None:
    for right in RIGHTS.values():
        assert right.reach("admin") == ("claim" if "claim" in right.by.values() else "any")
        assert {right.reach(scope) for scope in SCOPES} <= {*REACHES, None}
        assert right.scopes == {scope for scope in SCOPES if right.reach(scope) is not None}


def test_no_right_of_an_agent_moves_what_may_have_happened_but_its_own_report() -> None:
    moving = {name for name, right in RIGHTS.items() if set(right.states) & set(MAY_HAVE_HAPPENED)}
    assert {name for name in moving if RIGHTS[name].reach("agent") == "any"} == {"lapse"}, "what the clock says"
    assert {name for name in moving if RIGHTS[name].reach("agent") is not None} == {"lapse", "report"}


class Acting(World):
    """Is a world in which somebody acts."""

    actor = BILLING

    def stamp(self, values: int = 20, actor: Actor = SYSTEM) -> Stamp:
        return super().stamp(values, self.actor)


@pytest.mark.parametrize("status", ["completed", "failed", "canceled"])
def test_an_agent_ends_the_runs_that_it_drives_or_drove_last(status: Any) -> None:
    def ended(actor: Actor, token: str | None = None) -> Any:
        world = Acting()
        world.start()
        world.actor = actor
        return world.end(status, token=token)

    for actor in (BILLING, let_in(), ANA, let_in("admin", "root"), AGENT):
        assert isinstance(ended(actor), RunMoved)
    assert ended(SHIPPING).code == "forbidden"
    assert ended(let_in("auditor")).code == "forbidden"
    assert isinstance(ended(SHIPPING, "t1"), RunMoved), "the driver's token is the driver's right"
    assert may_end_run(SHIPPING, None), "a run that nobody drove, as one that was imported"


# Deciding


@pytest.mark.parametrize("status", STATUSES)
def test_an_agent_settles_and_retries_nothing_in_any_state(status: str) -> None:
    for found in (entered(status), asked(BILLING, status)):
        for command in (settle(), reopen()):
            for actor in (BILLING, SHIPPING, let_in("auditor")):
                step = next_step(by(actor, command), found, NOON, 7)
                assert isinstance(step.answer, Forbidden)
                assert not step.changes


@pytest.mark.parametrize("status", STATUSES)
def test_an_agent_withdraws_its_own_call_that_was_never_entered_and_nothing_else(status: str) -> None:
    own = next_step(by(BILLING, cancel()), asked(BILLING, status), NOON, 7).answer
    is_open = status in RIGHTS["cancel"].states
    assert isinstance(own, Moved) is is_open
    assert not isinstance(own, Forbidden)
    for actor, found in [(one, asked(BILLING, status)) for one in OTHERS[:2]] + [(BILLING, entered(status))]:
        step = next_step(by(actor, cancel()), found, NOON, 7)
        assert isinstance(step.answer, Forbidden)
        assert not step.changes


def test_people_and_programs_without_a_credential_decide() -> None:
    for actor in (ANA, let_in("admin", "root"), Actor("bot", "agent"), Actor("probe of pay", "system")):
        assert isinstance(next_step(by(actor, settle()), entered("in_doubt"), NOON, 7).answer, Moved)
        assert isinstance(next_step(by(actor, reopen()), entered("in_doubt"), NOON, 7).answer, Moved)
        assert isinstance(next_step(by(actor, cancel()), asked(), NOON, 7).answer, Moved)
        lapsed = entered(lease_until=NOON - SECOND)
        assert isinstance(next_step(by(actor, settle()), lapsed, NOON, 7).answer, Moved), "its worker is gone"


def test_a_new_key_of_the_same_principal_has_its_calls() -> None:
    assert is_own(let_in(), asked())
    assert not any(is_own(actor, asked()) for actor in OTHERS)
    assert not is_own(BILLING, entered())
    assert not is_own(BILLING, replace(asked(), attempt=1)), "it was entered, whatever else is kept of it"


def test_a_refusal_says_which_scope_is_needed() -> None:
    assert "scope admin or approver" in str(why_forbidden(by(BILLING, settle()), entered("in_doubt")))
    assert "scope approver" in str(why_forbidden(by(SHIPPING, cancel()), asked()))
    with pytest.raises(NotPermitted, match="eff_1 is not"):
        permitted(Forbidden(effect(), "is not yours"))
    assert permitted(Moved(effect())) == Moved(effect())


# Claims


def test_what_waits_is_known_by_who_asked_and_what_is_claimed_by_its_token() -> None:
    waiting = next_step(open_command(stamp=stamp(actor=BILLING), verdict=asks()), None, NOON, 0).answer
    assert waiting.effect.token_hash == asked_by(BILLING.holder)  # type: ignore[union-attr]
    claimed = next_step(open_command(stamp=stamp(actor=BILLING)), None, NOON, 0).answer
    assert isinstance(claimed, Claimed)
    assert claimed.claim.effect.token_hash == hash_of(TOKEN, BILLING.holder) == claimed.claim.token_hash
    plain = next_step(open_command(stamp=stamp(actor=AGENT)), None, NOON, 0).answer
    assert isinstance(plain, Claimed)
    assert plain.claim.effect.token_hash == hash_of(TOKEN)


def test_the_names_that_tokens_are_bound_to_do_not_meet() -> None:
    actors = [BILLING, *OTHERS, let_in(name='billing", null'), let_in(name="billing", principal="null")]
    assert len({actor.holder for actor in actors}) == len(actors)
    assert len({hash_of(TOKEN, actor.holder) for actor in actors} | {hash_of(TOKEN)}) == len(actors) + 1
    assert Actor("billing", "agent", "api_key").holder == ""
    assert Actor("billing", "agent", "api_key") == BILLING, "who acts is the same, however it is known"


def test_a_report_is_of_the_principal_that_claimed() -> None:
    claim = Claim(entered(), TOKEN)
    for command in (finish(claim), relinquish(claim), relinquish(claim, "in_doubt")):
        for actor in OTHERS:
            step = next_step(by(actor, command), entered(), NOON, 7)
            assert isinstance(step.answer, Forbidden)
            assert not step.changes
        assert isinstance(next_step(by(let_in(), command), entered(), NOON, 7).answer, Moved)
    late = next_step(by(BILLING, finish(claim)), entered("in_doubt"), NOON, 7).answer
    assert isinstance(late, Moved), "a late report of the newest attempt resolves its doubt"


def test_a_report_of_this_program_is_of_the_claim_it_holds() -> None:
    """A server that runs a tool for an agent reports for it, also when nobody waits any more."""
    held = Claim(entered(), TOKEN, holder=BILLING.holder)
    assert isinstance(next_step(finish(held), entered(), NOON, 7).answer, Moved)
    assert isinstance(next_step(finish(Claim(entered(), TOKEN)), entered(), NOON, 7).answer, Late)


def test_a_claim_is_of_its_attempt() -> None:
    second = entered(attempt=2)
    first = Claim(replace(second, attempt=1), TOKEN)
    assert may_hold(first, SHIPPING, second), "nothing is kept of an older attempt, so its report is kept as an event"
    assert isinstance(next_step(by(BILLING, finish(first)), second, NOON, 7).answer, Late)
    third = Claim(replace(second, attempt=3), TOKEN)
    assert isinstance(next_step(by(BILLING, finish(third)), second, NOON, 7).answer, Forbidden)


def test_a_heartbeat_is_of_the_principal_that_claimed() -> None:
    claim = Claim(entered(), TOKEN)
    assert held_claim(claim, BILLING, entered()).token_hash == entered().token_hash
    assert held_claim(claim, None, entered()) is claim
    assert held_claim(claim, AGENT, entered()) is claim
    for actor in OTHERS:
        with pytest.raises(NotPermitted):
            held_claim(claim, actor, entered())


def test_an_answer_that_got_lost_is_given_again_to_its_principal_while_the_lease_holds() -> None:
    again = open_command(token=TOKEN)
    answer = next_step(by(let_in(), again), entered(lease_until=NOON + LEASE), NOON, 7).answer
    assert isinstance(answer, Claimed)
    assert answer.claim.token_hash == entered().token_hash
    for actor in (*OTHERS, AGENT):
        assert isinstance(next_step(by(actor, again), entered(lease_until=NOON + LEASE), NOON, 7).answer, InFlight)
    for late in (timedelta(0), LEASE):
        step = next_step(by(BILLING, again), entered(lease_until=NOON), NOON + late, 7)
        assert isinstance(step.answer, InDoubt)
        assert step.answer.effect.token_hash == entered().token_hash, "its report still counts"


def test_a_question_that_is_asked_anew_with_other_arguments_is_of_who_asks() -> None:
    found, approval = asked_about(asked())
    other: Command = open_command(
        args_json=OTHER_ARGS, digest=OTHER_DIGEST, has_key_fields=True, verdict=asks(), stamp=stamp(actor=SHIPPING)
    )
    step = next_step(other, found, NOON, 7, on_shelf(approval))
    assert step.answer.effect.token_hash == asked_by(SHIPPING.holder)  # type: ignore[union-attr]
