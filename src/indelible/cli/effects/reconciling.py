"""`indelible effects reconcile`: asks the probes of the program that is named about effects in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indelible import Ledger
from indelible.cli.opening import Where
from indelible.cli.programs import ledger_of
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, effect_json, visible
from indelible.core.effects.reconciling import Reconciled

_SAID = {
    "ready": "nothing happened → ready; the next call runs it",
    "in_doubt": "still in doubt: the probe does not know",
    "no_probe": "still in doubt: this program has no probe for the tool",
    "would_ask": "its probe would be asked",
    "moved": "another process has moved it on",
}


def reconcile_by(named: str, place: Where, ids: Sequence[str], **words: Any) -> int:
    """Ask the probes of a program, print a line for each effect, and return 1 if one is left in doubt.

    Args:
        named: The program's ledger, as MODULE:NAME.
        place: Where to print.
        ids: Only these effects; all in doubt when empty.
        words: What `Ledger.reconcile` takes besides.

    Returns:
        The exit code.
    """
    found: list[Reconciled] = []
    ledger = ledger_of(named)
    with ledger if isinstance(ledger, Ledger) else ledger.blocking as asked:
        with progress_bar("asking probes") as progress:

            def told(one: Reconciled) -> None:
                found.append(one)
                progress(len(found), None)
                if not place.is_json:
                    print(f"{one.effect.id} {visible(one.effect.tool)}: {_said(one)}", flush=True)

            asked.reconcile(effects=ids or None, each=told, **words)
        address = asked.address
    left = sum(one.is_open for one in found)
    if place.is_json:
        place.say({"effects": [_json(one) for one in found], "left_in_doubt": left}, "")
    else:
        print(f"{count(len(found), 'effect')} in {visible(address)}, {left} left in doubt.")
        if left:
            print("Settle them by hand: indelible effects settle --help")
    return 1 if left else 0


def _said(one: Reconciled) -> str:
    if one.code == "settled":
        return f"settled as {one.effect.status}"
    if one.code == "probe_raised":
        return f"still in doubt: {visible(one.detail)}"
    return _SAID[one.code]


def _json(one: Reconciled) -> dict[str, Any]:
    return {"result": one.code, "detail": one.detail, "effect": effect_json(one.effect)}
