"""What was claimed here a moment ago."""

from __future__ import annotations

from collections import OrderedDict

from indelible.core.effects.effect import Effect

_MOST_REMEMBERED = 4096
_MOST_BYTES_EACH = 16_384


class RecentClaims:
    """Remembers effects that were claimed here a moment ago, so that their commit need not look them up.

    It is a matter of speed alone: what is not remembered is looked up, and what has changed since is decided anew.
    """

    def __init__(self) -> None:
        self._effects: OrderedDict[tuple[str, str], Effect] = OrderedDict()

    def keep(self, effect: Effect) -> None:
        """Remembers an effect as it was claimed, unless it is large."""
        if effect.args_json is None or len(effect.args_json) > _MOST_BYTES_EACH:
            return
        self._effects[effect.tenant, effect.id] = effect
        if len(self._effects) > _MOST_REMEMBERED:
            self._effects.popitem(last=False)

    def take(self, tenant: str, effect_id: str) -> Effect | None:
        """Gives an effect that is remembered, once."""
        return self._effects.pop((tenant, effect_id), None)
