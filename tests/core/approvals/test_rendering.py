"""What a place shows of an approval: all recorded arguments and the digest of them, or no vote and where to decide."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from tests.core.making import asked, effect

SEALED = encode(Encrypted(b"\x01" + bytes(52)))
LETTERS = {"to": "bob\u202e", "amount": 7}
ENDED = ("approved", "denied", "expired", "canceled", "stale", "consumed")


def question(**changes: object) -> tuple[Effect, Approval]:
    return asked(effect("requires_approval", args_json=encode(LETTERS)), **changes)


def test_84_all_recorded_arguments_are_shown_with_the_digest_of_them() -> None:
    made, approval = question()
    shown = approval.shown(made)
    assert shown.args == LETTERS
    assert shown.text == '{\n  "amount": 7,\n  "to": "bob\\u202e"\n}'
    assert (shown.why_not, shown.digest) == (None, approval.digest)
    assert [path for path, _ in shown.look_closely] == ["args.to"]
    assert approval.id in shown.command


def test_84_a_plain_text_holds_the_arguments_and_what_to_look_at_closely() -> None:
    made, approval = question()
    shown = approval.shown(made)
    assert shown.plain == f"{shown.text}\n\nlook closely\n  args.to: {shown.look_closely[0][1]}"
    honest = replace(shown, look_closely=())
    assert honest.plain == shown.text
    assert replace(honest, text=None, why_not="too long").plain == "(not shown: too long)"


def test_84_a_program_is_told_the_same() -> None:
    made, approval = question()
    shown = approval.shown(made)
    assert json.loads(json.dumps(shown.as_json())) == {
        "args": LETTERS,
        "text": shown.text,
        "look_closely": [{"path": "args.to", "why": shown.look_closely[0][1]}],
        "digest": approval.digest,
        "why_not": None,
        "show": shown.command,
    }


@pytest.mark.parametrize("change", [0, -1])
def test_84_what_does_not_fit_is_not_shown_and_not_decided(change: int) -> None:
    made, approval = question()
    whole = approval.shown(made)
    shown = approval.shown(made, fits=lambda text: len(text) <= len(whole.plain) + change)
    assert shown == whole if change == 0 else (shown.args, shown.text, shown.digest) == (None, None, None)
    assert (shown.why_not is None) == (change == 0)
    assert shown.command in shown.where


def test_84_what_is_erased_sealed_edited_or_of_another_call_is_not_decided() -> None:
    made, approval = question()
    sealed = replace(made, args_json=SEALED)
    edited = replace(made, args_json=encode({"to": "mallory"}), opened_seq=made.opened_seq + 1)
    for other in (None, replace(made, id="eff_2"), replace(made, args_json=None), sealed, edited):
        shown = approval.shown(other)
        assert (shown.args, shown.text, shown.digest) == (None, None, None)
        assert shown.why_not
        assert shown.why_not in shown.where


def test_84_what_has_to_be_signed_is_shown_and_decided_where_it_can_be_signed() -> None:
    made, approval = question()
    signed = replace(approval, question=replace(approval.question, needs_signature=True))
    assert (signed.shown(made).text is None, signed.shown(made).digest) == (False, None)
    assert signed.shown(made, can_sign=True).digest == approval.digest


@pytest.mark.parametrize("status", ENDED)
def test_84_what_is_decided_is_shown_and_not_decided_again(status: Any) -> None:
    made, approval = question()
    shown = replace(approval, status=status).shown(made)
    assert (shown.args, shown.digest) == (LETTERS, None)


ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), ANYTHING, max_size=5), st.dictionaries(st.text(), ANYTHING, max_size=5))
def test_84_what_is_shown_says_exactly_what_is_recorded(args: dict[str, Any], others: dict[str, Any]) -> None:
    made, approval = asked(effect("requires_approval", args_json=encode(args)))
    another, about = asked(effect("requires_approval", args_json=encode(others)))
    text, other = approval.shown(made).text, about.shown(another).text
    assert text is not None
    assert made.args_json is not None
    assert json.loads(text) == json.loads(made.args_json)
    assert (text == other) == (made.args_json == another.args_json)
