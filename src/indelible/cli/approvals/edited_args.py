"""Arguments that an approver types: in the recorded form, as `approvals show` prints them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indelible.core.values.canonical import decode_json, parse_strict
from indelible.errors import BadCall


def read_args(text: str) -> Mapping[str, Any]:
    """Reads all arguments of a call from JSON, or from a file named after an @.

    Dates, decimals and the like are written as they are recorded: `{"$decimal":"1.10"}`. What could be understood in
    two ways is refused.
    """
    content: str | bytes = text
    if text.startswith("@"):
        content = _content_of(text[1:])
    try:
        args = decode_json(parse_strict(content))
    except BadCall as error:
        raise BadCall(
            f"--args: {error}. Give all arguments as one JSON object, in the form that `approvals show` prints"
        ) from error
    if not isinstance(args, dict):
        raise BadCall('--args: give all arguments as one JSON object: {"name": value, …}')
    return args


def _content_of(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadCall(f"--args @{name}: {error.strerror}; name a file that holds the arguments") from error
