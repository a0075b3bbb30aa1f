"""Which of a few things somebody means: its id, or the beginning of it if that is unique."""

from __future__ import annotations

from collections.abc import Iterable

from indelible.cli.show import visible
from indelible.errors import BadCall


def only(ids: Iterable[str], name: str, noun: str, command: str) -> str:
    """Gives the id that a name stands for; where there is none, or more than one, `command` lists them."""
    if not name.strip():
        raise BadCall(f"an empty ID would mean any {noun}; see: indelible {command}")
    fitting = [one for one in ids if one.startswith(name)]
    if name in fitting:
        return name
    if not fitting:
        raise BadCall(f"no {noun} has the id {visible(name)}; see: indelible {command}")
    if len(fitting) > 1:
        raise BadCall(f"{visible(name)}… is the beginning of more than one id; give more of it")
    return fitting[0]
