"""What a tool says of its calls before there is one: a scope, turn or resource that the arguments name. Pure.

| said | stands for |
|---|---|
| `"orders"` | that text |
| `"args.customer_id"` | the argument at that dotted path |
| `lambda args: …` | what the function returns, of the arguments as they are recorded |
| `{"namespace": "shop", "type": "order", "id": "args.order_id"}` | a resource; each part is one of the texts above |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indelible.core.effects.calls import RESOURCE_PARTS, IdentityWords, Resource, TextFrom, ToolCall, check_resource
from indelible.core.effects.identity import reach
from indelible.core.values.canonical import decode, encode
from indelible.core.values.revive import plainly
from indelible.errors import BadCall, UnfitArguments

FROM_ARGUMENTS = "args."
ALL = "*"


def identity_of(words: Mapping[str, Any], args: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the words of `ToolCall` that a tool's words mean for these arguments.

    Args:
        words: What the tool says; see `IdentityWords`. None means that it does not say.
        args: The arguments of the call, with every default.
        tool: The tool's name, for the error.

    Raises:
        BadCall: The arguments lack what a word names.
    """
    found = {word: value for word, value in words.items() if value is not None}
    made_of = _derived_from(words)
    if made_of:
        found["derived_from"] = made_of
    if "turn" in found:
        found["turn_from"] = next(iter(path for path in derived_from(found["turn"]) if path != ALL), None)
    for word in found.keys() & {"scope", "turn"}:
        found[word] = text_of(found[word], args, f"{tool}: {word}")
    if "resource" in found:
        found["resource"] = resource_of(found["resource"], args, f"{tool}: resource")
    return found


def derived_from(*words: Any) -> tuple[str, ...]:
    """Return the dotted paths of the arguments that these words name; `ALL` stands for what a function may read."""
    paths: list[str] = []
    for word in words:
        for part in [word[each] for each in RESOURCE_PARTS] if isinstance(word, Mapping) else [word]:
            if isinstance(part, str) and part.startswith(FROM_ARGUMENTS):
                paths.append(part.removeprefix(FROM_ARGUMENTS))
            elif callable(part):
                paths.append(ALL)
    return tuple(dict.fromkeys(paths))


def depends_on_arguments(words: IdentityWords) -> bool:
    """Say whether `identity_of` has to be asked for each call."""
    return bool(_derived_from(words))


def check_words(tool: str, words: Mapping[str, Any]) -> None:
    """Raise `BadCall` for words that can fit no call of this tool, when they are said and not when it is called."""
    fixed = {word: value for word, value in words.items() if value is not None}
    for word in fixed.keys() & {"scope", "turn"}:
        said = fixed.pop(word)
        if not isinstance(said, str) and not callable(said):
            raise BadCall(f"{tool}: {word} is a text such as 'orders' or 'args.customer_id', or a function")
        if word == "turn" and callable(said) and words.get("dedupe") in (None, "turn"):
            _check_told_apart(tool, words)
    if "resource" in fixed:
        check_resource(f"{tool}: resource", fixed["resource"])
        fixed["resource"] = Resource(namespace="n", type="t", id="i")
    ToolCall(tool=tool, call_id="checked", **fixed)


def _check_told_apart(tool: str, words: Mapping[str, Any]) -> None:
    """Raise `BadCall` if the turn may be made of arguments that identify the call: each turn would make another one."""
    if all(words.get(word) is None for word in ("key", "resource", "varies")):
        raise BadCall(
            f"{tool}: turn is a function, which may read arguments that are part of the call's identity, so that each "
            "turn would make another call; name those that it reads in varies ([] if it reads none), or name key fields"
        )


def _derived_from(words: Mapping[str, Any]) -> tuple[str, ...]:
    return derived_from(words.get("scope"), words.get("turn"), words.get("resource"))


def text_of(said: TextFrom, args: Mapping[str, Any], what: str) -> str:
    """Return the text that a word means for these arguments.

    Raises:
        BadCall: There is no such argument, or nothing that could be a name stands there.
    """
    if isinstance(said, str):
        if not said.startswith(FROM_ARGUMENTS):
            return said
        found = reach(args, said.removeprefix(FROM_ARGUMENTS), what)
    else:
        found = said(_recorded(args))
    found = decode(encode(plainly(found), root=what))  # one instant, one text
    if found is None or isinstance(found, (bool, float, Mapping, list, bytes)) or str(found) == "":
        why = f"{type(found).__name__} names nothing here; use an argument that is a text or a number"
        raise UnfitArguments(f"{what}: {why}")
    return str(found)


def resource_of(said: Any, args: Mapping[str, Any], what: str) -> Resource:
    """Return the resource that a word means for these arguments.

    Raises:
        BadCall: The arguments lack what it names, or its function returns something else.
    """
    if isinstance(said, Mapping):
        return Resource(**{part: text_of(said[part], args, what) for part in RESOURCE_PARTS})
    found = said if isinstance(said, Resource) else said(_recorded(args))
    if not isinstance(found, Resource):
        raise BadCall(f"{what}: its function returned {type(found).__name__}; return a Resource")
    return found


def _recorded(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as they are recorded, so that a function gets the same ones through every door."""
    recorded: Any = decode(encode(args, root="args"))
    return dict(recorded)
