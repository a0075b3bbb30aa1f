"""Promises of core.approvals.approval: who may decide, when it is enough, and what exactly was decided."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import (
    APPROVAL_STATUSES,
    MOST_NEEDED,
    OPEN_STATUSES,
    Approval,
    Escalation,
    Need,
    Person,
    Question,
    Refusal,
    approval_digest,
    consumed,
    counting_votes,
    drifted,
    ended,
    escalated,
    folded,
    handed_back,
    is_bound_to,
    is_entitled,
    is_signed,
    lacking,
    looks_like,
    same_person,
    unvoted,
    vote_message,
    voted,
)
from indelible.core.approvals.sheets import approval_ref, approval_sheet, read_approval
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.identity import Naming, Ref
from indelible.core.values.alike import letters_of
from indelible.errors import BadCall
from tests.core.making import HOUR, NOON, OTHER_DIGEST, SECOND, asked, asks, effect, vote

EFFECT, PENDING = asked(effect("requires_approval"))
TICK = timedelta(microseconds=1)
ADA_KEY = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
BO_KEY = Ed25519PrivateKey.from_private_bytes(b"\2" * 32)


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def question(*needs: Need, **words: Any) -> Question:
    return Question(rule="ask first", needs=needs or (Need(),), **words)


def about(asking: Question, **changes: Any) -> Approval:
    return replace(PENDING, question=asking, **changes)


def say(approval: Approval, by: str, *, kind: str = "person", digest: str | None = None, **words: Any) -> Any:
    """Gives what becomes of an approval when somebody votes on what they were shown."""
    return voted(approval, vote(by, **words), digest or approval.digest, kind, NOON)


def code(answer: Any) -> str:
    assert isinstance(answer, Refusal), f"it was counted: {answer}"
    assert answer.why
    return answer.code


# ── a question ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"needs": ()}, "at least one person"),
        ({"needs": (Need(0),)}, "at least one person"),
        ({"needs": (Need(2), Need(-1))}, "at least one person"),
        ({"needs": (Need(MOST_NEEDED), Need(1))}, "at most"),
        ({"expires": timedelta(0)}, "longer than nothing"),
        ({"expires": -SECOND}, "longer than nothing"),
        ({"escalations": (Escalation(timedelta(0)),)}, "one after the other"),
        ({"escalations": (Escalation(-SECOND),)}, "one after the other"),
        ({"escalations": (Escalation(2 * HOUR), Escalation(HOUR))}, "one after the other"),
    ],
)
def test_a_question_that_asks_nobody_or_never_is_refused_with_its_rule(words: Any, why: str) -> None:
    with pytest.raises(BadCall, match=why) as refusal:
        Question(rule="the rule", **words)
    assert "'the rule'" in str(refusal.value)


def test_a_question_is_for_one_day_and_one_person_unless_it_says_otherwise() -> None:
    plain = Question(rule="r")
    assert (plain.needs, plain.people, plain.expires) == ((Need(1, None),), None, timedelta(hours=24))
    Question(rule="r", escalations=(Escalation(HOUR), Escalation(HOUR), Escalation(2 * HOUR)))
    Question(rule="r", needs=(Need(MOST_NEEDED),))


def test_a_question_is_about_the_effect_as_it_is() -> None:
    assert (PENDING.effect_id, PENDING.ref, PENDING.run_id) == (EFFECT.id, EFFECT.ref, EFFECT.run_id)
    assert (PENDING.tool, PENDING.side_effect, PENDING.args_seq) == ("pay", "payment", EFFECT.opened_seq)
    assert (PENDING.status, PENDING.version, PENDING.votes) == ("pending", 1, ())
    assert PENDING.expires_at == NOON + timedelta(hours=24)
    with pytest.raises(AssertionError, match="erased"):
        asked(effect("requires_approval", args_json=None))


# ── how many, and who ────────────────────────────────────────────────────────────────────────────────────────────────

ANY, FIN, LAW = Need(1), Need(1, "finance"), Need(1, "legal")


def roles(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("needs", "voters", "left"),
    [
        ([ANY], [], 1),
        ([ANY], [roles()], 0),
        ([ANY], [None], 0),
        ([Need(3)], [roles(), roles()], 1),
        ([FIN], [roles("legal")], 1),
        ([FIN], [roles("legal"), roles("finance")], 0),
        ([FIN, LAW], [roles("finance", "legal")], 1),  # one person fills one place
        ([FIN, LAW], [roles("finance", "legal"), roles("finance")], 0),  # and makes room for the other
        ([FIN, LAW], [roles("finance"), roles("finance", "legal")], 0),
        ([FIN, LAW], [roles("finance"), roles("finance")], 1),
        ([FIN, ANY], [roles("finance"), roles()], 0),
        ([FIN, ANY], [roles(), roles("finance")], 0),
        ([ANY, FIN], [roles("finance"), roles()], 0),
        ([ANY, FIN], [roles(), roles()], 1),
        ([Need(2, "finance"), LAW], [roles("finance", "legal")] * 2, 1),
        ([Need(2, "finance"), LAW], [roles("finance", "legal")] * 3, 0),
        ([Need(2, "finance"), LAW], [roles("finance"), roles("legal"), roles("finance")], 0),
        ([ANY], [roles()] * 5, 0),
        ([FIN, LAW], [None, None], 0),
    ],
)
def test_every_place_takes_one_person_of_its_role(needs: list[Need], voters: Any, left: int) -> None:
    assert lacking(needs, voters) == left


def most_filled(places: Sequence[str | None], voters: Sequence[frozenset[str] | None]) -> int:
    """Tries every assignment of voters to places."""
    best = 0
    for chosen in itertools.permutations([*range(len(voters)), *[None] * len(places)], len(places)):
        best = max(
            best,
            sum(
                voter is not None and (role is None or voters[voter] is None or role in (voters[voter] or ()))
                for role, voter in zip(places, chosen, strict=True)
            ),
        )
    return best


@given(
    st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=3),
    st.lists(st.none() | st.frozensets(st.sampled_from(["a", "b", "c"]), max_size=2), max_size=3),
)
def test_what_is_lacking_is_what_no_choice_of_places_could_fill(places: Any, voters: Any) -> None:
    needs = [Need(1, role) for role in places]
    assert lacking(needs, voters) == len(places) - most_filled(places, voters)


def test_one_vote_is_enough_where_one_is_asked_for() -> None:
    approved = say(PENDING, "ada")
    assert (approved.status, approved.version) == ("approved", 2)
    assert approved.votes == (vote("ada"),)


def test_votes_add_up_to_a_quorum_of_roles() -> None:
    people = {"ada": Person(("finance",)), "bo": Person(("finance", "legal")), "cy": Person(("legal",))}
    approval = about(question(Need(2, "finance"), Need(1, "legal"), people=people))
    assert approval.lacking == 3
    first = say(approval, "bo")
    assert (first.status, first.lacking) == ("pending", 2)
    second = say(first, "cy")
    assert (second.status, second.lacking) == ("pending", 1)
    third = say(second, "ada")
    assert (third.status, third.lacking, third.version) == ("approved", 0, 4)


def test_one_refusal_is_enough() -> None:
    first = say(about(question(Need(3))), "ada")
    denied = say(first, "bo", is_approval=False)
    assert (denied.status, [one.by for one in denied.votes]) == ("denied", ["ada", "bo"])
    assert denied.lacking == 2, "a refusal fills no place"


def test_somebody_who_is_not_named_may_not_decide() -> None:
    named = about(question(Need(1, "finance"), people={"ada": Person(("finance",)), "bo": Person(("legal",))}))
    assert code(say(named, "eve")) == "not_entitled"
    assert code(say(named, "eve", is_approval=False)) == "not_entitled"
    assert code(say(named, "bo")) == "not_entitled", "nobody asked for that role"
    assert say(named, "ada").status == "approved"
    assert [is_entitled(named, name) for name in ("ada", "bo", "eve")] == [True, False, False]
    assert is_entitled(about(question()), "anybody")


def test_those_to_whom_it_was_escalated_may_decide_from_then_on() -> None:
    steps = (Escalation(HOUR, {"boss": Person()}), Escalation(2 * HOUR, {"chief": Person()}))
    approval = about(question(people={"ada": Person()}, escalations=steps))
    assert code(say(approval, "boss")) == "not_entitled"
    once = escalated(approval, NOON + HOUR)
    assert once.escalated == 1
    assert set(once.people or ()) == {"ada", "boss"}
    assert say(once, "boss").status == "approved"
    assert code(say(once, "chief")) == "not_entitled"
    twice = escalated(once, NOON + 5 * HOUR)
    assert (twice.escalated, twice.version) == (2, approval.version + 2)
    assert say(twice, "chief").status == "approved"
    assert escalated(twice, NOON).escalated == 2, "what was escalated stays so, whatever the clock says"
    assert escalated(about(question(escalations=steps)), NOON + HOUR).people is None


# ── whose vote it is ─────────────────────────────────────────────────────────────────────────────────────────────────

LOOKALIKES = [
    ("ada", "ADA"),
    ("ada", "Ada "),
    ("ada", "\u00a0ada"),
    ("ada", "ａｄａ"),  # full width
    ("ada", "𝐚𝐝𝐚"),  # mathematical bold
    ("ﬁona", "fiona"),  # ligature
    ("zoë", "zoe\u0308"),  # composed and not
    ("STRASSE", "straße"),
    ("Ⅷ", "viii"),
    ("ada", "a\u200bda"),  # zero width space
    ("ada", "ada\u200d"),
    ("ada", "\u202eada"),  # right to left override
    ("ada", "ada\ufeff"),
    ("ada", "a\u00adda"),  # soft hyphen
    ("ada", "ada\ufe0f"),  # a selector of another form, which has none
    ("ada", "a\u034fda"),  # a joiner
    ("ada", "ada\u3164"),  # fillers
    ("ada", "ada\u115f"),
    ("ada", "ada\u2800"),  # blank braille
    ("ada", "ada\U000e0fff"),  # never to be drawn
    ("zoë", "zoe\u200d\u0308"),
    ("ada lee", "ada  lee"),
    ("İstanbul", "i̇stanbul"),
    # The domain of an address, as people and as DNS write it.
    ("a@bücher.example", "a@xn--bcher-kva.example"),
    ("a@BÜCHER.example", "a@xn--bcher-kva.example"),
    ("a@bu\u0308cher.example", "A@XN--BCHER-KVA.EXAMPLE"),
    ("a@bücher\u3002example", "a@xn--bcher-kva.example"),
    ("a@bücher\uff61example", "a@xn--bcher-kva.example"),
    ("a＠ｂücher．ｅxample", "a@xn--bcher-kva.example"),
    ("a@ｘn--bcher-kva.example", "a@bücher.example"),
    ("a@bü\u200dcher.example", "a@xn--bcher-kva.example"),
    ("a@b.bücher.example.", "a@b.xn--bcher-kva.example"),
    ("a@straße.example", "a@xn--strae-oqa.example"),
    ("a@STRASSE.example", "a@xn--strae-oqa.example"),
    ("a@-ü.example", "a@xn----eha.example"),
    ("a@例え.テスト", "a@xn--r8jz45g.xn--zckzah"),
]

NO_LETTERS = [
    "xn--",
    "xn--abc-",  # ASCII alone
    "xn---tda",
    "xn--bcher_kva",
    "xn--99999999",  # beyond Unicode
    "xn--a-b!",
    f"xn--{'a' * 60}",
    "xn--ib9b",  # half of a pair
    "xn--bü",
    "bücher",
    "xn",
]
NO_LABELS = ["\uff0e", "a\u3002b", "ａ＠ｂ", "a\u3000b", "ｘn--a", "\u200d"]
"""Letters that are none of a label once they are folded."""


@pytest.mark.parametrize("label", NO_LETTERS)
def test_a_label_that_stands_for_no_letters_stays_as_it_is(label: str) -> None:
    assert letters_of(label) is None
    assert folded(f"a@{label}.example") == f"a@{label}.example"


@pytest.mark.parametrize("letters", NO_LABELS)
def test_letters_that_would_be_no_label_are_not_put_into_a_name(letters: str) -> None:
    label = f"xn--{letters.encode('punycode').decode().lower()}"
    assert letters_of(label) == letters
    assert folded(f"a@{label}.example") == f"a@{label}.example"


def test_only_the_domain_of_an_address_is_read_as_dns_has_it() -> None:
    assert not same_person("xn--bcher-kva.example", "bücher.example")
    assert not same_person("xn--bcher-kva@b.example", "bücher@b.example")
    assert not same_person("a@xn--bcher-kva.example", "a@bucher.example")
    assert looks_like("a@xn--80ak6aa92e.com", "a@apple.com")
    assert not same_person("a@xn--80ak6aa92e.com", "a@apple.com")


@pytest.mark.parametrize(("one", "other"), LOOKALIKES)
def test_a_person_under_two_spellings_is_one_person(one: str, other: str) -> None:
    assert same_person(one, other)
    assert same_person(other, one)
    approval = about(question(Need(2)))
    assert code(say(say(approval, one), other)) == "voted_already"
    named = about(question(people={one: Person()}))
    assert say(named, other).status == "approved"


@pytest.mark.parametrize(("one", "other"), [("ada", "adam"), ("a da", "ada"), ("ada", "ada1"), ("müller", "muller")])
def test_two_people_are_two(one: str, other: str) -> None:
    assert not same_person(one, other)
    assert say(say(about(question(Need(2))), one), other).status == "approved"


@pytest.mark.parametrize(
    ("one", "other"), [("ada", "аda"), ("ADA", "αda"), ("bo", "bо"), ("bo", "bօ"), ("gil", "ɡıl"), *LOOKALIKES]
)
def test_a_name_that_nobody_can_tell_from_another_makes_no_second_person(one: str, other: str) -> None:
    """Letters of other scripts: who is named stays who is named, but nobody counts twice or decides for themselves."""
    assert looks_like(one, other)
    assert looks_like(other, one)
    assert code(say(say(about(question(Need(2))), one), other)) == "voted_already"
    assert code(say(replace(PENDING, requester=Actor(one)), other)) == "self_approval"
    assert code(say(replace(PENDING, principal=one), other)) == "self_approval"
    if (one, other) not in LOOKALIKES:
        assert not same_person(one, other)
        assert code(say(about(question(people={one: Person()})), other)) == "not_entitled"


_CODED = st.text(max_size=8).map(lambda text: text.encode("punycode", "ignore").decode("ascii", "ignore"))
_LABELS = st.lists(st.one_of(_CODED.map("xn--{}".format), st.text(max_size=4), st.sampled_from(" .。@")), max_size=4)


@given(st.one_of(st.text(max_size=20), _LABELS.map(lambda labels: f"a@{'.'.join(labels)}")))
def test_folding_a_name_once_is_enough_and_case_never_matters(name: str) -> None:
    assert folded(folded(name)) == folded(name)
    assert same_person(name, name.upper()) or name.upper().casefold() != name.casefold()


@pytest.mark.parametrize("spelling", ["agent", "AGENT", "ａｇｅｎｔ", " agent", "ag\u200bent"])
def test_whoever_asked_may_not_decide(spelling: str) -> None:
    assert code(say(PENDING, spelling)) == "self_approval"
    assert code(say(PENDING, spelling, is_approval=False)) == "self_approval"
    assert code(say(PENDING, "ada", on_behalf_of=spelling)) == "self_approval"
    assert code(say(PENDING, spelling, on_behalf_of="ada")) == "self_approval"


@pytest.mark.parametrize("spelling", ["eve", "Eve", "ｅｖｅ"])
def test_the_person_an_agent_acts_for_may_not_decide_either(spelling: str) -> None:
    approval = replace(PENDING, principal="eve")
    assert code(say(approval, spelling)) == "self_approval"
    assert code(say(approval, "ada", on_behalf_of=spelling)) == "self_approval"
    assert code(say(approval, spelling, on_behalf_of="ada")) == "self_approval"
    assert say(approval, "ada").status == "approved"
    named = replace(approval, question=question(people={"eve": Person()}))
    assert code(say(named, "eve")) == "self_approval", "also if the policy names them"


@pytest.mark.parametrize("kind", ["agent", "system"])
def test_only_people_decide(kind: str) -> None:
    assert code(say(PENDING, "ada", kind=kind)) == "not_a_person"
    assert code(say(PENDING, "ada", kind=kind, is_approval=False)) == "not_a_person"


def test_whoever_votes_for_another_votes_with_the_others_role_and_once() -> None:
    people = {"ada": Person(("finance",)), "bo": Person(("finance",)), "cy": Person(("finance",))}
    approval = about(question(Need(2, "finance"), people=people))
    by_deputy = say(approval, "dan", on_behalf_of="ada")
    assert (by_deputy.status, by_deputy.lacking) == ("pending", 1)
    assert code(say(by_deputy, "ada")) == "voted_already", "their vote is given"
    assert code(say(by_deputy, "dan", on_behalf_of="bo")) == "voted_already", "one person has one vote"
    assert code(say(by_deputy, "Dan", on_behalf_of="bo")) == "voted_already"
    assert code(say(by_deputy, "eve", on_behalf_of="ADA")) == "voted_already"
    assert say(by_deputy, "bo").status == "approved"
    assert code(say(approval, "dan", on_behalf_of="eve")) == "not_entitled"
    assert code(say(say(approval, "bo"), "bo", on_behalf_of="ada")) == "voted_already"


# ── for what, and until when ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_names_the_digest_that_was_seen_and_a_refusal_need_not() -> None:
    assert code(voted(PENDING, vote(), None, "person", NOON)) == "no_digest"
    assert code(voted(PENDING, vote(), OTHER_DIGEST, "person", NOON)) == "digest"
    assert code(voted(PENDING, vote(is_approval=False), OTHER_DIGEST, "person", NOON)) == "digest"
    denied = voted(PENDING, vote(is_approval=False), None, "person", NOON)
    assert isinstance(denied, Approval)
    assert denied.status == "denied"


@pytest.mark.parametrize("status", [status for status in APPROVAL_STATUSES if status != "pending"])
def test_what_is_decided_is_not_decided_again(status: Any) -> None:
    decided = ended(PENDING, status)
    assert code(say(decided, "ada")) == "not_pending"
    assert code(say(decided, "ada", is_approval=False)) == "not_pending"
    assert decided.is_open == (status in OPEN_STATUSES) == (status == "approved")


def test_a_question_ends_at_its_end_and_not_a_moment_later() -> None:
    end = PENDING.expires_at
    assert not PENDING.is_overdue(end - TICK)
    assert PENDING.is_overdue(end)
    late = vote()
    assert isinstance(voted(PENDING, late, PENDING.digest, "person", end - TICK), Approval)
    for now in (end, end + HOUR):
        assert code(voted(PENDING, late, PENDING.digest, "person", now)) == "expired"
        assert code(voted(PENDING, vote(at=now), PENDING.digest, "person", NOON)) == "expired", "by either clock"
    assert ended(PENDING, "approved").is_overdue(end)
    assert not ended(PENDING, "consumed").is_overdue(end + HOUR), "what was used in time was used in time"
    assert not ended(PENDING, "denied").is_overdue(end + HOUR)


def test_somebody_looks_at_a_question_when_more_people_are_to_be_asked_and_when_it_ends() -> None:
    steps = (Escalation(HOUR), Escalation(2 * HOUR), Escalation(99 * HOUR))
    approval = about(question(escalations=steps))
    assert approval.due_at == NOON + HOUR
    assert escalated(approval, NOON + HOUR).due_at == NOON + 2 * HOUR
    assert escalated(approval, NOON + 2 * HOUR).due_at == PENDING.expires_at
    assert say(approval, "ada").due_at == PENDING.expires_at, "what is approved is not escalated"
    for status in set(APPROVAL_STATUSES) - OPEN_STATUSES:
        assert ended(approval, status).due_at is None


BOUND = {
    "approval": "apr_1",
    "tenant": "default",
    "run_id": "run-1",
    "tool": "pay",
    "schema": "aa",
    "args_json": b'{"amount":5}',
    "policy": "p1",
    "expires_at": NOON,
}
OTHERWISE = {
    "approval": "apr_2",
    "tenant": "other",
    "run_id": "run-2",
    "tool": "pay2",
    "schema": "",
    "args_json": b'{"amount":"5"}',
    "policy": "p2",
    "expires_at": NOON + TICK,
}


def test_the_digest_binds_every_field() -> None:
    digests = {approval_digest(**BOUND)}  # type: ignore[arg-type]
    for chosen in itertools.product((False, True), repeat=len(BOUND)):
        words = {name: (OTHERWISE if other else BOUND)[name] for name, other in zip(BOUND, chosen, strict=True)}
        digests.add(approval_digest(**words))  # type: ignore[arg-type]
    assert len(digests) == 2 ** len(BOUND)


def test_the_digest_tells_apart_what_runs_together() -> None:
    one = {**BOUND, "tenant": "ab", "run_id": "c"}
    other = {**BOUND, "tenant": "a", "run_id": "bc"}
    assert approval_digest(**one) != approval_digest(**other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "other"},
        {"run_id": "run-2"},
        {"tool": "refund"},
        {"args_json": b'{"amount":6}'},
        {"args_json": None},
        {"id": "eff_other"},
    ],
)
def test_an_approval_is_of_no_other_effect(changes: Any) -> None:
    assert is_bound_to(PENDING, EFFECT, schema="", policy="policy-1")
    assert not is_bound_to(PENDING, replace(EFFECT, **changes), schema="", policy="policy-1")


def test_an_approval_is_of_no_other_schema_policy_or_time() -> None:
    assert not is_bound_to(PENDING, EFFECT, schema="aa", policy="policy-1")
    assert not is_bound_to(PENDING, EFFECT, schema="", policy="policy-2")
    longer = replace(PENDING, expires_at=PENDING.expires_at + TICK)
    assert not is_bound_to(longer, EFFECT, schema="", policy="policy-1"), "nobody agreed to a later end"
    assert not is_bound_to(replace(PENDING, digest=OTHER_DIGEST), EFFECT, schema="", policy="policy-1")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({}, ()),
        ({"schema": "aa"}, ("schema",)),
        ({"policy": "p2"}, ("policy",)),
        ({"run_id": "run-2"}, ("run",)),
        ({"are_args_other": True}, ("args",)),
        ({"are_args_other": True, "schema": "aa", "policy": "p2"}, ("args", "policy", "schema")),
    ],
)
def test_what_has_changed_since_it_was_asked_is_named(words: Any, names: tuple[str, ...]) -> None:
    as_before = {"schema": "", "policy": "policy-1", "run_id": "run-1", "are_args_other": False}
    assert drifted(PENDING, **{**as_before, **words}) == names


# ── counting again ───────────────────────────────────────────────────────────────────────────────────────────────────


def stored(*votes: Any, **words: Any) -> Approval:
    """Gives an approval as it may stand in a store that somebody has edited."""
    return about(question(Need(2), **words), status="approved", votes=votes)


@pytest.mark.parametrize(
    "votes",
    [
        (),
        (vote("ada"),),
        (vote("ada"), vote("ADA")),
        (vote("ada"), vote("agent")),
        (vote("ada"), vote("bo", is_approval=False)),
        (vote("ada"), vote("bo", at=PENDING.expires_at)),
        (vote("ada"), vote("cy", on_behalf_of="ada")),
        (vote("ada"), vote("bo", signature=b"x" * 64)),
    ],
)
def test_a_status_does_not_make_up_for_votes(votes: Any) -> None:
    assert stored(*votes).lacking > 0


def test_votes_that_count_are_counted_again_as_they_were() -> None:
    good = stored(vote("ada"), vote("bo"))
    assert good.lacking == 0
    assert counting_votes(good) == good.votes
    named = stored(vote("ada"), vote("eve"), people={"ada": Person(), "bo": Person()})
    assert counting_votes(named) == (vote("ada"),)
    assert named.lacking == 1


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────

SIGNED = about(question(people={"ada": Person((), public(ADA_KEY)), "bo": Person()}, needs_signature=True))


def signed(approval: Approval, key: Ed25519PrivateKey, is_approval: bool = True) -> bytes:
    return key.sign(vote_message(approval.digest, is_approval))


def test_a_vote_is_signed_over_what_was_shown_and_what_was_answered() -> None:
    yes, no = vote_message(PENDING.digest, True), vote_message(PENDING.digest, False)
    assert yes == b"indelible/vote/v1\0" + bytes.fromhex(PENDING.digest) + b"\1"
    assert no == yes[:-1] + b"\0"
    approved = say(SIGNED, "ada", signature=signed(SIGNED, ADA_KEY))
    assert (approved.status, approved.lacking) == ("approved", 0)
    assert say(SIGNED, "ada", is_approval=False, signature=signed(SIGNED, ADA_KEY, False)).status == "denied"


def test_where_a_signature_is_needed_nothing_else_will_do() -> None:
    assert code(say(SIGNED, "ada")) == "not_signed"
    assert code(say(SIGNED, "ada", signature=signed(SIGNED, BO_KEY))) == "signature"
    assert code(say(SIGNED, "ada", signature=signed(SIGNED, ADA_KEY, False))) == "signature", "that was a no"
    assert code(say(SIGNED, "ada", signature=b"")) == "signature"
    other = replace(SIGNED, digest=OTHER_DIGEST)
    assert code(say(SIGNED, "ada", signature=signed(other, ADA_KEY))) == "signature", "of something else"
    assert code(say(SIGNED, "bo", signature=signed(SIGNED, BO_KEY))) == "signature", "nobody knows that key"
    assert code(say(SIGNED, "bo", on_behalf_of="ada", signature=signed(SIGNED, ADA_KEY))) == "signature"


def test_whoever_votes_for_another_signs_with_their_own_key() -> None:
    people = {"ada": Person(), "bo": Person((), public(BO_KEY))}
    approval = about(question(people=people, needs_signature=True))
    assert say(approval, "bo", on_behalf_of="ada", signature=signed(approval, BO_KEY)).status == "approved"
    assert code(say(approval, "cy", on_behalf_of="ada", signature=signed(approval, BO_KEY))) == "signature"


def test_42_a_signed_approval_that_was_taken_back_is_not_cast_again() -> None:
    signature = signed(SIGNED, ADA_KEY)
    again = unvoted(say(SIGNED, "ada", signature=signature), "ADA", NOON)
    assert isinstance(again, Approval)
    assert again.taken_back == ("ada",)
    for name in ("ada", "ADA"):
        assert code(say(again, name, signature=signature)) == "taken_back"
    assert say(again, "ada", is_approval=False, signature=signed(SIGNED, ADA_KEY, False)).status == "denied"
    assert code(say(replace(again, taken_back=("bo",)), "ada", signature=b"")) == "signature"


def test_42_two_names_with_one_key_have_one_vote() -> None:
    """Two policies together may give one key to two people; each policy by itself is refused if it does."""
    people = {"ada": Person((), public(ADA_KEY)), "cy": Person((), public(ADA_KEY)), "bo": Person((), public(BO_KEY))}
    approval = about(question(Need(2), people=people, needs_signature=True))
    signature = signed(approval, ADA_KEY)
    once = say(approval, "ada", signature=signature)
    assert code(say(once, "cy", signature=signature)) == "voted_already"
    assert say(once, "bo", signature=signed(approval, BO_KEY)).status == "approved"
    taken = replace(approval, taken_back=("ada",))
    assert code(say(taken, "cy", signature=signature)) == "taken_back"
    assert say(taken, "bo", signature=signed(approval, BO_KEY)).status == "pending"


def test_a_signature_that_is_given_is_checked_also_where_none_is_needed() -> None:
    people = {"ada": Person((), public(ADA_KEY))}
    approval = about(question(people=people))
    assert say(approval, "ada").status == "approved"
    assert say(approval, "ada", signature=signed(approval, ADA_KEY)).status == "approved"
    assert code(say(approval, "ada", signature=b"x" * 64)) == "signature"
    assert code(say(PENDING, "ada", signature=signed(PENDING, ADA_KEY))) == "signature", "nobody knows whose it is"


def test_a_key_that_anybody_could_sign_for_signs_nothing() -> None:
    weak = b"\1" + bytes(31)  # the neutral element
    assert not is_signed(weak, weak + bytes(32), PENDING.digest, is_approval=True)
    assert not is_signed(b"\1" * 31, b"x" * 64, PENDING.digest, is_approval=True)
    assert not is_signed(public(ADA_KEY), b"x" * 64, "no digest", is_approval=True)


def test_a_signature_does_not_outlive_what_it_was_given_for() -> None:
    approved = say(SIGNED, "ada", signature=signed(SIGNED, ADA_KEY))
    assert replace(approved, digest=OTHER_DIGEST).lacking == 1


# ── taking back, using up ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_vote_can_be_taken_back_by_whoever_gave_it() -> None:
    approved = say(PENDING, "ada")
    again = unvoted(approved, "ADA", NOON)
    assert isinstance(again, Approval)
    assert (again.status, again.votes, again.version) == ("pending", (), 3)
    one_of_two = say(about(question(Need(2))), "ada")
    assert isinstance(unvoted(one_of_two, "ada", NOON), Approval)
    assert say(again, "ada").status == "approved", "and given again"


def test_nobody_takes_back_what_they_did_not_give() -> None:
    approved = say(PENDING, "ada")
    assert code(unvoted(approved, "bo", NOON)) == "no_vote"
    assert code(unvoted(PENDING, "ada", NOON)) == "no_vote"


def test_what_was_used_denied_or_ended_is_not_taken_back() -> None:
    approved = say(PENDING, "ada")
    for status in ("consumed", "denied", "expired", "canceled", "stale"):
        refusal = unvoted(ended(approved, status), "ada", NOON)  # type: ignore[arg-type]
        assert code(refusal) == "not_open"
        assert status in refusal.why  # type: ignore[union-attr]
    overdue = unvoted(approved, "ada", approved.expires_at)
    assert code(overdue) == "not_open"
    assert "expired" in overdue.why  # type: ignore[union-attr]


def test_only_the_attempt_that_used_an_approval_up_hands_it_back() -> None:
    approved = say(PENDING, "ada")
    used = consumed(approved, 2)
    assert (used.status, used.attempt, used.version) == ("consumed", 2, 3)
    free = handed_back(used, 2)
    assert free == replace(approved, version=4)
    assert handed_back(used, 3) is None
    assert handed_back(approved, 2) is None


# ── on their sheets ──────────────────────────────────────────────────────────────────────────────────────────────────

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map("n{}".format)
moments = st.integers(0, 10**15).map(lambda number: NOON + number * TICK)
durations = st.integers(1, 10**12).map(lambda number: number * TICK)
persons = st.builds(Person, st.lists(names, max_size=3).map(tuple), st.none() | st.binary(min_size=32, max_size=32))
folk = st.dictionaries(names, persons, max_size=3)
steps = st.lists(st.builds(Escalation, durations, folk, st.lists(names, max_size=2).map(tuple)), max_size=3).map(
    lambda found: tuple(sorted(found, key=lambda step: step.after))
)
questions = st.builds(
    Question,
    rule=names,
    needs=st.lists(st.builds(Need, st.integers(1, 5), st.none() | names), min_size=1, max_size=3).map(tuple),
    people=st.none() | folk,
    needs_signature=st.booleans(),
    may_edit=st.booleans(),
    expires=durations,
    escalations=steps,
    notify=st.lists(names, max_size=2).map(tuple),
)
votes = st.lists(
    st.builds(
        vote,
        names,
        is_approval=st.booleans(),
        via=st.sampled_from(["process", "passkey"]),
        at=moments,
        on_behalf_of=st.none() | names,
        signature=st.none() | st.binary(max_size=64),
    ),
    max_size=3,
).map(tuple)


@given(
    st.fixed_dictionaries(
        {
            "version": st.integers(1, 2**40),
            "status": st.sampled_from(APPROVAL_STATUSES),
            "question": questions,
            "requester": st.builds(Actor, names.filter(lambda name: "\0" not in name)),
            "principal": st.none() | names,
            "asked_at": moments,
            "expires_at": moments,
            "votes": votes,
            "escalated": st.integers(0, 3),
            "replaces": st.none() | names,
            "editors": st.lists(names).map(tuple),
            "for_run": names,
            "naming": st.builds(
                Naming,
                st.none() | st.lists(names).map(tuple),
                st.lists(names).map(tuple),
                call=st.lists(names).map(tuple),
            ),
            "grant": st.none() | names,
            "args_seq": st.integers(0, 2**40),
            "attempt": st.none() | st.integers(1, 9),
            "ref": st.builds(Ref, names, names, names),
            "run_id": names,
        }
    )
)
def test_an_approval_comes_back_from_its_sheet_as_it_went(changes: dict[str, Any]) -> None:
    approval = replace(PENDING, **changes)
    sheet = approval_sheet(approval)
    assert read_approval(sheet) == approval
    assert approval_sheet(read_approval(sheet)) == sheet
    assert sheet.ref == approval_ref(approval.id)
    assert (sheet.version, sheet.status, sheet.topic) == (approval.version, approval.status, approval.run_id)
    assert sheet.due_at == approval.due_at


def test_a_sheet_says_everything_an_approval_is() -> None:
    content = approval_sheet(PENDING).read()
    told_otherwise = {"effect_id": "effect", "ref": "place", "run_id": "run"}
    assert {told_otherwise.get(one.name, one.name) for one in fields(Approval)} | {"v"} == set(content)
    assert content["v"] == 1


def test_the_form_of_a_sheet_stays_as_it_is() -> None:
    """What people signed and events commit to is these bytes: another form is another version."""
    people = {"ada": Person(("finance",), public(ADA_KEY))}
    asking = question(
        Need(2, "finance"),
        people=people,
        escalations=(Escalation(HOUR, {"bo": Person()}, ("mail",)),),
        notify=("hook",),
    )
    approval = about(asking, votes=(vote("ada", signature=b"\0\1", on_behalf_of="cy"),), principal="eve", attempt=3)
    content = json.loads(approval_sheet(approval).body or b"")
    assert content["question"] == {
        "escalations": [
            {"after": 3_600_000_000, "notify": ["mail"], "people": [{"key": None, "name": "bo", "roles": []}]}
        ],
        "expires": 86_400_000_000,
        "is_sole_approver": False,
        "may_edit": True,
        "needs": [{"count": 2, "role": "finance"}],
        "needs_signature": False,
        "notify": ["hook"],
        "people": [{"key": content["question"]["people"][0]["key"], "name": "ada", "roles": ["finance"]}],
        "rule": "ask first",
    }
    assert content["votes"] == [
        {
            "at": "2030-01-02T12:00:00.000000Z",
            "by": "ada",
            "credential": None,
            "delegated_with": None,
            "is_approval": True,
            "is_by_editor": False,
            "on_behalf_of": "cy",
            "signature": "AAE=",
            "via": "process",
        }
    ]
    assert content["requester"] == {"id": "agent", "kind": "agent", "via": "process"}
    assert content["place"] == ["default", "run-1", "ab" * 32]


def test_a_sheet_holds_no_arguments() -> None:
    secret = effect("requires_approval", args_json=b'{"note":"CANARY"}')
    _, approval = asked(secret, asks())
    assert b"CANARY" not in (approval_sheet(approval).body or b"")
    assert isinstance(secret, Effect)


def test_whoever_an_escalation_brought_in_is_told_how_it_ends() -> None:
    steps = (Escalation(HOUR, notify=("pager", "mail")), Escalation(2 * HOUR, notify=("chief",)))
    _, approval = asked(effect("requires_approval"), asks(notify=("mail",), escalations=steps))
    assert approval.told == ("mail",)
    assert replace(approval, escalated=1).told == ("mail", "pager")
    assert replace(approval, escalated=2).told == ("mail", "pager", "chief")
