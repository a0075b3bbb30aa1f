"""Follows pages and examples of integrations as a reader would, in whichever environment has their framework."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

_ROOT = Path(__file__).parents[2]


def charge(order: str) -> str:
    """Charges."""
    return f"charged {order}"


def refund(order: str) -> str:
    """Refunds."""
    return f"refunded {order}"


def follow(page: str, names: dict[str, Any], *, between: str = "", is_async: bool = True) -> dict[str, Any]:
    """Runs a page's snippets in their order, as one program; `between` stands before the last of them."""
    blocks = re.findall(r"```python\n(.*?)```", (_ROOT / "docs" / "integrations" / page).read_text(), re.DOTALL)
    assert len(blocks) >= 3
    program = "\n".join([*blocks[:-1], between, blocks[-1], "ledger.close()", "return locals()"])
    exec(f"{'async ' if is_async else ''}def page():\n{indent(program, '    ')}", names)
    told: dict[str, Any] = asyncio.run(names["page"]()) if is_async else names["page"]()
    return told


def run_example(name: str, keys: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs an example as a process of its own, with keys in a folder of its own."""
    command = [sys.executable, str(_ROOT / "examples" / name), *words]
    environment = {**os.environ, "INDELIBLE_KEYS": str(keys)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)


def check_asks_is_decided_and_goes_on(example: str, keys: Path) -> None:
    """Raises unless an example asks, goes on when it was decided, and does nothing twice when it is run again."""
    said = []
    for words in ([], ["--decide"], []):
        ran = run_example(example, keys, *words)
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stdout)
    first, second, third = said
    assert "charging 1000" in first
    assert "waits for a person: indelible approvals show apr_" in first
    assert "charging" not in second + third
    assert "refunding 50" in second
    assert "refunding" not in third
    assert second.endswith("refunded\n")
    assert third.endswith("refunded\n")
