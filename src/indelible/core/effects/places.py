"""Do the places that a tool names exist? A misspelt one would identify, hide or leave out nothing. Pure."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from indelible.core.effects.calls import Options
from indelible.core.effects.from_arguments import ALL, derived_from
from indelible.core.privacy.redaction import places_in
from indelible.core.values.revive import hints_of, leads_to
from indelible.errors import BadCall


def check_places(
    tool: str, function: Callable[..., Any], words: Mapping[str, Any], options: Options, *, is_read: bool = True
) -> None:
    """Raise `BadCall` for the first place that no call of this function can have.

    A place below a parameter is looked for in the type of the parameter. A type that does not tell, such as `dict` or
    `Any`, may have every place.

    Args:
        tool: The tool's name, for the error.
        function: The function. Its parameters are the names under which arguments are recorded.
        words: What is said of what makes two calls the same; see `IdentityWords`.
        options: What is said of how its calls are treated. What a ledger says of all its tools is none of it.
        is_read: Its arguments are recorded as the function's types read them. If not, only its parameters tell, and
            a function with `**kwargs` tells nothing.
    """
    parameters = inspect.signature(function).parameters
    if not is_read and any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for word, path, (first, *steps) in _named(words, options):
        found = parameters.values() if first == "*" else [parameters[first]] if first in parameters else []
        # A class may be defined below the function, so hints are not looked up without need.
        hints = hints_of(function) if steps and is_read else {}
        if not any(leads_to(_type_of(one, hints), steps) for one in found):
            raise BadCall(
                f"{tool}: {word} names {path!r}, and no call of the function has this place. Name a parameter, or a "
                "field of its type by the field's own name; what **kwargs takes is below the name of that parameter"
            )


def _named(words: Mapping[str, Any], options: Options) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Return each place that a tool names in its arguments: the word, the place as it is said, and its steps."""
    exclusive = options.exclusive if isinstance(options.exclusive, tuple) else (options.exclusive,)
    said = {word: tuple(words.get(word) or ()) for word in ("key", "varies", "added")}
    said |= {word: derived_from(words.get(word)) for word in ("scope", "turn", "resource")}
    said |= {"exclusive": derived_from(*exclusive), "subject": derived_from(options.subject)}
    for word, paths in said.items():
        yield from ((word, path, tuple(path.split("."))) for path in paths if path != ALL)
    yield from (("redact", path, steps) for path, steps in places_in(options.redact or ()))


def _type_of(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Return the type of what is recorded under a parameter's name."""
    hint = hints.get(parameter.name, Any)
    if parameter.kind is parameter.VAR_POSITIONAL:
        return types.GenericAlias(list, (hint,))
    return types.GenericAlias(dict, (str, hint)) if parameter.kind is parameter.VAR_KEYWORD else hint
