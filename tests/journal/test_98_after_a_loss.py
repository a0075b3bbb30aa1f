"""What ended in the part of a journal that is lost stays ended: after a restore that was declared with `continue`."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indelible import GrantTerms, Ledger
from indelible.cli.doctor import approvals
from indelible.cli.opening import Where
from indelible.cli.root import root
from indelible.core.people.person import Passkey
from indelible.core.people.standing import person_id
from indelible.core.people.vouching import Allowed, ProviderRules, Said, Vouched, Voucher
from indelible.errors import IndelibleError, Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from tests.journal.attacked_world import OPEN_POLICY, POLICY, mail
from tests.journal.decided import approve, ask, refund
from tests.journal.exported import key_of
from tests.journal.test_98_remembered import ROOT, Place, place
from tests.lending import lend_writer_keys

__all__ = ["place"]
NOW = datetime.now(UTC)
SOON = NOW + timedelta(days=1)
RULES = ProviderRules(issuer="https://id", allowed=(Allowed("groups", "finance", "approver"),))
FINANCE = Vouched(by=Voucher("https://id", "s1"), said=(Said("groups", "finance"),), at=NOW)


class Lost:
    """Is a ledger that was put back to a copy in which much stands that ended since."""

    def __init__(self, place: Place) -> None:
        self.place = place
        with place.opened() as ledger:
            store = ledger._engine.store
            tokens, people = Credentials(store, "default"), People(store, "default")
            ledger.apply_policy(POLICY, by="ana")
            Providers(store, "default").put_in_force(RULES)
            self.token = tokens.give("boss", ("admin",), by=ROOT)[1]
            self.good = tokens.give("root", ("admin",), by=ROOT)[1]
            came = {name: people.open_link(people.invite(name, ("approver",), by=ROOT)[1]) for name in "abcd"}
            self.ids = {name: person.id for name, (person, _) in came.items()}
            self.sessions = {name: session for name, (_, session) in came.items()}
            key = Passkey(credential_id="pk", name="phone", public_key="k", sign_count=0, created_at=NOW)
            for name in "bc":
                people.add_passkey(self.ids[name], key, by=ROOT)
            vouched, self.sessions["eve"] = people.vouch("eve", FINANCE, RULES)
            self.ids["eve"] = vouched.id
            self.link = people.invite("fay", ("approver",), by=ROOT)[1]
            self.delegation = ledger.delegate("bob", until=SOON, by="ana")
            self.kept = ledger.delegate("cid", until=SOON, by="ana")
            approve(ledger, ask(ledger, refund("order-8")), "ana", grant=GrantTerms(count=4, until=SOON))
            approve(ledger, ask(ledger, refund("order-8", 6)), "bo", grant=GrantTerms(count=4, until=SOON))
            for amount in (5, 6):
                ledger.run(refund("order-8", amount), lambda effect: "paid")
            self.grants = {grant.given_by: grant.id for grant in ledger.grants()}
            ledger.seal()
            self.copy = place.state()
            tokens.revoke(self.token.credential_id, by=ROOT)
            people.revoke(self.ids["a"], by=ROOT)
            people.sign_out(self.ids["b"], self.sessions["b"].name, by=ROOT)
            people.remove_passkey(self.ids["c"], key.id, by=ROOT)
            people.sign_out(self.ids["eve"], self.sessions["eve"].name, by=ROOT)
            people.open_link(self.link)
            people.invite("gil", ("approver",), by=ROOT)
            ledger.end_delegation(self.delegation.id, by="ana")
            ledger.end_grant(self.grants["ana"], by="ana")
            ledger.run(refund("order-9", 6), lambda effect: "paid")  # by the grant of bo
            ledger.seal()

    def put_back(self) -> None:
        self.place.set_back(self.copy)

    def check(self) -> None:
        """Fail if something works again that ended, also for a process that only has the keys."""
        place = self.place
        assert not place.lets_in(self.token)
        assert [name for name, session in self.sessions.items() if place.has_signed_in(session)] == ["d"]
        with place.opened() as ledger:
            people = People(ledger._engine.store, "default")
            assert [one.id for one in ledger.delegations()] == [self.kept.id]
            assert ledger.grants() == []
            with suppress(IndelibleError):
                people.open_link(self.link)
                pytest.fail("a link that was used opens again")


@pytest.fixture
def lost(place: Place) -> Lost:
    return Lost(place)


def test_98_what_ended_stays_ended_after_a_loss_was_declared(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    place = lost.place
    lost.put_back()
    with place.opened() as ledger:
        ledger.continue_journal()
    lost.check()
    assert place.lets_in(lost.good), "what did not end goes on"
    with place.opened() as ledger:
        people = People(ledger._engine.store, "default")
        standing = {name: people.find(id_) for name, id_ in lost.ids.items()}
        bob, cid, eve = standing["b"], standing["c"], standing["eve"]
        assert bob is not None
        assert (bob.is_revoked, len(bob.passkeys), bob.sessions) == (False, 1, ()), "they sign in by their passkey"
        assert cid is not None
        assert cid.is_revoked, "they had lost a passkey"
        assert eve is not None
        assert eve.standing(RULES).word(NOW) == "not_allowed", "they sign in through the provider"
        assert people.vouch("eve", FINANCE, RULES)[0].standing(RULES).word(NOW) == "in"
        for name in ("a", "c", "fay", "gil"):
            people.open_link(people.invite(name, ("approver",), by=ROOT)[1])
        ledger.apply_policy(OPEN_POLICY, by="ana")
        assert ledger.run(mail(7), lambda effect: "sent") == "sent"
        ledger.seal()
        assert ledger.stopped() is None
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        report = verify(evidence, [key_of(ledger)], deep=True)
        assert report.verdict == "verified", report.flaw
        lend_writer_keys(monkeypatch, ledger)
    place.keys.rename(place.keys.with_name("away"))
    assert not place.lets_in(lost.token), "the record says so to a process without the folder too"


@pytest.mark.parametrize("at", range(0, 20, 3))
def test_98_a_declaration_that_is_cut_short_revives_nothing(
    lost: Lost, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    class Killed(BaseException):
        pass

    lost.put_back()
    with lost.place.opened() as ledger:
        writes = 0
        store = type(ledger._engine.store)
        apply = store.apply

        def dying(self: Any, *words: Any, **named: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes > at:
                raise Killed
            return apply(self, *words, **named)

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(store, "apply", dying)
            ledger.continue_journal()
    assert not lost.place.lets_in(lost.token)
    with lost.place.opened() as ledger, suppress(IndelibleError):
        ledger.continue_journal()
    lost.check()
    with lost.place.opened() as ledger:
        assert ledger.stopped() is None


@pytest.mark.parametrize("is_let_go", [False, True])
def test_98_a_tenant_that_was_stopped_since_stays_so(place: Place, is_let_go: bool) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        copy = place.state()
        ledger.stop(by=ROOT, reason="looking")
        if is_let_go:
            ledger.go(by=ROOT, reason="found")
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
        assert (ledger.stopped() is None) == is_let_go
        if not is_let_go:
            with pytest.raises(Stopped):
                ledger.run(mail(2), lambda effect: "sent")
            ledger.go(by=ROOT, reason="found")
        assert ledger.run(mail(2), lambda effect: "sent") == "sent"


@pytest.mark.parametrize("had_one", [True, False])
def test_98_a_policy_of_before_the_loss_is_not_believed_until_one_is_applied(place: Place, had_one: bool) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        if had_one:
            ledger.apply_policy(OPEN_POLICY, by="ana")
        ledger.seal()
        copy = place.state()
        ledger.apply_policy({**POLICY, "rules": [{"name": "no", "then": "refuse"}]}, by="ana")
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
        assert ledger.policy() is None
        with pytest.raises(IndelibleError):
            ledger.run(mail(2), lambda effect: "sent")
        ledger.apply_policy(OPEN_POLICY, by="ana")
        assert ledger.run(mail(2), lambda effect: "sent") == "sent"
        ledger.seal()
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        assert verify(evidence, [key_of(ledger)], deep=True).verdict == "verified"


@pytest.mark.parametrize("kind", ["policy", "provider"])
def test_98_what_is_in_question_is_no_tampering_and_doctor_names_it(place: Place, kind: str) -> None:
    def apply(ledger: Ledger, group: str) -> None:
        if kind == "policy":
            ledger.apply_policy({"rules": [{"name": group, "then": "allow"}]}, by="ana")
        else:
            rules = ProviderRules(issuer="https://id", allowed=(Allowed("groups", group, "approver"),))
            Providers(ledger._engine.store, "default").put_in_force(rules)

    with place.opened() as ledger:
        apply(ledger, "old")
        ledger.seal()
        copy = place.state()
        apply(ledger, "new")
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        report = verify(evidence, [key_of(ledger)], deep=True)
        assert report.verdict == "verified", report.why
        assert any(f"{kind} " in remark and "in question" in remark for remark in report.remarks)
        where = Where(url=place.url, tenant="default", is_json=False)
        (bad,) = (one for one in approvals.examine(ledger, where, NOW) if one.verdict == "bad")
        assert {"policy": "policy apply", "provider": "--oidc-allow"}[kind] in str(bad.fix)
        apply(ledger, "new")
        assert all(one.verdict == "ok" for one in approvals.examine(ledger, where, NOW))


def test_64_a_head_of_a_part_that_was_lost_twice_is_no_tampering(place: Place, tmp_path: Path) -> None:
    with place.opened() as ledger:
        for number in range(3):
            ledger.run(mail(number), lambda effect: "sent")
        ledger.seal()
        copy = place.state()
        for number in range(3, 9):
            ledger.run(mail(number), lambda effect: "sent")
        kept = str(ledger.seal())
        ledger.run(mail(9), lambda effect: "sent")
        ledger.seal()
    for first in (20, 30):
        place.set_back(copy)
        with place.opened() as ledger:
            ledger.continue_journal()
            for number in range(first, first + 2):
                ledger.run(mail(number), lambda effect: "sent")
            ledger.seal()
    with place.opened() as ledger:
        for more in range(2):
            for number in range(40, 40 + 10 * more):
                ledger.run(mail(number), lambda effect: "sent")
            ledger.seal()
            ledger.export(tmp_path / f"{more}.zip")
            for evidence in (LiveEvidence(ledger._engine.store, "default"), tmp_path / f"{more}.zip"):
                report = verify(evidence, [key_of(ledger)], after=[kept])
                assert report.verdict == "cannot_tell", report.why
                assert verify(evidence, [key_of(ledger)]).verdict == "verified"


def test_98_the_command_lists_what_it_told_again_and_what_is_in_question(lost: Lost) -> None:
    with lost.place.opened() as ledger:
        ledger.apply_policy(OPEN_POLICY, by="ana")
        ledger.stop(by=ROOT, reason="looking")
        ledger.seal()
    lost.put_back()
    arguments = ["journal", "continue", "--yes", "--url", lost.place.url, "--json"]
    ran = CliRunner().invoke(root, arguments)
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.output)
    told = {(one["kind"], one["id"]): one["event"] for one in said["told_again"]}
    assert told == {
        ("credential", lost.token.credential_id): "credential_revoked",
        ("delegation", lost.delegation.id): "delegation_ended",
        ("grant", lost.grants["ana"]): "grant_ended",
        ("grant", lost.grants["bo"]): "grant_ended",
        ("person", lost.ids["a"]): "person_revoked",
        ("person", lost.ids["b"]): "person_signed_out",
        ("person", lost.ids["c"]): "person_revoked",
        ("person", lost.ids["eve"]): "person_disallowed",
        ("person", lost.link.person_id): "person_signed_out",
    }
    questions = [(one["kind"], one["id"]) for one in said["in_question"]]
    assert ("policy", "current") in questions
    assert ("person", person_id("gil")) in questions, "they are not here at all"
    assert said["stopped"] is True


def test_98_the_command_says_in_words_what_to_do_next(lost: Lost) -> None:
    with lost.place.opened() as ledger:
        ledger.apply_policy(OPEN_POLICY, by="ana")
        ledger.stop(by=ROOT, reason="looking")
        ledger.seal()
    lost.put_back()
    ran = CliRunner().invoke(root, ["journal", "continue", "--yes", "--url", lost.place.url])
    assert ran.exit_code == 0, ran.output
    for word in (lost.token.credential_id, lost.ids["a"], "indelible policy apply", "people invite", "indelible go"):
        assert word in ran.output
