"""A server that is told to stop: it says so first, finishes what is under way, answers who waits, and ends with 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible import Actor, Ledger, ToolCall, migrate
from indelible.engine.authenticating import authenticate_rows
from indelible.errors import ApprovalPending, ResultNotRecorded, StoreError
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from indelible.stores.reach import Reach
from tests.cli.test_serve import wait_until_it_answers
from tests.waiting import PATIENCE, eventually, free_port

BRIEF = Reach(patience=timedelta(seconds=2))
TOOLS = """
[tools."slow.pay"]
python = "tests.server.test_stopping:slow_pay"
side_effect = "payment"
[tools."asked.pay"]
python = "tests.server.test_stopping:slow_pay"
side_effect = "payment"
approval = "required"
"""


def slow_pay(folder: str) -> str:
    """Is a tool that a server runs: it says that it was entered, and pays when the server was told to stop."""
    Path(folder, "entered").touch()
    eventually(Path(folder, "go").exists)
    return "paid"


class Running:
    """A real server process."""

    def __init__(self, store_url: str, folder: Path, *words: str, tools: str = TOOLS) -> None:
        (folder / "tools.toml").write_text(tools)
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "indelible.cli", "serve", "--url", store_url, "--port", self.url[17:]]
        command += ["--tools", str(folder / "tools.toml"), "--log-level", "info", *words]
        found = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, text=True, env=environment)
        try:
            wait_until_it_answers(self.url, self.process)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def ask(self, method: str, path: str, token: str, **words: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.request(method, self.url + path, headers=headers, trust_env=False, timeout=60, **words)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@pytest.fixture
def place(sqlite_url: str, tmp_path: Path) -> Iterator[tuple[Running, str]]:
    migrate(sqlite_url)
    store = open_store(sqlite_url)
    authenticate_rows(store, None)
    token = str(Credentials(store, "acme").give("agents", ("agent",), by=Actor("root"))[1])
    store.close()
    running = Running(sqlite_url, tmp_path, "--drain", "6")
    yield running, token
    running.process.kill()
    running.process.wait()


def test_what_is_under_way_is_finished_and_who_waits_is_answered(
    place: tuple[Running, str], sqlite_url: str, tmp_path: Path
) -> None:
    server, token = place
    is_over, lock, told = threading.Event(), threading.Lock(), []

    def work(number: int) -> int:
        """Makes calls until the server is gone; every value that was given is noted."""
        made = 0
        with Ledger.open(server.url, token=token, reach=BRIEF) as ledger:
            while not is_over.is_set():
                call = ToolCall(tool="charge", args={"n": number, "made": made}, run_id=f"r-{number}")
                try:
                    value = ledger.run(call, lambda effect: effect.id)
                except (StoreError, ResultNotRecorded):
                    return made  # gone; what it was doing is in the ledger, and is looked at below
                with lock:
                    told.append((call, value))
                made += 1
        return made

    def stream() -> str:
        with httpx2.stream(
            "GET", f"{server.url}/v1/events/stream", headers={"Authorization": f"Bearer {token}"}, trust_env=False
        ) as answer:
            started.set()
            return "".join(answer.iter_text())  # raises if it is cut in the middle

    started = threading.Event()
    asked = server.ask("POST", "/v1/effects", token, json={"tool": "pay", "run_id": "w", "approval": "required"}).json()
    with ThreadPoolExecutor(9) as pool:
        calls = [pool.submit(work, number) for number in range(4)]
        waiting = pool.submit(server.ask, "GET", f"/v1/effects/{asked['effect']['id']}?wait=60", token)
        streaming = pool.submit(stream)
        args = {"args": {"folder": str(tmp_path)}, "run_id": "order-1", "wait_s": 60}
        running = pool.submit(server.ask, "POST", "/v1/tools/slow.pay/calls", token, json=args)
        pending = pool.submit(server.ask, "POST", "/v1/tools/asked.pay/calls", token, json=args)
        polling = pool.submit(_poll, server.url, token)
        assert started.wait(PATIENCE)
        eventually((tmp_path / "entered").exists)
        eventually(lambda: len(told) > 20)
        server.stop()
        eventually(lambda: _is_stopping(server.url))
        assert server.ask("GET", "/v1/me", token).status_code == 200  # readiness first: it still answers
        assert not streaming.done()
        (tmp_path / "go").touch()
        came = running.result().json()
        assert (came["status"], came["value"], came["error"]) == ("succeeded", "paid", None)
        assert (pending.result().status_code, pending.result().json()["status"]) == (202, "requires_approval")
        assert (waiting.result().status_code, waiting.result().json()["effect"]["status"]) == (200, "requires_approval")
        assert "data:" in streaming.result()
        assert isinstance(polling.result(), ApprovalPending | StoreError)
        assert server.process.wait(PATIENCE) == 0
        is_over.set()
        assert sum(call.result() for call in calls) == len(told)
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "status=500" not in log
    with Ledger.open(sqlite_url, tenant="acme") as ledger:
        for call, value in told:
            assert ledger.run(call, lambda effect: "entered again") == value


def _is_stopping(url: str) -> bool:
    answer = httpx2.get(f"{url}/readyz", trust_env=False)
    return (answer.status_code, answer.json()["status"]) == (503, "stopping")


def _poll(url: str, token: str) -> Exception | None:
    """Waits for a person through the Python client, which polls the store's own endpoint."""
    try:
        with Ledger.open(url, token=token, reach=BRIEF) as ledger:
            ledger.run(ToolCall(tool="pay", run_id="p"), lambda effect: 1, approval="required", wait=3)
    except (ApprovalPending, StoreError) as problem:
        return problem
    return None
