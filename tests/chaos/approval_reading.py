"""Reads what the store and the world say of approvals and budgets, and lets the verifier have its say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import psycopg

import indelible
from indelible import Approval, Effect, Ledger
from indelible.core.approvals.deliveries import kind_of, read_delivery
from indelible.core.events import instant
from indelible.core.journal.notes import log_name
from indelible.core.sheets import Sheet, SheetFilter
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.chaos.approval_oracle import Asked, StoredApproval, StoredCall, StoredMessage, Told
from tests.chaos.approval_subject import MESSAGES, Place, open_ledger
from tests.chaos.oracle import Violation
from tests.stores.database import open_file

_PAGE = 500


def received(where: Path) -> list[str]:
    """Gives the ids of the messages that the receiver got."""
    file = where / MESSAGES
    return file.read_text().splitlines() if file.exists() else []


def read_asked(place: Place, runs: Collection[str] | None = None) -> Asked:
    """Reads what the store has about everything that was asked in this place, or in some runs of it."""
    with Ledger.open(place.url, tenant=place.tenant, seal=False) as ledger:
        # An effect without arguments is a place that an edit took; it stands for the call that was edited.
        made = (effect for effect in _effects(ledger) if effect.args_json is not None)
        effects = [effect for effect in made if runs is None or effect.run_id in runs]
        stories: dict[str, list[Told]] = {}
        for run_id in dict.fromkeys(effect.run_id for effect in effects):
            for effect_id, told in _events(ledger, run_id):
                stories.setdefault(effect_id, []).append(told)
        mine = {effect.id for effect in effects}
        approvals = [approval for approval in _approvals(ledger) if approval.effect_id in mine]
        named = {approval.id for approval in approvals}
        messages = [message for message in _messages(ledger) if runs is None or message.approval_id in named]
    return Asked(
        calls=[
            StoredCall(
                call=effect.args["call"],
                effect_id=effect.id,
                status=effect.status,
                approval_id=effect.approval_id,
                story=stories[effect.id],
            )
            for effect in effects
        ],
        approvals=[
            StoredApproval(
                id=approval.id,
                effect_id=approval.effect_id,
                status=approval.status,
                digest=approval.digest,
                expires_at=instant(approval.expires_at),
                replaces=approval.replaces,
                voters=tuple(vote.by for vote in approval.votes if vote.is_approval),
                channels=approval.question.notify,
            )
            for approval in approvals
        ],
        messages=messages,
    )


def _effects(ledger: Ledger) -> Iterator[Effect]:
    page = ledger.effects(limit=_PAGE)
    while page:
        yield from page
        page = ledger.effects(limit=_PAGE, before=page[-1].id) if len(page) == _PAGE else []


def _approvals(ledger: Ledger) -> Iterator[Approval]:
    page = ledger.approvals(limit=_PAGE)
    while page:
        yield from page
        page = ledger.approvals(limit=_PAGE, before=page[-1].id) if len(page) == _PAGE else []


def _events(ledger: Ledger, run_id: str) -> Iterator[tuple[str, Told]]:
    page = ledger.events(run_id, limit=_PAGE)
    while page:
        for event in page:
            if event.effect_id is not None:
                body = event.read()
                yield event.effect_id, Told(type=event.type, by=body["actor"]["id"], at=body["at"])
        page = ledger.events(run_id, after=page[-1].seq, limit=_PAGE) if len(page) == _PAGE else []


def _messages(ledger: Ledger) -> Iterator[StoredMessage]:
    after: str | None = ""
    while after is not None:
        page = ledger._engine.store.sheets(ledger.tenant, SheetFilter(kind="delivery", after=after, limit=_PAGE))
        for delivery in map(read_delivery, page):
            yield StoredMessage(
                id=delivery.id,
                approval_id=delivery.approval_id,
                about=kind_of(delivery.about),
                channel=delivery.channel,
                status=delivery.status,
                is_skipped="skipped" in delivery.receipt,
            )
        after = page[-1].id if len(page) == _PAGE else None


def reservations(url: str, tenant: str) -> tuple[list[bytes], list[Sheet]]:
    """Reads, at one moment, what effects hold of budgets, and the budgets. That takes SQL; the schema is there."""
    held = "SELECT charges FROM indelible_effects WHERE charges IS NOT NULL AND tenant = "
    budgets = "SELECT id, body FROM indelible_sheets WHERE kind = 'budget' AND tenant = "
    if is_postgres(url):
        with psycopg.connect(url) as server:
            server.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            charges = [row[0] for row in server.execute(f"{held}%s", [tenant])]
            found = list(server.execute(f"{budgets}%s", [tenant]))
    else:
        file = open_file(url)
        with file:  # one transaction
            charges = [row[0] for row in file.execute(f"{held}?", [tenant])]
            found = list(file.execute(f"{budgets}?", [tenant]))
        file.close()
    return charges, [Sheet(kind="budget", id=name, status="open", body=body) for name, body in found]


def not_verified(place: Place) -> Iterator[Violation]:
    """Seals the journal of a place and verifies it, with the tables beside it and as a file that somebody is given."""
    with open_ledger(place) as ledger:
        if ledger.seal() is None:
            return
        store, bundle = ledger._engine.store, place.world / "bundle"
        keys = ledger._engine.notary.signer().keys(log_name(store.ledger_name, place.tenant))
        ledger.export(bundle)
        reports = (
            verify(LiveEvidence(store, place.tenant), keys),
            indelible.verify(bundle, [key.vkey for key in keys]),
        )
    for report in reports:
        if report.verdict != "verified":
            yield Violation("not verified", place.tenant, f"{report.source} is {report.verdict}: {report.why}")
