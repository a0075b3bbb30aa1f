"""What having the library costs: the time of its import, and the size of its core with all it needs on disk."""

from __future__ import annotations

import compileall
import importlib.metadata
import importlib.util
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from benchmarks.crew import ROOT
from benchmarks.figures import Figure, figure_of
from benchmarks.scenarios import Pace, Results, excuse, say

IMPORTS = {"indelible": "indelible", "agent_ledger": "agent_ledger.stores.postgres", "dbos": "dbos"}


def measure(pace: Pace, results: Results) -> None:
    """Times imports in fresh interpreters, in turns with an interpreter that imports nothing; weighs the core."""
    say("footprint: import and install")
    modules = {name: module for name, module in IMPORTS.items() if _exists(name, results)}
    results.figures["import"] = _imports(modules, pace.rounds + 2)
    try:
        results.figures["install"] = {"indelible": figure_of([core_megabytes()], "MB")}
    except (importlib.metadata.PackageNotFoundError, OSError) as error:
        excuse("install.indelible", error, results)


def _exists(name: str, results: Results) -> bool:
    if importlib.util.find_spec(name) is None:
        excuse(f"import.{name}", ImportError(f"{name} is not installed"), results)
        return False
    return True


def _imports(modules: dict[str, str], rounds: int) -> dict[str, Figure]:
    codes = {"": "pass"} | {name: f"import {module}" for name, module in modules.items()}
    taken: dict[str, list[float]] = {name: [] for name in codes}
    for number in range(rounds + 1):
        for name, code in codes.items():
            milliseconds = _start(code)
            if number:  # the first round fills the disk cache
                taken[name].append(milliseconds)
    bare = statistics.median(taken.pop(""))
    return {name: figure_of([value - bare for value in values], "ms") for name, values in taken.items()}


def _start(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    return (time.perf_counter() - begun) * 1000


def core_megabytes() -> float:
    """Copies the files of the core and of all it requires, compiles them as pip would, and weighs them as du does."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch)
        shutil.copytree(ROOT / "src" / "indelible", target / "indelible", ignore=shutil.ignore_patterns("__pycache__"))
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for name in _all_required(project["dependencies"]):
            _copy(name, target)
        compileall.compile_dir(target, quiet=2)
        return sum(path.lstat().st_blocks * 512 for path in [target, *target.rglob("*")]) / 1e6


def _all_required(requirements: list[str]) -> set[str]:
    found: set[str] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        wanted = left.pop()
        if (wanted.marker and not wanted.marker.evaluate({"extra": ""})) or wanted.name in found:
            continue
        found.add(wanted.name)
        left += [Requirement(text) for text in importlib.metadata.requires(wanted.name) or []]
    return found


def _copy(name: str, target: Path) -> None:
    for file in importlib.metadata.files(name) or []:
        source = Path(str(file.locate()))
        if source.is_file() and "__pycache__" not in file.parts and ".." not in file.parts:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / file)
