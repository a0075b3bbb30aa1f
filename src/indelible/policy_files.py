"""Policies in files: YAML or JSON, read so that nobody can understand them differently, with the line of each problem.

YAML is taken apart here, event by event: nothing in a file can make an object of anything but text, numbers, truth
values, null, lists and objects. What readers of YAML disagree about (`no`, `010`, `1e3`, dates) has to stand in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from indelible.core.policy.policy import Policy, examine
from indelible.core.policy.reading import Place, Problem, written
from indelible.core.values.visible import draws_nothing, mark_of
from indelible.errors import BadPolicy

MOST_BYTES = 1024 * 1024
MOST_NODES = 50_000
MOST_DEPTH = 60
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,39})", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,39})\.[0-9]{1,40}", re.ASCII)
_OTHER_NUMBER = re.compile(
    r"[-+]?(0[xob][0-9a-f_]+|(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)(e[-+]?[0-9]+)?|\.?(inf|nan))",
    re.ASCII | re.IGNORECASE,
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_ONE_LETTER = frozenset("yYnN")
_BREAKS_FOR_SOME = "\x85\u2028\u2029"
_NEEDS_READER = "a policy in YAML needs a reader; run: pip install 'indelible[policy]', or write the policy as JSON"

Line = tuple[int, int]
"""Is a line and a column, both from 1 on."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """Is what a file says, and where in it each part stands, if its form tells."""

    path: Path
    content: Any
    lines: Mapping[Place, Line] = field(default_factory=dict)

    def line_of(self, place: Place) -> Line | None:
        """Gives where a part stands, or else the closest part around it."""
        return next((self.lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in self.lines), None)

    def told(self, problem: Problem) -> str:
        """Writes a problem as compilers do."""
        line = self.line_of(problem.place)
        return f"{self.path}:{'' if line is None else f'{line[0]}:{line[1]}:'} {problem}"


def load_policy(path: str | Path) -> Policy:
    """Reads the policy in a file; raises `BadPolicy` with everything that is wrong with it."""
    return Policy.of(load_content(path))


def load_content(path: str | Path) -> Mapping[str, Any]:
    """Reads the content of the policy in a file; raises `BadPolicy` with everything that is wrong with it."""
    file = read_file(path)
    problems = [file.told(problem) for problem in problems_in(file)]
    if problems:
        raise BadPolicy("this policy cannot be used:\n  " + "\n  ".join(problems), problems=problems)
    content: Mapping[str, Any] = file.content
    return content


def problems_in(file: PolicyFile) -> list[Problem]:
    """Lists everything that is wrong with a policy, in the order of the file."""
    _, _, problems = examine(file.content)
    told = {problem.place for problem in problems}
    problems += [problem for problem in _against_schema(file.content) if not _is_told(problem.place, told)]
    return sorted(problems, key=lambda problem: file.line_of(problem.place) or (0, 0))


def _is_told(place: Place, told: set[Place]) -> bool:
    """Was something said about this place, around it or inside it?"""
    return any(place[: len(other)] == other or other[: len(place)] == place for other in told)


def schema() -> dict[str, Any]:
    """Gives the JSON schema of policies, as editors use it."""
    content: dict[str, Any] = json.loads(files("indelible").joinpath("policy.schema.json").read_text("utf-8"))
    return content


def _against_schema(content: object) -> list[Problem]:
    """Compares content with the schema that we publish: a second look, which finds nothing that the core did not."""
    try:
        from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    except ModuleNotFoundError:  # JSON needs no extra, and the core has looked already
        return []
    return [
        Problem(tuple(error.absolute_path), f"is not as the schema of policies has it: {error.message[:200]}")
        for error in Draft202012Validator(schema()).iter_errors(content)
    ]


def read_file(path: str | Path) -> PolicyFile:
    """Reads a file as JSON if it is named so, else as YAML; raises `BadPolicy` when it is neither."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as problem:
        raise BadPolicy(f"{path} cannot be read: {problem.strerror or problem}") from problem
    if len(raw) > MOST_BYTES:
        raise BadPolicy(f"{path} has more than {MOST_BYTES} bytes; nobody could read such a policy")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadPolicy(f"{path} is not UTF-8, at byte {problem.start}; save it as UTF-8") from problem
    _check_is_seen(path, text)
    try:
        return PolicyFile(path, _json(path, text)) if path.suffix.lower() == ".json" else _yaml(path, text)
    except RecursionError:
        raise BadPolicy(f"{path} nests deeper than can be read") from None


def _check_is_seen(path: Path, text: str) -> None:
    """Refuses what nobody sees: a line that ends for one reader and goes on for another, or words turned round."""
    for place, letter in enumerate(text):
        if letter in _BREAKS_FOR_SOME or (not letter.isascii() and draws_nothing(letter)):
            line = text.count("\n", 0, place) + 1
            told = f"holds {mark_of(letter)}, which nobody sees; leave it away, or write it as an escape in quotes"
            raise BadPolicy(f"{path}:{line}:{place - text.rfind(chr(10), 0, place)}: {told}", problems=[told])


# JSON


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object_of, parse_float=Decimal, parse_constant=_refuse)
    except ValueError as problem:
        message = f"this is no JSON that can be read safely: {problem}"
        raise BadPolicy(f"{path}: {message}", problems=[message]) from problem


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(
            f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice in an object"
        )
    return dict(pairs)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


# YAML


def _yaml(path: Path, text: str) -> PolicyFile:
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise BadPolicy(f"{path}: {_NEEDS_READER}") from None
    builder = _Builder(path, yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    try:
        content = builder.document()
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        what = getattr(problem, "problem", None) or str(problem)
        raise BadPolicy(f"{path}:{_spot(mark)} this is no YAML: {what}", problems=[what]) from problem
    return PolicyFile(path, content, builder.lines)


def _spot(mark: Any) -> str:
    return "" if mark is None else f"{mark.line + 1}:{mark.column + 1}:"


class _Builder:
    """Builds content from the events of a YAML parser, and notes where each part stands."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        self._path = path
        self._events = events
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self.lines: dict[Place, Line] = {}

    def document(self) -> Any:
        """Builds the one document that a file holds."""
        kinds = [self._next(), self._next()]  # the stream starts, and a document, if there is one
        if type(kinds[1]).__name__ != "DocumentStartEvent":
            self._wrong(kinds[1], "the file is empty: write a policy, or delete the file")
        content = self._node(self._next(), ())
        self._next()
        end = self._next()
        if type(end).__name__ != "StreamEndEvent":
            self._wrong(end, "the file holds more than one document; write one policy to a file")
        return content

    def _next(self) -> Any:
        return next(self._events)

    def _wrong(self, event: Any, message: str) -> NoReturn:
        raise BadPolicy(f"{self._path}:{_spot(event.start_mark)} {message}", problems=[message])

    def _node(self, event: Any, place: Place) -> Any:
        self.lines.setdefault(place, (event.start_mark.line + 1, event.start_mark.column + 1))
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event)
        before = self._nodes
        self._count(event, 1)
        if len(place) > MOST_DEPTH:
            self._wrong(event, f"nests deeper than {MOST_DEPTH} levels")
        if event.tag is not None:
            self._wrong(event, f"the tag {event.tag} is not possible here; leave it away")
        value: Any
        if kind == "ScalarEvent":
            value = self._scalar(event)
        else:
            value = self._object(place) if kind == "MappingStartEvent" else self._list(place)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before)
        return value

    def _count(self, event: Any, more: int) -> None:
        """Counts what the content has once aliases are written out, so that few lines cannot become millions."""
        self._nodes += more
        if self._nodes > MOST_NODES:
            self._wrong(event, f"has more than {MOST_NODES} parts, aliases written out")

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            self._wrong(event, f"the alias *{event.anchor} has no anchor before it")
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        return value

    def _list(self, place: Place) -> list[Any]:
        found: list[Any] = []
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            found.append(self._node(event, (*place, len(found))))
        return found

    def _object(self, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            name = self._node(event, (*place, "")) if type(event).__name__ == "ScalarEvent" else None
            self.lines.pop((*place, ""), None)
            if not isinstance(name, str):
                self._wrong(event, "a name has to be a text; put it in quotes")
            here = (*place, name)
            if name in found:
                self._wrong(event, f"{written(here)} stands here twice, first in line {self.lines[here][0]}")
            self.lines[here] = (event.start_mark.line + 1, event.start_mark.column + 1)
            found[name] = self._node(self._next(), here)
        return found

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.style:  # in quotes, or a block of text
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Decimal(text)
        if _is_ambiguous(text):
            self._wrong(
                event,
                f"readers of YAML disagree about {text}: put it in quotes if it is a text, else write true, false, "
                "null, or a number as 12 or 12.50",
            )
        return text


def _is_ambiguous(text: str) -> bool:
    """Would some reader of YAML make something else of this than a text?"""
    import yaml

    for _, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], []):
        if pattern.match(text):
            return True
    return text in _ONE_LETTER or _OTHER_NUMBER.fullmatch(text) is not None
