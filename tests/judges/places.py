"""Brings the judges here: pinned packages, fetched by name, into a folder that no commit sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.judges.judging import KINDS, ONE_SIGNATURE, Judge, program

HERE = Path(__file__).resolve().parents[2] / "build" / "judges"
SUMDB = Path("src", "cmd", "vendor", "golang.org", "x", "mod", "sumdb")


class Unreachable(Exception):
    """A judge cannot be had here; the message says what is missing."""


def go_judge() -> Judge:
    """Builds the judge in Go, offline, against a copy of what Go's own toolchain uses."""
    root = Path(_python_packages(), "go")
    work, built = HERE / "go", HERE / "go" / "judge"
    for package in ("note", "tlog"):
        shutil.copytree(root / SUMDB / package, work / package, dirs_exist_ok=True)
    shutil.copy(program("judge.go"), work / "main.go")
    (work / "go.mod").write_text("module judge\n\ngo 1.24\n", encoding="utf-8")
    settings = {
        "GOROOT": root, "GOCACHE": HERE / "go-cache", "GOPATH": HERE / "go-path", "GOPROXY": "off", "GOENV": "off",
        "GOTOOLCHAIN": "local", "GOTELEMETRY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0",
    }  # fmt: skip
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    _run([str(root / "bin" / "go"), "build", "-o", str(built), "."], cwd=work, env=environment)
    return Judge("Go sumdb/note, tlog", KINDS, (str(built),))


def sigstore_judge() -> Judge:
    """Readies sigstore-python, in an environment of its own."""
    _python_packages()
    return Judge("sigstore-python", ONE_SIGNATURE, (str(_python()), str(program("sigstore_judge.py"))))


def npm_judge() -> Judge:
    """Readies @sigstore/verify."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unreachable("node and npm are needed for @sigstore/verify: install Node.js 20.17 or newer")
    work = HERE / "npm"
    pins = ["package.json", "package-lock.json"]
    if not _is_made_from(work / "made-from", pins):
        work.mkdir(parents=True, exist_ok=True)
        for name in pins:
            shutil.copy(program(name), work / name)
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=work)
        _remember(work / "made-from", pins)
    return Judge("npm @sigstore/verify", ONE_SIGNATURE, (node, str(program("verify_judge.cjs")), str(work)))


JUDGES = {"go": go_judge, "sigstore": sigstore_judge, "npm": npm_judge}


def _python() -> Path:
    return HERE / "python" / "bin" / "python"


def _python_packages() -> str:
    """Installs what is pinned, once, and says where it is."""
    pins = ["requirements.lock"]
    if not _is_made_from(HERE / "python" / "made-from", pins):
        HERE.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(HERE / "python")])
        _run([str(_python()), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(program(pins[0]))])
        _remember(HERE / "python" / "made-from", pins)
    asked = [str(_python()), "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _is_made_from(stamp: Path, pins: list[str]) -> bool:
    return stamp.exists() and stamp.read_bytes() == b"".join(program(name).read_bytes() for name in pins)


def _remember(stamp: Path, pins: list[str]) -> None:
    stamp.write_bytes(b"".join(program(name).read_bytes() for name in pins))


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Unreachable(f"{' '.join(command[:4])} … failed:\n{done.stdout[-2000:]}")
