"""What the server adds: pairs of begin and commit over HTTP, beside a POST that does nothing, in turns."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.crew import ROOT
from benchmarks.figures import figure_of
from benchmarks.scenarios import Pace, Results, say
from benchmarks.servers import Stores
from indelible import migrate

CONNECTIONS = 64
_NOOP = """
from fastapi import FastAPI
app = FastAPI()
@app.post("/noop")
async def noop(body: dict) -> dict:
    return {}
"""


def measure(stores: Stores, pace: Pace, results: Results) -> None:
    """Loads one server process with many connections; each round a POST that does nothing, then the pairs."""
    say(f"serving: {CONNECTIONS} connections, one server process on PostgreSQL")
    url = stores.postgres("serving")
    token = _token(url)
    taken: dict[str, list[dict[str, float]]] = {"noop": [], "pair": []}
    with _noop_server(stores.directory) as noop, _our_server(url) as ours:
        for _ in range(pace.rounds):
            for kind, (port, process) in (("noop", noop), ("pair", ours)):
                taken[kind].append(_round(kind, port, process, token, max(2.0, pace.seconds)))
    for what, unit in (("per_second", "/s"), ("processor_us", "us each"), ("p50", "ms"), ("p99", "ms")):
        factor = 1000 if unit == "ms" else 1
        results.figures[f"http_{what}"] = {
            {"noop": "noop_post", "pair": "indelible_pair"}[kind]: figure_of(
                [one[what] * factor for one in rounds], unit
            )
            for kind, rounds in taken.items()
        }


def _round(kind: str, port: int, process: subprocess.Popen[bytes], token: str, seconds: float) -> dict[str, float]:
    before = _processor_seconds(process.pid)
    words = [kind, "127.0.0.1", str(port), token, str(CONNECTIONS), str(seconds)]
    command = [sys.executable, "-m", "benchmarks.http_load", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    told: dict[str, float] = json.loads(done.stdout)
    spent = _processor_seconds(process.pid) - before
    return {**told, "processor_us": 1e6 * spent / (told["per_second"] * seconds)}


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _token(url: str) -> str:
    """Makes the ledger, and a token for it."""
    migrate(url)
    words = ["apikeys", "create", "load", "--scope", "agent", "--url", url, "--json"]
    done = subprocess.run([sys.executable, "-m", "indelible.cli", *words], check=True, capture_output=True)
    token: str = json.loads(done.stdout)["token"]
    return token


@contextlib.contextmanager
def _our_server(url: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = _free_port()
    words = ["serve", "--url", url, "--port", str(port), "--rate", "0"]  # all of the load is one credential's
    with _process([sys.executable, "-m", "indelible.cli", *words], port) as process:
        yield port, process


@contextlib.contextmanager
def _noop_server(where: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = _free_port()
    (where / "noop_app.py").write_text(_NOOP)
    words = ["noop_app:app", "--app-dir", str(where), "--port", str(port), "--log-level", "warning"]
    with _process([sys.executable, "-m", "uvicorn", *words], port) as process:
        yield port, process


@contextlib.contextmanager
def _process(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        _await_port(port, process)
        yield process
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on {port}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
