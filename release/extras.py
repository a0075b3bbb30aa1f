"""`./run release extras`: the built wheel, installed in an empty environment without extras and with each of them.

Needs the network: packages are the newest that the wheel's own bounds allow, as a user would get them today. Each
environment is thrown away; what the extra is for is imported there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = ROOT / ".tools" / "bin" / "uv"

# What must work with an extra alone. Extras for those who work on the project itself are left out.
IMPORTS = {
    "": "indelible, indelible.cli.demo.story, indelible.stores.sqlite",
    "postgres": "indelible.stores.postgres",
    "http": "indelible.http, indelible.stores.remote",
    "policy": "indelible.policy_files, yaml",
    "cli": "indelible.cli.root, indelible.cli.effects.command",
    "server": "indelible.server.app, indelible.server.dashboard",
    "oidc": "jwt",
    "otel": "indelible.engine.tracing",
    "slack": "indelible.notify.slack",
    "export": "arro3.io",
    "detect-secrets": "indelible.integrations.detect_secrets",
    "langchain": "indelible.integrations.langchain, indelible.integrations.langgraph",
    "openai-agents": "indelible.integrations.openai_agents",
    "pydantic-ai": "indelible.integrations.pydantic_ai",
    "mcp": "indelible.integrations.mcp",
    "claude": "indelible.integrations.claude_agent",
    "crewai": "indelible.integrations.crewai",
    "strands": "indelible.integrations.strands",
    "adk": "indelible.integrations.adk",
}
_OURS = {"test", "bench", "release", "frameworks"}


def tried(wheel: Path, extra: str) -> str | None:
    """What went wrong with one extra, or nothing."""
    with tempfile.TemporaryDirectory() as place:
        python = Path(place) / "bin" / "python"
        named = f"{wheel}[{extra}]" if extra else str(wheel)
        steps = [
            [UV, "venv", "--quiet", "--python", sys.executable, place],
            [UV, "pip", "install", "--quiet", "--python", python, named],
            [python, "-c", f"import {IMPORTS[extra]}"],
            [Path(place) / "bin" / "indelible", "version"],
        ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode:
                return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
    return None


def main(only: list[str]) -> int:
    """Tries every extra, or those that are named, and says how each went."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        print("release: there is no wheel in dist/; make it: ./run release", file=sys.stderr)
        return 2
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - _OURS
    if forgotten := known ^ (IMPORTS.keys() - {""}):
        print(f"release: say in release/extras.py what these extras are for: {', '.join(sorted(forgotten))}")
        return 2
    failed = 0
    for extra in only or IMPORTS:
        wrong = tried(wheels[-1], extra)
        failed += wrong is not None
        print(f"{'ok    ' if wrong is None else 'FAILED'} {extra or '(none)'} {wrong or ''}".rstrip(), flush=True)
    return int(failed > 0)
