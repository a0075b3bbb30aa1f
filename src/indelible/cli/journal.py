"""`indelible journal`: the tree over all events, its signed head, and what to do when it cannot be sealed."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import click

from indelible.cli.behind import store_behind
from indelible.cli.confirming import confirm, yes_option
from indelible.cli.opening import about_ledger, open_existing, open_here, open_to_read, where
from indelible.cli.options import InOrder
from indelible.cli.show import count, fields, say_json, visible
from indelible.core.journal.merkle import consistency_proof
from indelible.core.journal.notes import Note, parse_head, parse_note
from indelible.core.journal.tiles import node_reader
from indelible.errors import BadCall


@click.group(cls=InOrder)
def journal() -> None:
    """See the journal's signed head, and seal it."""


@journal.command()
@about_ledger
def status() -> None:
    """Tell how far the journal is sealed and what waits."""
    place = where()
    with open_to_read(place) as ledger:
        store = store_behind(ledger)
        tree, waiting = store.journal.tree(place.tenant), store.journal.waiting(place.tenant)
        heads = store.journal.heads(place.tenant, 1)
    signed = parse_head(parse_note(heads[0]).text) if heads else None
    unsigned = tree.size - (signed.size if signed else 0)
    if place.is_json:
        signed_size = signed.size if signed else 0
        say_json({"entries": tree.size, "signed": signed_size, "waiting": waiting, "head": _first(heads)})
        return
    shown = None if signed is None else f"{count(signed.size, 'event')} of {signed.origin}, root {_base64(signed.root)}"
    fields(
        [
            ("signed", shown or "nothing yet"),
            ("in the tree, not signed", count(unsigned, "event") if unsigned else None),
            ("not in the tree yet", count(waiting, "event") if waiting else None),
        ]
    )
    if waiting or unsigned:
        print(f"Seal it now with: {place.command('journal seal')}; or keep it sealed with: {place.command('worker')}")


@journal.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@about_ledger
def head(out: Path | None) -> None:
    """Print the newest signed head, to keep somewhere else.

    Whoever keeps one can tell later that nothing before it was changed or cut off: indelible verify --after FILE.
    """
    place = where()
    with open_to_read(place) as ledger:
        heads = store_behind(ledger).journal.heads(place.tenant, 1)
    if not heads:
        raise BadCall(f"nothing is signed yet; run: {place.command('journal seal')}")
    if out is not None:
        out.write_text(heads[0], encoding="utf-8")
    elif place.is_json:
        say_json(_head_json(parse_note(heads[0])))
    else:
        click.echo(heads[0], nl=False)


@journal.command()
@about_ledger
def seal() -> None:
    """Take everything that waits into the journal and sign its head."""
    place = where()
    with open_existing(place) as ledger:
        note = ledger.seal()
    if place.is_json:
        say_json({"head": None if note is None else _head_json(note)})
    elif note is None:
        print("There are no events yet, so there is nothing to seal.")
    else:
        signed = parse_head(note.text)
        print(f"{signed.origin}: {count(signed.size, 'event')} under a signed head, root {_base64(signed.root)}")


@journal.command()
@click.argument("old", type=click.IntRange(min=0))
@click.argument("new", type=click.IntRange(min=0), required=False)
@about_ledger
def consistency(old: int, new: int | None) -> None:
    """Print the proof that the journal of NEW events begins with OLD.

    Without NEW it is the journal under the newest signed head.
    """
    place = where()
    with open_to_read(place) as ledger:
        kept = store_behind(ledger).journal
        size = kept.tree(place.tenant).size if new is None else new
        if not old <= size <= kept.tree(place.tenant).size:
            raise BadCall(f"the journal has {count(kept.tree(place.tenant).size, 'event')}; name two sizes up to that")
        read = node_reader(lambda level, number: kept.tile(place.tenant, level, number))
        proof = [_base64(one) for one in consistency_proof(old, size, read)]
    if place.is_json:
        say_json({"old": old, "new": size, "proof": proof})
    else:
        click.echo("\n".join(proof))


@journal.command(name="continue")
@click.option("--dry-run", is_flag=True, help="Only say what would be declared lost.")
@yes_option
@about_ledger
def continue_(dry_run: bool, yes: bool) -> None:
    """Go on after the database was set back, and say so on the record.

    Only when a newer backup cannot be had: what was signed after this one is lost, and heads that others keep will not
    fit any more. The journal tells what was lost, signed.
    """
    place = where()
    with open_here(place) as ledger:
        lost, here = ledger._engine.notary.sealer().lost()
        what = f"{count(lost.size, 'event')} were signed and {here.size} are in this database"
        if dry_run:
            told = {"lost": {"size": lost.size, "root": _base64(lost.root)}, "size": here.size, "dry_run": True}
            place.say(told, f"Would declare lost what is not here: {what}.")
            return
        confirm(f"This declares lost what was signed and is not here: {what}.", yes=yes)
        continued = ledger._engine.notary.sealer().resume_after_loss()
        now, stop = ledger.tree_head(), ledger.stopped()
    assert now is not None
    if place.is_json:
        told = {"lost": {"size": lost.size, "root": _base64(lost.root)}, "size": now.size, "stopped": stop is not None}
        told["told_again"] = [{"kind": kind, "id": id_, "event": event} for kind, id_, event in continued.told]
        told["in_question"] = [ref._asdict() for ref in continued.in_question]
        say_json(told)
        return
    print(f"Declared lost: the journal of {count(lost.size, 'event')} with root {_base64(lost.root)}.")
    print(f"It goes on with {count(now.size, 'event')} and says so. Tell your auditors and witnesses.")
    if continued.told:
        print("Told again, for it ended since the copy was made:")
        for kind, id_, event in continued.told:
            print(f"  {kind} {id_}: {_TOLD[event]}")
    if continued.in_question:
        print("In question, for it changed since the copy was made; it gives nothing:")
        for ref in continued.in_question:
            print(f"  {ref.kind} {ref.id}: {_NEXT[ref.kind]}")
    if stop is not None:
        print(f"Effects are stopped: {visible(stop.reason)}")


_TOLD = {
    "credential_revoked": "revoked",
    "delegation_ended": "ended",
    "grant_ended": "ended; the next call asks again",
    "person_disallowed": "signs in through the provider again",
    "person_revoked": "let in no more; to let them in: indelible people invite",
    "person_signed_out": "signs in again with a passkey; without one: indelible people invite",
}
_NEXT = {
    "credential": "is not here; to give another token: indelible apikeys create",
    "delegation": "is not here; who gave it gives another",
    "grant": "is not here; the next call asks again",
    "person": "is not here; to let them in: indelible people invite",
    "policy": "nothing runs until you apply it: indelible policy apply FILE",
    "provider": "lets nobody in until the server is started with its rules: indelible serve --oidc-allow",
}


def _head_json(note: Note) -> dict[str, Any]:
    signed = parse_head(note.text)
    signers = [{"name": visible(one.name), "key_id": one.key_id.hex()} for one in note.signatures]
    return {
        "origin": signed.origin,
        "size": signed.size,
        "root": _base64(signed.root),
        "signatures": signers,
        "note": str(note),
    }


def _first(heads: list[str]) -> dict[str, Any] | None:
    return _head_json(parse_note(heads[0])) if heads else None


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
