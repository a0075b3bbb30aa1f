"""Every message goes out once it can, once, whatever hangs, fails or is away meanwhile; and no run waits for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible import AsyncLedger, Ledger, ToolCall, migrate
from indelible.core.approvals import deliveries as rules
from indelible.core.approvals.approval import Approval
from indelible.core.commands import Outrun
from indelible.core.effects.effect import Effect
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import ApprovalPending, StoreUnavailable
from indelible.notify.channels import Channel, GiveUp, Message, NotSent
from indelible.notify.hidden import Secret
from indelible.notify.outbox import Attendant, Outbox
from indelible.notify.sending import Sender, store_time
from indelible.notify.webhook import WebhookChannel
from indelible.stores.postgres import PostgresStore
from indelible.testing.clock import FakeClock
from tests.notify.receivers import Receiver, answering, cutting, receiving
from tests.notify.recording import Recorder, ask, deliveries, failing, naming
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE, eventually

SECRET = Secret("whsec_" + "MTIz" * 10)
SOON = timedelta(milliseconds=300)


@pytest.fixture
def url(store_url: str) -> str:
    """A ledger that is ready, on each store."""
    migrate(store_url)
    return store_url


def opened(url: str, *channels: Channel, **words: Any) -> Ledger:
    return Ledger.open(url, channels=channels, **words)


def unattended(url: str, *names: str, **words: Any) -> Ledger:
    """Opens a ledger that asks by these channels and has none of them itself."""
    return Ledger.open(url, policy=naming(*names), **words)


def webhook(port: int, **settings: Any) -> WebhookChannel:
    settings = {"timeout": timedelta(seconds=PATIENCE), **settings}
    url = f"http://127.0.0.1:{port}/"
    return WebhookChannel("ops", url, secret=SECRET, http=True, ports=[port], allow=["127.0.0.1/32"], **settings)


@contextmanager
def outbox_of(ledger: Ledger, *channels: Channel, **words: Any) -> Iterator[Outbox]:
    outbox = Outbox(ledger._engine, ledger.tenant, channels, **words)
    outbox.start()
    try:
        yield outbox
    finally:
        outbox.close()


# ── once, and at once ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_and_its_end_are_told_once_each(url: str) -> None:
    channel = Recorder()
    with opened(url, channel) as ledger:
        approval_id = ask(ledger)
        (message,) = channel.wait_for(1)
        assert (message.about, message.approval.id, message.approval.status) == ("requested", approval_id, "pending")
        assert message.effect.args == {"amount": 0, "card": "4242"}
        ledger.approve(approval_id, digest=message.approval.digest, by="ada")
        last = channel.wait_for(2)[-1]
        assert (last.about, last.approval.votes[0].by) == ("approved", "ada")
        assert last.earlier == {"requested": {"number": 1}}
    assert channel.abouts == ["requested", "approved"]
    with opened(url, channel) as ledger:
        assert {delivery.status for delivery in deliveries(ledger)} == {"sent"}
        ledger._outbox.go_once()  # type: ignore[union-attr]
    assert len(channel.tries) == 2


def test_what_this_process_writes_is_sent_without_waiting_for_a_look(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indelible.notify.patrol.SHORTEST_PAUSE", 3600.0)
    monkeypatch.setattr("indelible.notify.patrol.LONGEST_PAUSE", 3600.0)
    channel = Recorder()
    with opened(url, channel) as ledger:
        ask(ledger, 1)
        channel.wait_for(1)
        ask(ledger, 2)
        approval = channel.wait_for(2)[-1].approval
        ledger.deny(approval.id, by="ada", reason="no")
        channel.wait_for(3)
        ledger.cancel(channel.sent[0].effect.id, by="ada")
        channel.wait_for(4)
    assert channel.abouts == ["requested", "requested", "denied", "canceled"]


def test_many_waiting_approvals_cost_no_more_looks_than_one(sqlite_url: str) -> None:
    channel = Recorder()
    with unattended(sqlite_url) as ledger:
        for number in range(50):
            ask(ledger, number)
        outbox = Outbox(ledger._engine, ledger.tenant, [channel])
        while outbox.go_once():
            continue
        assert len(channel.sent) == 50
        store = ledger._engine.store
        looks: list[str] = []
        sheets = store.sheets
        here = threading.current_thread()  # the sealer looks at the stop, in a thread of its own

        def noted(tenant: str, selected: SheetFilter) -> list[Sheet]:
            if threading.current_thread() is here:
                looks.append(selected.kind)
            return sheets(tenant, selected)

        store.sheets = noted  # type: ignore[method-assign]
        outbox.go_once()
        store.sheets = sheets  # type: ignore[method-assign]
    assert looks == ["approval", "approval", "approval", "delivery"]


def test_many_requests_are_each_told_once(url: str) -> None:
    channel = Recorder()
    with opened(url, channel) as ledger:
        threads = [threading.Thread(target=ask, args=(ledger, number)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        channel.wait_for(40)
    assert len(set(channel.tries)) == len(channel.tries) == 40


def test_what_an_earlier_process_left_is_sent(url: str) -> None:
    with unattended(url, "ops") as ledger:
        approval_id = ask(ledger)
    channel = Recorder()
    with opened(url, channel):
        assert channel.wait_for(1)[0].approval.id == approval_id


def test_a_channel_that_is_not_here_is_left_to_others(url: str) -> None:
    mine = Recorder("mine")
    with unattended(url, "mine", "theirs") as ledger:
        ask(ledger)
        with outbox_of(ledger, mine):
            mine.wait_for(1)
        (left,) = deliveries(ledger, topic="theirs")
        assert (left.status, left.attempts) == ("due", 0)
        theirs = Recorder("theirs")
        with outbox_of(ledger, theirs):
            theirs.wait_for(1)


def test_two_with_the_same_channel_send_each_message_once(url: str) -> None:
    one, other = Recorder(), Recorder()
    with opened(url, one) as ledger, opened(url, other) as second:
        for number in range(30):
            ask(ledger if number % 2 else second, number)
        eventually(lambda: len(one.sent) + len(other.sent) == 30)
    assert len({message.id for message in one.sent + other.sent}) == 30
    assert len(one.tries) + len(other.tries) == 30


def test_of_two_who_take_a_message_at_the_same_moment_one_sends_it(url: str) -> None:
    """Both have read the same sheet; only then does either write."""
    with unattended(url, "ops") as ledger:
        ask(ledger)
        (delivery,) = deliveries(ledger)
        channels = [Recorder(), Recorder()]
        senders = [Sender(ledger._engine, lambda: [ledger.tenant], channel) for channel in channels]
        took = [sender._see_to(ledger.tenant, delivery) for sender in senders]
        assert sorted(took) == [False, True]
        start = threading.Barrier(8)
        ask(ledger, 2)
        (second,) = deliveries(ledger, status="due")
        again: list[bool] = []

        def race(sender: Sender) -> None:
            start.wait()
            again.append(sender._see_to(ledger.tenant, second))

        threads = [threading.Thread(target=race, args=(senders[at % 2],)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(again) == [False] * 7 + [True]
    assert sum(len(channel.tries) for channel in channels) == 2


# ── outages of the receiver ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["500", "cut", "hang"])
def test_an_outage_of_the_receiver_is_outlived(url: str, how: str) -> None:
    receiver = Receiver()
    first = threading.Event()

    def hang(post: Any, line: Any) -> Any:
        if not first.is_set():
            first.set()
            receiver.release.wait(PATIENCE)
        return 200, {}, b""

    receiver.behave = {"500": answering(500, 200), "cut": cutting(1), "hang": hang}[how]
    timeout = timedelta(seconds=0.5 if how == "hang" else PATIENCE)
    with receiving(receiver), opened(url, webhook(receiver.port, timeout=timeout)) as ledger:
        ask(ledger)
        eventually(lambda: [found.status for found in deliveries(ledger)] == ["sent"])
        (delivery,) = deliveries(ledger)
    if how == "hang":  # a slow machine may seem to hang once more
        assert 2 <= len(receiver.posts) <= delivery.attempts
    else:
        assert delivery.attempts == len(receiver.posts) == 2
    assert {post.headers["webhook-id"] for post in receiver.posts} == {delivery.id}


def test_a_receiver_that_was_down_gets_it_when_it_is_up(url: str) -> None:
    down = socket.socket()
    down.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
    with opened(url, webhook(down.getsockname()[1], timeout=timedelta(seconds=PATIENCE))) as ledger:
        ask(ledger)
        eventually(lambda: [found for found in deliveries(ledger) if "refused" in (found.error or "")])
        with receiving(at=down) as receiver:
            receiver.wait_for(1)
            eventually(lambda: deliveries(ledger)[0].status == "sent")
        assert len(receiver.posts) == 1


def test_what_fails_is_tried_again_later_and_later_and_spread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_ATTEMPTS", 9)  # enough to see how it goes on
    clock = FakeClock(datetime.now(UTC))
    channel = Recorder(first=failing(99, NotSent("no")))
    with unattended(url, "ops", clock=clock) as ledger:
        ask(ledger)
        outbox = Outbox(ledger._engine, ledger.tenant, [channel])
        pauses = []
        while outbox.go_once():
            (delivery,) = deliveries(ledger)
            if delivery.due_at is None:
                break
            pauses.append((delivery.due_at - clock.now()).total_seconds())
            clock.advance(delivery.due_at - clock.now())
        assert (delivery.status, delivery.attempts, delivery.error) == ("dead", rules.MOST_ATTEMPTS, "no")
        for attempt, pause in enumerate(pauses):
            assert 2**attempt <= pause <= 2**attempt * 1.25
        assert len({pause / 2**attempt for attempt, pause in enumerate(pauses)}) > 3


def test_a_dead_letter_says_why_and_can_be_sent_again(url: str) -> None:
    channel = Recorder(first=failing(1, GiveUp("the address is gone")))
    with opened(url, channel) as ledger:
        ask(ledger)
        dead = eventually(lambda: deliveries(ledger, status="dead"))[0]
        assert (dead.attempts, dead.error) == (1, "the address is gone")
        from indelible.cli.channels import _renew

        assert _renew(ledger, dead)
        (message,) = channel.wait_for(1)
        assert message.id == dead.id


def test_a_receiver_that_asks_to_be_left_alone_is(url: str) -> None:
    channel = Recorder(first=failing(1, NotSent("busy", after=timedelta(minutes=20))))
    with unattended(url, "ops") as ledger:
        ask(ledger)
        Outbox(ledger._engine, ledger.tenant, [channel]).go_once()
        (delivery,) = deliveries(ledger)
        now = store_time(ledger._engine.store)
        assert delivery.due_at is not None
        assert timedelta(minutes=19) < delivery.due_at - now < timedelta(minutes=26)


def test_an_error_that_nobody_foresaw_is_named_without_its_values(url: str) -> None:
    with unattended(url, "ops") as ledger:
        ask(ledger)
        Outbox(ledger._engine, ledger.tenant, [Recorder(first=failing(1, ValueError("token=hidden")))]).go_once()
        (delivery,) = deliveries(ledger)
    assert delivery.error is not None
    assert delivery.error.startswith("ValueError in failing.<locals>.first (recording.py:")
    assert "hidden" not in delivery.error


# ── channels that hang ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_channel_that_hangs_holds_up_neither_another_nor_any_run(url: str) -> None:
    release = threading.Event()
    hanging = Recorder("hanging", first=lambda message: release.wait(PATIENCE) and None)
    quick = Recorder("quick")
    with unattended(url, "hanging", "quick") as ledger:
        try:
            with outbox_of(ledger, hanging, quick, patience=SOON, closing_patience=SOON):
                for number in range(3):
                    ask(ledger, number)
                quick.wait_for(3)
                assert hanging.sent == []
                assert ledger.run(ToolCall(run_id="r", tool="other", args={}), lambda effect: "ran") == "ran"
                eventually(
                    lambda: [d for d in deliveries(ledger, topic="hanging") if "did not return" in (d.error or "")]
                )
        finally:
            release.set()


def test_a_channel_that_always_hangs_takes_no_more_than_a_few_threads(url: str) -> None:
    release = threading.Event()
    hanging = Recorder(first=lambda message: release.wait(PATIENCE) and None)
    with unattended(url, "ops") as ledger:
        for number in range(8):
            ask(ledger, number)
        sender = Sender(ledger._engine, lambda: [ledger.tenant], hanging, patience=timedelta(milliseconds=50))
        try:
            assert sender.go()
            eventually(lambda: len(hanging.tries) == 4)
            assert not sender.go()
            assert len(hanging.tries) == 4
        finally:
            release.set()
        eventually(lambda: not sender._is_stuck())
        hanging.first = lambda message: None
        sender._patience = PATIENCE
        assert sender.go()
        assert len(set(hanging.tries)) == 8


def test_closing_waits_for_a_channel_only_so_long(sqlite_url: str) -> None:
    release = threading.Event()
    hanging = Recorder(first=lambda message: release.wait(PATIENCE) and None)
    with unattended(sqlite_url, "ops") as ledger:
        with outbox_of(ledger, hanging, closing_patience=SOON):
            ask(ledger)
            hanging.wait_for_tries(1)
        assert deliveries(ledger)[0].status == "sending"  # nobody knows; the next process sends it again
        release.set()


def test_closing_sends_what_was_just_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Outbox.__init__.__kwdefaults__, "closing_patience", timedelta(seconds=PATIENCE))
    channel = Recorder()
    for number in range(5):
        with opened(url, channel) as ledger:
            ask(ledger, number)
    assert len(channel.sent) == 5


# ── outages of the store ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets stores give a server up after a second: that they wait longer is not what these outages are about."""
    monkeypatch.setitem(PostgresStore.__init__.__kwdefaults__, "patience", timedelta(seconds=1))


@pytest.mark.usefixtures("is_impatient")
def test_an_outage_of_the_store_is_outlived_and_what_went_does_not_go_again(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    """The store goes away between sending a message and writing that down."""
    migrate(postgres_url)
    is_down = threading.Event()

    def kill(message: Message) -> None:
        if not is_down.is_set():
            postgres_server.kill()
            is_down.set()

    channel = Recorder(first=kill)
    with opened(postgres_url, channel) as ledger:
        ask(ledger)
        channel.wait_for(1)
        with pytest.raises(StoreUnavailable):
            store_time(ledger._engine.store)
        postgres_server.start()
        eventually(lambda: _when_up(lambda: [found.status for found in deliveries(ledger)] == ["sent"]))
        ask(ledger, 2)
        channel.wait_for(2)
    assert len(channel.tries) == len(set(channel.tries)) == 2


def _when_up(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except StoreUnavailable:
        return False


@pytest.mark.usefixtures("is_impatient")
def test_a_store_that_is_away_while_looking_is_looked_at_again(
    postgres_url: str, postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(postgres_url)
    channel = Recorder()
    with opened(postgres_url, channel) as ledger:
        postgres_server.stop()
        eventually(lambda: "indelible-outbox-ops: StoreUnavailable" in caplog.text)
        postgres_server.start()
        eventually(lambda: _when_up(lambda: bool(ask(ledger))))
        channel.wait_for(1)


# ── what is told, and what is not any more ───────────────────────────────────────────────────────────────────────────


def test_a_question_that_was_decided_meanwhile_is_not_asked(url: str) -> None:
    channel = Recorder()
    with unattended(url, "ops") as ledger:
        approval_id = ask(ledger)
        ledger.deny(approval_id, by="ada", reason="no")
        Outbox(ledger._engine, ledger.tenant, [channel]).go_once()
        found = {delivery.about: delivery for delivery in deliveries(ledger)}
    assert channel.abouts == ["denied"]
    assert found["requested"].status == "sent"
    assert found["requested"].receipt == {"skipped": "it was denied before this went"}


def test_an_approval_that_is_taken_back_is_asked_again(url: str) -> None:
    channel = Recorder()
    with opened(url, channel) as ledger:
        approval_id = ask(ledger)
        digest = channel.wait_for(1)[0].approval.digest
        for count in (2, 4):
            ledger.approve(approval_id, digest=digest, by="ada")
            channel.wait_for(count)
            ledger.revoke_approval(approval_id, by="ada")
            channel.wait_for(count + 1)
    assert [message.kind for message in channel.sent] == ["requested"] + ["approved", "reopened"] * 2
    assert len(set(channel.tries)) == 5


def test_a_late_approval_is_escalated_and_then_expires_and_both_are_told(url: str) -> None:
    clock = FakeClock(datetime.now(UTC))
    policy = {
        "people": {"ada": {}, "boss": {}},
        "rules": [
            {
                "name": "refunds",
                "then": "ask",
                "approvals": {
                    "people": ["ada"],
                    "notify": ["ops"],
                    "expires": "24h",
                    "escalate": [{"after": "1h", "to": ["boss"], "notify": ["pager"]}],
                },
            }
        ],
    }
    ops, pager = Recorder("ops"), Recorder("pager")
    with Ledger.open(url, clock=clock, policy=policy) as ledger:
        approval_id = ask(ledger)
        outbox = Outbox(ledger._engine, ledger.tenant, [ops, pager])
        assert outbox.go_once()
        assert (ops.abouts, pager.abouts) == (["requested"], [])
        clock.advance(timedelta(hours=1))
        assert outbox.go_once()
        assert pager.abouts == ["escalated-1"]
        assert sorted(pager.sent[0].approval.people or {}) == ["ada", "boss"]
        clock.advance(timedelta(hours=23))
        while outbox.go_once():
            continue
        approval = ledger.get_approval(approval_id)
        assert approval is not None
        assert approval.status == "expired"
    assert ops.abouts[-1] == "expired"


def test_two_who_attend_at_once_escalate_once(url: str) -> None:
    clock = FakeClock(datetime.now(UTC))
    with unattended(url, "ops", clock=clock) as ledger:
        ask(ledger)
        clock.advance(timedelta(hours=25))
        start = threading.Barrier(4)

        def attend() -> None:
            attendant = Attendant(ledger._engine, lambda: [ledger.tenant])
            start.wait()
            attendant.go()

        threads = [threading.Thread(target=attend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        types = [event.type for event in ledger.events("order-0")]
        assert types == ["approval_requested", "approval_expired"]
        assert sorted(delivery.about for delivery in deliveries(ledger)) == ["expired", "requested"]


def test_what_is_redacted_stays_redacted(url: str) -> None:
    with receiving() as receiver, opened(url, webhook(receiver.port), redact=["args.card"]) as ledger:
        ask(ledger)
        (post,) = receiver.wait_for(1)
    assert b"4242" not in post.body
    assert post.json["data"]["args"]["amount"] == 0


@pytest.mark.usefixtures("own_keys")
def test_what_is_encrypted_is_told_by_whoever_has_the_key(url: str) -> None:
    channel = Recorder()
    with opened(url, channel, encrypt=True) as ledger:
        ask(ledger)
        assert channel.wait_for(1)[0].effect.args["card"] == "4242"


def test_an_attempt_whose_sender_never_reported_is_counted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_ATTEMPTS", 1)
    clock = FakeClock(datetime.now(UTC))

    def die(sender: Sender, message: Message) -> None:
        raise SystemExit

    with unattended(url, "ops", clock=clock) as ledger:
        ask(ledger)
        sender = Sender(ledger._engine, lambda: [ledger.tenant], Recorder())
        with monkeypatch.context() as patch:
            patch.setattr(Sender, "_in_time", die)
            with pytest.raises(SystemExit):
                sender.go()
        assert deliveries(ledger)[0].status == "sending"
        clock.advance(rules.SENDING_LEASE)
        assert sender.go()
        (delivery,) = deliveries(ledger)
    assert (delivery.status, delivery.attempts) == ("dead", 1)
    assert "no sender ever said" in str(delivery.error)


def test_what_was_erased_is_not_told(url: str) -> None:
    channel = Recorder()
    with unattended(url, "ops") as ledger:
        approval_id = ask(ledger)
        ledger.deny(approval_id, by="ada", reason="no")
        ledger.erase(run_id="order-0", by="ada", reason="asked to")
        outbox = Outbox(ledger._engine, ledger.tenant, [channel])
        outbox.go_once()
        assert {(found.status, "erased" in str(found.error)) for found in deliveries(ledger)} == {("dead", True)}
    assert channel.tries == []


def test_a_secret_that_is_missing_is_a_failure_to_be_tried_again(url: str) -> None:
    channel = WebhookChannel("ops", "https://hooks.example.com/", secret="env:NO_SUCH_SECRET")
    with unattended(url, "ops") as ledger:
        ask(ledger)
        Outbox(ledger._engine, ledger.tenant, [channel]).go_once()
        (delivery,) = deliveries(ledger)
    assert delivery.status == "due"
    assert "env:NO_SUCH_SECRET is not set" in str(delivery.error)


def test_a_channels_own_timeout_is_a_failure_like_any_other(url: str) -> None:
    with unattended(url, "ops") as ledger:
        ask(ledger)
        sender = Sender(ledger._engine, lambda: [ledger.tenant], Recorder(first=failing(1, TimeoutError("x"))))
        assert sender.go()
        (delivery,) = deliveries(ledger)
        assert str(delivery.error).startswith("TimeoutError in")
        assert not sender._stuck


def test_a_receipt_that_cannot_be_kept_is_forgotten_and_the_message_is_not_sent_again(url: str) -> None:
    class Odd(Recorder):
        def send(self, message: Message) -> dict[str, Any]:
            super().send(message)
            return {"when": object()} if message.effect.args["amount"] else {"much": "x" * 5000}

    channel = Odd()
    with unattended(url, "ops") as ledger:
        ask(ledger, 0)
        ask(ledger, 1)
        Outbox(ledger._engine, ledger.tenant, [channel]).go_once()
        assert [(found.status, found.receipt) for found in deliveries(ledger)] == [("sent", {})] * 2
    assert len(channel.tries) == 2


def test_a_sender_that_took_too_long_does_not_undo_what_another_did(url: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(datetime.now(UTC))
    with unattended(url, "ops", clock=clock) as ledger:
        ask(ledger)
        quick = Sender(ledger._engine, lambda: [ledger.tenant], Recorder())

        def dawdle(message: Message) -> None:
            clock.advance(rules.SENDING_LEASE)
            assert quick.go()

        slow = Sender(ledger._engine, lambda: [ledger.tenant], Recorder(first=dawdle))
        slow.go()
        (delivery,) = deliveries(ledger)
    assert (delivery.status, delivery.attempts) == ("sent", 2)
    assert "somebody else took it over" in caplog.text


def test_an_approval_that_cannot_be_attended_is_not_tried_for_ever(url: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(datetime.now(UTC))
    with unattended(url, clock=clock) as ledger:
        approval_id = ask(ledger)
        clock.advance(timedelta(hours=25))
        engine = ledger._engine
        write, written = engine.write_alone, []

        def refuse(command: Any) -> Any:
            written.append(command)
            return Outrun(None)

        engine.write_alone = refuse  # type: ignore[assignment]
        attendant = Attendant(engine, lambda: [ledger.tenant])
        assert not attendant.go()
        assert not attendant.go()
        engine.write_alone = write  # type: ignore[method-assign]
        assert Attendant(engine, lambda: [ledger.tenant]).go()
        approval = ledger.get_approval(approval_id)
        assert approval is not None
        assert approval.status == "expired"
    assert len(written) == 1
    assert "cannot be seen to" in caplog.text


# ── hooks, and both shells ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_that_raises_is_called_again_and_no_run_hears_of_it(url: str) -> None:
    calls: list[str] = []
    called = threading.Event()

    def hook(approval: Approval, effect: Effect) -> None:
        calls.append(approval.id)
        if len(calls) == 1:
            raise RuntimeError("not now")
        called.set()

    with Ledger.open(url, on_approval_required=hook) as ledger:
        with pytest.raises(ApprovalPending):
            ledger.run(ToolCall(run_id="r", tool="t", args={}), lambda effect: None, approval="required", wait=False)
        assert called.wait(PATIENCE)
        eventually(lambda: deliveries(ledger)[0].status == "sent")
    assert len(calls) == 2


@pytest.mark.anyio
async def test_an_asynchronous_ledger_tells_by_a_coroutine(url: str) -> None:
    called: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()

    async def hook(approval: Approval, effect: Effect) -> None:
        await asyncio.sleep(0)
        called.get_loop().call_soon_threadsafe(called.set_result, approval)  # it runs in a loop of its own

    async with AsyncLedger.open(url, on_approval_required=hook) as ledger:
        call = ToolCall(run_id="r", tool="t", args={})
        waiter = asyncio.create_task(ledger.run(call, lambda effect: "ran", approval="required"))
        approval = await asyncio.wait_for(called, PATIENCE)
        await ledger.approve(approval.id, digest=approval.digest, by="ada")
        assert await waiter == "ran"


def test_a_hook_may_decide_by_itself(url: str) -> None:
    """The hook runs beside the run, so it can use the ledger."""
    ledgers: list[Ledger] = []

    def hook(approval: Approval, effect: Effect) -> None:
        ledgers[0].approve(approval.id, digest=approval.digest, by="ada")

    with Ledger.open(url, on_approval_required=hook) as ledger:
        ledgers.append(ledger)
        assert ledger.run(ToolCall(run_id="r", tool="t", args={}), lambda effect: "ran", approval="required") == "ran"


@pytest.mark.parametrize("saw_the_question", [True, False])
def test_74_a_channel_that_comes_after_the_answer_says_it(store_url: str, saw_the_question: bool) -> None:
    """So who resumes a conversation hears that it was approved, though nobody of theirs ran while it was asked."""
    migrate(store_url)
    slack, resume = Recorder("slack"), Recorder("resume")

    def told_by(channel: Recorder) -> list[str]:
        outbox = Outbox(agent._engine, agent.tenant, [channel])
        while outbox.go_once():
            continue
        return channel.abouts

    with Ledger.open(store_url) as agent:
        approval_id = ask(agent)
        assert told_by(slack) == ["requested"]
        if saw_the_question:
            assert told_by(resume) == ["requested"]
        agent.approve(approval_id, digest=slack.sent[0].approval.digest, by="alice")
        assert told_by(slack) == ["requested", "approved"]
        assert told_by(resume)[-1:] == ["approved"]
        assert told_by(resume).count("approved") == 1
