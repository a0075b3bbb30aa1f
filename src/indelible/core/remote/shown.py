"""Values and outcomes as plain JSON, for programs in any language. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from indelible.core.effects.effect import Effect
from indelible.core.values.canonical import decode
from indelible.core.values.tags import TAG_OF_TYPE, WRITE


def plain(recorded: bytes) -> Any:
    """Return a recorded value as plain JSON; what JSON cannot say stays tagged, as `{"$decimal": "1.1"}`."""
    if b'"$' not in recorded:
        return json.loads(recorded)
    return plainly(decode(recorded))


def plainly(value: Any) -> Any:
    """Return a value as plain JSON."""
    if isinstance(value, Mapping):
        return {name: plainly(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plainly(each) for each in value]
    tag = TAG_OF_TYPE.get(type(value))
    return value if tag is None else {tag: WRITE[tag](value)}


def outcome_shown(effect: Effect) -> dict[str, Any] | None:
    """Return what came of an effect; None while that is not known."""
    detail = None if effect.detail_json is None else plain(effect.detail_json)
    if effect.status == "succeeded":
        return {"status": "succeeded", "value": detail}
    if effect.status == "failed":
        told = detail if isinstance(detail, dict) else {}
        error, kind = told.get("message"), told.get("type")
        return {"status": "failed", "error": error, "error_type": kind}
    return None
