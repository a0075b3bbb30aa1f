"""`indelible witness`: be a witness for somebody's journal, or ask one."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indelible.cli.ending import handling, until_ended, until_stopped
from indelible.cli.options import InOrder, listen_option
from indelible.cli.show import count, say_json, visible
from indelible.core.events import instant
from indelible.core.journal.journal import Prove
from indelible.core.journal.notes import MOST_NOTE_BYTES, PublicKey, parse_head, parse_note, parse_vkey
from indelible.errors import BadNote

if TYPE_CHECKING:
    from indelible.journal.witnesses.server import WitnessServer

KEY_FILE = click.option(
    "--key-file", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The witness's private key."
)
JSON = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


def _read_key(context: click.Context, parameter: click.Parameter, text: str) -> PublicKey:
    try:
        return parse_vkey(text)
    except BadNote as problem:
        raise click.BadParameter(str(problem), context, parameter) from problem


def _read_keys(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> list[PublicKey]:
    return [_read_key(context, parameter, text) for text in texts]


@click.group(cls=InOrder)
def witness() -> None:
    """Watch somebody's journal, or ask a witness.

    A witness cosigns a journal's heads as long as each grew out of the one before. Two machines of one team can watch
    each other.
    """


@witness.command(name="key")
@KEY_FILE
@click.option("--name", help="The witness's name, as in witness.example/1.  [default: made from the key]")
@JSON
def show_key(key_file: Path, name: str | None, is_json: bool) -> None:
    """Print the witness's public key.

    The private key is made on first use, for its owner alone. Give the line that is printed to everybody who is to
    trust this witness.
    """
    from indelible.journal.witnesses.cosigner import open_key

    is_new = not key_file.exists()
    try:
        key = open_key(key_file, name)
    except BadNote as problem:
        raise click.UsageError(str(problem)) from problem
    if is_json:
        say_json({"vkey": key.public.vkey, "name": key.public.name, "file": str(key_file), "is_new": is_new})
        return
    if is_new:
        click.echo(f"made {key_file}: keep it secret, and keep it together with the witness's state", err=True)
    print(key.public.vkey)


@witness.command()
@KEY_FILE
@click.option(
    "--log",
    "logs",
    multiple=True,
    required=True,
    callback=_read_keys,
    metavar="VKEY",
    help="A journal's public key; repeat it.",
)
@click.option(
    "--state",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder that remembers what was cosigned.",
)
@listen_option(7420)
@JSON
def serve(key_file: Path, logs: Sequence[PublicKey], state: Path, host: str, port: int, is_json: bool) -> None:
    """Be a witness until interrupted.

    Cosigns heads of the journals named with --log, for whoever sends them. Key and state belong together: a witness
    that forgets what it cosigned is none.
    """
    from indelible.journal.witnesses.cosigner import Cosigner, HeadFolder, hold_key, read_key
    from indelible.journal.witnesses.server import WitnessServer
    from indelible.listening import is_loopback

    key = read_key(key_file)
    with ExitStack() as stack:
        stack.callback(os.close, hold_key(key_file))
        heads = stack.enter_context(closing(HeadFolder(state, key.public)))
        try:
            cosigner = Cosigner(key, logs, heads)
        except BadNote as problem:
            raise click.UsageError(str(problem)) from problem
        server = stack.enter_context(WitnessServer((host, port), cosigner))
        _serve(server, is_loopback(host), key.public, logs, is_json)


def _serve(server: WitnessServer, is_private: bool, key: PublicKey, logs: Sequence[PublicKey], is_json: bool) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    with until_ended(), until_stopped() as stopped, handling(lambda *_: stopped.set(), signal.SIGHUP):
        if not is_private:
            click.echo(
                f"anybody who reaches {server.url} can send heads, in clear text; put a server with TLS in front",
                err=True,
            )
        _say_serving(server.url, key, logs, is_json)
        # A signal that raised could be swallowed by whatever it interrupts, so another thread hears it and ends us.
        threading.Thread(target=_shut_down_after, args=(stopped, server), daemon=True).start()
        server.serve_forever()
    click.echo("stopped", err=True)


def _shut_down_after(stopped: threading.Event, server: WitnessServer) -> None:
    stopped.wait()
    server.shutdown()


def _say_serving(url: str, key: PublicKey, logs: Sequence[PublicKey], is_json: bool) -> None:
    origins = list(dict.fromkeys(log.name for log in logs))
    if is_json:
        say_json({"url": url, "vkey": key.vkey, "logs": origins})
    else:
        print(f"witness {visible(key.name)} listens on {url} for {count(len(origins), 'journal')}")
        print(key.vkey)
    sys.stdout.flush()


@witness.command()
@click.option(
    "--head",
    "head_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="A signed head; - is standard input.",
)
@click.option("--url", required=True, help="The witness's address, as in https://witness.example/prefix.")
@click.option("--key", required=True, callback=_read_key, metavar="VKEY", help="The witness's public key.")
@click.option(
    "--tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="An exported journal, to prove growth with.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="How long to wait for its answer.",
)
@click.option("--clear-text", is_flag=True, help="Allow http:// to another machine.")
@JSON
def ask(
    head_file: str, url: str, key: PublicKey, tree: Path | None, timeout: float, clear_text: bool, is_json: bool
) -> int:
    """Ask a witness to cosign a head, and print the cosigned head.

    An auditor learns so whether the witness was shown the same history. Exits with 1 if the witness says no, with 2 if
    it cannot be asked.
    """
    from indelible.cli.root import complain
    from indelible.core.journal.witnessing import with_newest
    from indelible.journal.witnesses.asking import Witness, WitnessUnavailable

    try:
        with click.open_file(head_file, "rb") as file:
            note = parse_note(file.read(MOST_NOTE_BYTES + 1))
        head = parse_head(note.text)
        asked = Witness(url, key, timeout=timedelta(seconds=timeout), allow_clear_text=clear_text)
    except BadNote as problem:
        raise click.UsageError(str(problem)) from problem
    try:
        cosigned = with_newest(note, [asked.cosign(note, head.size, _proofs(tree, head.size))])
    except WitnessUnavailable as problem:
        return complain("WitnessUnavailable", str(problem), 2, is_json=is_json)
    if is_json:
        at = datetime.fromtimestamp(cosigned.cosigned_by(key) or 0, UTC)
        say_json({"note": str(cosigned), "witness": key.name, "size": head.size, "cosigned_at": instant(at)})
    else:
        click.echo(
            str(cosigned).encode(), nl=False
        )  # bytes: a signature line holds a dash that a terminal may not know
    return 0


def _proofs(tree: Path | None, size: int) -> Prove:
    """Makes proofs from an exported journal's tiles."""
    from indelible.core.journal.merkle import consistency_proof
    from indelible.core.journal.tiles import WIDTH, node_reader, tile_path

    def read(level: int, number: int) -> bytes:
        assert tree is not None
        width = min(WIDTH, (size >> 8 * level) - WIDTH * number)
        places = [tree / tile_path(level, number, width), tree / tile_path(level, number)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise click.UsageError(f"{tree} has no {tile_path(level, number, width)}; is it an export of this journal?")
        return found.read_bytes()

    def prove(old: int) -> list[bytes]:
        if tree is None:
            raise click.UsageError(
                f"the witness knows a tree of {old}, and this head is of {size}: a proof is needed that one grew "
                "out of the other. Name an exported journal with --tree"
            )
        return consistency_proof(old, size, node_reader(read))

    return prove
