"""Votes that are signed with the voter's own key: an Ed25519 key in a PEM file that nobody else may read."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indelible import Actor
from indelible.cli.opening import about_ledger, where
from indelible.cli.show import say_json, visible
from indelible.core.approvals.approval import vote_message
from indelible.errors import KeyUnusable

if TYPE_CHECKING:
    from indelible.journal.keys.holders import HeldKey


def signature_of(path: Path, digest: str, *, is_approval: bool) -> bytes:
    """Signs one answer to one question."""
    return _held(path).sign(vote_message(digest, is_approval))


def voter(by: str, key: Path | None) -> Actor:
    """Gives who votes, and how that is known: the ledger counts a signature only if it is theirs."""
    return Actor(by, "person", "process" if key is None else "signature")


def _held(path: Path) -> HeldKey:
    """Reads a key; a locked one is opened with the passphrase in $INDELIBLE_KEY_PASSPHRASE."""
    from indelible.journal.keys.files import read_private
    from indelible.journal.keys.pem import given_passphrase, read_key, unlock

    try:
        content = read_private(path)
    except OSError as problem:
        raise KeyUnusable(f"{path} cannot be read: {problem.strerror}") from problem
    if content is None:
        raise KeyUnusable(f"there is no key at {path}; make one: indelible approvals key {path}")
    passphrase = given_passphrase(None)
    return unlock(read_key(content, path, passphrase), path, passphrase)


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@about_ledger
def key(path: Path) -> None:
    """Make your own key for signing votes, and print its public half.

    It is made on first use, for its owner alone; with a passphrase if $INDELIBLE_KEY_PASSPHRASE has one. The line that
    is printed goes into the policy, under your name: `people: {ana: {key: "..."}}`.

    \b
    indelible approvals key ~/ana.pem
    """
    is_new = not path.exists()
    if is_new:
        _make(path)
    public = b64encode(_held(path).raw).decode("ascii")
    if where().is_json:
        say_json({"key": public, "file": str(path), "is_new": is_new})
        return
    if is_new:
        click.echo(f"made {visible(str(path))}: keep it secret, and keep a copy", err=True)
    print(public)


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    from indelible.journal.keys.pem import given_passphrase

    passphrase = given_passphrase(None)
    lock: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise KeyUnusable(f"{path} cannot be made: {problem.strerror}; name another place") from problem
