"""The server's worker: of several servers one goes the rounds, the next one follows it, and trouble shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from indelible import Actor, Ledger, ToolCall, migrate
from indelible.core.commands import Keep
from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.identity import Ref
from indelible.core.leases import LEASES_TENANT, lease_filter, read_lease
from indelible.core.remote.replies import KEPT_FOR, Reply, reply_sheet
from indelible.core.sheets import SheetFilter
from indelible.engine.authenticating import authenticate_rows
from indelible.engine.upkeep import Upkeep
from indelible.errors import StoreUnavailable
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.worker import Rounds, Worker
from indelible.stores import open_store
from tests.cli.test_serve import wait_until_it_answers
from tests.lending import lent_folder
from tests.notify.receivers import receiving
from tests.server.serving import Served
from tests.waiting import PATIENCE, eventually, free_port

SHORT = timedelta(seconds=1)
SECRET = "whsec_" + "MTIz" * 10


@contextmanager
def server(url: str, keys: Path, lease: timedelta = SHORT) -> Iterator[Ledgers]:
    """The part of a server that does the work, without its sockets."""
    ledgers = Ledgers(open_store(url), seal=False, keys=keys)
    ledgers.worker = Worker(ledgers, Rounds(lease=lease), keys=keys)
    ledgers.worker.start()
    try:
        yield ledgers
    finally:
        ledgers.worker.close()
        ledgers.store.close()


def role(ledgers: Ledgers) -> str:
    assert ledgers.worker is not None
    return ledgers.worker.state.role


def charge(ledger: Ledger, number: int, **words: object) -> None:
    ledger.run(ToolCall(tool="charge", args={"n": number}, run_id="r"), lambda effect: number, **words)  # type: ignore[arg-type]


def test_one_of_two_servers_goes_the_rounds_and_the_other_follows_it(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.engine.upkeep.LOOK_FOR_TENANTS_EVERY", 0.1)
    migrate(store_url, keys=tmp_path / "keys")
    with ExitStack() as stack:
        long = timedelta(seconds=PATIENCE)  # however slow the first one is, the second one waits until it is told
        first = stack.enter_context(server(store_url, tmp_path / "keys", lease=long))
        eventually(lambda: role(first) == "leading")
        second = stack.enter_context(server(store_url, tmp_path / "keys"))
        assert second.worker is not None
        eventually(lambda: second.worker is not None and second.worker.state.is_done)
        assert role(second) == "standing by"
        with Ledger.open(store_url, tenant="acme", keys=tmp_path / "keys", seal=False) as ledger:
            charge(ledger, 1)
            eventually(lambda: (head := ledger.tree_head()) is not None and head.size == 3)
            assert first.worker is not None
            first.worker.close()
            eventually(lambda: role(second) == "leading")
            charge(ledger, 2)
            eventually(lambda: (head := ledger.tree_head()) is not None and head.size == 5)
        (sheet,) = second.store.sheets(LEASES_TENANT, lease_filter("worker"))
        assert read_lease(sheet).holder == second.store.writer_id
        assert "indelible:leases" not in second.store.journal.tenants()


def test_a_server_without_the_key_leaves_the_work_to_one_that_has_it(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=True) as ledger:
        charge(ledger, 1)
        ledger.seal()
        with server(store_url, lent_folder(tmp_path / "keys", tmp_path / "no keys")) as poor:
            eventually(lambda: poor.worker is not None and poor.worker.state.problems > 0)
            with server(store_url, tmp_path / "keys") as rich:
                eventually(lambda: role(rich) == "leading")
        assert not list((tmp_path / "no keys").rglob("*.pem"))


def test_trouble_of_the_worker_shows_and_takes_nothing_down(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(sqlite_url, keys=tmp_path / "keys")
    with server(sqlite_url, tmp_path / "keys") as ledgers:
        eventually(lambda: role(ledgers) == "leading")

        def broken(self: Upkeep, now: float) -> None:
            raise RuntimeError("a fault of ours with a secret in it")

        monkeypatch.setattr(Upkeep, "go", broken)
        served = Served(create_app(ledgers, Identity(ledgers.store)))
        try:
            eventually(lambda: httpx2.get(f"{served.url}/readyz").json()["worker"]["problems"] == 1)
            answer = httpx2.get(f"{served.url}/readyz")
            assert answer.status_code == 200
            assert "secret" not in answer.text
            monkeypatch.undo()
            eventually(lambda: httpx2.get(f"{served.url}/readyz").json()["worker"]["problems"] == 0)
        finally:
            served.stop()


def test_a_store_that_is_away_costs_the_lease_and_nothing_else(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(sqlite_url, keys=tmp_path / "keys")
    with server(sqlite_url, tmp_path / "keys", lease=timedelta(seconds=0.5)) as ledgers:
        eventually(lambda: role(ledgers) == "leading")

        def away(*words: object) -> None:
            raise StoreUnavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(ledgers.store, "sheets", away)
            eventually(lambda: role(ledgers) == "standing by")
        eventually(lambda: role(ledgers) == "leading")


def test_an_effect_whose_worker_never_reported_is_called_in_doubt_and_old_replies_go(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round, by a clock that is ahead: what is decided is decided by the store's time."""
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        short = {"lease": timedelta(microseconds=1)}
        held = ledger.begin(ToolCall(tool="pay", run_id="r"), side_effect="payment", **short)  # type: ignore[arg-type]
        free = ledger.begin(ToolCall(tool="look", run_id="r"), side_effect="read", **short)  # type: ignore[arg-type]
        store = ledger._engine.recorded
        now = store.look([Ref("default", "", "")]).now
        for number, age in enumerate((KEPT_FOR, timedelta(0))):
            reply = Reply(id=f"rep_{number}", request="r", begun_at=now - age)
            stamp = ledger._engine.mint.stamp(SYSTEM, 0)
            ledger._engine.write_alone(Keep(tenant="default", stamp=stamp, sheet=reply_sheet(reply)))
        troubles: list[object] = []
        upkeep = Upkeep(ledger, lambda: ["default"], tell=lambda trouble, problem: troubles.append(problem))
        upkeep.go(time.monotonic())
        assert ledger.effects(status="in_doubt") == []  # its lease is over, but it may still report
        assert [sheet.id for sheet in store.sheets("default", SheetFilter(kind="reply"))] == ["rep_1"]
        monkeypatch.setattr("indelible.engine.upkeep.GRACE", timedelta(0))
        upkeep.go(time.monotonic() + 3600)
        assert [effect.id for effect in ledger.effects(status="in_doubt")] == [held.claim.effect.id]  # type: ignore[union-attr]
        assert [effect.id for effect in ledger.effects(status="processing")] == [free.claim.effect.id]  # type: ignore[union-attr]
        assert troubles == []


def test_payloads_are_erased_when_they_are_older_than_they_are_kept(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, tenant="acme", keys=tmp_path / "keys", seal=False) as ledger:
        charge(ledger, 1)
        kept = Upkeep(ledger, lambda: ["acme"], tell=_fail, retain=timedelta(days=1))
        kept.go(time.monotonic())
        assert not ledger.effects()[0].is_detail_erased
        gone = Upkeep(ledger, lambda: ["acme"], tell=_fail, retain=timedelta(microseconds=1))
        gone.go(time.monotonic())
        assert ledger.effects()[0].is_detail_erased
        assert "payload_erased" in {event.type for event in ledger.events("r")}


def _fail(trouble: object, problem: object) -> None:
    raise AssertionError((trouble, problem))


@contextmanager
def processes(url: str, channels: Path, count: int) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Real servers, by their addresses."""
    environment = {**os.environ, "HOOK_SECRET": SECRET}
    command = [sys.executable, "-m", "indelible.cli", "serve", "--url", url, "--worker-lease", "2"]
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for _ in range(count):
            port = free_port()
            words = [*command, "--channels", str(channels), "--port", str(port)]
            running[f"http://127.0.0.1:{port}"] = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=environment
            )
        for address, each in running.items():
            wait_until_it_answers(address, each)
        yield running
    finally:
        for each in running.values():
            each.kill()
            each.wait()


def work_of(url: str) -> str:
    return str(httpx2.get(f"{url}/readyz", trust_env=False).json()["worker"]["status"])


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_when_the_server_that_works_is_killed_the_other_one_goes_on(store_url: str, tmp_path: Path) -> None:
    migrate(store_url)
    store = open_store(store_url)
    authenticate_rows(store, None)
    token = str(Credentials(store, "acme").give("agents", ("agent",), by=Actor("root"))[1])
    store.close()
    channels = tmp_path / "channels.json"
    with receiving() as receiver:
        hook = {"kind": "webhook", "url": f"http://127.0.0.1:{receiver.port}/", "secret": "env:HOOK_SECRET"}
        hook |= {"http": True, "allow": ["127.0.0.1/32"], "ports": [receiver.port]}
        channels.write_text(json.dumps({"channels": {"ops": hook}}))
        with processes(store_url, channels, 2) as servers:
            eventually(lambda: sorted(work_of(url) for url in servers) == ["leading", "standing by"])
            leading, other = sorted(servers, key=work_of)
            asked = []
            with Ledger.open(other, token=token) as ledger:
                for number in range(4):
                    if number == 2:
                        eventually(lambda: len(receiver.posts) >= 2)
                        servers[leading].kill()
                    call = ToolCall(tool="pay", args={"n": number}, run_id=f"r-{number}")
                    begun = ledger.begin(call, approval="required")
                    asked.append(begun.approval.id)  # type: ignore[union-attr]
                eventually(lambda: work_of(other) == "leading")
                eventually(lambda: {post.json["data"]["approval"] for post in receiver.posts} >= set(asked))
                size = 2 + len(asked)  # the token, the key, and each question
                eventually(lambda: (head := ledger.tree_head()) is not None and head.size >= size)
    told = Counter(post.headers["webhook-id"] for post in receiver.posts)
    assert {name.partition(":")[0] for name in told} == set(asked)
    # Killed between sending and writing that down, a message goes out again with the same id; no other does.
    assert sum(told.values()) <= len(asked) + 1
