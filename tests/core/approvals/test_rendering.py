"""What a place shows of an approval: all recorded arguments and the digest of them, or no vote and where to decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from tests.core.making import asked, effect

SEALED = encode(Encrypted(b"\x01" + bytes(52)))
LETTERS = {"to": "bob\u202e", "amount": 7}


def question(**changes: object) -> tuple[Effect, Approval]:
    return asked(effect("requires_approval", args_json=encode(LETTERS)), **changes)


def test_84_all_recorded_arguments_are_shown_with_the_digest_of_them() -> None:
    made, approval = question()
    shown = approval.shown(made)
    assert shown.text == '{\n  "amount": 7,\n  "to": "bob⟨U+202E⟩"\n}'
    assert (shown.why_not, shown.digest) == (None, approval.digest)
    assert approval.id in shown.command


@pytest.mark.parametrize("change", [0, -1])
def test_84_what_does_not_fit_is_not_shown_and_not_decided(change: int) -> None:
    made, approval = question()
    whole = approval.shown(made).text
    assert whole is not None
    shown = approval.shown(made, len(whole) + change)
    assert (shown.text, shown.digest) == ((whole, approval.digest) if change == 0 else (None, None))
    assert (shown.why_not is None) == (change == 0)


def test_84_what_is_erased_sealed_or_of_another_call_is_not_decided() -> None:
    made, approval = question()
    sealed = replace(made, args_json=SEALED)
    for other in (None, replace(made, id="eff_2"), replace(made, args_json=None), sealed):
        shown = approval.shown(other)
        assert (shown.text, shown.digest) == (None, None)
        assert shown.why_not


def test_84_what_has_to_be_signed_is_shown_and_decided_elsewhere() -> None:
    made, approval = question()
    shown = replace(approval, question=replace(approval.question, needs_signature=True)).shown(made)
    assert (shown.text is None, shown.digest) == (False, None)
