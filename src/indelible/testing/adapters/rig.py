"""What a framework brings to the kit, and how one act of a case is played with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from indelible import IndelibleError, Ledger
from indelible.errors import BadCall
from indelible.testing.adapters.scene import Scene

Act = Literal["begin", "resume", "tamper"]


class Adapter(NamedTuple):
    """Says which file of this folder has a framework's rig, what that imports, and what pip is asked for."""

    module: str
    imports: Sequence[str]
    install: str

    @property
    def is_installed(self) -> bool:
        """Is everything here that the rig imports?"""
        return all(map(_is_there, self.imports))


_HERE = "indelible.testing.adapters"
# One file of this folder each, which only those load who have the framework.
ADAPTERS = {
    "langchain": Adapter(
        f"{_HERE}.langchain",
        ("langchain", "langgraph.checkpoint.sqlite"),
        '"indelible[langchain]" langgraph-checkpoint-sqlite',
    ),
    "openai-agents": Adapter(f"{_HERE}.openai_agents", ("agents",), '"indelible[openai-agents]"'),
    "pydantic-ai": Adapter(f"{_HERE}.pydantic_ai", ("pydantic_ai",), '"indelible[pydantic-ai]"'),
    "mcp": Adapter(f"{_HERE}.mcp", ("mcp", "mcp_types"), '"indelible[mcp]"'),
    "crewai": Adapter(f"{_HERE}.crewai", ("crewai",), '"indelible[crewai]"'),
    "strands": Adapter(f"{_HERE}.strands", ("strands",), '"indelible[strands]"'),
    "adk": Adapter(f"{_HERE}.adk", ("google.adk",), '"indelible[adk]"'),
    "claude": Adapter(f"{_HERE}.claude", ("claude_agent_sdk",), '"indelible[claude]"'),
    "functions": Adapter(f"{_HERE}.functions", (), "indelible"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Says how an act ended: the agent is done, it is paused for these calls, or something was refused."""

    state: Literal["done", "paused", "refused", "killed"]
    waits_for: Sequence[str] = ()
    why: str = ""


class Rig(Protocol):
    """Is an agent of one framework: a scripted model that makes the scene's calls, then says that it is done.

    Its only tool is `scene.charge`. With a ledger, the framework's adapter asks for approvals; without one it is the
    framework's own approval and persistence. Saved state goes into `scene.state` and nowhere else.
    """

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the saved state: natively with the answers in `scene.allowed`, else by what the ledger knows."""

    def tamper(self, scene: Scene) -> None:
        """Changes, in the saved state, the arguments of the scene's calls to those that the scene has now."""


def rig_of(adapter: str) -> Rig:
    """Loads the rig of a framework."""
    if adapter not in ADAPTERS:
        raise BadCall(f"adapter {adapter!r}: choose one of {', '.join(ADAPTERS)}")
    known = ADAPTERS[adapter]
    if not known.is_installed:
        raise BadCall(f"adapter {adapter}: its framework is not installed; run: pip install {known.install}")
    rig: Rig = import_module(known.module).RIG
    return rig


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what it would be a part of is not here
        return False


def play(rig: Rig, act: Act, scene: Scene, told: Path) -> None:
    """Plays one act in this process, and writes down how it ended before it is killed, if that is its part."""
    told.write_text(json.dumps(asdict(_played(rig, act, scene))))
    scene.die_at("after_pause")


def _played(rig: Rig, act: Act, scene: Scene) -> Standing:
    with ExitStack() as open_:
        ledger = scene.open_ledger()
        if ledger is not None and not scene.is_store_broken:
            open_.enter_context(ledger)
        try:
            if act == "tamper":
                rig.tamper(scene)
                return Standing(state="done")
            return rig.begin(scene, ledger) if act == "begin" else rig.resume(scene, ledger)
        except Exception as error:
            kind = "refused" if isinstance(error, IndelibleError) else "failed"
            return Standing(state="refused", why=f"{kind}: {type(error).__qualname__}: {error}")


def standing_of(content: dict[str, Any]) -> Standing:
    """Gives what another process wrote down."""
    return Standing(**content)
