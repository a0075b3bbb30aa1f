"""Vectors about permissions: votes that count and votes that do not, and what is on the sheets of people and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from indelible.core.approvals import asking
from indelible.core.approvals.approval import Approval, Need, Person, Vote, vote_message
from indelible.core.approvals.grants import Delegation, delegation_sheet
from indelible.core.effects.effect import Actor
from indelible.core.effects.stops import STOPS_RUN, Stop, stop_sheet
from indelible.core.people.credentials import CREDENTIALS_RUN, Credential, credential_sheet
from indelible.core.people.person import PEOPLE_RUN, Invitation, Passkey, Session
from indelible.core.people.person import Person as SomebodyLetIn
from indelible.core.people.sheets import person_sheet
from indelible.core.people.vouching import ProviderRules, provider_sheet, read_allowed
from indelible.core.sheets import Sheet
from indelible.core.values.canonical import decode, encode
from tests.core.explored import Path
from tests.core.forged import changed, leaves
from tests.core.making import ADA, AGENT, BO, HOUR, NOON, SECOND, Shelf, asks, cast, take_back
from tests.core.verifying.test_69_granted_again import approved_again
from tests.core.verifying.test_permissions import PEOPLE, SECRETS, opening
from tests.journal.vector_books import Book, asked, of_path

GOOD, BAD = "verified", "tampered"
Told = tuple[str, Book, str]
"""Is a name, a journal and its verdict."""


def _loose(approval: Approval, vote: Vote, *_: Any) -> Approval:
    counted = replace(approval, version=approval.version + 1, votes=(*approval.votes, vote))
    return replace(counted, status="approved" if vote.is_approval else "denied")


def _voted(
    voters: list[Any],
    question: dict[str, Any],
    rule: Any,
    sign: Callable[..., Any] | None = None,
    between: Callable[[Path], Any] = id,
) -> Book:
    """Return a journal in which these people vote; the last vote is counted by another rule, if one is given.

    `between` is done after each vote but the last.
    """
    path = Path(Shelf())
    needs = question.pop("needs", (Need(),))
    opening(path, verdict=asks(*needs, **{"people": PEOPLE, **question}), principal="pat")
    path.shelf.now += HOUR
    for number, by in enumerate(voters):
        about = path.shelf.approval()
        words = {} if sign is None else {"signature": sign(about)}
        kept = asking.voted
        if rule is not None and number == len(voters) - 1:
            asking.voted = rule
        try:
            path.send(cast(about, by, at=path.shelf.now, **words))
        finally:
            asking.voted = kept
        if number < len(voters) - 1:
            between(path)
    return of_path(path)


ANYBODY: dict[str, Any] = {"people": None, "needs": (Need(2),)}
ONE_PERSON: dict[str, tuple[str, str]] = {
    "in capitals": ("ada", "ADA"),
    "in wide letters": ("ada", "\uff41\uff44\uff41"),
    "with a letter that draws nothing": ("ada", "a\u200bda"),
    "with a filler": ("ada", "ad\u3164a"),
    "with a tag": ("ada", "ada\U000e0061"),
    "with spaces": ("ada l", "  ada\u3000\u2003l "),
    "with Cyrillic letters": ("ada", "\u0430d\u0430"),
    "with a Greek letter": ("ada", "\u03b1da"),
    "with an Armenian letter": ("hugo", "hug\u0585"),
    "with a dotless i": ("ida", "\u0131da"),
    "with a sharp s": ("stra\u00dfe", "STRASSE"),
    "with a large sharp s": ("stra\u1e9ee", "strasse"),
    "with a ligature": ("\ufb01ona", "fiona"),
    "with a letter composed": ("\u00e1da", "a\u0301da"),
    "with a last sigma": ("\u03c3\u03c3\u03c2", "\u03a3\u03a3\u03a3"),
    "in Cherokee": ("\u13a0\u13a1", "\uab70\uab71"),
    "with a dotted capital I": ("i\u0307da", "\u0130da"),
    "with a number above": ("ada2", "ada\u00b2"),
    "with a letter between that goes": ("\u00e1da", "a\u200d\u0301da"),
    "with a domain as DNS has it": ("a@b\u00fccher.example", "A@XN--BCHER-KVA.example"),
    "with a domain in capitals, wide letters and ideographic stops": (
        "a@b\u00dc\uff43her\u3002example.",
        "a@xn--bcher-kva.example",
    ),
    "with a sharp s that DNS has": ("a@strasse.example", "a@xn--strae-oqa.example"),
    "with Cyrillic letters as DNS has them": ("a@apple.example", "a@xn--80ak6aa92e.example"),
}
TWO_PEOPLE: dict[str, tuple[str, str]] = {
    "with a domain written otherwise": ("a@bucher.example", "a@xn--bcher-kva.example"),
    "with a mailbox that looks like a domain": ("b\u00fccher@a.example", "xn--bcher-kva@a.example"),
    "with a label that stands for no letters": ("a@xn--abc-.example", "a@abc.example"),
    "with an accent": ("ada", "ad\u00e1"),
    "with another letter": ("ada", "adb"),
    "with a hyphen": ("ada l", "ada-l"),
    "in Han": ("\u674e", "\u674f"),
    "with a picture": ("ada", "ada\U0001f600"),
}


def _signed_by(name: str, is_approval: bool = True) -> Callable[[Approval], bytes]:
    return lambda about: SECRETS[name].sign(vote_message(about.digest, is_approval))


def forged_votes() -> Iterator[Told]:
    """Give votes that a writer should not have counted."""
    loose: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "by the requester": ([AGENT], {"people": None}),
        "by whom the requester acts for": ([Actor("PAT")], {"people": None}),
        "by a program": ([Actor("ada", "system")], {}),
        "by a stranger": ([Actor("eve")], {}),
        "by somebody of another role": ([ADA], {"needs": (Need(1, "ops"),)}),
        "too late": ([ADA], {"expires": SECOND}),
        "by too few": ([ADA], {"needs": (Need(2),)}),
        "by two for one role": ([ADA, BO], {"needs": (Need(2, "ops"),)}),
        "without a signature": ([ADA], {"needs_signature": True}),
    }
    for name, (voters, question) in loose.items():
        yield f"vote: {name}", _voted(voters, dict(question), _loose), BAD
    for name, (one, other) in ONE_PERSON.items():
        yield f"vote: one person {name}", _voted([Actor(one), Actor(other)], dict(ANYBODY), _loose), BAD
    for name, (one, other) in TWO_PEOPLE.items():
        yield f"vote: two people {name}", _voted([Actor(one), Actor(other)], dict(ANYBODY), None), GOOD
    needed = {"needs_signature": True}
    yield "vote: signed", _voted([ADA], dict(needed), None, _signed_by("ada")), GOOD
    yield "vote: signed by somebody else", _voted([ADA], dict(needed), _loose, _signed_by("bo")), BAD
    yield "vote: signed, and it says no", _voted([ADA], dict(needed), _loose, _signed_by("ada", False)), BAD
    yield "vote: a signature of zeros", _voted([ADA], dict(needed), _loose, lambda about: bytes(64)), BAD
    yield "vote: a short signature", _voted([ADA], dict(needed), _loose, lambda about: bytes(9)), BAD
    yield "vote: signed without need, and falsely", _voted([ADA], {}, _loose, _signed_by("bo")), BAD
    weak = {"people": {"ada": Person(("lead",), bytes(32))}, **needed}
    yield "vote: a key that fits every signature", _voted([ADA], weak, _loose, lambda about: bytes(64)), BAD
    holder = PEOPLE["ada"]
    shared: dict[str, Any] = {"people": {"ada": holder, "eve": holder}, "needs": (Need(2),)}
    both = [ADA, Actor("eve")]
    yield "vote: two names with one key, signed", _voted(both, dict(shared), _loose, _signed_by("ada")), BAD
    yield "vote: two names with one key, unsigned", _voted(both, dict(shared), _loose), BAD
    shared["people"] = {"ada": holder, "eve": Person()}
    yield "vote: one name with a key and one without", _voted(both, shared, None), GOOD
    places = [(Need(1, "lead"), Need(1, "ops")), (Need(1, "ops"), Need(1, "lead")), (Need(1), Need(1, "lead"))]
    for number, needs in enumerate(places):
        yield f"vote: two people for two places, {number}", _voted([BO, ADA], {"needs": needs}, None), GOOD


def cast_again() -> Iterator[Told]:
    """Give journals in which a vote is taken back, and cast again: if it was signed, with the same signature."""
    for name, sign, rule, verdict in (("signed", _signed_by("ada"), _loose, BAD), ("unsigned", None, None, GOOD)):
        book = _voted(
            [ADA, ADA], {}, rule, sign, lambda path: path.send(take_back(path.shelf.approval(), ADA, path.shelf.now))
        )
        yield f"vote: {name}, taken back and cast again", book, verdict


def granted_again() -> Iterator[Told]:
    """Give journals in which an approval that came with a grant is taken back, and given again."""
    yield "grant: approved again with another", of_path(approved_again(is_granted_again=True)), GOOD
    book = of_path(approved_again())
    yield "grant: approved again with none", book, GOOD
    first, again = (index for index, event in enumerate(book.events) if event["type"] == "approval_received")
    told: list[tuple[str, int, str | None, str]] = [
        ("with none, and the name of the one before, as older ledgers left it", again, "grt_1", GOOD),
        ("with none, and the name of one that never was", again, "grt_9", BAD),
        ("and the first time one came without its name", first, None, BAD),
    ]
    for name, index, grant, expected in told:
        value = {**decode(book.values[index]["approval"][1]), "grant": grant}
        yield f"grant: approved again {name}", book.with_value(index, "approval", encode(value)), expected


def _hidden(book: Book, index: int, *names: str) -> Book:
    return book.told(lambda told: [told.values[index].pop(name) for name in names])


def changed_sheets() -> Iterator[tuple[str, Book, str, int]]:
    """Give journals in which one member of an approval or grant is another, and how many values are withheld."""
    book = asked()
    places = [
        (index, field)
        for index, values in enumerate(book.values)
        for field in ("approval", "grant", "policy", "charges")
        if field in values
    ]
    for number, (index, field) in enumerate(places):
        value = decode(book.values[index][field][1])
        for path in list(leaves(value))[1 + number % 11 :: 11]:
            if field == "charges" or path in ((), ("rule",), ("why",)):  # of these, the event says nothing else
                continue
            told = book.with_value(index, field, encode(changed(value, path)))
            where = ".".join(map(str, path))
            yield f"sheet: {index}, {book.events[index]['type']}, {field}, another {where}", told, BAD, 0
    # Where the state before is not shown, all votes are counted again
    for index, field in places:
        if field == "approval":
            yield f"sheet: {index}, its approval withheld", _hidden(book, index, "approval"), GOOD, 1
    received = next(i for i, event in enumerate(book.events) if event["type"] == "approval_received")
    earlier = max(i for i, f in places if f == "approval" and i < received)
    value = decode(book.values[received]["approval"][1])
    votes = value["votes"]
    others: dict[str, Any] = {
        "a vote less": votes[1:],
        "a vote twice": [*votes, votes[-1]],
        "votes in another order": votes[::-1],
        "a vote by another person": [{**votes[0], "by": "eve"}, *votes[1:]],
        "a vote without its signature, by another key": [
            {**votes[0], "signature": votes[0]["signature"][::-1]},
            *votes[1:],
        ],
        "a vote that says no": [{**votes[0], "is_approval": False, "signature": None}, *votes[1:]],
        "a vote after the end": [{**votes[0], "at": "2031-01-01T00:00:00.000000Z"}, *votes[1:]],
    }
    for name, wrong in others.items():
        told = _hidden(book, earlier, "approval").with_value(received, "approval", encode({**value, "votes": wrong}))
        yield f"sheet: the state before withheld, and {name}", told, BAD, 1


def parts() -> Iterator[tuple[str, Book, str, list[int], str, str | None]]:
    """Give parts of a journal with approvals: name, journal, verdict, entries, kind and run."""
    book = asked()
    own = [index for index, event in enumerate(book.events) if event["run"] == "run-1"]
    yield "run: with approvals", book, GOOD, own, "run", "run-1"
    for start in range(2, len(book.events), 4):
        yield f"period: with approvals, from {start}", book, GOOD, [*range(start, len(book.events))], "period", None
    for index in own[1:]:
        if "approval" not in book.values[index]:
            continue
        value = decode(book.values[index]["approval"][1])
        told = book.with_value(index, "approval", encode({**value, "digest": "0" * 64}))
        if value["votes"] and value["votes"][0]["signature"] is not None:
            name = f"an approval of another digest begins it at {index}"
            yield f"period: {name}", told, BAD, [*range(index, len(book.events))], "period", None
        yield f"run: an approval of another digest at {index}", told, BAD, own, "run", "run-1"


# ── people, tokens, stops, policies ──────────────────────────────────────────────────────────────────────────────────
@cache
def standing() -> Book:
    """Tell of people, tokens, stops, policies and delegations, one after the other."""
    book = Book()

    def tell(type_: str, sheet: Sheet, run: str, **facts: Any) -> None:
        assert sheet.body is not None
        book.fact(type_, facts, run, **{sheet.kind: sheet.body})

    token = Credential(
        id="key_1", name="bot", kind="agent", scopes=("agent",), hash="ab" * 32, given_by="ada", created_at=NOON
    )
    tell("credential_given", credential_sheet(token), CREDENTIALS_RUN, id="key_1")
    tell(
        "credential_revoked", credential_sheet(replace(token, version=2, is_revoked=True)), CREDENTIALS_RUN, id="key_1"
    )
    invited = SomebodyLetIn(
        id="prs_1",
        name="ada",
        scopes=("approver",),
        created_at=NOON,
        invitation=Invitation(id="inv_1", hash="cd" * 32, by="root", expires_at=NOON + HOUR),
    )
    tell("person_invited", person_sheet(invited), PEOPLE_RUN, id="prs_1")
    here = replace(
        invited,
        version=2,
        invitation=None,
        passkeys=(Passkey(credential_id="x", name="phone", public_key="y", sign_count=0, created_at=NOON),),
        sessions=(Session(id="ses_1", hash="ef" * 32, via="link", created_at=NOON, expires_at=NOON + HOUR),),
    )
    tell("person_signed_in", person_sheet(here), PEOPLE_RUN, id="prs_1")
    gone = replace(here, version=3, passkeys=(), sessions=(), is_revoked=True)
    tell("person_revoked", person_sheet(gone), PEOPLE_RUN, id="prs_1")
    stopped = Stop(is_in_force=True, by="ada", at=NOON, reason="odd payments")
    tell("effects_stopped", stop_sheet(stopped), STOPS_RUN)
    tell("effects_let_go", stop_sheet(replace(stopped, version=2, is_in_force=False)), STOPS_RUN)
    rules = ProviderRules(issuer="https://id.example", allowed=(read_allowed("email=ada@example.com:approver"),))
    tell("provider_changed", provider_sheet(rules), PEOPLE_RUN, id="current")
    book.fact("policy_applied", {"id": "current", "version": "v1"}, policy=b'{"content":{"rules":[]},"version":"v1"}')
    refused = b'{"decision":"refuse","policy":"v1","rule":"none","why":"no"}'
    words = {"decision": "refuse", "policy": "v1", "rule": "none", "side_effect": "payment", "tool": "pay"}
    book.fact("policy_checked", words, "run-9", args=b"{}", policy=refused)
    given = Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + timedelta(days=1))
    tell("delegation_given", delegation_sheet(given), "indelible:approvals", id="dlg_1")
    tell(
        "delegation_ended",
        delegation_sheet(replace(given, version=2, is_ended=True)),
        "indelible:approvals",
        id="dlg_1",
    )
    return book


def _member(path: str, value: Any) -> Callable[[Any], Any]:
    """Put a value at a dotted path; what is a dict has one more member if it has none of this name."""

    def change(content: Any) -> Any:
        name, _, rest = path.partition(".")
        at: Any = int(name) if isinstance(content, list) else name
        put = _member(rest, value)(content[at]) if rest else value
        copied = list(content) if isinstance(content, list) else dict(content)
        copied[at] = put
        return copied

    return change


def _without(name: str) -> Callable[[Any], Any]:
    return lambda content: {one: value for one, value in content.items() if one != name}


def standings() -> Iterator[Told]:
    """Give journals in which a sheet of a person, token, stop or policy is another."""
    book = standing()
    yield "standing: nobody touched it", book, GOOD
    at = {event["type"]: index for index, event in enumerate(book.events)}
    wrong: list[tuple[str, str, Callable[[Any], Any], str]] = [
        ("credential_given", "another id", _member("id", "key_2"), BAD),
        ("credential_given", "revoked already", _member("is_revoked", True), BAD),
        ("credential_revoked", "not revoked", _member("is_revoked", False), BAD),
        ("credential_given", "another name", _member("name", "bit"), GOOD),
        ("credential_given", "a scope that nobody knows", _member("scopes", ["god"]), BAD),
        ("credential_given", "no scope", _member("scopes", []), BAD),
        ("credential_given", "an agent that approves", _member("scopes", ["agent", "approver"]), BAD),
        (
            "credential_given",
            "a system that approves",
            lambda one: {**one, "kind": "system", "scopes": ["approver"]},
            GOOD,
        ),
        ("credential_given", "a person who asks", _member("kind", "person"), BAD),
        ("credential_given", "a name that nobody sees", _member("name", "\u200b\u3164 "), BAD),
        ("credential_given", "a name of 501 letters", _member("name", "a" * 501), BAD),
        ("credential_given", "a name of 500 pictures", _member("name", "\U0001f600" * 500), GOOD),
        ("credential_given", "a name with a zero", _member("name", "a\0b"), BAD),
        ("credential_given", "no name", _member("name", ""), BAD),
        ("credential_given", "a principal that nobody sees", _member("principal", "\u2028"), BAD),
        ("credential_given", "a member more", _member("x", 1), BAD),
        ("credential_given", "a member less", _without("principal"), BAD),
        ("credential_given", "version 2 of the form", _member("v", 2), BAD),
        ("credential_given", "a day that no month has", _member("created_at", "2030-02-31T12:00:00.000000Z"), BAD),
        ("credential_given", "a time without its zone", _member("created_at", "2030-01-02T12:00:00.000000"), BAD),
        ("credential_given", "a number as text", _member("version", "1"), BAD),
        ("credential_given", "a number beyond 2^53", _member("version", 2**53), BAD),
        ("credential_given", "the largest number", _member("version", 2**53 - 1), GOOD),
        ("person_invited", "another id", _member("id", "prs_2"), BAD),
        ("person_invited", "revoked already", _member("is_revoked", True), BAD),
        ("person_invited", "the scope of an agent", _member("scopes", ["agent"]), BAD),
        ("person_invited", "an invitation without an end", _member("invitation.expires_at", None), BAD),
        ("person_signed_in", "a session by a rumour", _member("sessions.0.via", "rumour"), BAD),
        ("person_signed_in", "a passkey used at no time", _member("passkeys.0.used_at", "soon"), BAD),
        (
            "person_signed_in",
            "a passkey used at a time",
            _member("passkeys.0.used_at", "2030-01-02T12:00:00.000000Z"),
            GOOD,
        ),
        ("person_signed_in", "a count that is a fraction", _member("passkeys.0.sign_count", 0.5), BAD),
        ("person_signed_in", "told in the older form", lambda one: {**_without("vouched")(one), "issuer": None}, GOOD),
        ("person_revoked", "not revoked", _member("is_revoked", False), BAD),
        ("effects_stopped", "not in force", _member("is_in_force", False), BAD),
        ("effects_let_go", "in force", _member("is_in_force", True), BAD),
        ("effects_stopped", "another stop", _member("id", "other"), BAD),
        ("provider_changed", "a sign-in that counts for nothing", _member("max_age", 0), BAD),
        ("provider_changed", "a sign-in that counts for ever", _member("max_age", 2**53 - 1), BAD),
        ("provider_changed", "a scope that people have not", _member("allowed.0.scope", "agent"), BAD),
        ("provider_changed", "no provider", _member("issuer", None), GOOD),
        ("policy_applied", "another version", _member("version", "v2"), BAD),
        ("policy_applied", "no version", _without("version"), BAD),
        ("policy_applied", "content that is a list", _member("content", []), BAD),
        ("policy_checked", "allowed", _member("decision", "allow"), BAD),
        ("policy_checked", "a decision that nobody knows", _member("decision", "shrug"), BAD),
        ("delegation_given", "another id", _member("id", "dlg_2"), BAD),
        ("delegation_given", "ended already", _member("is_ended", True), BAD),
        ("delegation_given", "to oneself, otherwise written", _member("to", "\uff21DA"), BAD),
        ("delegation_given", "to somebody who looks alike", _member("to", "\u0430da"), GOOD),
        ("delegation_ended", "not ended", _member("is_ended", False), BAD),
    ]
    kinds = {"policy_applied": "policy", "policy_checked": "policy"}
    for type_, name, change, expected in wrong:
        index = at[type_]
        field = kinds.get(type_) or next(one for one in book.values[index] if one not in ("args", "reason"))
        value = decode(book.values[index][field][1])
        yield f"standing: {type_}, {name}", book.with_value(index, field, encode(change(value))), expected
    yield (
        "standing: content with a tag",
        book.with_value(at["policy_applied"], "policy", b'{"content":{"$date":"2030-01-02"},"version":"v1"}'),
        BAD,
    )


def charges() -> Iterator[Told]:
    """Give journals with other charges."""
    book = asked()
    index = next(index for index, values in enumerate(book.values) if "charges" in values)
    made = {
        "an exponent": (b'[["spend","1E+2","90",3600000000]]', GOOD),
        "nothing": (b"[]", GOOD),
        "no number": (b'[["spend","NaN","90",3600000000]]', BAD),
        "an amount that is a number": (b'[["spend",1,"90",3600000000]]', BAD),
        "a window as text": (b'[["spend","1","90","3600000000"]]', BAD),
        "a part less": (b'[["spend","1","90"]]', BAD),
        "an object": (b"{}", BAD),
        "a name that is none": (b'[[null,"1","90",3600000000]]', BAD),
        "a number": (b'[["spend","1","90",3600000000,7]]', GOOD),
        "a number as text": (b'[["spend","1","90",3600000000,"7"]]', BAD),
        "a number that is true": (b'[["spend","1","90",3600000000,true]]', BAD),
        "a number that is 0": (b'[["spend","1","90",3600000000,0]]', BAD),
        "a window of 0": (b'[["spend","1","90",0]]', BAD),
        "a part more": (b'[["spend","1","90",3600000000,7,8]]', BAD),
        "one reservation of two budgets": (b'[["spend","1","90",3600000000,7],["all","1","90",3600000000,7]]', GOOD),
        "one reservation twice": (b'[["spend","1","90",3600000000,7],["spend","1","90",3600000000,7]]', BAD),
    }
    for name, (value, expected) in made.items():
        yield f"charges: {name}", book.with_value(index, "charges", value), expected
