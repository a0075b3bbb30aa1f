"""People on the record: what a server knows of them verifies, and whatever is changed of it in the database shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indelible import Actor, GrantTerms, Ledger, ToolCall, migrate
from indelible.core.people.person import Passkey
from indelible.core.people.standing import person_id
from indelible.core.people.vouching import ProviderRules, Said, Vouched, Voucher, read_allowed
from indelible.errors import NotPermitted
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.leaving import Leaving
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from tests.journal.tampering import Database, changes
from tests.journal.test_verify_live import call, look, pinned_key

ROOT = Actor("root")


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger whose people came, went, and tried."""
    migrate(store_url, writer_keys=False)  # so that verification alone has to find what is changed
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        store = ledger._engine.store
        people = People(store, "default")
        ana, session = people.open_link(people.invite("ana", ("approver",), by=ROOT)[1])
        by = Actor("ana", "person", "link")
        made = Passkey(credential_id="Y3I", name="k", public_key="pQ", sign_count=0, created_at=datetime.now(UTC))
        people.add_passkey(ana.id, made, by=by)
        people.sign_in(ana.id, "Y3I", 1)
        people.sign_out(ana.id, session.name, by=by)
        people.tell_refused(ana.id, "link")
        rules = ProviderRules(issuer="https://id.example", allowed=(read_allowed("dept=it:auditor"),))
        assert Providers(store, "default").put_in_force(rules)
        cy = Vouched(by=Voucher("https://id.example", "cy-1"), said=(Said("dept", "it"),), at=datetime.now(UTC))
        people.vouch("cy@example.com", cy, rules)
        with pytest.raises(NotPermitted):
            people.vouch("cy@example.com", replace(cy, said=()), rules)
        assert Providers(store, "default").put_in_force(ProviderRules(issuer=None))
        bob = Actor("bob", "person", "link")
        people.open_link(people.invite("bob", ("admin",), by=ROOT)[1])
        people.invite("dee", ("auditor",), by=bob)
        for run_id in ("asked", "granted"):
            question = ledger.begin(ToolCall(run_id=run_id, tool="pay", args={}), approval="required").approval  # type: ignore[union-attr]
            terms = None if run_id == "asked" else GrantTerms(count=2, until=datetime.now(UTC) + timedelta(hours=1))
            ledger.approve(question, digest=question.digest, by=bob, grant=terms)
        ledger.delegate("ana", until=datetime.now(UTC) + timedelta(hours=1), by=bob)
        left = Leaving(store, "default", ledger._approving).revoke(person_id("bob"), by=ROOT)
        assert [len(each) for each in (left.links, left.approvals, left.grants, left.delegations)] == [1, 2, 1, 1]
        Credentials(store, "default").give("bot", ("agent",), by=ROOT)
        for number in (1, 2):  # something in every table, and something that waits
            ledger.seal()
            ledger.run(call(number), lambda effect: 1)
        yield ledger


def test_people_verify_and_a_change_of_their_rows_is_caught(ledger: Ledger, store_url: str) -> None:
    key = pinned_key(ledger._engine.store)
    report = look(ledger, key, deep=True)
    assert (report.verdict, report.flaw) == ("verified", None), report.why
    caught = 0
    with closing(Database(store_url)) as database:
        for change in changes(database):
            if change.kind not in ("person", "credential", "provider") or change.column == "body":
                continue  # what is on them is kept with the event; nobody reads that column of theirs
            with database.changed(change) as has_happened:
                if has_happened:
                    assert look(ledger, key, deep=True).verdict == "tampered", change
                    caught += 1
    assert caught > 10
