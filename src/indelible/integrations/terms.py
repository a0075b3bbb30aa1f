"""How the tools of a framework are treated: what an integrator says of them, and the calls that come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from indelible import Approval, Effect, Elsewhere, Options, ToolCall
from indelible.errors import (
    ApprovalEndedUnused,
    ApprovalPending,
    BadCall,
    BudgetExceeded,
    EffectCanceled,
    EffectCompensated,
    EffectDenied,
    EffectErased,
    KeyReused,
    NotRecordable,
    PolicyRefused,
    RepeatRefused,
    ResourceBusy,
    StillRunning,
    Stopped,
    TooLarge,
    UnfitArguments,
)
from indelible.integrations.telling import is_only_numbered
from indelible.tool import MODEL_TURN as MODEL_TURN
from indelible.tool import QUESTION as QUESTION
from indelible.tool import (
    IdentityWords,
    Parameters,
    bound,
    check_places,
    check_tool_name,
    check_words,
    demanded,
    encode,
    identity_of,
    lasting_text,
)
from indelible.tool import ModelTurn as ModelTurn
from indelible.tool import Question as Question

OnError = Literal["raise", "tell"]
_OPTIONS = frozenset(field.name for field in fields(Options))
_IDENTITY = frozenset(IdentityWords.__annotations__)
SAID_TO_THE_MODEL = (
    *(EffectDenied, PolicyRefused, BudgetExceeded, EffectCanceled, EffectCompensated, EffectErased),
    *(KeyReused, RepeatRefused, ResourceBusy, Stopped, NotRecordable, TooLarge, UnfitArguments),
)
"""Refusals that a model is told of (see `telling`); the agent goes on."""
_READING = frozenset({"none", "read"})
UNBOUND = "unbound"
"""Lists fields of a state, a context or dependencies that are not recorded, because they change by themselves."""
OCCURRENCE = "occurrence"
"""Tells calls apart by what they say and how often it was said before: the one rule that frameworks share."""
TURN: dict[str, Any] = {"side_effect": "read", "on_crash": "retry", "wait": timedelta(minutes=10)}
"""Say how a turn is treated: to ask a model again does no harm, and the answer that another waits for may take long."""


MOST_IN_PAUSE = 1_000_000
"""The number of characters of arguments that the pause of a framework carries."""


class NameTaken(BadCall):
    """The model says an argument of a name under which the framework supplies something: only one could be shown."""


class Spoken(NamedTuple):
    """Is one call as it stands in a conversation."""

    call_id: str | None
    tool: str
    args: Mapping[str, Any] | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Is one call as its framework names it: the stable id it belongs to, and the id the model gave it."""

    tool: str
    args: Mapping[str, Any]
    run_id: str
    server: str | None = None
    """Which of several servers the tool is of. Tools of two servers are two tools, also within a scope of the terms."""
    conversation: Sequence[str] = ()
    """Which of several conversations of the run says it, for calls that are known by their id or by how often they were
    said."""
    call_id: str | None = None
    schema: str = ""
    ordinal: int | None = None
    """Counts the calls of the conversation that say the same, up to this one; None where nobody can count them."""
    turn: str | None = None
    """The id of the user's last message; None where the framework does not tell, and then the run is one turn."""
    injected: Mapping[str, Any] = field(default_factory=dict)
    """What the framework gives the tool beside the model's arguments, as it is recorded; see `injected`."""
    parameters: Parameters | None = None
    """What the tool takes, if the framework's validation has not applied the defaults already."""
    reads: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """The framework's own validation: it reads arguments that an approver edited."""

    def bound(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as the tool gets them. It raises `BadCall` if they do not fit the tool."""
        return bound(self.parameters, args, self.tool)

    def bound_edit(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that an approver edited, as the tool gets them. It raises `BadCall` if they do not fit."""
        supplied = {name: value for name, value in args.items() if name in self.injected}
        said = {name: value for name, value in args.items() if name not in self.injected}
        try:
            return {**self.bound(said if self.reads is None else self.reads(said)), **supplied}
        except ValueError as wrong:
            raise BadCall(f"{self.tool}: does not take the arguments that an approver edited: {wrong}") from wrong


def question_of(pending: ApprovalPending, elsewhere: Iterable[Elsewhere] = ()) -> dict[str, Any]:
    """Return what a framework's own pause shows: what would run, and how to answer by its digest.

    Args:
        pending: What the ledger says of a call that waits. An approver may have edited its arguments.
        elsewhere: The same call in other runs and under other keys.
    """
    return question_about(pending.approval, pending.effect, elsewhere)


def question_about(approval: Approval, effect: Effect | None, elsewhere: Iterable[Elsewhere] = ()) -> dict[str, Any]:
    """Return what a framework's own pause shows of an approval and the effect that it is about."""
    shown = approval.shown(effect, fits=lambda text: len(text) <= MOST_IN_PAUSE, can_sign=True)
    return {
        "type": "indelible.approval",
        "approval": approval.id,
        "expires_at": approval.expires_at.isoformat(),
        "elsewhere": [one.shown() for one in elsewhere],
        **shown.as_json(),
    }


def asked_again(refusal: Exception, words: dict[str, Any]) -> bool:
    """Says whether the ledger is to be asked again, and lets `words` say how long that waits."""
    match refusal:
        case ApprovalEndedUnused():
            words["wait"] = False  # nobody decided in time: it is asked anew, and the agent pauses now
            return True
        case StillRunning() if words.get("wait") is False:
            del words["wait"]  # nobody is asked any more, another worker is at it: its result is ours too
            return True
        case _:
            return False


def is_same(one: Any, other: Any) -> bool:
    """Say whether two values are recorded alike; `1` and `True` are not."""
    return bool(one == other) and encode(one) == encode(other)


def hash_of(said: Any) -> str:
    """Gives the hash of what a reviewer of a tool relies on: its name, what it says of itself, and its parameters."""
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=lasting_text).encode()).hexdigest()


def checked_on_error(on_error: OnError) -> OnError:
    """Gives what is to become of a tool that raises, if that is one of the words for it."""
    if on_error not in ("raise", "tell"):
        raise BadCall(f"on_error={on_error!r}: choose raise or tell")
    return on_error


def ordinal_of(call_id: str | None, conversation: Iterable[Spoken]) -> int | None:
    """Says the how manieth call a call is of those in its conversation that say the same; None if it is not there."""
    said = [(one.call_id, _wording(one)) for one in conversation]
    for place in range(len(said) - 1, -1, -1):  # from the end, for some models use an id again in a later turn
        if said[place][0] == call_id:
            return sum(wording == said[place][1] for _, wording in said[: place + 1])
    return None


def _wording(spoken: Spoken) -> str:
    args = spoken.args
    if isinstance(args, str):
        with suppress(ValueError):  # what is no JSON still says the same as what has the same letters
            args = json.loads(args)
    return json.dumps([spoken.tool, args or {}], sort_keys=True, default=str)


class Terms:
    """Knows what was said of each tool of a framework, and makes calls for the ledger of its calls.

    What reads is known by the id that the model gave the call: each call reads anew. Everything else is known by its
    arguments within a turn (`dedupe="turn"`): a model that repeats itself gets the recorded result, and hears so. A
    tool that names a `key` or a `resource` is known by that, once per run or `scope`. `dedupe` says otherwise;
    "occurrence" counts the calls that say the same, so that another framework can go on where this one stopped.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None, usual: Mapping[str, Any]) -> None:
        self._usual: Mapping[str, Any] = _checked("every_tool", usual)
        self._said = {name: _checked(name, words) for name, words in (tools or {}).items()}
        self._tools: dict[str, Mapping[str, Any]] = {
            name: _over(self._usual, words) for name, words in self._said.items()
        }

    def extend(self, tool: str, name: str) -> None:
        """Treat `name` as `tool` is treated, unless the terms name it: it is that tool in a namespace."""
        if tool in self._tools:
            self._tools.setdefault(name, self._tools[tool])

    def check_function(self, tool: str, function: Callable[..., Any]) -> None:
        """Raise `BadCall` if the terms of this tool, not those of every tool, name a place that it does not have."""
        words = self._said.get(tool, {})
        check_places(tool, function, words, Options(**{word: words[word] for word in words.keys() & _OPTIONS}))

    def options(self, tool: str) -> dict[str, Any]:
        """Gives the words by which a ledger treats a call of this tool."""
        return {word: value for word, value in self._of(tool).items() if word in _OPTIONS}

    def at_once(self, tool: str, called: str | None = None) -> dict[str, Any]:
        """Gives the same words for an agent that is paused, and not kept waiting, while a person has to decide.

        Args:
            tool: The tool that is entered.
            called: The tool that the model called: what its terms demand holds, too. Default: the same one.
        """
        words = self.options(tool)
        return {"wait": False, **(words if called in (None, tool) else demanded(words, self.options(str(called))))}

    def own(self, tool: str) -> dict[str, Any]:
        """Gives the words that were said of this tool by its name, and not those that hold for every tool."""
        return self.options(tool) if tool in self._tools else {}

    def counts(self, tool: str) -> bool:
        """Are this tool's calls told apart by what they say and how often, whatever their ids?"""
        return self._of(tool).get("dedupe") == OCCURRENCE

    def call(self, named: Named) -> ToolCall:
        """Return the call that the ledger is to run.

        Raises:
            NameTaken: The arguments have a name that the framework supplies.
            BadCall: The arguments do not fit the tool, have no recorded form, or lack what its terms name.
        """
        check_tool_name(named.tool)
        words = self._of(named.tool)
        said = named.bound(named.args)
        taken = said.keys() & named.injected.keys()
        if taken:
            raise NameTaken(f"{named.tool}: {', '.join(sorted(taken))} is supplied by the program; leave it out")
        args = {**said, **named.injected}
        encode(args, root="args", is_whole=True)  # the model hears of what has no recorded form
        identity = identity_of({word: words.get(word) for word in _IDENTITY}, args, named.tool)
        if identity.get("dedupe") == OCCURRENCE:
            identity |= _counted(named)
            is_of_conversation = True
        else:
            is_meant = identity.get("dedupe") == "call" and words.get("side_effect") not in _READING
            identity.setdefault("dedupe", self._usual_dedupe(words, named))
            identity.setdefault("turn", named.turn)
            is_of_conversation = identity["dedupe"] == "call"
            is_anew = is_of_conversation and not is_meant
            identity["call_id"] = _new_id(named.call_id) if is_anew else named.call_id
        part = () if named.server is None else ("server", named.server)
        if is_of_conversation and named.conversation and "scope" not in identity:
            part = (*part, "conversation", *named.conversation)
        # A value that the terms name in `key` tells calls apart, as every argument there does.
        keys = {path.partition(".")[0] for path in words.get("key") or ()}
        injected = tuple(name for name in named.injected if name not in keys)
        known: dict[str, Any] = {"schema": named.schema, "injected": injected, "binds": named.bound_edit, "part": part}
        return ToolCall(tool=named.tool, args=args, run_id=named.run_id, **known, **identity)

    def unbound(self, tool: str) -> Sequence[str]:
        """Return the names of what the framework supplies and may change until the tool runs."""
        found: Sequence[str] = self._of(tool).get(UNBOUND) or ()
        return found

    def _usual_dedupe(self, words: Mapping[str, Any], named: Named) -> str:
        if words.get("key") is not None or words.get("resource") is not None:
            return "args"
        is_read = words.get("side_effect") in _READING and named.call_id is not None
        return "call" if is_read else "turn"

    def _of(self, tool: str) -> Mapping[str, Any]:
        return self._tools.get(tool, self._usual)


def _new_id(call_id: str | None) -> str | None:
    """Return the id of a call that runs anew each time. By an id that is only a number, it would get the first result.

    Not for a tool with effects whose terms say `dedupe="call"`: resumed under a new id, it would happen twice.
    """
    return call_id if call_id is None or not is_only_numbered(call_id) else f"{call_id}-{uuid4().hex}"


def _counted(named: Named) -> dict[str, Any]:
    """Return what tells a call apart by its arguments alone, as every ledger tool does, or the how manieth it is."""
    if named.ordinal is None:
        raise BadCall(
            f"{named.tool}: dedupe='occurrence' counts the calls in a conversation, and this one is in none that can be"
            " seen here; say dedupe='args', or name key fields"
        )
    if named.ordinal == 1:
        return {"dedupe": "args", "call_id": named.call_id}
    return {"dedupe": "call", "call_id": str(named.ordinal)}


def _checked(tool: str, words: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(words) - _OPTIONS - _IDENTITY - {UNBOUND}
    if isinstance(words.get(UNBOUND), str):
        raise BadCall(f"{tool}: unbound is a list of names, for example unbound=['cart']")
    if unknown:
        known = ", ".join(sorted(_OPTIONS | _IDENTITY | {UNBOUND}))
        raise BadCall(f"{tool}: {', '.join(sorted(unknown))} is nothing that can be said of a tool; use: {known}")
    if words.get("dedupe") == OCCURRENCE and any(words.get(word) is not None for word in ("key", "resource")):
        raise BadCall(f"{tool}: key fields or a resource tell its calls apart already; leave dedupe='occurrence' away")
    check_words(tool, {word: value for word, value in words.items() if word in _IDENTITY and value != OCCURRENCE})
    Options(**{word: value for word, value in words.items() if word in _OPTIONS})
    return dict(words)


def _over(usual: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of a tool, with the gaps filled by those of every tool; a key and a resource are one answer."""
    is_said = any(own.get(word) is not None for word in ("key", "resource"))
    return {word: value for word, value in usual.items() if not (is_said and word in ("key", "resource"))} | dict(own)


def turn_of(prompts: Sequence[Any]) -> str | None:
    """Name the turn by the user's messages so far: the number of the last one, and the hash of what it says.

    Both stay the same if an agent is resumed. The hash tells turns apart where only the last message is at hand.

    Args:
        prompts: The messages, as JSON: the text of an object is another one after the object was stored.
    """
    if not prompts:
        return None
    said = json.dumps(prompts[-1], sort_keys=True, default=lasting_text).encode()
    return f"message {len(prompts)} {hashlib.sha256(said).hexdigest()[:16]}"
