"""What a job is told, and what it says when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.benches import Bench
from tests.chaos.mutants import MUTANTS
from tests.chaos.oracle import Kind, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Asks a job for so many points with this seed, on this bench, with or without a planted bug."""

    bench: Bench
    where: Path
    points: int
    seed: int = 1
    mutant: str | None = None

    @property
    def label(self) -> str:
        """Begins every name of a call or run, so that what one planted bug left behind is not taken for another's."""
        return f"{self.seed}-{self.mutant or 'sound'}"

    @property
    def proof(self) -> frozenset[Kind]:
        """Are the violations of which one is enough: with a planted bug we only ask whether it is found."""
        return frozenset() if self.mutant is None else MUTANTS[self.mutant].proof


@dataclass(slots=True)
class Report:
    """Counts points and keeps violations; `notes` are further numbers worth printing."""

    job: str
    order: Order
    points: int = 0
    violations: list[Violation] = field(default_factory=list)
    notes: dict[str, int | str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def add(self, violations: Iterable[Violation], at: object = "") -> None:
        """Keeps violations together with the point at which they were seen."""
        for found in violations:
            self.violations.append(
                Violation(found.kind, found.subject, f"{found.detail} at {at}" if at else found.detail)
            )

    def note(self, name: str, more: int = 1) -> None:
        """Adds to a number."""
        was = self.notes.get(name, 0)
        assert isinstance(was, int)
        self.notes[name] = was + more

    @property
    def is_done(self) -> bool:
        """Has the planted bug been found?"""
        return any(violation.kind in self.order.proof for violation in self.violations)

    def finish(self) -> Report:
        """Stops the clock."""
        self.seconds = time.monotonic() - self.began
        return self

    def __str__(self) -> str:
        planted = f" with {self.order.mutant}" if self.order.mutant else ""
        notes = "".join(f", {value} {name}" for name, value in self.notes.items())
        return (
            f"{self.job} on {self.order.bench.name}{planted}: {self.points} points, {len(self.violations)} violations, "
            f"seed {self.order.seed}, {self.seconds:.1f} s{notes}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kind of trouble: how many points by its own command, and per store the planted bugs it must find.

    A planted bug is found within `bites` points, or the job has no teeth.
    """

    name: str
    run: Callable[[Order], Report]
    points: Mapping[str, int]
    teeth: Mapping[str, tuple[str, ...]]
    bites: int = 400
