"""`indelible keys`: the keys that sign this ledger's journals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.confirming import confirm, yes_option
from indelible.cli.opening import about_ledger, open_here, where
from indelible.cli.options import InOrder
from indelible.cli.quiet import unlogged
from indelible.cli.show import age, say_json, table, visible
from indelible.core.events import instant_or_none
from indelible.errors import KeyUnusable
from indelible.journal.keys.ring import KeyRing, RingKey
from indelible.journal.keys.writers import VARIABLE, WriterKeys


@click.group(cls=InOrder)
def keys() -> None:
    """Look after the keys that sign the journal.

    They are files in $INDELIBLE_KEYS, else in ~/.indelible/keys, which nobody else may read. A passphrase for them is
    taken from $INDELIBLE_KEY_PASSPHRASE. An ID is a key's id, the beginning of it if that is unique, or its public key.
    """


def ring_of(ledger: Ledger) -> KeyRing:
    """Opens the keys of a ledger; makes none."""
    return KeyRing.open(store_behind(ledger).ledger_name)


def _as_json(key: RingKey, ring: KeyRing, origin: str) -> dict[str, Any]:
    return {
        "id": key.id,
        "status": key.status,
        "created": instant_or_none(key.created),
        "file": str(key.path),
        "public": ring.export_public(origin, key.id),
    }


@keys.command(name="list")
@about_ledger
def list_keys() -> None:
    """List the keys, and which of them signs."""
    place = where()
    with open_here(place) as ledger:
        ring, origin = ring_of(ledger), ledger.journal_name
    found = ring.all_keys()
    if place.is_json:
        listed = [_as_json(key, ring, origin) for key in found]
        say_json({"folder": str(ring.folder), "tenant": place.tenant, "keys": listed})
        return
    now = datetime.now(UTC)
    if found:
        rows = [(k.id, k.status, "unknown" if k.created is None else age(k.created, now), k.path.name) for k in found]
        table(("id", "status", "age", "file"), rows)
        print(f"\nIn {visible(str(ring.folder))}.")
    else:
        print(f"No keys yet in {visible(str(ring.folder))}.")
        print(f"The first is made when the journal is first signed, or by: {place.command('keys create')}")
    if any(key.status == "next" for key in found):
        print(f"A rotation is under way: both keys sign. Finish it with: {place.command('keys rotate')}")


@keys.command()
@about_ledger
def create() -> None:
    """Make the first key, if there is none yet."""
    place = where()
    with open_here(place) as ledger:
        ring, origin = ring_of(ledger), ledger.journal_name
    is_new = ring.current() is None
    with unlogged():  # what the log would tell is printed below
        key = ring.create(place.tenant)
    if place.is_json:
        say_json({"is_new": is_new, "key": _as_json(key, ring, origin)})
        return
    print(f"{key.id}: {'made' if is_new else 'is there already'}, {visible(str(key.path))}")
    print(f"Back it up. Give auditors: {ring.export_public(origin)}")


@keys.command(name="export-public")
@click.argument("key_id", metavar="[ID]", required=False)
@about_ledger
def export_public(key_id: str | None) -> None:
    """Print the public key that auditors pin, and nothing else.

    Without an ID it is the key that signs. Each tenant's journal has a line of its own, made from the same key.
    """
    place = where()
    with open_here(place) as ledger:
        ring, origin = ring_of(ledger), ledger.journal_name
    vkey = ring.export_public(origin, key_id)
    if place.is_json:
        say_json({"tenant": place.tenant, "public": vkey})
    else:
        print(vkey)


@keys.command(name="export-writer")
@click.option("--rights", "with_rights", is_flag=True, help="Also the key for votes, people, tokens, policy and stops.")
@about_ledger
def export_writer(with_rights: bool) -> None:
    """Print the writer key of a tenant, for a worker on another machine.

    Set INDELIBLE_WRITER_KEYS to it there; keys of several tenants are separated by spaces. Keep it as secret as a
    password: with it a program writes rows that the ledger believes. Without --rights it cannot vote or change who may.
    """
    place = where()
    with open_here(place) as ledger:
        macs = store_behind(ledger).macs
        if not isinstance(macs, WriterKeys):
            raise KeyUnusable(
                f"the rows of {ledger.journal_name} carry no macs, so there is no writer key; only a new ledger gets "
                "one: indelible migrate --url URL"
            )
        line = macs.export(place.tenant, with_rights=with_rights)
    if place.is_json:
        say_json({"tenant": place.tenant, "variable": VARIABLE, "value": line})
    else:
        print(line)


@keys.command()
@about_ledger
def rotate() -> None:
    """Put a new key in the old one's place, on the record.

    Old and new key sign the change in every tenant's journal. A rotation that was interrupted is finished.
    """
    place = where()
    with open_here(place) as ledger:
        ring, origin = ring_of(ledger), ledger.journal_name
        old = ring.export_public(origin)
        ledger.rotate_keys()
        new = ring.export_public(origin)
    if place.is_json:
        say_json({"tenant": place.tenant, "old": old, "new": new})
        return
    print(f"Signs from now on: {new}")
    print(f"Signed until now:  {old}")
    print("The change is in the journal, signed by both: who pinned the old key can follow it. Back the new key up.")


@keys.command()
@click.argument("key_id", metavar="ID")
@yes_option
@about_ledger
def revoke(key_id: str, yes: bool) -> None:
    """Declare a retired key worthless, on the record.

    Do this when it may be in wrong hands: what it signs from now on counts for nothing. The key that signs has to be
    rotated first.
    """
    place = where()
    with open_here(place) as ledger:
        ring, origin = ring_of(ledger), ledger.journal_name
        name = ring.revocable(key_id).id
        confirm(f"This declares the key {name} worthless: what it signs from now on counts for nothing.", yes=yes)
        ledger.revoke_key(name)
    key = ring.find(name)
    if place.is_json:
        say_json({"tenant": place.tenant, "key": _as_json(key, ring, origin)})
        return
    print(f"{key.id} is {key.status}, on the record of the journal. Tell those who pinned it.")
