"""Does anything wait for a person, does word of it go out, and which policy is in force?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.doctor.command import COUNT_TO, Check, told
from indelible.cli.opening import Where
from indelible.cli.show import count
from indelible.core.approvals.deliveries import has_told
from indelible.core.sheets import SheetFilter
from indelible.errors import IndelibleError
from indelible.notify.sending import deliveries_about

# Whoever has channels sends within seconds, so what is due longer waits for somebody who has them.
LONG = timedelta(minutes=1)
_MOST_LOOKED_AT = 200


def examine(ledger: Ledger, place: Where, now: datetime) -> Iterator[Check]:
    """Looks at approvals, at the messages about them, and at the policy."""
    yield from check_pending(ledger, place, now)
    yield from check_stuck(ledger, place, now)
    yield check_told(ledger, place, now)
    yield check_deliveries(ledger, place, now)
    yield check_policy(ledger, place)
    yield from check_provider(ledger)


def check_pending(ledger: Ledger, place: Where, now: datetime) -> Iterator[Check]:
    """Does somebody have to decide, or see to what nobody decided in time?"""
    pending = ledger.approvals(status="pending", limit=COUNT_TO)
    late = [approval for approval in pending if approval.is_overdue(now)]
    if waiting := len(pending) - len(late):
        said = f"{at_least(waiting, 'approval', len(pending))} for a person to decide"
        yield Check("approvals", "warn", said, place.command("approvals list"))
    else:
        yield Check("approvals", "ok", "none waits for a person")
    if late:
        said = f"{at_least(len(late), 'approval', len(pending))} past the end, and still open: no worker attends"
        yield Check("late approvals", "warn", said, place.command("worker"))


def check_stuck(ledger: Ledger, place: Where, now: datetime) -> Iterator[Check]:
    """Can a person still give each approval that waits?"""
    pending = ledger.approvals(status="pending", limit=_MOST_LOOKED_AT)
    stuck = ledger._approving.stuck([approval for approval in pending if not approval.is_overdue(now)])
    if stuck:
        first, found = next(iter(stuck.items()))
        said = f"{count(len(stuck), 'approval')} that no person can give any more; {first}: {found.why}"
        yield Check("stuck approvals", "warn", said, place.command(f"approvals show {first}"))


def check_told(ledger: Ledger, place: Where, now: datetime) -> Check:
    """Was a person sent a message about each approval that waits?"""
    store, name = store_behind(ledger), "people told"
    pending = ledger.approvals(status="pending", limit=_MOST_LOOKED_AT)
    waiting = [approval for approval in pending if not approval.is_overdue(now)]
    untold = [one for one in waiting if not has_told(deliveries_about(store, ledger.tenant, one.id))]
    if not untold:
        return Check(name, "ok", "no open approval is without a message")
    number = f"{len(untold)} or more approvals" if len(pending) >= _MOST_LOOKED_AT else count(len(untold), "approval")
    named = sorted({channel for approval in untold for channel in approval.told})
    needs = f"; it has to have {', '.join(named)}" if named else ""
    said = f"{number} open, and no message about {'it' if len(untold) == 1 else 'them'} was sent to a person"
    return Check(name, "warn", said, f"{place.command('worker --channels FILE')}{needs}")


def check_deliveries(ledger: Ledger, place: Where, now: datetime) -> Check:
    """Do the messages about approvals go out?"""
    store, name = store_behind(ledger), "messages"
    dead = store.sheets(ledger.tenant, SheetFilter(kind="delivery", status="dead", limit=COUNT_TO))
    if dead:
        fix = f"{place.command('channels deliveries --status dead')}, mend the channel, then redeliver"
        return Check(name, "warn", f"{at_least(len(dead), 'message')} given up", fix)
    late = store.sheets(ledger.tenant, SheetFilter(kind="delivery", due_by=now - LONG, limit=COUNT_TO))
    if late:
        said = f"{at_least(len(late), 'message')} not sent for more than a minute: no process has the channels"
        return Check(name, "warn", said, place.command("worker --channels FILE"))
    return Check(name, "ok", "none waits to be sent")


def check_policy(ledger: Ledger, place: Where) -> Check:
    """Which policy judges the calls of this tenant? One that cannot be read lets nothing run."""
    try:
        kept = ledger.policy()
        if kept is None and _is_not_believed(ledger, SheetFilter(kind="policy", id="current", limit=1)):
            said = "not believed: a newer one was lost, or it was changed; every call is refused until one is applied"
            return Check("policy", "bad", said, place.command("policy apply FILE"))
        if kept is None:
            return Check("policy", "ok", "none in the ledger; a program may bring one of its own")
        from indelible.core.policy.policy import policy_of

        policy_of(kept[0])
    except IndelibleError as error:
        cured = place.command("policy apply FILE")
        return Check(
            "policy", "bad", f"{told('policy', error).says}: until it can be read, every call is refused", cured
        )
    return Check("policy", "ok", f"version {kept[1][:16]}… is in force; see it: {place.command('policy show')}")


def check_provider(ledger: Ledger) -> Iterator[Check]:
    """Are the rules believed by which people sign in through a provider?"""
    if _is_not_believed(ledger, SheetFilter(kind="provider", limit=COUNT_TO)):
        said = "the provider's rules are not believed: newer ones were lost, or their row was changed; nobody is let in"
        yield Check("sign-in", "bad", said, "start the server with its rules: indelible serve --oidc-allow")


def _is_not_believed(ledger: Ledger, selected: SheetFilter) -> bool:
    return any(sheet.body is None for sheet in store_behind(ledger).sheets(ledger.tenant, selected))


def at_least(number: int, noun: str, of: int | None = None) -> str:
    """Says how many, or that there are more than were counted."""
    return f"{COUNT_TO} {noun}s or more" if (number if of is None else of) >= COUNT_TO else count(number, noun)
