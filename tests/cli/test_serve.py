"""`indelible apikeys` and `indelible serve`: a token, a real server process, and a client that needs no other code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible import Ledger, ToolCall
from indelible.errors import NotAuthenticated
from tests.cli.conftest import Cli
from tests.waiting import PATIENCE, free_port


@contextmanager
def serving(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    port = free_port()
    command = [sys.executable, "-m", "indelible.cli", "serve", "--port", str(port), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_it_answers(url, process)
        yield url, process
    finally:
        process.kill()
        process.communicate()


def wait_until_it_answers(url: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            httpx2.get(f"{url}/livez", trust_env=False)
            return
        except httpx2.TransportError:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.02)  # another process: there is no event to wait for


def ask_until_refused(url: str, token: str) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        Ledger.open(url, token=token).close()


def test_a_token_is_shown_once_and_lets_its_agent_in_until_it_is_revoked(ledger_url: str, cli: Cli) -> None:
    made = cli("apikeys", "create", "billing", "--scope", "agent", "--principal", "ana", "--json").json
    token, key = made["token"], made["apikey"]
    assert (key["name"], key["kind"], key["scopes"], key["principal"]) == ("billing", "agent", ["agent"], "ana")
    assert token.rpartition(".")[2] not in cli("apikeys", "list", "--json").out
    listed = cli("apikeys", "list").out
    assert key["id"] in listed
    assert "until revoked" in listed
    with serving() as (url, process):
        with Ledger.open(url, token=token) as ledger:
            call = ToolCall(tool="charge", args={"amount": 5}, run_id="order-1")
            assert ledger.run(call, lambda effect: {"paid": effect.args["amount"]}) == {"paid": 5}
        # The same call at the database itself gets the recorded value: there is one ledger.
        with Ledger.open(ledger_url) as beside:
            assert beside.run(call, lambda effect: 1 / 0) == {"paid": 5}
        assert "no longer let in" in cli("apikeys", "revoke", key["id"]).out
        with pytest.raises(NotAuthenticated):
            ask_until_refused(url, token)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Serving" in said
    assert "Traceback" not in said
    assert "revoked" in cli("apikeys", "list").out


def test_what_would_be_unsafe_is_refused_before_anything_is_opened(ledger_url: str, cli: Cli) -> None:
    assert "--behind-tls" in cli("serve", "--host", "0.0.0.0", "--port", "0", code=2).err
    assert "only this machine" in cli("serve", "--metrics-open", "--behind-tls", "--port", "0", code=2).err
    assert "give a span such as" in cli("serve", "--retain", "soon", "--port", "0", code=2).err
    assert "stay apart" in cli("apikeys", "create", "x", "--scope", "agent", "--scope", "approver", code=2).err
    assert "that is past" in cli("apikeys", "create", "x", "--scope", "agent", "--expires", "2001-01-01", code=2).err
    assert "apikeys list" in cli("apikeys", "revoke", "key_nobody", code=2).err
    assert "Make one" in cli("apikeys", "list").out


def test_a_person_gets_a_token_with_an_end(ledger_url: str, cli: Cli) -> None:
    said = cli("apikeys", "create", "ana", "--scope", "approver", "--expires", "90d").out
    assert "for ana (person), scope approver, until" in said
    assert "not shown again" in said


def check_what_there_is_to_try(base: str, tokens: dict[str, str]) -> None:
    """What the page offers: a call that is answered from the record, and a command whose change is found."""
    to_try = asked(base, "/v1/me", tokens["AGENT"])["demo"]
    headers = {"Authorization": f"Bearer {tokens['AGENT']}"}
    again = httpx2.post(f"{base}/v1/effects", json=to_try["repeat"], headers=headers, trust_env=False)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    verdicts = []
    for _ in range(2):
        report = httpx2.post(f"{base}/v1/runs/order-200/verify", headers=headers, trust_env=False).json()
        verdicts.append(report["is_valid"])
        subprocess.run(to_try["tamper"], shell=True, check=True)
    assert verdicts == [True, False]


def test_a_demo_has_a_story_tokens_for_everybody_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "INDELIBLE_KEYS": str(tmp_path / "not used")}
    command = [sys.executable, "-m", "indelible.cli", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as demo:
        try:
            assert demo.stdout is not None
            said = ""
            while "/docs" not in said:
                line = demo.stdout.readline()
                assert line, demo.stderr.read() if demo.stderr else ""
                said += line
            base = re.findall(r"Serving a demo at (\S+);", said)[0]
            tokens = dict(re.findall(r"export (\w+)=(\S+)", said))
            assert set(tokens) == {"AGENT", "APPROVER", "AUDITOR", "ADMIN"}
            wait_until_it_answers(base, demo)
            in_doubt = asked(base, "/v1/effects?status=in_doubt", tokens["AUDITOR"])["effects"]
            assert [effect["run_id"] for effect in in_doubt] == ["order-123"]
            assert asked(base, "/v1/runs/order-200", tokens["AUDITOR"])["status"] == "completed"
            assert asked(base, "/v1/journal/head", tokens["AUDITOR"])["size"] >= 15
            body, address = re.findall(r"'(\{.*\})' (\S+/decisions)", said)[0]
            headers = {"Authorization": f"Bearer {tokens['APPROVER']}", "Content-Type": "application/json"}
            decided = httpx2.post(address, content=body, headers=headers, trust_env=False)
            assert (decided.status_code, decided.json()["approval"]["status"]) == (201, "approved")
            check_what_there_is_to_try(base, tokens)
            demo.send_signal(signal.SIGTERM)
            assert demo.wait(PATIENCE) == 0
        finally:
            demo.kill()
        assert demo.stderr is not None
        assert "Traceback" not in demo.stderr.read()
    assert list(tmp_path.iterdir()) == []


def asked(base: str, path: str, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.get(base + path, headers=headers, trust_env=False).raise_for_status().json()
