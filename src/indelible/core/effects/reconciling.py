"""What came of asking tools' probes about effects in doubt, and which effects to ask about. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from indelible.core.effects.effect import Effect
from indelible.core.policy.globs import Glob

ReconcileCode = Literal["settled", "ready", "in_doubt", "probe_raised", "no_probe", "would_ask", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Says what came of asking the probe of one effect: `code` for programs, `detail` for people.

    - `settled`: the probe knew what became of it.
    - `ready`: nothing happened, and the next call runs it.
    - `in_doubt`: the probe does not know.
    - `probe_raised`: the probe raised, and `detail` says what.
    - `no_probe`: this program has no probe for the tool.
    - `would_ask`: a dry run asks nothing.
    - `moved`: another process moved the effect on meanwhile.
    """

    effect: Effect
    code: ReconcileCode
    detail: str = ""

    @property
    def is_open(self) -> bool:
        """Is the effect still in doubt?"""
        return self.effect.status == "in_doubt" or self.code in ("would_ask", "no_probe")


def reconciled(effect: Effect) -> Reconciled:
    """Report an effect whose probe was asked, by how the effect stands afterwards."""
    if effect.is_settled:
        return Reconciled(effect=effect, code="settled")
    if effect.status == "ready" or effect.status == "in_doubt":
        return Reconciled(effect=effect, code=effect.status)
    return Reconciled(effect=effect, code="moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects effects in doubt; what is None does not matter. `*` in `tool` stands for any characters."""

    tool: str | None = None
    run_id: str | None = None
    limit: int = 1000

    def chosen(self, effects: Sequence[Effect], has_probe: Collection[str]) -> list[Effect]:
        """Choose at most `limit` effects; where there are more, those of tools with a probe come first.

        Args:
            effects: The effects that are in doubt or abandoned, oldest first.
            has_probe: Names the tools that have a probe here.

        Returns:
            The chosen effects, oldest first.
        """
        fitting = [effect for effect in effects if self._fits(effect)]
        useful_first = sorted(fitting, key=lambda effect: effect.tool not in has_probe)[: self.limit]
        ids = {effect.id for effect in useful_first}
        return [effect for effect in fitting if effect.id in ids]

    def _fits(self, effect: Effect) -> bool:
        is_tool = self.tool is None or Glob(self.tool).matches(effect.tool)
        return is_tool and self.run_id in (None, effect.run_id)
