"""What `indelible demo` ends with: the same story in the page, for whoever wants to see it; nobody else has to wait."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

COMMAND = "INDELIBLE_COMMAND"
"""Names the variable that says by which command we are called, as `./run` does in a checkout."""
NEEDS = ("fastapi", "uvicorn", "webauthn")
_STEPS = "approve it, tamper with the record and verify it, see a replay, copy the line for your framework"


def offer(is_served: bool | None) -> int:
    """Shows the page with the demo's story in it: if told to, or if somebody at a terminal says so; else says how."""
    called = os.environ.get(COMMAND) or "indelible"
    is_there = all(importlib.util.find_spec(name) is not None for name in NEEDS)
    if is_served is None and sys.stdin.isatty() and sys.stdout.isatty() and (is_there or called != "indelible"):
        is_served = _asked()
    if is_served:
        return _serve(called, is_there=is_there)
    missing = "" if is_there or called != "indelible" else "pip install 'indelible[server]' && "
    print(f"\nThe same story in the page ({_STEPS}):\n\n    {missing}{called} serve --demo")
    return 0


def _asked() -> bool:
    try:
        return input("\nSee the same story in the page? [Y/n] ").strip().lower() in ("", "y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def _serve(called: str, *, is_there: bool) -> int:
    """Runs the server until it is stopped; in a checkout without its packages, `./run` brings them."""
    command = [sys.executable, "-m", "indelible.cli"] if is_there or called == "indelible" else [called]
    try:
        return subprocess.run([*command, "serve", "--demo"], check=False).returncode  # noqa: S603
    except KeyboardInterrupt:  # the server was stopped by the same key
        return 0
