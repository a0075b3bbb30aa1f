"""Faults of servers: a restored database, a stop in the middle of a tool, heads that are no heads, and too many."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

from indelible import Actor, AsyncLedger, Ledger, Succeeded, ToolCall, migrate
from indelible.cli.doctor.command import examine
from indelible.cli.opening import Where
from indelible.core.journal.notes import parse_head, parse_note
from indelible.engine import writer
from indelible.engine.authenticating import authenticate_rows
from indelible.engine.upkeep import Upkeep
from indelible.errors import (
    BadCall,
    IllegalMove,
    Misconfigured,
    Overloaded,
    SchemaOutdated,
    Stopped,
    StoreUnavailable,
)
from indelible.server.requests.heads import StrictProtocol
from indelible.server.running import serve
from indelible.server.signin.credentials import Credentials
from indelible.stores import is_postgres, open_store
from indelible.stores.postgres import PostgresStore
from tests.journal.test_set_back import Backup
from tests.lending import lent_folder
from tests.postgres import PostgresServer
from tests.scenarios.shells import Count
from tests.server.serving import Served
from tests.server.test_stopping import Running
from tests.waiting import PATIENCE, eventually

TOOLS = """
[tools."pay"]
python = "tests.faults.test_faults_server:pay"
side_effect = "payment"
"""
SEALED = 200


def pay(folder: str, amount: int) -> str:
    """Is a tool that a server runs; it leaves a line for each time that it was entered."""
    with Path(folder, "paid").open("a") as paid:
        paid.write(f"{amount}\n")
    return f"paid {amount}"


class Office:
    """A server in front of a store, and an agent that pays through it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        migrate(url)
        store = open_store(url)
        authenticate_rows(store, None)
        self.token = str(Credentials(store, "acme").give("agents", ("agent",), by=Actor("root"))[1])
        store.close()
        self.client = httpx2.Client(
            trust_env=False, timeout=PATIENCE, headers={"Authorization": f"Bearer {self.token}"}
        )

    @contextmanager
    def open(self, *words: str, tools: str = TOOLS) -> Iterator[Running]:
        running = Running(self.url, self.folder, *words, tools=tools)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()

    def pay(self, server: Running, amount: int) -> httpx2.Response:
        body = {"args": {"folder": str(self.folder), "amount": amount}, "run_id": f"order-{amount % 8}"}
        return self.client.post(f"{server.url}/v1/tools/pay/calls", json=body)

    def ready(self, server: Running) -> tuple[int, str]:
        answer = self.client.get(f"{server.url}/readyz")
        return answer.status_code, answer.json()["record"]["status"]

    def pay_all(self, server: Running, amounts: range) -> list[httpx2.Response]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda amount: self.pay(server, amount), amounts))

    @property
    def paid(self) -> Counter[int]:
        """How often each amount was paid."""
        file = self.folder / "paid"
        return Counter(map(int, file.read_text().split())) if file.exists() else Counter()

    def wait_until_sealed(self) -> float:
        """Return how many seconds it took."""
        began = time.monotonic()
        with Ledger.open(self.url, tenant="acme", seal=False) as ledger:
            eventually(lambda: is_covered(ledger))
        return time.monotonic() - began


def is_covered(ledger: Ledger) -> bool:
    """Is everything under a signed head?"""
    journal = ledger._engine.store.journal
    newest = journal.heads(ledger.tenant, 1)
    size = parse_head(parse_note(newest[0]).text).size if newest else 0
    return journal.waiting(ledger.tenant) == 0 and journal.tree(ledger.tenant).size == size


@pytest.fixture
def office(store_url: str, tmp_path: Path) -> Iterator[Office]:
    made = Office(store_url, tmp_path)
    yield made
    made.client.close()


# 60: only a process that sealed compared, so a server over a restored database said "ready" and paid again.
def test_60_a_server_that_starts_over_a_restored_database_pays_nothing_again(office: Office) -> None:
    backup = Backup(office.url)
    backup.make()
    with office.open() as server:
        assert {answer.status_code for answer in office.pay_all(server, range(SEALED))} == {200}
        office.wait_until_sealed()
        server.stop()
        assert server.process.wait(PATIENCE) == 0
    backup.put_back()
    with office.open() as server:
        assert office.ready(server) == (503, "set back")
        answers = office.pay_all(server, range(SEALED))
    assert {(answer.status_code, answer.json()["type"]) for answer in answers} == {(409, "/problems/stopped")}
    assert office.paid == Counter(range(SEALED)), "none was entered again"
    with Ledger.open(office.url, tenant="acme", seal=False) as ledger:
        ledger.continue_journal()
    with office.open() as server:
        assert office.ready(server) == (200, "ok")
        assert office.pay(server, 1000).json()["status"] == "succeeded"


def test_60_a_server_whose_database_is_restored_under_it_pays_nothing_again(office: Office) -> None:
    backup = Backup(office.url)
    backup.make()
    with office.open() as server:
        assert {answer.status_code for answer in office.pay_all(server, range(SEALED))} == {200}
        office.wait_until_sealed()
        backup.put_back()
        answers = office.pay_all(server, range(SEALED))
        if is_postgres(office.url):
            assert {answer.status_code for answer in answers} <= {409, 503}
            assert answers[-1].json()["type"] == "/problems/stopped"
        else:  # a file that was replaced is not written any more; the old one still tells what it knows
            assert all(answer.status_code == 503 or answer.json()["replayed"] for answer in answers)
        assert office.paid == Counter(range(SEALED)), "none was entered again"
        if is_postgres(office.url):
            assert office.ready(server) == (503, "set back")
            with Ledger.open(office.url, tenant="acme", seal=False) as ledger:
                ledger.continue_journal()
            assert office.ready(server) == (200, "ok")


# A process that only has the key folder beside it, and seals nothing, compares as well.
@pytest.mark.anyio
async def test_60_a_library_process_with_the_keys_compares_on_each_new_connection(
    postgres_url: str, tmp_path: Path
) -> None:
    migrate(postgres_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": postgres_url, "keys": tmp_path / "keys", "seal": False}
    backup, handler = Backup(postgres_url), Count("paid")
    backup.make()
    with Ledger.open(**place) as ledger:
        for amount in range(5):
            ledger.run(order(amount), handler)
        ledger.seal()
        backup.put_back()
        for amount in range(5):
            with pytest.raises((Stopped, StoreUnavailable)):
                ledger.run(order(amount), handler)
        with pytest.raises(Stopped):
            ledger.run(order(5), handler)
    async with AsyncLedger.open(**place) as ledger:
        with pytest.raises(Stopped):
            await ledger.run(order(5), handler)
    assert handler.entries == 5


def test_60_a_worker_stops_a_restored_ledger_before_an_agent_without_keys_calls(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": store_url, "seal": False}
    backup, handler = Backup(store_url), Count("paid")
    backup.make()
    with Ledger.open(**place, keys=tmp_path / "keys") as ledger:
        ledger.run(order(1), handler)
        ledger.seal()
    backup.put_back()
    with Ledger.open(**place, keys=tmp_path / "keys") as ledger:
        Upkeep(ledger, lambda: [ledger.tenant], tell=lambda trouble, problem: None).go(time.monotonic())
    with (
        Ledger.open(**place, keys=lent_folder(tmp_path / "keys", tmp_path / "none")) as ledger,
        pytest.raises(Stopped, match="set back"),
    ):
        ledger.run(order(1), handler)
    assert handler.entries == 1


def order(amount: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id="orders")


# What was not sealed when the database was lost is not in the signer's memory: exactly that is entered again.
def test_60_only_what_was_not_sealed_yet_can_be_entered_again(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": False}
    backup, handler = Backup(store_url), Count("paid")
    with Ledger.open(**place) as ledger:
        for amount in range(5):
            ledger.run(order(amount), handler)
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        for amount in range(5, 8):
            ledger.run(order(amount), handler)
    backup.put_back()
    with Ledger.open(**place) as ledger:
        for amount in range(8):
            ledger.run(order(amount), handler)
    assert handler.entries == 8 + 3


def test_60_a_call_through_a_server_is_sealed_soon(office: Office) -> None:
    """The page says how many milliseconds; this is a slow machine's bound."""
    waited = []
    with office.open() as server:
        for amount in range(4):
            office.pay(server, amount)
            waited.append(office.wait_until_sealed())
    assert max(waited) < 10, waited


# 61: what could not be answered before the server stopped got a bare 500, although the tool succeeded.
def test_61_a_tool_that_outlasts_the_server_is_recorded_and_its_caller_is_told_to_ask_again(
    office: Office, tmp_path: Path
) -> None:
    path, keyed = "/v1/tools/slow.pay/calls", {"Idempotency-Key": "order-1"}

    def call(server: Running, run_id: str, headers: dict[str, str]) -> httpx2.Response:
        args = {"args": {"folder": str(tmp_path)}, "run_id": run_id}
        return office.client.post(server.url + path, json=args, headers=headers)

    with office.open(tools=SLOW) as server, ThreadPoolExecutor(2) as pool:
        plain, with_key = pool.submit(call, server, "plain", {}), pool.submit(call, server, "keyed", keyed)
        with Ledger.open(office.url, tenant="acme", seal=False) as ledger:
            eventually(lambda: len(ledger.effects(status="processing")) == 2)
        eventually((tmp_path / "entered").exists)
        server.stop()
        for cut in (plain.result(), with_key.result()):
            assert (cut.status_code, cut.json()["type"]) == (503, "/problems/outcome-unknown")
            assert int(cut.headers["retry-after"]) >= 1
        assert server.process.poll() is None, "the tools still run"
        (tmp_path / "go").touch()
        assert server.process.wait(PATIENCE) == 0
        assert "status=500" not in server.log.read_text()
    with office.open(tools=SLOW) as server:
        (tmp_path / "entered").unlink()
        for run_id, headers in (("plain", {}), ("keyed", keyed)):
            again = call(server, run_id, headers)
            assert (again.status_code, again.json()["value"]) == (200, "paid")
            assert again.headers["idempotent-replayed"] == "true"
        assert not (tmp_path / "entered").exists()


SLOW = """
[tools."slow.pay"]
python = "tests.server.test_stopping:slow_pay"
side_effect = "payment"
"""

_TRIGGER = """
CREATE SEQUENCE tries;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'the words of the server' USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON indelible_events FOR EACH ROW EXECUTE FUNCTION refuse();
"""


# 61: what a server will never do was tried again for 10 s, and then called unavailable.
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("0A000", Misconfigured),
        ("28000", Misconfigured),
        ("3D000", Misconfigured),
        ("42501", Misconfigured),
        ("42883", Misconfigured),
        ("42P01", SchemaOutdated),
        ("53400", Misconfigured),
        ("54011", Misconfigured),
        ("22001", BadCall),
        ("53100", StoreUnavailable),
    ],
)
def test_61_what_the_server_refuses_for_good_fails_at_once_in_its_words(
    postgres_url: str, code: str, kind: type[Exception]
) -> None:
    migrate(postgres_url)
    handler = Count("paid")
    with Ledger.open(postgres_url) as ledger, psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(_TRIGGER.format(code=code).encode())
        with pytest.raises(kind, match="the words of the server") as raised:
            ledger.run(order(1), handler)
        assert type(raised.value) is kind
        assert connection.execute("SELECT last_value FROM tries").fetchone() == (1,)
        connection.execute("DROP TRIGGER refuse ON indelible_events")
        assert ledger.run(order(1), handler) == "paid"
    assert handler.entries == 1


def test_61_what_may_go_away_by_itself_is_tried_again(postgres_url: str) -> None:
    migrate(postgres_url)
    for code in ("40001", "53300", "55P03"):
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(_TRIGGER.format(code=code).encode())
            store = PostgresStore(postgres_url, patience=timedelta(seconds=2))
            with Ledger.open(store=store) as ledger, pytest.raises(StoreUnavailable):
                ledger.run(order(1), Count())
            store.close()
            ((tries,),) = connection.execute("SELECT last_value FROM tries").fetchall()
            assert tries > 1, code
            connection.execute("DROP TRIGGER refuse ON indelible_events; DROP FUNCTION refuse; DROP SEQUENCE tries")


def test_61_a_statement_whose_plan_is_older_than_the_schema_is_prepared_again(postgres_url: str) -> None:
    """That has the code of what the server cannot do, 0A000, and needs a new connection."""
    migrate(postgres_url)
    handler = Count("paid")
    with Ledger.open(postgres_url) as ledger, psycopg.connect(postgres_url, autocommit=True) as connection:
        for amount in range(3):
            ledger.run(order(amount), handler)
            ledger.effects()
        connection.execute("ALTER TABLE indelible_effects ALTER COLUMN tool TYPE varchar(500)")
        for amount in range(6):
            ledger.run(order(amount), handler)
            ledger.effects()
    assert handler.entries == 6


def test_61_a_server_that_does_not_let_us_in_is_not_asked_for_ten_seconds(postgres_url: str) -> None:
    migrate(postgres_url)
    name = urlsplit(postgres_url).path[1:]
    with (
        Ledger.open(postgres_url) as ledger,
        psycopg.connect(postgres_url.replace(name, "postgres", 1), autocommit=True) as server,
    ):
        server.execute(b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'indelible'")
        server.execute(f"ALTER DATABASE {name} RENAME TO {name}_gone".encode())
        with pytest.raises(Misconfigured, match="does not exist"):
            ledger.run(order(1), Count())
        server.execute(f"ALTER DATABASE {name}_gone RENAME TO {name}".encode())
        assert ledger.run(order(1), Count("paid")) == "paid"
    with pytest.raises(Misconfigured, match="does not exist"):
        Ledger.open(postgres_url.replace(name, "no_such_database", 1))


# 62: some addresses that the library takes ended `doctor` in a traceback.
@pytest.mark.parametrize(
    "url",
    [
        None,
        ":memory:",
        "sqlite:///none.db",
        "postgresql://127.0.0.1:1,127.0.0.1:2/db",
        "postgresql://u:p%40ss@[::1]:1,[::1]:6432/db",
        "postgresql://127.0.0.1:1,127.0.0.1:2/db?pooler=transaction",
        "postgresql:///db?host=/nowhere&port=6432",
        "postgresql://%2Fnowhere/db",
        "postgresql:///?service=nowhere",
        "postgresql://127.0.0.1:notaport/db",
        "http://127.0.0.1:1",
        "https://127.0.0.1:1,https://127.0.0.1:2",
        "https://127.0.0.1:notaport",
    ],
)
def test_62_doctor_takes_every_address(url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INDELIBLE_URL", raising=False)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    checks = list(examine(Where(url=url, tenant="default", is_json=False)))
    assert all(check.fix for check in checks if check.verdict == "bad")
    assert {check.name for check in checks} & {"server", "ledger"}


def test_62_doctor_takes_several_hosts_one_of_which_answers(postgres_server: PostgresServer, postgres_url: str) -> None:
    migrate(postgres_url)
    name, port = urlsplit(postgres_url).path[1:], postgres_server.port
    several = f"postgresql://127.0.0.1:1,127.0.0.1:{port}/{name}?{urlsplit(postgres_url).query}"
    user = urlsplit(postgres_url).username
    checks = list(examine(Where(url=f"{several}&user={user}", tenant="default", is_json=False)))
    assert "ok" in {check.verdict for check in checks if check.name == "schema"}, checks


# 62: after a set-back, `doctor` suggested `indelible go`, which is refused.
def test_62_doctor_suggests_what_ends_a_stop(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    place = Where(url=store_url, tenant="default", is_json=False)
    backup = Backup(store_url)
    backup.make()
    with Ledger.open(store_url, seal=True) as ledger:
        ledger.run(order(1), Count())
    backup.put_back()
    with Ledger.open(store_url) as ledger, pytest.raises(Stopped, match="journal continue"):
        ledger.run(order(1), Count())
    (fix,) = [check.fix for check in examine(place) if check.name == "stop"]
    assert fix is not None
    assert "journal continue" in fix
    with Ledger.open(store_url) as ledger:
        with pytest.raises(IllegalMove):
            ledger.go(by="ana", reason="as it was")
        ledger.continue_journal()
        ledger.stop(by="ana", reason="wrong prices")
    (fix,) = [check.fix for check in examine(place) if check.name == "stop"]
    assert fix is not None
    assert fix.startswith("indelible go")


# 81: a header that every client can send named the address that strangers are counted by.
def test_81_strangers_are_counted_by_their_connection(sqlite_url: str, tmp_path: Path) -> None:
    office = Office(sqlite_url, tmp_path)
    office.client.close()

    def knock(server: Running) -> Counter[int]:
        with httpx2.Client(trust_env=False, base_url=server.url, timeout=PATIENCE) as client:
            forwarded = ({"X-Forwarded-For": f"10.0.0.{number}"} for number in range(120))
            return Counter(client.get("/v1/me", headers=header).status_code for header in forwarded)

    with office.open() as server:
        assert knock(server)[429] > 0
    with office.open("--trusted-proxy", "127.0.0.1") as server:
        assert knock(server) == {401: 120}


def test_81_nobody_can_trust_everybody(sqlite_url: str) -> None:
    for proxy in ("*", "localhost", "", "10.0.0.0/33"):
        with pytest.raises(Misconfigured, match="--trusted-proxy"):
            serve(sqlite_url, trusted_proxies=[proxy])


_GOOD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


# 81: a proxy that reads bare LF or folded lines in another way can be made to see another request than we do.
@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\nHost: localhost\n\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\nX-One: 1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\n",
        b"GET /livez HTTP/1.1\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-One: 1\r\n 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-One: 1\r\n\t2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-One: 1\rX-Two: 2\r\n\r\n",
    ],
)
@pytest.mark.parametrize("how", ["whole", "in bytes", "after another"])
def test_81_a_head_that_could_be_read_in_two_ways_is_refused(head: bytes, how: str, strict: Served) -> None:
    before = _GOOD.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\nok") if how == "after another" else b""
    pieces = [bytes([byte]) for byte in head] if how == "in bytes" else [before + head]
    # Whoever goes on sending after the refusal may be cut off before it arrives.
    expected = [[200, 400]] if before else [[400], []] if how == "in bytes" else [[400]]
    assert _statuses(strict, pieces) in expected


def test_81_a_head_that_comes_in_bytes_is_read(strict: Served) -> None:
    assert _statuses(strict, [bytes([byte]) for byte in _GOOD], then=_GOOD) == [200, 200]


def _statuses(served: Served, pieces: list[bytes], then: bytes = b"") -> list[int]:
    """Sends these, and gives the statuses of all answers until the server hangs up or says no more."""
    address = urlsplit(served.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=PATIENCE) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            try:
                line.sendall(piece)
            except OSError:
                break  # it was refused already
        if then:
            line.sendall(then)
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_WR)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while part := line.recv(65536):
                heard += part
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d\d\d)", heard)]


@pytest.fixture(scope="module")
def strict() -> Iterator[Served]:
    served = Served(_answering, http=StrictProtocol)
    yield served
    served.stop()


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    """Answers every request, when its body has come."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


# Overload has a promise: a bound, a deadline, a clear refusal, and nothing half done.
def test_overload_of_a_server_is_refused_at_once_and_leaves_nothing_behind(office: Office, tmp_path: Path) -> None:
    most, asked = 4, 12

    def call(server: Running, number: int) -> httpx2.Response:
        args = {"args": {"folder": str(tmp_path)}, "run_id": f"order-{number}"}
        return office.client.post(f"{server.url}/v1/tools/slow.pay/calls", json=args)

    with office.open("--in-flight", str(most), tools=SLOW) as server, ThreadPoolExecutor(asked) as pool:
        answers = [pool.submit(call, server, number) for number in range(asked)]
        eventually(lambda: sum(answer.done() for answer in answers) == asked - most)
        refused = [answer.result() for answer in answers if answer.done()]
        (tmp_path / "go").touch()
        assert sorted(answer.result().status_code for answer in answers) == [200] * most + [429] * (asked - most)
        for answer in refused:
            assert answer.json()["type"] == "/problems/asked-too-often"
            assert int(answer.headers["retry-after"]) >= 1
        with Ledger.open(office.url, tenant="acme", seal=False) as ledger:
            assert [effect.status for effect in ledger.effects()] == ["succeeded"] * most
        again = [call(server, number) for number in range(asked)]
        assert Counter(answer.json()["replayed"] for answer in again) == {True: most, False: asked - most}


def test_overload_by_connections_is_refused_and_goes_away() -> None:
    class Few(StrictProtocol):
        most_connections = 3

    served = Served(_answering, http=Few)
    url = served.url.replace("https", "http")  # it takes words of uvicorn's for those of TLS
    address = urlsplit(url)
    try:
        place = (str(address.hostname), int(address.port or 0))
        held = [socket.create_connection(place, timeout=PATIENCE) for _ in range(Few.most_connections)]
        for line in held:
            line.sendall(_GOOD)
            assert b" 200 " in line.recv(65536)
        answer = httpx2.get(url, trust_env=False)
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/overloaded")
        assert answer.headers["retry-after"] == "1"
        for line in held:
            line.close()
        eventually(lambda: httpx2.get(url, trust_env=False).status_code == 200)
    finally:
        served.stop()


def test_overload_of_a_library_process_is_refused_and_what_is_under_way_is_written(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, asked = 4, 10
    monkeypatch.setattr(writer, "MOST_WAITING", most)
    migrate(store_url)
    handler, go_on = Count("paid"), threading.Event()
    with Ledger.open(store_url) as ledger, ThreadPoolExecutor(asked) as pool:
        store = ledger._engine.store
        running = ledger.begin(order(100))
        apply = store.apply
        monkeypatch.setattr(store, "apply", lambda *words: (go_on.wait(PATIENCE), apply(*words))[1])
        calls = [pool.submit(ledger.run, order(number), handler) for number in range(asked)]
        eventually(lambda: sum(call.done() for call in calls) == asked - most - 1)  # one is being written
        refused = [call.exception() for call in calls if call.done()]
        assert {type(error) for error in refused} == {Overloaded}
        finished = pool.submit(ledger.commit, running.claim, Succeeded("paid"))
        go_on.set()
        finished.result()
        assert sum(call.exception() is None for call in calls) == most + 1
        assert handler.entries == most + 1
        for number in range(asked):
            ledger.run(order(number), handler)
        assert handler.entries == asked
        assert ledger.effects(status="processing") == []


@pytest.mark.anyio
async def test_overload_ends_the_wait_for_a_turn(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(store_url)
    handler, go_on, is_writing = Count("paid"), threading.Event(), threading.Event()
    async with AsyncLedger.open(store_url) as ledger:
        store = ledger._engine.store
        apply = store.apply
        monkeypatch.setattr(store, "apply", lambda *words: (is_writing.set(), go_on.wait(PATIENCE), apply(*words))[-1])
        first = asyncio.create_task(ledger.run(order(0), handler))
        await asyncio.to_thread(eventually, is_writing.is_set)
        monkeypatch.setattr(writer, "LONGEST_WAIT", 0.05)  # only now: the first one may have to wait for its turn too
        late = [asyncio.create_task(ledger.run(order(number), handler)) for number in range(1, 4)]
        await asyncio.sleep(0.2)
        go_on.set()
        assert await first == "paid"
        assert {type(error) for error in await asyncio.gather(*late, return_exceptions=True)} == {Overloaded}
        assert handler.entries == 1
        assert await ledger.run(order(1), handler) == "paid"
