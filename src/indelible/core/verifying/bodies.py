"""Reads event bodies exactly: a body is accepted if and only if it is the one text that its content has.

One regular expression is the whole grammar of an effect event. Its members stand in a fixed order and each value has
one way to be written, so a text that matches is RFC 8785's and needs no second encoding to compare with.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any, NamedTuple, NoReturn

from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.core.values.tags import SAFE_INTEGER

# What RFC 8785 leaves unescaped, and its only escapes, so each string has one form.
_PLAIN = r'[^"\\\x00-\x1f]*'
_TEXT = rf'"({_PLAIN}(?:\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])){_PLAIN})*)"'
_NUMBER = r"0|[1-9][0-9]{0,15}"
_HASH = r'"([0-9a-f]{64})"'
# A date that exists: 31 February is none, and neither is 29 February outside of a leap year.
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    r"(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_AT = rf'"({_DATE}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{{6}}Z)"'
_VIA = "(?:process|api_key|passkey|signature|link|oidc)"
_ACTOR = rf'"actor":\{{"id":{_TEXT},"kind":"(?:agent|person|system)","via":"{_VIA}"\}}'
_COMMIT = r'"[a-z_]+":"[0-9a-f]{64}"'
_COMMITS = rf'"commits":\{{(?P<commits>(?:{_COMMIT}(?:,{_COMMIT})*)?)\}}'
_WRITER = r'"writer":"([0-9a-f]{32})"'

_EFFECT = re.compile(
    rf'\{{{_ACTOR},"at":{_AT},"attempt":(?P<attempt>{_NUMBER}),{_COMMITS},"effect":"([A-Za-z0-9_-]+)","log":{_TEXT},'
    rf'"on_crash":"(retry|hold|resend)","prev":{_HASH},"run":{_TEXT},"seq":(?P<seq>{_NUMBER}),'
    rf'"side_effect":"({"|".join(SIDE_EFFECTS)})","status":"([a-z_]+)","tool":"([A-Za-z0-9_.:/-]+)",'
    rf'"type":"([a-z_]+)","v":1,{_WRITER}\}}',
    re.ASCII,
)
_ACTORS = re.compile(rf"\{{{_ACTOR},", re.ASCII)
_WHO = re.compile(rf'\{{"actor":\{{"id":{_TEXT},"kind":"([a-z]+)","via":"([a-z_]+)"\}},', re.ASCII)
_TIMES = re.compile(rf'\{{{_ACTOR},"at":{_AT},', re.ASCII)
_INSTANT = re.compile(_AT, re.ASCII)
_DIGITS = re.compile(r"[0-9a-f]+", re.ASCII)
_COMMIT_NAME = re.compile(r"[a-z_]+", re.ASCII)
_FACT_MEMBERS = ("actor", "at", "commits", "facts", "log", "prev", "run", "seq", "type", "v", "writer")
_WRITER_DIGITS = 32
_HASH_DIGITS = 64
_MOST_LEVELS = 64


class EffectBody(NamedTuple):
    """Is the content of an event about an effect; `log` and `run` are as JSON quotes them, without the quotes."""

    actor: str
    at: str
    attempt: str
    commits: str
    effect: str
    log: str
    on_crash: str
    prev: str
    run: str
    seq: str
    side_effect: str
    status: str
    tool: str
    type: str
    writer: str


class FactBody(NamedTuple):
    """Is the content of an event about no effect; `log` and `run` are as JSON quotes them, without the quotes."""

    at: str
    commits: dict[str, str]
    facts: dict[str, Any]
    log: str
    prev: str
    run: str
    seq: int
    type: str
    writer: str


def read_effect_body(text: str) -> tuple[str, ...] | None:
    """Gives the values of `EffectBody` in its order, or None when this is no such event. On the way of every event."""
    match = _EFFECT.fullmatch(text)
    if match is None:
        return None
    if int(match["attempt"]) > SAFE_INTEGER or int(match["seq"]) > SAFE_INTEGER:
        return None
    names = match["commits"].split('"')[1::4]
    return match.groups() if names == sorted(set(names)) else None  # in canonical order, and each once


def read_fact_body(text: str) -> FactBody | None:
    """Gives the content of an event about no effect, or None when the text is not exactly one."""
    try:
        content = _decode(text)
        if not isinstance(content, dict) or tuple(content) != _FACT_MEMBERS or canonical_text(content) != text:
            return None
    except (ValueError, RecursionError):
        return None
    return _checked(content) if _ACTORS.match(text) else None


def _checked(content: dict[str, Any]) -> FactBody | None:
    texts = [content[name] for name in ("at", "log", "prev", "run", "type", "writer")]
    if not all(type(one) is str for one in texts) or type(content["seq"]) is not int or content["seq"] < 0:
        return None
    at, log, prev, run, type_, writer = texts
    commits, facts = content["commits"], content["facts"]
    is_good = (
        content["v"] is not True
        and content["v"] == 1
        and type(facts) is dict
        and _is_clear(facts, _MOST_LEVELS)
        and type(commits) is dict
        and all(_COMMIT_NAME.fullmatch(name) and _is_hex(value, _HASH_DIGITS) for name, value in commits.items())
        and is_instant(at)
        and _is_hex(prev, _HASH_DIGITS)
        and _is_hex(writer, _WRITER_DIGITS)
    )
    return (
        FactBody(at, commits, facts, quoted(log), prev, quoted(run), content["seq"], type_, writer) if is_good else None
    )


def _is_clear(value: Any, levels: int) -> bool:
    """Say whether no name begins as tags do, which stand for what JSON cannot say, and nothing is nested too deep."""
    if type(value) is not dict and type(value) is not list:
        return True
    parts = value.values() if type(value) is dict else value
    if levels == 0 or (type(value) is dict and any(name.startswith("$") for name in value)):
        return False
    return all(_is_clear(part, levels - 1) for part in parts)


def _is_hex(value: object, digits: int) -> bool:
    return type(value) is str and len(value) == digits and _DIGITS.fullmatch(value) is not None


def is_instant(text: str) -> bool:
    """Say whether this is a moment that exists, as events write it."""
    return _INSTANT.fullmatch(f'"{text}"') is not None


def time_of(text: str) -> str | None:
    """Gives when an event happened, or None when this is no event."""
    match = _TIMES.match(text)
    return None if match is None else match[2]


def actor_of(text: str) -> tuple[str, str, str]:
    """Gives id, kind and via of who did what this event tells."""
    match = _WHO.match(text)
    assert match is not None, "only what is an event was read before"
    return unquoted(match[1]), match[2], match[3]


def commits_of(text: str) -> dict[str, str]:
    """Gives the commitments of an effect event from the text of that member."""
    parts = text.split('"')
    return dict(zip(parts[1::4], parts[3::4], strict=True))


def quoted(text: str) -> str:
    """Gives a text as it stands in a body, without the quotes."""
    return encode_basestring(text)[1:-1]


def unquoted(text: str) -> str:
    """Gives the text that stands quoted in a body."""
    return str(json.loads(f'"{text}"')) if "\\" in text else text


def strict_json(text: str) -> Any:
    """Reads JSON that is written canonically and holds no fraction; raises ValueError for any other."""
    try:
        content = _decode(text)
        if canonical_text(content) != text:
            raise ValueError("it is not written canonically")
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return content


def canonical_text(value: Any) -> str:
    """Writes plain JSON as RFC 8785 does: members by their UTF-16, which for ASCII is the order of `sort_keys`."""
    text = _ENCODER.encode(value)
    return text if text.isascii() else _ordered_text(value)


def _ordered_text(value: Any) -> str:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_ENCODER.encode(name)}:{_ordered_text(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_ordered_text(part) for part in value) + "]"
    return _ENCODER.encode(value)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} cannot stand in an event")


def _small_integer(text: str) -> int:
    number = int(text) if len(text) <= 17 else SAFE_INTEGER + 1
    return number if abs(number) <= SAFE_INTEGER else _refuse(text)


_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"))
_decode = json.JSONDecoder(parse_int=_small_integer, parse_float=_refuse, parse_constant=_refuse).decode
