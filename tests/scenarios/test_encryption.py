"""Whoever has the keys sees values in clear, on every path; the record has them encrypted, on any store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from indelible import Claimed, Failed, MayHaveHappened, Redacted, Refused, Replayed, RunningEffect, Succeeded, ToolCall
from indelible.core.values.canonical import decode
from indelible.core.values.tags import Encrypted
from indelible.errors import (
    EffectCanceled,
    EffectDenied,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    KeyReused,
    KeyUnusable,
    LeaseLost,
    ResultNotRecorded,
)
from indelible.journal.keys.files import data_keys_folder
from indelible.testing.clock import FakeClock
from tests.lending import lent_folder
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, somebody_waits, types_of
from tests.scenarios.test_redaction import assert_found_nowhere
from tests.scenarios.test_transactions import Table
from tests.waiting import PATIENCE, eventually

# A new one each time: scenarios share one PostgreSQL, and another's plain ledger may say what ours must not.
CANARY = f"CANARY-cipher-{uuid4().hex}"


def pay(customer: str = "ada", run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"customer": customer, "note": CANARY, **args}, run_id=run_id)


@pytest.fixture
def ledger(shell: Shell, keys: Path) -> Driver:
    """A ledger that encrypts, with a subject for each call."""
    return shell.open(encrypt=True, subject="args.customer")


def key_files(keys: Path) -> list[Path]:
    return sorted(keys.rglob("data/*/*.key"))


def test_values_are_in_clear_for_the_ledger_and_in_cipher_on_the_record(ledger: Driver) -> None:
    seen: list[Any] = []

    def handler(effect: RunningEffect) -> Any:
        seen.append(effect.args)
        return {"receipt": CANARY}

    assert ledger.run(pay(), handler) == {"receipt": CANARY}
    assert ledger.run(pay(), handler) == {"receipt": CANARY}
    assert seen == [pay().args]
    begun = ledger.begin(pay())
    assert isinstance(begun, Replayed)
    assert begun.value == {"receipt": CANARY}
    (effect,) = ledger.effects()
    for found in (effect, ledger.get_effect(effect.id), ledger.find_by_key(effect.key)):
        assert (found.args, found.detail) == (pay().args, {"receipt": CANARY})
        assert found.outcome == Succeeded({"receipt": CANARY})
    assert_found_nowhere(ledger.url, CANARY)


def test_errors_reasons_and_what_people_say_are_encrypted(ledger: Driver) -> None:
    with pytest.raises(Refused, match=CANARY):
        ledger.run(pay(), Count(Refused(CANARY)))
    with pytest.raises(EffectFailed, match=CANARY):
        ledger.run(pay(), Count())
    with pytest.raises(MayHaveHappened):
        ledger.run(pay(n=2), Count(MayHaveHappened(CANARY)))
    with pytest.raises(EffectInDoubt, match=CANARY):
        ledger.run(pay(n=2), Count())
    (doubtful,) = ledger.effects(status="in_doubt")
    settled = ledger.settle(doubtful, Failed(f"no {CANARY}"), by="ana", evidence=f"saw {CANARY}")
    assert settled.outcome == Failed(f"no {CANARY}")
    assert ledger.retry(settled, by="ana", reason=f"again {CANARY}").detail == f"again {CANARY}"
    assert ledger.cancel(settled.id, by="ana", reason=f"stop {CANARY}").detail == f"stop {CANARY}"
    with pytest.raises(EffectCanceled, match=CANARY):
        ledger.run(pay(n=2), Count())
    asking = ledger.begin(pay(n=3), approval="required")
    ledger.deny(asking.approval.id, by="ana", reason=f"not {CANARY}")
    with pytest.raises(EffectDenied, match=CANARY):
        ledger.run(pay(n=3), Count())
    assert_found_nowhere(ledger.url, CANARY)


def test_an_approved_call_runs_with_its_arguments(ledger: Driver) -> None:
    approval = ledger.begin(pay(), approval="required").approval
    ledger.approve(approval.id, digest=approval.digest, by="ana", reason=CANARY)
    assert ledger.run(pay(), lambda effect: effect.args["note"]) == CANARY
    assert_found_nowhere(ledger.url, CANARY)


def test_what_is_committed_by_hand_is_encrypted_and_may_be_said_twice(ledger: Driver) -> None:
    begun = ledger.begin(pay())
    assert isinstance(begun, Claimed)
    assert begun.claim.effect.args == pay().args
    for _ in range(2):
        assert ledger.commit(begun.claim, Succeeded({"receipt": CANARY})) == {"receipt": CANARY}
    assert types_of(ledger) == ["tool_call_started", "tool_call_finished"]
    assert_found_nowhere(ledger.url, CANARY)


def test_whoever_waits_gets_the_value(shell: Shell, ledger: Driver) -> None:
    gate = Gate({"receipt": CANARY})
    other = shell.open(encrypt=True, subject="args.customer")
    running = ledger.spawn("run", pay(), gate)
    gate.await_entry()
    waiting = [each.spawn("run", pay(), Count()) for each in (ledger, other)]
    somebody_waits(ledger)
    somebody_waits(other)
    gate.open()
    assert [each.result(PATIENCE) for each in (running, *waiting)] == [{"receipt": CANARY}] * 3


def test_a_probe_sees_the_arguments_and_what_it_says_is_encrypted(ledger: Driver) -> None:
    with pytest.raises(MayHaveHappened):
        ledger.run(pay(), Count(MayHaveHappened("?")))

    def probe(effect: Any) -> Succeeded:
        return Succeeded(effect.args["note"])

    assert ledger.run(pay(), Count(), reconcile=probe) == CANARY
    assert_found_nowhere(ledger.url, CANARY)


def test_a_handlers_transaction_is_settled_encrypted(ledger: Driver, scenario_url: str) -> None:
    table = Table(scenario_url)

    def handler(effect: RunningEffect) -> Any:
        table.book(effect, 5)
        return CANARY

    assert ledger.run(pay(), handler) == CANARY
    assert table.amounts() == [5]
    assert ledger.run(pay(), Count()) == CANARY
    assert_found_nowhere(ledger.url, CANARY)


def test_a_late_result_is_encrypted(ledger: Driver) -> None:
    gate = Gate({"receipt": CANARY})
    running = ledger.spawn("run", pay(), lambda effect: gate(effect), timeout=timedelta(milliseconds=50))
    with pytest.raises(TimeoutError):
        running.result(PATIENCE)
    gate.open()
    if ledger.kind != "async":  # the other one's handler is a coroutine, which the time limit has cancelled
        eventually(lambda: types_of(ledger)[-1] == "tool_call_finished")
        assert ledger.run(pay(), Count()) == {"receipt": CANARY}
    assert_found_nowhere(ledger.url, CANARY)


def test_the_late_result_of_an_older_attempt_is_encrypted(shell: Shell, keys: Path, clock: FakeClock) -> None:
    ledger = shell.open(encrypt=True, subject="args.customer", clock=clock)
    slow = ledger.begin(pay(), on_crash="retry").claim
    clock.advance(LEASE)
    ledger.run(pay(), Count("second"), on_crash="retry")
    with pytest.raises(LeaseLost):
        ledger.commit(slow, Succeeded({"receipt": CANARY}))
    assert types_of(ledger)[-1] == "tool_call_late"
    assert_found_nowhere(ledger.url, CANARY)


def test_redaction_comes_first(shell: Shell, keys: Path) -> None:
    ledger = shell.open(encrypt=True, redact=["args.note"])
    assert ledger.run(pay(), lambda effect: effect.args["note"] == CANARY) is True
    (effect,) = ledger.effects()
    assert isinstance(effect.args["note"], Redacted)
    assert effect.args["customer"] == "ada"
    assert_found_nowhere(ledger.url, CANARY)


# ── the same call ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_encryption_changes_no_calls_identity(shell: Shell, keys: Path) -> None:
    """So it can be switched on and off: what ran before does not run again."""
    call = ToolCall(tool="pay", args={"n": 1}, run_id="order-1")
    other = ToolCall(tool="pay", args={"n": 2}, run_id="order-1")
    handler = Count({"a": 1})
    shell.open().run(call, handler)
    encrypting = shell.open(encrypt=True)
    assert encrypting.run(call, handler) == {"a": 1}
    assert encrypting.run(other, handler) == {"a": 1}
    assert shell.open().run(other, handler) == {"a": 1}
    assert handler.entries == 2
    keyed = ToolCall(tool="pay", args={"id": 1, "note": CANARY}, run_id="order-1", key=["id"])
    encrypting.begin(keyed)
    with pytest.raises(KeyReused):
        encrypting.begin(ToolCall(tool="pay", args={"id": 1, "note": "x"}, run_id="order-1", key=["id"]))


def test_a_ledger_that_was_not_told_reads_it_and_says_nothing_in_clear_about_it(shell: Shell, ledger: Driver) -> None:
    """As the command line, which does not know how a program opens its ledger."""
    with pytest.raises(MayHaveHappened):
        ledger.run(pay(), Count(MayHaveHappened("?")))
    other = shell.open()
    (effect,) = other.effects()
    assert effect.args == pay().args
    settled = other.settle(effect, Succeeded(CANARY), by="ana", evidence=CANARY)
    assert settled.detail == CANARY
    assert_found_nowhere(ledger.url, CANARY)
    plain = ToolCall(tool="pay", args={"n": 1}, run_id="order-1")
    other.run(plain, Count({"m": 2}))
    store = other.engine.recorded
    seqs = [event.seq for event in other.events("order-1")]
    recorded = {p.value for p in store.payloads(other.tenant, "order-1", seqs) if p.field in ("args", "result")}
    assert {b'{"n":1}', b'{"m":2}'} < recorded, "what it begins itself it does not encrypt"


def test_what_was_begun_in_clear_ends_encrypted(shell: Shell, keys: Path) -> None:
    begun = shell.open().begin(ToolCall(tool="pay", args={"n": 1}, run_id="order-1"))
    encrypting = shell.open(encrypt=True)
    assert encrypting.commit(begun.claim, Succeeded(CANARY)) == CANARY
    assert encrypting.effects()[0].detail == CANARY
    assert_found_nowhere(encrypting.url, CANARY)


def test_without_the_keys_the_cipher_is_never_taken_for_the_value(
    shell: Shell, ledger: Driver, keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger.run(pay(), Count({"receipt": CANARY}))
    monkeypatch.setenv("INDELIBLE_KEYS", str(lent_folder(keys, tmp_path_factory.mktemp("elsewhere"))))
    stranger = shell.open()
    handler = Count()
    with pytest.raises(KeyUnusable, match="encrypt=True"):
        stranger.run(pay(), handler)
    with pytest.raises(KeyUnusable, match="encrypt=True"):
        assert stranger.effects()[0].args
    assert handler.entries == 0


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def reads(ledger: Driver, call: ToolCall) -> list[Callable[[], Any]]:
    def effect() -> Any:
        return next(each for each in ledger.effects() if each.run_id == call.run_id)

    return [
        lambda: ledger.run(call, lambda effect: pytest.fail("entered")),
        lambda: ledger.begin(call),
        lambda: effect().args,
        lambda: effect().detail,
        lambda: effect().outcome,
    ]


def test_erasing_a_person_destroys_their_key_and_no_other(ledger: Driver, keys: Path) -> None:
    for customer in ("ada", "bob"):
        for run_id in ("order-1", "order-2"):
            ledger.run(pay(customer, run_id), Count(CANARY))
    assert len(key_files(keys)) == 2
    report = ledger.erase(subject="ada", by="ana", reason="asked", rewrite=False)
    assert report.count == 8
    assert not any("data key" in remark for remark in report.remarks)
    assert len(key_files(keys)) == 1
    with pytest.raises(EffectErased):
        ledger.run(pay(), Count())
    assert len(key_files(keys)) == 1, "who only asks again gets no new key"
    assert ledger.run(pay("bob"), Count()) == CANARY


def test_who_comes_back_gets_a_new_key(shell: Shell, ledger: Driver, keys: Path) -> None:
    other = shell.open(encrypt=True, subject="args.customer")
    for each in (ledger, other):
        assert each.run(pay(), Count(CANARY)) == CANARY
    other.erase(subject="ada", by="ana", reason="asked", rewrite=False)
    assert ledger.run(pay(n=2), Count(CANARY)) == CANARY, "this one had the old key in mind"
    assert shell.open(encrypt=True).run(pay(n=2), Count()) == CANARY
    assert len(key_files(keys)) == 1


def test_a_key_that_is_still_needed_is_kept_and_that_is_said(ledger: Driver, keys: Path) -> None:
    ledger.run(pay(), Count(CANARY))
    begun = ledger.begin(pay(n=2))
    report = ledger.erase(subject="ada", by="ana", reason="asked", rewrite=False)
    assert len(report.kept) == 1
    assert any("data key is kept" in remark for remark in report.remarks)
    assert ledger.commit(begun.claim, Succeeded(CANARY)) == CANARY
    assert ledger.run(pay(n=2), Count()) == CANARY
    ledger.erase(subject="ada", by="ana", reason="asked", rewrite=False)
    assert key_files(keys) == []


def test_what_is_about_nobody_has_the_key_of_its_run(shell: Shell, keys: Path) -> None:
    ledger = shell.open(encrypt=True, subject=lambda args: args.get("who"))
    ledger.run(pay(), Count(CANARY))
    ledger.run(pay(run_id="order-2"), Count(CANARY))
    ledger.run(pay(who="ada"), Count(CANARY))
    assert len(key_files(keys)) == 3
    partly = ledger.erase(run_id="order-1", seq=0, by="ana", reason="asked", rewrite=False)
    assert any("data key is kept" in remark for remark in partly.remarks)
    ledger.erase(run_id="order-1", by="ana", reason="asked", rewrite=False)
    assert len(key_files(keys)) == 2, "the person's key stays for what is about them elsewhere"
    assert ledger.run(pay(run_id="order-2"), Count()) == CANARY


def test_without_its_key_a_value_is_erased_on_every_path(shell: Shell, ledger: Driver, keys: Path) -> None:
    ledger.run(pay(), Count(CANARY))
    with pytest.raises(Refused, match="no"):
        ledger.run(pay("bob", "order-2"), Count(Refused("no")))
    files = key_files(keys)
    assert len(files) == 2
    for path in files:
        path.unlink()
    for each in (ledger, shell.open(encrypt=True)):
        for again in reads(each, pay()):
            with pytest.raises(EffectErased, match="erased"):
                again()
        with pytest.raises(EffectFailed, match=r"\(erased\)"):
            each.run(pay("bob", "order-2"), Count())


def test_what_waits_or_is_in_doubt_without_its_key_never_runs(ledger: Driver, keys: Path) -> None:
    """As in a database that was restored from a copy, after the person was erased."""
    for number in (1, 2):
        with pytest.raises(MayHaveHappened):
            ledger.run(pay(n=number), Count(MayHaveHappened("?")))
    ready = next(effect for effect in ledger.effects() if effect.args["n"] == 1)
    ledger.retry(ready, by="ana")
    for path in key_files(keys):
        path.unlink()
    handler = Count()
    for _ in range(2):
        with pytest.raises(EffectErased, match="cannot be attempted"):
            ledger.run(pay(n=1), handler)
    with pytest.raises(EffectInDoubt, match=r"\(erased\)"):
        ledger.run(pay(n=2), handler)
    assert handler.entries == 0
    assert ledger.get_effect(ready.id).status == "ready"


def test_a_key_that_is_lost_between_look_and_claim_lets_nothing_run(ledger: Driver, keys: Path) -> None:
    """The store cannot see that its arguments cannot be read; its caller does, before it claims."""
    with pytest.raises(MayHaveHappened):
        ledger.run(pay(), Count(MayHaveHappened("?")))
    (effect,) = ledger.effects()
    ledger.retry(effect, by="ana")
    ledger.engine.store.is_cheap_to_read = False
    for path in key_files(keys):
        path.unlink()
    handler = Count()
    with pytest.raises(EffectErased, match="cannot be attempted"):
        ledger.run(pay(), handler)
    assert handler.entries == 0
    assert ledger.get_effect(effect.id).status == "ready"
    assert "tool_call_started" not in types_of(ledger)[1:]


# ── keys that cannot be used ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_whose_key_cannot_be_used_is_told_as_not_recorded(ledger: Driver, keys: Path) -> None:
    def handler(effect: RunningEffect) -> str:
        (path,) = key_files(keys)
        path.write_text("spoilt")
        return CANARY

    with pytest.raises(ResultNotRecorded, match="is no data key") as told:
        ledger.run(pay(), handler)
    assert told.value.value == CANARY


def test_a_key_that_others_can_read_is_refused_before_anything_runs(ledger: Driver, keys: Path) -> None:
    ledger.run(pay(), Count(CANARY))
    (path,) = key_files(keys)
    path.chmod(0o644)
    handler = Count()
    with pytest.raises(KeyUnusable, match="chmod 600"):
        ledger.run(pay(n=2), handler)
    assert handler.entries == 0


def test_the_folder_does_not_tell_who(ledger: Driver, keys: Path) -> None:
    ledger.run(pay("ada-lovelace", "secret-run"), Count(CANARY))
    (path,) = key_files(keys)
    assert path.is_relative_to(data_keys_folder(ledger.engine.store.ledger_name, keys))
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(each.stat().st_mode & 0o777 == 0o700 for each in path.parents if each.is_relative_to(keys))
    assert "lovelace" not in str(path.relative_to(keys))
    (effect,) = ledger.engine.recorded.effects(ledger.tenant, ledger._filter(None, None, None, None, None, 10))
    recorded = decode(effect.args_json)
    assert isinstance(recorded, Encrypted)
    assert recorded.content[1:17].hex() == path.stem
    assert bytes.fromhex(path.read_text().strip()) not in recorded.content
