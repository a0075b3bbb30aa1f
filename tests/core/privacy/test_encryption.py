"""Promises of core.privacy.encryption: nothing is read without its key, moved to another place, or said in clear."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Refusal, approval_digest
from indelible.core.commands import (
    Answer,
    AwaitingApproval,
    Cancel,
    Claimed,
    Command,
    Decided,
    Expire,
    Illegal,
    Keep,
    Kept,
    Late,
    Moved,
    NoSuchEffect,
    NotCounted,
    Outrun,
    Record,
    Recorded,
    RefusedByPolicy,
    Reopen,
    Replayed,
    Settle,
)
from indelible.core.effects.identity import Ref
from indelible.core.privacy.encryption import (
    DataKey,
    Find,
    KeyId,
    encrypted_command,
    holder_in,
    holder_of_run,
    holder_of_subject,
    opened_answer,
    opened_effect,
    opened_value,
)
from indelible.core.privacy.redaction import subject_mark
from indelible.core.sheets import Sheet
from indelible.core.values.canonical import decode
from indelible.core.values.tags import Encrypted
from indelible.core.verifying.payloads import Disclosed
from indelible.errors import EffectErased
from tests.core.explored import examine
from tests.core.making import (
    AGENT,
    BO,
    NOON,
    REF,
    Shelf,
    amend,
    asked,
    asks,
    attend,
    cast,
    claim_of,
    effect,
    finish,
    open_command,
    refuses,
    relinquish,
    show_to,
    stamp,
    take_back,
)

HOLDER = b"\x02" * 16
KEY = DataKey(HOLDER, b"\x01" * 32)
SECRET = b'{"note":"CANARY"}'
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "canonical.md"
FIELDS = ("args", "result", "error", "reason", "evidence")


def having(*keys: DataKey) -> Find:
    return {key.id: key for key in keys}.get


HAVE: Find = having(KEY)
HAVE_NOT: Find = having()


# ── one value ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_published_bytes_stay() -> None:
    recorded = KEY.encrypt(b'{"amount":5}', REF, "args")
    assert f"\n{recorded.decode()}\n" in PAGE.read_text(encoding="utf-8")


@given(st.binary(), st.sampled_from(FIELDS))
def test_a_value_comes_back_with_its_key_and_only_with_it(value: bytes, field: str) -> None:
    recorded = KEY.encrypt(value, REF, field)
    assert value not in recorded or len(value) < 16
    assert opened_value(recorded, REF, field, HAVE) == value
    assert opened_value(recorded, REF, field, HAVE_NOT) is None
    later = DataKey(HOLDER, b"\x03" * 32)
    assert opened_value(recorded, REF, field, having(later)) is None, "a new key of the same person is another key"


def test_what_is_recorded_is_one_tag_of_the_canonical_form() -> None:
    value = decode(KEY.encrypt(SECRET, REF, "args"))
    assert isinstance(value, Encrypted)
    assert value.content[0] == 1


def test_the_same_at_the_same_place_is_recorded_alike_and_nothing_else_is() -> None:
    places = [
        (REF, "args"),
        (REF, "result"),
        (Ref("other", *REF[1:]), "args"),
        (Ref(REF.tenant, "run-2", REF.key), "args"),
        (Ref(REF.tenant, REF.scope, "ac" * 32), "args"),
        (Ref(REF.tenant + REF.scope[:1], REF.scope[1:], REF.key), "args"),
    ]
    recorded = [KEY.encrypt(SECRET, *place) for place in places]
    assert recorded == [KEY.encrypt(SECRET, *place) for place in places]
    assert len(set(recorded)) == len(places)
    nonces = {decode(each).content[25:37] for each in recorded}  # type: ignore[union-attr]
    assert len(nonces) == len(places), "a nonce serves one value at one place"


def test_a_value_that_was_moved_or_changed_is_not_opened() -> None:
    recorded = KEY.encrypt(SECRET, REF, "args")
    assert opened_value(recorded, REF, "result", HAVE) == recorded
    assert opened_value(recorded, Ref(REF.tenant, "run-2", REF.key), "args", HAVE) == recorded
    content = decode(recorded).content  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="altered"):
        KEY.decrypt(content[:-1] + bytes([content[-1] ^ 1]), REF, "args")


@pytest.mark.parametrize("spoilt", [b'{"$encrypted":"AQ=="}', b'{"$encrypted":"?"}', b'{"$encrypted":"', b'{"a":1}'])
def test_what_is_no_encrypted_value_stays_as_it_is(spoilt: bytes) -> None:
    assert opened_value(spoilt, REF, "args", HAVE) == spoilt
    assert holder_in(spoilt) is None


def test_a_version_that_is_not_ours_is_not_read() -> None:
    with pytest.raises(ValueError, match="encrypted here"):
        Encrypted(b"\x02" + bytes(52))


def test_nothing_stays_nothing() -> None:
    assert opened_value(None, REF, "args", HAVE) is None
    assert holder_in(None) is None


# ── whose key ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_value_says_whose_key_it_is() -> None:
    assert holder_in(KEY.encrypt(SECRET, REF, "args")) == HOLDER


def test_a_persons_holder_is_the_beginning_of_their_mark_and_tells_nothing() -> None:
    mark = subject_mark(b"\x07" * 32, "default", "ada")
    assert holder_of_subject(mark) == bytes.fromhex(mark.decode()[1:33])


def test_runs_have_holders_of_their_own() -> None:
    told = {holder_of_run(key, *place) for key in (b"k" * 32, b"l" * 32) for place in (("a", "bc"), ("ab", "c"))}
    assert len(told) == 4


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SAID = b'"CANARY"'
WAITING, ASKED = asked(effect("requires_approval"))
SHEET = Sheet(kind="budget", id="spend", status="open", body=b"{}")
COMMANDS: list[tuple[Command, dict[str, str]]] = [
    (open_command(args_json=SECRET), {"args_json": "args"}),
    (finish(claim_of(effect()), detail=SAID), {"detail_json": "result"}),
    (finish(claim_of(effect()), "failed", SAID), {"detail_json": "error"}),
    (relinquish(claim_of(effect()), detail=SAID), {"detail_json": "reason"}),
    (Reopen(ref=REF, stamp=stamp(), detail_json=SAID), {"detail_json": "reason"}),
    (Cancel(ref=REF, stamp=stamp(), detail_json=SAID), {"detail_json": "reason"}),
    (cast(ASKED, detail_json=SAID), {"detail_json": "reason"}),
    (take_back(ASKED), {"detail_json": "reason"}),
    (amend(ASKED, args_json=SECRET, detail_json=SAID), {"args_json": "args", "detail_json": "reason"}),
    (show_to(ASKED), {}),
    (attend(ASKED), {}),
    (Keep(tenant="default", stamp=stamp(), sheet=SHEET), {}),
    (
        Settle(ref=REF, stamp=stamp(), status="failed", detail_json=SAID, evidence_json=SAID),
        {"detail_json": "error", "evidence_json": "evidence"},
    ),
    (Expire(ref=REF, stamp=stamp()), {}),
    (Record(tenant="default", run_id="run-1", stamp=stamp(), event_type="hold_placed", facts=b"{}"), {}),
]


@pytest.mark.parametrize(("command", "fields"), COMMANDS, ids=lambda each: type(each).__name__)
def test_every_value_of_a_command_is_encrypted_for_its_field(command: Command, fields: dict[str, str]) -> None:
    made: Any = encrypted_command(command, KEY)
    assert {name for name in made.__slots__ if getattr(made, name) != getattr(command, name)} == fields.keys()
    for name, field in fields.items():
        assert opened_value(getattr(made, name), REF, field, HAVE) == getattr(command, name)


# ── effects and answers ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_effect_lives_in_cipher_and_is_seen_in_clear() -> None:
    shelf = Shelf()
    begun = shelf.do(encrypted_command(open_command(args_json=SECRET), KEY))
    late = encrypted_command(finish(begun.claim, detail=SAID), KEY)
    given_up = shelf.do(encrypted_command(relinquish(begun.claim, "in_doubt", SAID), KEY))
    assert opened_effect(given_up.effect, HAVE).detail == "CANARY"
    settled = opened_effect(shelf.do(late).effect, HAVE)
    assert (settled.status, settled.args, settled.detail) == ("succeeded", {"note": "CANARY"}, "CANARY")
    settling = Settle(ref=REF, stamp=stamp(), status="succeeded", detail_json=SAID, evidence_json=SAID)
    assert isinstance(shelf.do(encrypted_command(settling, KEY)), Illegal)
    elder = replace(begun.claim, effect=replace(begun.claim.effect, attempt=0))
    shelf.do(encrypted_command(finish(elder, detail=SAID), KEY))
    assert all(b"CANARY" not in payload.value for payload in shelf.payloads)
    (kept,) = (payload for payload in shelf.payloads if payload.field == "late_result")
    assert opened_value(kept.value, REF, kept.field, HAVE) == SAID


def test_a_report_that_is_made_twice_is_known_as_one() -> None:
    shelf = Shelf()
    begun = shelf.do(encrypted_command(open_command(args_json=SECRET), KEY))
    for _ in range(2):
        assert isinstance(shelf.do(encrypted_command(finish(begun.claim, detail=SAID), KEY)), Moved)
    assert len(shelf.events["run-1"]) == 2


def test_what_lost_its_key_is_erased_and_nothing_else() -> None:
    lost = effect("succeeded", args_json=KEY.encrypt(SECRET, REF, "args"), detail_json=KEY.encrypt(SAID, REF, "result"))
    seen = opened_effect(lost, HAVE_NOT)
    assert seen.are_args_erased
    assert seen.is_detail_erased
    for read in ("args", "detail", "outcome"):
        with pytest.raises(EffectErased):
            getattr(seen, read)


def test_what_was_never_encrypted_is_the_same_object() -> None:
    plain = effect("succeeded")
    assert opened_effect(plain, HAVE) is plain


CIPHER = effect("in_doubt", args_json=KEY.encrypt(SECRET, REF, "args"), detail_json=KEY.encrypt(SAID, REF, "reason"))


@pytest.mark.parametrize(
    "answer",
    [
        *(Moved(CIPHER), Late(CIPHER), Illegal(CIPHER, "no"), Claimed(claim_of(CIPHER))),
        *(AwaitingApproval(ASKED, CIPHER), Decided(ASKED, CIPHER), NotCounted(Refusal("no", "no"), ASKED, CIPHER)),
    ],
)
def test_answers_show_effects_in_clear(answer: Answer) -> None:
    seen = opened_answer(answer, HAVE)
    assert type(seen) is type(answer)
    shown = seen.claim.effect if isinstance(seen, Claimed) else seen.effect  # type: ignore[union-attr]
    assert (shown.args, shown.detail) == ({"note": "CANARY"}, "CANARY")
    if isinstance(answer, Illegal | Claimed):
        assert seen != answer
        assert getattr(seen, "why", "no") == "no"


def test_a_replay_gives_the_value() -> None:
    done = effect("succeeded", detail_json=KEY.encrypt(SAID, REF, "result"))
    answer = opened_answer(Replayed(done), HAVE)
    assert isinstance(answer, Replayed)
    assert answer.value == "CANARY"


@pytest.mark.parametrize(
    "answer", [NoSuchEffect(REF), Recorded("run-1", 3), Kept(SHEET), Outrun(None), RefusedByPolicy(refuses())]
)
def test_answers_about_no_effect_stay(answer: Answer) -> None:
    assert opened_answer(answer, HAVE) is answer


def test_a_key_is_known_by_holder_and_check() -> None:
    assert KEY.id == KeyId(HOLDER, DataKey(HOLDER, b"\x01" * 32).id.check)
    assert KEY.id != DataKey(HOLDER, b"\x04" * 32).id
    assert b"\x01" * 8 not in KEY.id.check


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_approved_is_the_recorded_form_and_what_people_say_is_encrypted() -> None:
    """So whoever has no key can count the votes and compute the digest again, and reads neither args nor reasons."""
    shelf = Shelf()
    asking = open_command(args_json=SECRET, verdict=asks(), stamp=stamp(NOON, AGENT))
    shelf.do(encrypted_command(asking, KEY))
    edited = b'{"note":"CANARY, edited"}'
    shelf.do(encrypted_command(amend(shelf.approval(), BO, args_json=edited, detail_json=SAID), KEY))
    approval = shelf.approval()
    recorded = KEY.encrypt(edited, REF, "args")
    assert approval.digest == approval_digest(
        approval=approval.id,
        tenant="default",
        run_id="run-1",
        tool="pay",
        schema="",
        args_json=recorded,
        policy=approval.policy,
        expires_at=approval.expires_at,
    )
    shelf.do(encrypted_command(cast(approval, detail_json=SAID, can_read=True), KEY))
    begun = shelf.begin(encrypted_command(asking, KEY))
    assert opened_effect(begun.claim.effect, HAVE).args == {"note": "CANARY, edited"}
    assert all(b"CANARY" not in payload.value for payload in shelf.payloads)
    shown: dict[Any, dict[str, Disclosed]] = {}
    for one in shelf.payloads:
        shown.setdefault((one.run_id, one.seq), {})[one.field] = Disclosed(0, one.field, one.salt, one.value)
    assert examine(shelf.events["run-1"], shown).permissions.used == 1
    names = {field for values in shown.values() for field in values}
    assert names == {"args", "key", "approval", "policy", "reason"}


def test_what_an_approval_says_stays_in_clear() -> None:
    shelf = Shelf()
    shelf.do(encrypted_command(open_command(args_json=SECRET, verdict=asks(), stamp=stamp(NOON, AGENT)), KEY))
    (sheet,) = (payload for payload in shelf.payloads if payload.field == "approval")
    assert holder_in(sheet.value) is None
    assert b'"requester":{"id":"agent"' in sheet.value
