"""Says where a JSON value is not of the shape that a JSON Schema asks for.

Knows the part of JSON Schema 2020-12 that the schemas of this project use, and refuses a schema that uses more: what it
passed over would be promised and not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_SAID_ONLY = frozenset({"$schema", "$id", "$defs", "title", "description"})
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def misshapen(value: Any, schema: Mapping[str, Any], name: str) -> str | None:
    """Gives the first thing that is wrong with a value, with its place, or None; `name` is what the value is called."""
    return next(_problems(value, schema, schema["$defs"], name), None)


def _problems(value: Any, schema: Mapping[str, Any], known: Mapping[str, Any], at: str) -> Iterator[str]:
    for word, asked in schema.items():
        if word == "$ref":
            yield from _problems(value, known[asked.removeprefix("#/$defs/")], known, at)
        elif word == "properties" and isinstance(value, dict):
            for name, inner in asked.items():
                if name in value:
                    yield from _problems(value[name], inner, known, f"{at}.{name}")
        elif word == "items" and isinstance(value, list):
            for number, one in enumerate(value):
                yield from _problems(one, asked, known, f"{at}[{number}]")
        elif word not in _SAID_ONLY and not (word in ("properties", "items") or _holds(word, asked, value)):
            yield f"{at} {_wanted(word, asked, value)}"


def _holds(word: str, asked: Any, value: Any) -> bool:
    """Does one word of a schema hold? Of a value of another kind than it is about, every word does."""
    match word:
        case "type":
            return any(_is_a(value, name) for name in ([asked] if isinstance(asked, str) else asked))
        case "const":
            return type(value) is type(asked) and value == asked
        case "enum":
            return value in asked
        case "required":
            return not isinstance(value, dict) or all(name in value for name in asked)
        case "pattern":
            return not isinstance(value, str) or re.search(asked, value, re.ASCII) is not None
        case "minimum":
            return not _is_a(value, "integer") or value >= asked
        case "minLength":
            return not isinstance(value, str) or len(value) >= asked
        case _:
            raise NotImplementedError(f"the word {word!r} of JSON Schema is not known here")


def _is_a(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _wanted(word: str, asked: Any, value: Any) -> str:
    match word:
        case "type":
            return f"must be {asked if isinstance(asked, str) else ' or '.join(asked)}, not {type(value).__name__}"
        case "required":
            return f"lacks {', '.join(name for name in asked if name not in value)}"
        case "enum":
            return f"must be one of {', '.join(map(str, asked))}"
        case "const":
            return f"must be {asked!r}"
        case "pattern":
            return f"must look like {asked}"
        case _:
            return "must not be empty" if word == "minLength" else f"must be {asked} or more"
