"""`indelible.instrument()`: one line that puts a ledger around the agent frameworks that are installed here.

    print(indelible.instrument(ledger))

It reaches in where a framework enters its tools, innermost, so agents and tools stay as they are. A version that this
release does not know is left alone: the report names the line that does it by hand.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from types import TracebackType
from typing import Any, Literal, NamedTuple

from indelible import AsyncLedger, Ledger
from indelible.errors import BadCall
from indelible.integrations.everywhere.reach import Around, Undo
from indelible.integrations.terms import Terms
from indelible.integrations.ways import Watch, unguarded_ways


class Framework(NamedTuple):
    """Is a framework that we know: the package it comes in, from which version on and before which one."""

    name: str
    package: str
    oldest: str
    before: str
    adapter: str
    by_hand: str
    reach: str
    covers: str
    is_watched: bool = False
    """Does the reach see what runs without the ledger, and refuse it in strict mode?"""


_OURS = "indelible.integrations"
_HERE = f"{_OURS}.everywhere"
FRAMEWORKS = (
    Framework(
        "LangChain and LangGraph",
        "langgraph",
        "1.2",
        "2",
        f"{_OURS}.langchain",
        "create_agent(…, middleware=[LedgerMiddleware(ledger)])",
        f"{_HERE}.langgraph",
        "the tools of every ToolNode and create_agent; the run is the thread_id. Model turns: LedgerMiddleware",
        is_watched=True,
    ),
    Framework(
        "OpenAI Agents",
        "openai-agents",
        "0.24",
        "0.25",
        f"{_OURS}.openai_agents",
        "Agent(…, tools=LedgerTools(ledger, run='order-123').tools([charge]))",
        f"{_HERE}.openai_agents",
        "the function tools of every agent, in the run around it. Pausing for the ledger's approvals: LedgerTools",
        is_watched=True,
    ),
    Framework(
        "Pydantic AI",
        "pydantic-ai-slim",
        "2.66",
        "3",
        f"{_OURS}.pydantic_ai",
        "Agent(…, capabilities=[LedgerCapability(ledger)])",
        f"{_HERE}.pydantic_ai",
        "the tools, output functions and model turns of every agent; the run is the conversation_id",
        is_watched=True,
    ),
    Framework(
        "MCP",
        "mcp",
        "2.3",
        "3",
        f"{_OURS}.mcp",
        "indelible mcp proxy -- <the server's command or URL>",
        f"{_HERE}.mcp",
        "every tool call of a client session, in the run around it, which is one turn",
    ),
    Framework(
        "CrewAI",
        "crewai",
        "1.15.28",
        "2",
        f"{_OURS}.crewai",
        "Agent(…, tools=LedgerTools(ledger, run='order-123').tools([charge]))",
        f"{_HERE}.crewai",
        "the tools of every agent, alone, in a crew or in a flow, in the run around it. Model turns: LedgerTools",
        is_watched=True,
    ),
    Framework(
        "Strands",
        "strands-agents",
        "1.62",
        "2",
        f"{_OURS}.strands",
        "Agent(…, plugins=[LedgerPlugin(ledger)])",
        f"{_HERE}.strands",
        "the tools of every agent, inside of tools, graphs and swarms too; the run is the session",
        is_watched=True,
    ),
    Framework(
        "Google ADK",
        "google-adk",
        "2.13",
        "3",
        f"{_OURS}.adk",
        "App(…, plugins=[LedgerPlugin(ledger)])",
        f"{_HERE}.adk",
        "the tools of every runner, agents as tools and sub-agents too; the run is the session",
        is_watched=True,
    ),
    Framework(
        "Claude Agent SDK",
        "claude-agent-sdk",
        "0.2.182",
        "0.3",
        f"{_OURS}.claude_agent",
        "ClaudeAgentOptions(…, hooks=LedgerHooks(ledger).hooks('Bash|Write|Edit'))",
        f"{_HERE}.claude_agent",
        "every tool call that does not only read; the run is the session. Results that replay: LedgerHooks.server",
        is_watched=True,
    ),
)

State = Literal["wrapped", "other version", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Is what was found of one framework, and what was done: it is wrapped, or the line that does it is named."""

    framework: str
    version: str
    state: State
    says: str
    by_hand: str
    """Is the line that puts the ledger around it, with names from the module `adapter`."""
    adapter: str
    unguarded: tuple[str, ...] = ()
    """The ways in which it runs code without the ledger."""
    is_strict: bool = False
    """Are those ways refused?"""

    def __str__(self) -> str:
        mark = "✓" if self.state == "wrapped" else "✗"
        line = f"{mark} {self.framework} {self.version}: {self.says}"
        if self.state != "wrapped":
            return f"{line}\n      by hand ({self.adapter}): {self.by_hand}"
        if not self.unguarded:
            return line
        return f"{line}\n      ✗ {'refused' if self.is_strict else 'not guarded'}: {', '.join(self.unguarded)}"


class Instrumented:
    """Reports what a ledger was put around, and takes it away again: by `undo()`, or at the end of a `with`."""

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        findings: Sequence[Finding],
        undos: Sequence[Undo],
        watch: Watch | None = None,
    ) -> None:
        self._watch = watch or Watch()
        self.ledger = ledger
        self.findings = tuple(findings)
        self._undos = list(undos)

    @property
    def wrapped(self) -> tuple[str, ...]:
        """Names the frameworks whose tool calls go through the ledger now."""
        return tuple(found.framework for found in self.findings if found.state == "wrapped")

    @property
    def not_wrapped(self) -> tuple[str, ...]:
        """Names the frameworks that are installed and were left alone."""
        return tuple(found.framework for found in self.findings if found.state != "wrapped")

    @property
    def seen_unguarded(self) -> tuple[str, ...]:
        """Name what ran without the ledger so far, each with its framework and how it runs."""
        return tuple(f"{framework}: {name} ({way})" for (framework, name), way in self._watch.seen.items())

    def undo(self) -> None:
        """Takes the ledger away from everywhere again; calling it twice does no harm."""
        global _active
        with _lock:
            while self._undos:
                self._undos.pop()()
            if _active is self:
                _active = None

    def __enter__(self) -> Instrumented:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.undo()

    def __repr__(self) -> str:
        if not self.findings:
            return "Indelible found no agent framework here; @ledger.tool puts a function behind the ledger."
        lines = [f"Indelible, at {self.ledger.address}:", *(f"  {found}" for found in self.findings)]
        return "\n".join([*lines, *(f"  ✗ ran without the ledger: {one}" for one in self.seen_unguarded)])


_lock = threading.RLock()
_active: Instrumented | None = None


def instrument(
    ledger: Ledger | AsyncLedger | None = None,
    *,
    terms: Mapping[str, Mapping[str, Any]] | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
    **usual: Any,
) -> Instrumented:
    """Puts a ledger around the agent frameworks that are installed, and reports what it could wrap and what not.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all. Without a
    ledger, it opens the one that `Ledger.open(create=False)` finds, and makes none. A second call with the same ledger
    changes nothing.

    Args:
        ledger: The ledger.
        terms: How single tools are treated.
        strict: Refuse what would run without the ledger, when it would run. A framework whose unguarded ways this
            release cannot refuse is refused at once. Default: False; such ways are named by the report and logged.
        allow: Names of tools, nodes and functions that may run without the ledger, and of packages, such as `crewai`,
            that may stay without it.
        usual: The words of `terms` for all tools.

    Raises:
        BadCall: In strict mode, a framework is installed that cannot be guarded.
    """
    global _active
    Terms(terms, usual)  # what is wrong with them is told before anything is changed
    with _lock:
        if _active is not None:
            if ledger is None or ledger.blocking.__dict__ is _active.ledger.blocking.__dict__:
                return _active
            raise BadCall(f"the ledger at {_active.ledger.address} is put around already; call its undo() first")
        watch = Watch(strict, tuple(allow), [known.package for known in FRAMEWORKS])
        around = Around(Ledger.open(create=False) if ledger is None else ledger, terms, usual, watch)
        undos: list[Undo] = []
        found = installed()
        findings = [_reached(known, version, around, undos) for known, version in found]
        made = Instrumented(around.ledger, findings, undos, watch)
        if strict:
            _check_all_guarded(made, [known for known, _ in found if known.package not in watch.allowed])
        _active = made
        return made


def _check_all_guarded(made: Instrumented, known: Sequence[Framework]) -> None:
    """Take everything away again, and raise `BadCall`, if a framework is left that strict mode cannot hold."""
    wrapped = {one.name for one in known if one.is_watched or not unguarded_ways(one.name)} & set(made.wrapped)
    left = [one.package for one in known if one.name not in wrapped]
    if not left:
        return
    made.undo()
    raise BadCall(
        f"strict mode cannot hold {', '.join(left)}: installed here, and not guarded in every way. Uninstall it, or if "
        f"no agent of it runs here say allow={left!r}"
    )


def installed() -> list[tuple[Framework, str]]:
    """Gives the frameworks that are installed here, with their versions; none of them is loaded for that."""
    found = []
    for known in FRAMEWORKS:
        try:
            found.append((known, metadata.version(known.package)))
        except metadata.PackageNotFoundError:
            continue
    return found


def is_known_version(known: Framework, version: str) -> bool:
    """Is this a version that we have tried, by what that framework promises of its versions?"""
    return _numbers(known.oldest) <= _numbers(version) < _numbers(known.before)


def _numbers(version: str) -> tuple[int, ...]:
    """Gives the release's numbers; what comes before a release, as 2.0rc1, already counts as that release."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def _reached(known: Framework, version: str, around: Around, undos: list[Undo]) -> Finding:
    """Reaches into one framework, if that is safe, and says what came of it."""

    def found(state: State, says: str) -> Finding:
        return Finding(
            framework=known.name,
            version=version,
            state=state,
            says=says,
            by_hand=known.by_hand,
            adapter=known.adapter,
            unguarded=unguarded_ways(known.name),
            is_strict=around.watch.is_strict,
        )

    if not is_known_version(known, version):
        return found(
            "other version", f"not wrapped: this release knows it from {known.oldest} to before {known.before}"
        )
    try:
        undos.append(import_module(known.reach).reach(around))
    except Exception as error:  # one framework that cannot be loaded leaves the others as they are
        return found("failed", f"not wrapped: {type(error).__name__}: {error}")
    return found("wrapped", known.covers)
