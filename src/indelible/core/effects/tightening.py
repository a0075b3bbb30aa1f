"""What a ledger, a tool and a call say of one call becomes one: each may demand more, and none may take away. Pure.

`OPTIONS` and `IDENTITY` say for each word what it is, and nothing else does; docs/reference/options.md shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from indelible.core.effects.calls import HARMLESS, Handling, Options, SideEffect, ToolCall, handling_of
from indelible.errors import BadCall


@dataclass(frozen=True, slots=True)
class Demand:
    """The strictest word of ledger, tool and call holds; `order` lists the words, the weakest first."""

    order: tuple[Any, ...]


Kept = Literal["all", "declared", "free"]
"""How the other words come together.

"all": what each of them says holds. "declared": what the author knows of the tool. A call of a registered tool cannot
say it; for a tool that is not registered the call does; the ledger's word is for tools that do not say. "free": the
nearest word holds, for it changes when something happens and not whether it may.
"""

SIDE_EFFECT_ORDER: tuple[SideEffect, ...] = (
    *("none", "read", "write", "notification", "delegation", "external_mutation", "payment"),
)
OPTIONS: Mapping[str, Demand | Kept] = {
    "approval": Demand(("none", "required")),
    "side_effect": Demand(SIDE_EFFECT_ORDER),
    "on_crash": Demand(("retry", "resend", "hold")),
    "on_repeat": Demand(("run", "ask", "refuse")),
    "await_inclusion": Demand((False, True)),
    "redact": "all",
    "exclusive": "all",
    "failed_on": "declared",
    "nothing_on": "declared",
    "refused": "declared",
    "marks_sending": "declared",
    "retry": "declared",
    "downstream": "declared",
    "volatile": "declared",
    "reconcile": "declared",
    "compensate": "declared",
    "subject": "declared",
    "lease": "free",
    "wait": "free",
    "timeout": "free",
}
HANDLED: Mapping[str, Demand] = {
    "side_effect": Demand(SIDE_EFFECT_ORDER),
    "on_crash": Demand(("retry", "resend", "hold")),
    "needs_approval": Demand((False, True)),
    "inclusion": Demand(("not_awaited", "awaited_here", "awaited")),
    "on_repeat": Demand(("run", "ask", "refuse")),
}
"""The demands once every default is filled in: a registered tool is complete, so a call can only go above it."""
IDENTITY: Mapping[str, Literal["refused", "overruled"]] = {
    "key": "refused",
    "scope": "refused",
    "varies": "refused",
    "added": "refused",
    "on_reuse": "refused",
    "resource": "refused",
    "adopted_key": "refused",
    "dedupe": "overruled",
    "turn": "overruled",
}
"""What becomes of a call's word about its identity if its registered tool says another one.

`resource` and `adopted_key` stand in for `key`. Adapters choose a `dedupe` and name a `turn` for each
call, so the tool overrules these.
"""


_UNSAID: Mapping[str, Any] = {one.name: {} if one.name == "added" else one.default for one in fields(ToolCall)}
"""What a call says of itself where its caller leaves it to the tool."""


def handling_for(ledger: Options, tool: Options | None, call: Options | None, name: str) -> Handling:
    """Return how a call of the tool `name` is treated. `tool` is None where no tool of this name is registered."""
    usual = handling = handling_of(merged(ledger, tool, None, name))
    if call is not None:
        handling = handling_of(merged(ledger, tool, call, name))
    if call is not None and tool is not None:
        handling = _strictest_of(usual, handling)
    said = [level.side_effect for level in (ledger, tool, call) if level is not None]
    named = [*said, usual.side_effect if tool is not None else None]
    classes = tuple(dict.fromkeys(each for each in named if each is not None))
    return replace(handling, judged_as=classes) if len(classes) > 1 else handling


def at_least(handling: Handling, side_effect: SideEffect) -> Handling:
    """Return how a call is treated whose class is this one or a stronger one: never weaker than either."""
    if SIDE_EFFECT_ORDER.index(side_effect) <= SIDE_EFFECT_ORDER.index(handling.side_effect):
        return handling
    return _strictest_of(handling_of(Options(side_effect=side_effect, downstream=handling.downstream)), handling)


def _strictest_of(first: Handling, second: Handling) -> Handling:
    """Return the second one, with the strictest demands of both."""
    return replace(
        second,
        **{word: _strictest(rule, getattr(first, word), getattr(second, word)) for word, rule in HANDLED.items()},
    )


def merged(ledger: Options, tool: Options | None, call: Options | None, name: str) -> Options:
    """Return the options of all three as one, by the rule of each."""
    levels = [level for level in (call, tool, ledger) if level is not None]
    said = {word: [v for level in levels if (v := getattr(level, word)) is not None] for word in OPTIONS}
    if tool is not None and call is not None:
        _check_undeclared(tool, call, name)
    words: dict[str, Any] = {}
    for word, values in said.items():
        rule = OPTIONS[word]
        if not values:
            continue
        if isinstance(rule, Demand):
            words[word] = _strictest(rule, *values)
        else:
            words[word] = _all_of(values) if rule == "all" else values[0]
    if "downstream" in words and words.get("on_crash") == "retry":
        del words["on_crash"]  # sending again within the provider's window is the stricter of the two
    return Options(**words)


def strictest_word(word: str, *said: Any) -> Any:
    """Return the strictest of the words that are said of one demand; None stands for "not said"."""
    rule = OPTIONS[word]
    assert isinstance(rule, Demand)
    return _strictest(rule, *(each for each in said if each is not None))


def demanded(said: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words about a tool that is entered, with what the words about the tool that was called demand.

    Where the first ones say nothing, a default holds. Only the strongest word is sure to be no weaker than that.
    """
    words = dict(said)
    for word, rule in OPTIONS.items():
        other = others.get(word)
        if not isinstance(rule, Demand) or other is None:
            continue
        if said.get(word) is not None:
            words[word] = _strictest(rule, said[word], other)
        elif other == rule.order[-1]:
            words[word] = other
    return words


def _strictest(rule: Demand, *values: Any) -> Any:
    return max(values, key=rule.order.index)


def _all_of(values: list[Any]) -> tuple[Any, ...]:
    """Return what all say, the ledger first, and each word once."""
    several = [each if isinstance(each, tuple | list) else (each,) for each in reversed(values)]
    all_said: list[Any] = []  # a word may be a table, which no set holds
    for one in (one for each in several for one in each):
        if one not in all_said:
            all_said.append(one)
    return tuple(all_said)


def _check_undeclared(tool: Options, call: Options, name: str) -> None:
    for each in fields(Options):
        word, said = each.name, getattr(call, each.name)
        if OPTIONS[word] == "declared" and said is not None and said != getattr(tool, word):
            raise BadCall(
                f"{name}: {word} is for the tool to say, and {name} is registered here; say it there: "
                f"@ledger.tool(…, {word}=…)"
            )


def identified_by(call: ToolCall, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words by which a registered tool completes a call; raise `BadCall` where the call says another one.

    Args:
        call: A call of the tool.
        said: What the tool says of identity, and nothing that it does not say.
    """
    if said.get("key") is not None and (call.resource is not None or call.adopted_key is not None):
        raise _other_identity(call, "resource" if call.resource is not None else "adopted_key")
    gaps: dict[str, Any] = {}
    if call.dedupe in ("call", "turn") and "dedupe" not in said and ("key" in said or "resource" in said):
        gaps["dedupe"] = "args"  # what the tool names is its identity, in every turn
    for word, value in said.items():
        given = getattr(call, word)
        if given == value:
            continue
        if given != _UNSAID[word] and IDENTITY.get(word) == "refused":
            raise _other_identity(call, word)
        gaps[word] = value
    return gaps


def occurring(call: ToolCall, said: SideEffect | None, handling: Handling) -> ToolCall:
    """Return the call, told apart by its turn and not by its id where its class is stronger than its caller says.

    Each read has an occurrence of its own. What only its caller calls a read must not be repeated as one.
    """
    is_misread = call.dedupe == "call" and said in HARMLESS and handling.side_effect not in HARMLESS
    return replace(call, dedupe="turn") if is_misread else call


def _other_identity(call: ToolCall, word: str) -> BadCall:
    return BadCall(
        f"{call.tool}: is registered here and says what makes two of its calls the same, so a call cannot say {word}; "
        f"leave it out, or change it at @ledger.tool"
    )
