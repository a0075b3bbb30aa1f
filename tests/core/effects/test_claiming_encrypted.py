"""A call that is encrypted under another key, or under none, is still the same call; an edited one is not."""

from __future__ import annotations

from typing import Any

from indelible.core.commands import AwaitingApproval, Claimed, Decided, EditUnread, Illegal, Open, Relinquish
from indelible.core.privacy.encryption import DataKey, encrypted_command
from tests.core.making import ADA, AGENT, BO, OTHER_ARGS, REF, Shelf, allows, amend, asks, cast, open_command, stamp

FIRST, SECOND = (DataKey(bytes([number]) * 16, bytes([number]) * 32) for number in (1, 2))


def opening(number: int, key: DataKey | None, **words: Any) -> Open:
    fields = {"effect_id": f"eff_{number}", "token": f"{number:032x}", "stamp": stamp(actor=AGENT), "verdict": allows()}
    command = open_command(**{**fields, **words})
    if key is None:
        return command
    encrypted = encrypted_command(command, key)
    assert isinstance(encrypted, Open)
    return encrypted


def test_what_was_given_back_is_claimed_under_another_key_without_a_question() -> None:
    for first, second in ((FIRST, SECOND), (FIRST, None), (None, FIRST)):
        shelf = Shelf()
        begun = shelf.do(opening(1, first))
        assert isinstance(begun, Claimed)
        shelf.do(Relinquish(claim=begun.claim, stamp=stamp(), status="ready", detail_json=b'"nothing"'))
        assert isinstance(shelf.do(opening(2, second)), EditUnread), "its caller opens and judges what would run"
        assert isinstance(shelf.begin(opening(2, second)), Claimed)


def test_an_approved_call_is_claimed_under_another_key() -> None:
    shelf = Shelf()
    asked = shelf.do(opening(1, FIRST, verdict=asks()))
    assert isinstance(asked, AwaitingApproval)
    shelf.do(cast(asked.approval, ADA, can_read=True))
    assert isinstance(shelf.begin(opening(2, SECOND, verdict=asks())), Claimed)


def test_an_edited_call_runs_on_the_approval_of_its_edit_alone() -> None:
    shelf = Shelf()
    asked = shelf.do(opening(1, FIRST, verdict=asks()))
    assert isinstance(asked, AwaitingApproval)
    edit = encrypted_command(amend(asked.approval, args_json=OTHER_ARGS), FIRST)
    edited = shelf.do(edit)
    assert isinstance(edited, Decided)
    assert isinstance(shelf.begin(opening(2, SECOND, verdict=asks())), AwaitingApproval)
    shelf.do(cast(edited.approval, BO, can_read=True))
    begun = shelf.begin(opening(3, SECOND, verdict=asks()))
    assert isinstance(begun, Claimed)
    assert begun.claim.effect.args_json == shelf.effects[REF].args_json == FIRST.encrypt(OTHER_ARGS, REF, "args")


def test_95_arguments_that_are_encrypted_are_approved_only_where_they_can_be_read() -> None:
    shelf = Shelf()
    asked = shelf.do(opening(1, FIRST, verdict=asks()))
    assert isinstance(asked, AwaitingApproval)
    assert isinstance(shelf.do(cast(asked.approval, ADA)), Illegal)
    assert shelf.effects[REF].status == "requires_approval"
    denied = shelf.do(cast(asked.approval, ADA, is_approval=False))
    assert isinstance(denied, Decided), "to deny it, a person need not read it"
