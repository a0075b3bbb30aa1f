"""Is the record sealed, and by a key that is where it should be?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timedelta

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.doctor.command import Check, told
from indelible.cli.opening import Where
from indelible.cli.show import count, visible
from indelible.core.journal.notes import parse_head, parse_note
from indelible.engine.comparing import tenants_of
from indelible.errors import IndelibleError
from indelible.journal.keys.ring import KeyRing
from indelible.journal.keys.signer import file_signer
from indelible.journal.keys.writers import VARIABLE, WriterKeys, key_maker
from indelible.journal.sealing import is_elsewhere, lost_head

# A ledger that seals does so within a quarter of a second, so what waits longer waits for somebody.
LONG = timedelta(minutes=1)


def examine(ledger: Ledger, place: Where, now: datetime) -> Iterator[Check]:
    """Looks at the journal's keys and at how far it is sealed."""
    yield check_keys(ledger, place)
    yield from check_other_tenants(ledger, place)
    yield check_writer_keys(ledger, place)
    yield check_sealed(ledger, place, now)


def is_lost(ledger: Ledger, place: Where) -> bool | None:
    """Return whether the database lacks what was signed; None if that cannot be told here."""
    store = store_behind(ledger)
    try:
        signer = file_signer(KeyRing.open(store.ledger_name))
        if signer.last(store.origin(place.tenant)) is None:
            return None
        return lost_head(store, place.tenant, signer) is not None
    except IndelibleError:  # which the check of the keys tells
        return None


def check_keys(ledger: Ledger, place: Where) -> Check:
    """Is the key that signs here, for its owner alone, and does the database continue what it signed?"""
    store = store_behind(ledger)
    if is_elsewhere(store, place.tenant):
        stop = ledger.stopped()
        return Check("keys", "ok", "signed elsewhere" if stop is None else f"{place.tenant} was {stop.reason}")
    try:
        ring = KeyRing.open(store.ledger_name)
        key = ring.current()
        lost = None if key is None else lost_head(store, place.tenant, file_signer(ring))
    except IndelibleError as error:
        return told("keys", error)
    if key is None:
        is_signed = bool(store.journal.heads(place.tenant, 1))
        said = f"none in {ring.folder}" + ("; another machine signs" if is_signed else ": made when first needed")
        return Check("keys", "ok", said)
    if lost is not None:
        size = store.journal.tree(place.tenant).size
        said = f"{lost.size} events were signed, and the ledger, which has {size}, lacks some of them: it was set back"
        return Check("keys", "bad", said, f"restore a newer backup, or: {place.command('journal continue')}")
    return Check("keys", "ok", f"{key.id} signs, {key.path}")


def check_other_tenants(ledger: Ledger, place: Where) -> Iterator[Check]:
    """Does the database continue what was signed for each of the other tenants, also for those it has nothing of?"""
    store = store_behind(ledger)
    try:
        ring = KeyRing.open(store.ledger_name)
        signer, tenants = file_signer(ring), sorted(tenants_of(store) - {place.tenant}) if ring.current() else []
        for tenant in tenants:
            if not is_elsewhere(store, tenant) and (lost := lost_head(store, tenant, signer)) is not None:
                said = f"{visible(tenant)}: {lost.size} events were signed, and the ledger lacks some of them"
                yield Check("keys", "bad", said, f"indelible doctor --tenant {shlex.quote(tenant)}")
    except IndelibleError:  # which the check of the keys tells
        return


def check_writer_keys(ledger: Ledger, place: Where) -> Check:
    """Does the ledger believe only what programs with its keys wrote, and are those keys here?"""
    name, store = "writer keys", store_behind(ledger)
    if isinstance(store.macs, WriterKeys):
        return Check(name, "ok", "here; rows of other programs are not believed")
    if store.macs is not None:
        fix = f"where they are: {place.command('keys export-writer')}; here, set {VARIABLE} to what it prints"
        return Check(name, "warn", "not here: programs on this machine are refused, and no mac was checked", fix)
    if key_maker(None) is None:
        return Check(name, "ok", f"none, and {VARIABLE} says so")
    said = "none: this ledger was begun without them, so it believes rows that any program with access writes"
    return Check(name, "warn", said, "begin a new ledger when you can; see docs/keys.md, A ledger without writer keys")


def check_sealed(ledger: Ledger, place: Where, now: datetime) -> Check:
    """Is everything under a signed head that should be by now?"""
    journal = store_behind(ledger).journal
    waiting, tree = journal.waiting(place.tenant), journal.tree(place.tenant)
    newest = journal.heads(place.tenant, 1)
    signed = parse_head(parse_note(newest[0]).text).size if newest else 0
    unsigned = tree.size - signed + waiting
    newest_effect = max((effect.updated_at for effect in ledger.effects(limit=1)), default=now)
    if unsigned and now - newest_effect > LONG:
        said = f"{count(unsigned, 'event')} under no signed head, since more than a minute"
        fix = f"{place.command('journal seal')}; to keep it sealed: {place.command('worker')}"
        return Check("journal", "warn", said, fix)
    if not signed and not unsigned:
        return Check("journal", "ok", "nothing to seal yet")
    new = f", {unsigned} new" if unsigned else ""
    return Check("journal", "ok", f"{count(signed, 'event')} under a signed head{new}")
