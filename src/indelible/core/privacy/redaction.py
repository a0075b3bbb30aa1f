"""What must not be recorded, and what is recorded in its place. Pure: a key and rules in, marked values out.

A value that a path names becomes a `Redacted` mark; what a detector finds inside a text becomes a mark inside the text.
Marks are keyed hashes: equal secrets stay equal, so that keys, digests and deduplication work on them, and nobody
without the key can try out guesses.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from indelible.core.privacy.detectors import DETECTORS, Detector, forged_in, found_in
from indelible.core.values.canonical import decode, encode
from indelible.core.values.left_out import INSIDE, Place, moved_fields
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall

Rule = str | re.Pattern[str]
"""Is a path such as `args.card.number`, the name of a detector, or a pattern of one's own."""

REDACT_TAG = b"indelible/redact/v1\0"
TENANT_TAG = b"indelible/redact-tenant/v1\0"
SUBJECT_TAG = b"indelible/subject/v1\0"
CHECK_TAG = b"indelible/redaction-key/v1\0"
KEY_BYTES = 32
# Anything shorter stands in too many words by chance.
_SHORTEST_SECRET = 4
# Each is looked for in every text that comes back, so a whole document that is kept out must not make that endless.
_MOST_SECRETS = 1000
_ROOTS = ("args", "result", "*")
_STEP = re.compile(r"\[\]|[^.\[\]]+")
_ARTIFACT = ("$message", "data", "artifact")
_UPDATE = ("$command", "update")
# Where adapters put what a tool itself gave; a path of a result holds there too.
_WRAPPED: tuple[tuple[str, ...], ...] = (
    (), ("gave",), ("gave", "return_value"), ("gave", "metadata"), ("structuredContent",),
    ("structuredContent", "result"), ("_meta",),
    *((*around, *inside) for around in (("gave",), ("gave", "[]"), ("to_parent",))
      for inside in (_ARTIFACT, ("$command",), _UPDATE, (*_UPDATE, "messages", "[]", *_ARTIFACT))),
)  # fmt: skip
# Where adapters put the blocks that a framework makes of what a tool gave: one for each item of a list.
_BLOCKS: tuple[tuple[str, ...], ...] = ((), ("content",), ("gave",), ("gave", "$message", "data", "content"))
Moved = Mapping[Place, Mapping[str, int | None]]
_NOTHING_MOVED: Moved = {}
_PATH = re.compile(r"(?:args|result|\*)(?:\.[^.\[\]]+|\[\])+")


@dataclass(frozen=True, slots=True)
class Path:
    """Names places: steps are names, `*` for any one name and `[]` for any item; `is_anywhere` begins at any depth."""

    root: str
    steps: tuple[str, ...]

    @property
    def is_anywhere(self) -> bool:
        """Does it hold at any depth of arguments and results?"""
        return self.root == "*"


def check_rules(rules: object) -> tuple[Rule, ...]:
    """Gives rules as a tuple; raises `BadCall` for the first that is none, for a misspelt one would protect nothing."""
    if isinstance(rules, str | re.Pattern) or not isinstance(rules, Sequence):
        raise BadCall("redact is a list of rules, for example redact=['args.card.number', '*.password', 'card']")
    for rule in rules:
        if isinstance(rule, re.Pattern) and isinstance(rule.pattern, str):
            continue
        if not isinstance(rule, str) or (rule not in DETECTORS and not _PATH.fullmatch(rule)):
            raise BadCall(
                f"redact: {rule!r} is no rule; name a place (args.card.number, *.password, result.items[].ssn), one of "
                f"the detectors {', '.join(DETECTORS)}, or give a compiled pattern"
            )
    return tuple(rules)


def _path_of(rule: str) -> Path:
    root, steps = next((root, rule[len(root) :]) for root in _ROOTS if rule.startswith(root))
    return Path(root, tuple(_STEP.findall(steps)))


def places_in(rules: Iterable[Rule]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return each place of the arguments that rules name from their beginning: as it is said, and its steps."""
    for rule in rules:
        if isinstance(rule, str) and rule not in DETECTORS and (path := _path_of(rule)).root == "args":
            yield rule, path.steps


class Redactor:
    """Knows the rules of a tool and the key of its ledger; each tenant's marks are its own."""

    __slots__ = ("_detectors", "_key", "_paths")

    def __init__(self, rules: Iterable[Rule], key: bytes, tenant: str) -> None:
        # One tenant may make calls and see their marks: so it could try out guesses of another's secrets.
        self._key = hmac.digest(key, TENANT_TAG + tenant.encode(), sha256)
        self._paths: list[Path] = []
        self._detectors: list[Detector] = []
        for rule in dict.fromkeys(rules):
            if isinstance(rule, re.Pattern):
                self._detectors.append(Detector("pattern", rule))
            elif rule in DETECTORS:
                self._detectors.append(DETECTORS[rule])
            else:
                self._paths.append(_path_of(rule))

    def screen(self, args_json: bytes) -> Screen:
        """Gives what stands between the call with these arguments and the record."""
        secrets: dict[str, None] = {}

        def note(value: Any) -> None:
            secrets.update(dict.fromkeys(_texts_in(value)))

        recorded = encode(self._value(decode(args_json), "args", note), root="args")
        # Longest first, so that a secret inside another does not leave the rest of that one behind.
        ordered = tuple(sorted(secrets, key=len, reverse=True)[:_MOST_SECRETS])
        return Screen(redactor=self, args_json=args_json, recorded_args=recorded, secrets=ordered)

    def check_named(self, args: Any, args_json: bytes) -> None:
        """Raise `BadCall` if a rule names a field of the arguments that is recorded at another place than it says.

        Args:
            args: The arguments with their objects, as the tool gets them.
            args_json: Their recorded form.
        """
        recorded = decode(args_json)
        moved = moved_fields(args, recorded) if self._paths else {}
        if moved and encode(self._value(recorded, "args", _ignore, moved)) != encode(
            self._value(recorded, "args", _ignore)
        ):
            raise BadCall(
                "redact names a field of a named tuple, or one that a model records under another name, so the rule "
                "would not keep it out. A named tuple is recorded as a list: name its items with [], or use a dataclass"
            )

    def mark(self, value: Any) -> Redacted:
        """Gives the mark of a value."""
        return Redacted(hmac.digest(self._key, REDACT_TAG + encode(value), sha256).hex())

    def redacted(self, recorded: bytes, root: str, secrets: Sequence[str] = (), value: Any = None) -> bytes:
        """Gives the recorded form of a value without what the rules or known secrets keep back.

        Args:
            recorded: The recorded form.
            root: How paths into it begin.
            secrets: Texts that are kept out wherever they are.
            value: The value itself, with its objects: rules name their fields.
        """
        tree = decode(recorded)
        try:
            moved = moved_fields(value, tree) if self._paths else {}
        except Exception:  # the value's own code raised: nobody can tell where its fields went
            return encode(self.mark(tree))
        kept = self._value(tree, root, _ignore, moved)
        if secrets:
            kept = self._each_text(kept, lambda text: self._without(text, secrets), secrets.__contains__)
        return encode(kept)

    def text(self, text: str, secrets: Sequence[str] = ()) -> str:
        """Gives a text without what detectors find in it and without known secrets."""
        return self._detected(self._without(text, secrets))

    # Places that paths name

    def _value(self, value: Any, root: str, note: Callable[[Any], None], moved: Moved = _NOTHING_MOVED) -> Any:
        here = [path.steps for path in self._paths if path.root == root]
        anywhere = [path.steps for path in self._paths if path.is_anywhere]
        if root == "result" and self._paths:
            items = list(_within_items(here))
            wrapped = [(*around, *steps) for around in _WRAPPED for steps in here]
            wrapped += [(*around, "[]", "text") for around in _BLOCKS if () in items]
            kept = self._walked(self._unforged(value), wrapped, anywhere, note, moved)
            inside = [*here, *(steps for steps in items if steps)]
            kept = self._each_text(kept, lambda text: self._in_json(text, inside, anywhere), _never)
        else:
            kept = self._walked(self._unforged(value), here, anywhere, note, moved)
        if not self._detectors:
            return kept
        return self._each_text(kept, self._detected, lambda text: self._detected(text) != text)

    def _unforged(self, value: Any) -> Any:
        """Marks what only looks like a mark of ours: whoever passes a mark must not pass for who passed its value."""
        match value:
            case str():
                return self._replaced(value, "mark", forged_in(value))
            case dict():
                return {self._unforged(name): self._unforged(item) for name, item in value.items()}
            case list():
                return [self._unforged(item) for item in value]
            case Redacted():
                return self.mark(value)
            case _:
                return value

    def _walked(
        self,
        value: Any,
        here: list[tuple[str, ...]],
        anywhere: list[tuple[str, ...]],
        note: Callable[[Any], None],
        moved: Moved = _NOTHING_MOVED,
        at: Place = (),
    ) -> Any:
        """Gives a value with marks where the paths lead; `here` are the steps that are left at this place."""
        fields = moved.get(at, {})
        named = {None: (*here, *anywhere), INSIDE: anywhere}
        if any(_fits(steps[0], name) for name, number in fields.items() for steps in named.get(number, ())):
            note(value)
            return self.mark(value)
        if not isinstance(value, dict | list):
            return value
        names = {number: name for name, number in fields.items()}
        items: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else value.items()
        kept: list[tuple[Any, Any]] = []
        for name, item in items:
            said = {name, names.get(name, name)}
            left = [steps[1:] for steps in (*here, *anywhere) if any(_fits(steps[0], one) for one in said)]
            if () in left and item is not None:
                note(item)
                kept.append((name, self.mark(item)))
            else:
                inner = [steps for steps in left if steps]
                kept.append((name, self._walked(item, inner, anywhere, note, moved, (*at, name))))
        return [item for _, item in kept] if isinstance(value, list) else dict(kept)

    def _in_json(self, text: str, here: list[tuple[str, ...]], anywhere: list[tuple[str, ...]]) -> str:
        """Gives a text with marks where the paths lead in it, if it is JSON: adapters record results as such texts."""
        if text.lstrip()[:1] not in ("{", "["):
            return text
        try:
            inner = json.loads(text)
            kept = self._walked(inner, here, anywhere, _ignore)
        except (BadCall, RecursionError):  # no mark can be made of what stands there, so nothing of it is recorded
            return self._mark_in_text("value", text)
        except ValueError:
            return text
        return text if kept == inner else json.dumps(kept, ensure_ascii=False, default=str)

    # Texts that detectors search

    def _each_text(self, value: Any, change: Callable[[str], str], is_hidden: Callable[[str], bool]) -> Any:
        """Gives a value with every text in it changed, names included; what is no text is marked as a whole."""
        match value:
            case str():
                return change(value)
            case dict():
                return {change(name): self._each_text(item, change, is_hidden) for name, item in value.items()}
            case list():
                return [self._each_text(item, change, is_hidden) for item in value]
            case bytes():
                text = value.decode("latin-1")
                return value if change(text) == text else self.mark(value)
            case bool() | Redacted() | None:
                return value
            case _:
                return self.mark(value) if is_hidden(str(value)) else value

    def _detected(self, text: str) -> str:
        for detector in self._detectors:
            text = self._replaced(text, detector.name, found_in(text, detector))
        return text

    def _replaced(self, text: str, name: str, spans: Iterable[tuple[int, int]]) -> str:
        parts, end = [], 0
        for start, stop in spans:
            parts += [text[end:start], self._mark_in_text(name, text[start:stop])]
            end = stop
        return text if end == 0 else "".join([*parts, text[end:]])

    def _without(self, text: str, secrets: Sequence[str]) -> str:
        for secret in secrets:
            if secret in text:
                text = text.replace(secret, self._mark_in_text("value", secret))
        return text

    def _mark_in_text(self, name: str, found: str) -> str:
        return f"[redacted {name} {self.mark(found).mark[:32]}]"


def _ignore(value: Any) -> None:
    """Notes nothing: what a result holds is no secret of its call."""


def _never(text: str) -> bool:
    """Hides no number: only what stands at a path is hidden."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Stands between one call and the record: knows its own arguments, what is recorded of them, and its secrets."""

    redactor: Redactor
    args_json: bytes = field(repr=False)
    recorded_args: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def result(self, recorded: bytes, value: Any) -> bytes:
        """Gives what may be recorded of a result: of its recorded form, and of the objects in the value itself."""
        return self.redactor.redacted(recorded, "result", self.secrets, value)

    def text(self, text: str) -> str:
        """Gives what may be recorded of a message or a reason."""
        return self.redactor.text(text, self.secrets)


def may_have_marks(args_json: bytes | None) -> bool:
    """Say whether recorded arguments may hold marks; those that were erased or encrypted may."""
    return args_json is None or b"redacted" in args_json or b'"$encrypted"' in args_json


def _within_items(paths: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield where paths lead inside of an item, for those that begin with items: a text may hold one item alone."""
    for steps in paths:
        while steps[:1] == ("[]",):
            steps = steps[1:]
            yield steps


def _fits(step: str, name: str | int) -> bool:
    return step == "[]" if isinstance(name, int) else step in ("*", name)


def _texts_in(value: Any) -> Iterator[str]:
    """Lists the texts by which a secret could be known again elsewhere."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif not isinstance(value, bool | Redacted | None):
        texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)]
        texts += [value.isoformat()] if isinstance(value, datetime) else []
        yield from (form for text in texts if len(text) >= _SHORTEST_SECRET for form in _written(text))


def _written(text: str) -> tuple[str, ...]:
    """Return a text as it stands in other texts: by itself, in JSON, and as Python shows it."""
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]


# Subjects, which are found again by a keyed hash too.

Subject = str | Callable[[dict[str, Any]], Any]


def subject_of(subject: Subject, args_json: bytes, tool: str, *, is_optional: bool = False) -> str | None:
    """Return the text that names the person a call is about: what stands at a path, or what a function says.

    Args:
        subject: The path, or the function.
        args_json: The arguments.
        tool: The tool, for the error.
        is_optional: Return None instead of raising if nothing stands at the path: the path is the ledger's, for all
            its tools, and this tool is about nobody.
    """
    args: Any = decode(args_json)
    if callable(subject):
        found = subject(args)
        return None if found is None else subject_text(found, tool)
    here: Any = {"args": args}
    for name in subject.split("."):
        if not isinstance(here, dict) or name not in here:
            if is_optional:
                return None
            raise BadCall(f"{tool}: subject={subject!r} is not among the arguments; pass it or change the option")
        here = here[name]
    return None if here is None else subject_text(here, tool)


def subject_text(found: object, tool: str) -> str:
    """Gives the text of a subject; a number or a UUID is named by its digits."""
    if isinstance(found, str | int | UUID) and not isinstance(found, bool) and str(found):
        return str(found)
    raise BadCall(f"{tool}: a subject is a text, a whole number or a UUID, not {type(found).__name__}")


def subject_mark(key: bytes, tenant: str, subject: str) -> bytes:
    """Gives what is recorded of a subject, as canonical JSON: enough to find it again with the key, and no more."""
    raw = tenant.encode()
    message = SUBJECT_TAG + len(raw).to_bytes(4, "big") + raw + subject.encode("utf-8", "surrogatepass")
    return encode(hmac.digest(key, message, sha256).hex())


def key_check(key: bytes) -> str:
    """Gives what a ledger keeps to know its redaction key again."""
    return hmac.digest(key, CHECK_TAG, sha256).hex()
