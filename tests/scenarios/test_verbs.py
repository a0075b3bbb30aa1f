"""Every verb of the asynchronous ledger, used for real: none of them is only a name beside its blocking twin."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import indelible
from indelible import AsyncLedger, AwaitingApproval, Claimed, GrantTerms, MayHaveHappened, MayRun, Succeeded
from tests.journal.exported import key_of
from tests.scenarios.policies import saying
from tests.scenarios.shells import Count, charge
from tests.test_public_names import VERBS

TOMORROW = datetime.now(UTC) + timedelta(days=1)


class Noting:
    """Is a ledger that notes which of its verbs are used."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self.ledger = ledger
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self.ledger, name)


# These have scenarios of their own, through both shells.
OF_RUNS = {
    "start_run", "resume_run", "fork_run", "record", "record_all", "checkpoint", "end_run", "get_run", "runs",
    "run_story", "follow_run", "checkpoints", "verify_run", "diff_runs", "export_packet", "import_packet",
    "take_back_run", "compensate", "compensations",
}  # fmt: skip


def verbs() -> set[str]:
    """Names the verbs that the asynchronous ledger lets callers await, those about runs apart."""
    return {verb for verb in VERBS - OF_RUNS if inspect.iscoroutinefunction(getattr(AsyncLedger, verb, None))}


async def calls(ledger: Any) -> None:
    assert await ledger.run(charge(), Count("ran")) == "ran"
    assert await ledger.ask(charge(run_id="by hand")) == MayRun(None)
    begun = await ledger.begin(charge(run_id="by hand"))
    assert isinstance(begun, Claimed)
    await ledger.heartbeat(begun.claim)
    assert await ledger.commit(begun.claim, Succeeded("done")) == "done"
    assert (await ledger.get_effect(begun.claim.effect.id)).status == "succeeded"
    assert (await ledger.find_by_key(begun.claim.effect.key, scope="by hand")).id == begun.claim.effect.id
    assert {effect.run_id for effect in await ledger.effects()} == {"order-1", "by hand"}
    assert len(await ledger.events("order-1")) == 2


async def doubts(ledger: Any) -> None:
    for run_id in ("settled", "settled by rows", "tried again", "found"):
        try:
            await ledger.run(charge(run_id=run_id), Count(MayHaveHappened("cut")))
        except MayHaveHappened:
            continue
    effects = {effect.run_id: effect for effect in await ledger.effects(status="in_doubt")}
    assert (await ledger.settle(effects["settled"], Succeeded(1), by="ana", evidence="seen")).status == "succeeded"
    rows = [{"id": effects["settled by rows"].id, "as": "failed", "evidence": "seen"}]
    assert (await ledger.settle_all(rows, by="ana")).count("settled") == 1
    assert (await ledger.retry(effects["tried again"].id, by="ana")).status == "ready"
    assert (await ledger.cancel(effects["tried again"].id, by="ana")).status == "canceled"
    assert [effect.run_id for effect in await ledger.reconcile()] == ["found"]


async def asks(ledger: Any, run_id: str, args: Any = None) -> Any:
    begun = await ledger.begin(charge(run_id=run_id, args=args or {"amount": 5}), approval="required")
    assert isinstance(begun, AwaitingApproval)
    return begun.approval


async def approvals(ledger: Any) -> None:
    one = await asks(ledger, "approved")
    seen = await ledger.view_approval(one.id, by="ana")
    assert seen.args == {"amount": 5}
    one = await ledger.edit_approval(one.id, {"amount": 4}, digest=one.digest, by="ana")
    terms = GrantTerms(count=1, until=TOMORROW)
    assert (await ledger.approve(one.id, digest=one.digest, by="bob", grant=terms)).status == "approved"
    (grant,) = await ledger.grants()
    assert (await ledger.end_grant(grant.id, by="ana")).is_ended
    assert (await ledger.revoke_approval(one.id, by="bob")).status == "pending"
    assert (await ledger.get_approval(one.id)).status == "pending"
    other = await asks(ledger, "denied")
    assert {each.run_id for each in await ledger.elsewhere(other)} >= {one.run_id}
    assert (await ledger.deny(other.id, by="ana", reason="no")).status == "denied"
    assert [each.id for each in await ledger.approvals(status="denied")] == [other.id]
    delegation = await ledger.delegate("bob", until=TOMORROW, by="ana")
    assert await ledger.delegations() == [delegation]
    assert (await ledger.end_delegation(delegation.id, by="ana")).is_ended


async def policies(ledger: Any) -> None:
    version = await ledger.apply_policy(saying("allow"), by="ana")
    assert await ledger.policy() == (saying("allow"), version)


async def stopping(ledger: Any) -> None:
    await ledger.stop(by="ana", reason="wrong accounts")
    assert (await ledger.stopped()).reason == "wrong accounts"
    await ledger.go(by="ana")
    assert await ledger.stopped() is None


async def forgetting(ledger: Any) -> None:
    hold = await ledger.hold(run_id="order-1", by="ana", reason="court")
    assert await ledger.holds() == [hold]
    await ledger.lift_hold(hold.id, by="ana", reason="over")
    assert (await ledger.erase(run_id="order-1", by="ana", reason="asked for")).count > 0
    await ledger.prune(timedelta(days=30), by="ana", dry_run=True)


async def the_journal(ledger: Any, folder: Path) -> None:
    assert await ledger.seal() is not None
    head = await ledger.tree_head()
    assert head.size > 0
    receipt = await ledger.receipt((await ledger.events("by hand"))[0])
    assert receipt is not None
    signing = ledger.ledger._engine.notary
    (first,) = signing.signer().keys(head.origin)
    await ledger.rotate_keys()
    await ledger.revoke_key(first.vkey)
    await ledger.export(folder / "bundle")
    assert indelible.verify(folder / "bundle", key_of(ledger.ledger), deep=True).verdict == "verified"


async def a_database_that_was_set_back(place: dict[str, Any], folder: Path) -> set[str]:
    """Goes on from an old backup, although more was signed."""
    file = Path(place["url"].removeprefix("sqlite:///"))
    async with AsyncLedger.open(**place) as before:
        await before.run(charge(run_id="kept"), Count())
        await before.seal()
    shutil.copy(file, folder / "backup.db")
    async with AsyncLedger.open(**place) as later:
        await later.run(charge(run_id="lost"), Count())
        await later.seal()
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    shutil.copy(folder / "backup.db", file)
    ledger = Noting(AsyncLedger.open(**place, seal=False))
    assert (await ledger.continue_journal()).size > 2
    await ledger.close()
    return ledger.used


async def every_verb(folder: Path) -> set[str]:
    place = {"url": f"sqlite:///{folder / 'one.db'}", "keys": folder / "keys"}
    ledger = Noting(AsyncLedger.open(**place))
    for scenario in (calls, doubts, approvals, policies, stopping, forgetting):
        await scenario(ledger)
    await the_journal(ledger, folder)
    await ledger.close()
    other = {"url": f"sqlite:///{folder / 'two.db'}", "keys": folder / "keys"}
    return ledger.used | await a_database_that_was_set_back(other, folder)


def test_every_verb_of_the_asynchronous_ledger_works(tmp_path: Path) -> None:
    assert verbs() <= asyncio.run(every_verb(tmp_path))
