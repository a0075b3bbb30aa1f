"""The keys of those who write to a ledger, and what is remembered of its rights: both outside its database.

One master lies beside the key that signs. Each tenant's two keys are derived from it (see `core.macs`). A worker on
another machine gets the keys of one tenant by `indelible keys export-writer` and `$INDELIBLE_WRITER_KEYS`. The folder
also keeps the newest version of each right and budget, so that an old row which is put back is known.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from indelible.core.journal.notes import log_name
from indelible.core.macs import KEY_BYTES, Macs, derived_key, losses_kept
from indelible.core.ports import Begin, Store
from indelible.errors import KeyUnusable
from indelible.journal.examining import Examiner
from indelible.journal.keys.files import file_name, locked, read_private, ring_folder, text_of, write_private
from indelible.journal.keys.newest import NewestVersions
from indelible.journal.keys.places import expected_in, remember_place
from indelible.journal.keys.rights import newest_told, read_on

log = logging.getLogger("indelible.journal")

VARIABLE = "INDELIBLE_WRITER_KEYS"
_NO_KEYS = "none"
_FILE = "writers.key"
_TAKEN = "writers-"
_RIGHTS = "rights"
_VERSION = 1


class WriterKeys:
    """Gives the macs of each tenant; safe to use from many threads."""

    def __init__(
        self,
        ledger_name: str,
        master: bytes | None,
        given: dict[str, dict[str, str]],
        ring: Path | None,
        store: Store | None = None,
    ) -> None:
        """Take what the keys are derived from, or the keys; `store` shows what waits to be sealed."""
        self._ledger_name = ledger_name
        self._store = store
        self._master = master
        self._given = given
        self._ring = ring
        self._macs: dict[str, Macs] = {}
        self._taken: dict[str, Path] = {}
        """Names the file that a tenant's keys will be in if it is moved here while this process runs.

        A tenant for which this process has written is not moved here any more.
        """
        self._noted: set[str] = set()

    def __call__(self, tenant: str) -> Macs:
        """Return what makes and checks a tenant's macs.

        Raises:
            KeyUnusable: This process was given the keys of other tenants only.
        """
        found = self._macs.get(tenant)
        if found is None or (not found.has_written and tenant in self._taken and self._taken[tenant].exists()):
            found = self._macs[tenant] = self._make(tenant)
        return found

    def _make(self, tenant: str) -> Macs:
        self._taken.pop(tenant, None)
        self._noted.discard(tenant)
        if self._ring is not None and not (path := _taken_file(self._ring, tenant)).exists():
            self._taken[tenant] = path
        keys = self._keys_of(tenant)
        seed = keys.get("seed")
        public = bytes.fromhex(keys["public"]) if "public" in keys else None
        return Macs(
            tenant,
            bytes.fromhex(keys["effects"]),
            verify=_verifier(public, seed),
            sign=None if seed is None else _Signing(bytes.fromhex(seed)),
            newest=NewestVersions(None if self._ring is None else self._ring / _RIGHTS / file_name(tenant)),
            tell=log.error,
            origin=keys.get("origin", log_name(self._ledger_name, tenant)),
        )

    def note_rights(self, tenant: str) -> None:
        """Note once how new each right of a tenant is, so that an older row put back gives nothing.

        The folder says how far the record was read. Without it, as on a machine that has exported keys, all of the
        ledger's own runs is read, and nothing of budgets and grants.

        Raises:
            RecordForged: Events that told of rights are gone.
        """
        if self._store is None or tenant in self._noted:
            return
        macs = self(tenant)
        if self._ring is not None:
            Examiner(self._store, macs).note(self._store.journal.tree(tenant))
        for ref, version in newest_told(self._store, macs, read_on(self._store, macs)).items():
            macs.newest.note(ref, version)
        self._noted.add(tenant)

    def _keys_of(self, tenant: str) -> dict[str, str]:
        if self._ring is not None and (taken := _taken(self._ring, tenant)) is not None:
            return taken
        if self._master is None and tenant in self._given:
            return self._given[tenant]
        if self._master is None:
            raise KeyUnusable(
                f"${VARIABLE} holds no writer key of tenant {tenant} of {self._ledger_name}; on the machine with the "
                f"keys run: indelible keys export-writer --tenant {tenant}"
            )
        names = {"effects": "effects", "seed": "rights"}
        return {name: derived_key(self._master, tenant, use).hex() for name, use in names.items()}

    def export(self, tenant: str, *, with_rights: bool, origin: str | None = None) -> str:
        """Return the line for another machine: the effects key of a tenant, and the rights key if it is asked for.

        It says what the journal is called if the tenant comes from another ledger, or goes to one (`origin`).
        """
        keys = dict(self._keys_of(tenant))
        seed = keys.get("seed")
        if seed is None and with_rights:
            raise KeyUnusable(f"the rights key of tenant {tenant} is not here; run this where the ledger's keys are")
        if seed is not None:
            keys["public"] = _Signing(bytes.fromhex(seed)).public.hex()
        if not with_rights:
            keys.pop("seed", None)
        if origin is not None:
            keys["origin"] = origin
        content = {**keys, "v": _VERSION, "ledger": self._ledger_name, "tenant": tenant}
        return urlsafe_b64encode(json.dumps(content, sort_keys=True).encode()).decode()


def writer_keys(store: Store, keys: Path | None, tenant: str) -> WriterKeys | None:
    """Return the writer keys of a ledger; None if its rows carry no macs.

    Args:
        store: The ledger's own store, not a server.
        keys: The folder of all keys.
        tenant: Whose keys a process without any is told to get.

    Raises:
        KeyUnusable: Its rows carry macs, and the keys are not here; or this process was given those of other ledgers.
        Misconfigured: Another ledger belongs there, so this one was put in its place or given another name.
    """
    if store.address == ":memory:":
        return None  # no other program can write there
    place = store.address if store.file is None else store.file
    if keys is not None:
        expected_in(keys)(place, store.ledger_name)
    given, others = _given(store.ledger_name)
    ring = None if keys is None else ring_folder(store.ledger_name, keys)
    master = None if ring is None else read_private(ring / _FILE)
    if master is None and not given:
        if store.has_macs():
            raise KeyUnusable(
                f"the rows of {store.ledger_name} carry macs, and its writer keys are not in {ring}, so nothing was "
                "written; if they are in another folder, name it with INDELIBLE_KEYS. Else run on the machine that has "
                f"them: indelible keys export-writer --tenant {shlex.quote(tenant)} --url {shlex.quote(store.address)} "
                f"and set ${VARIABLE} to what it prints, here"
            )
        if others:
            raise KeyUnusable(
                f"{place} holds {store.ledger_name}, whose rows carry no macs, and ${VARIABLE} holds keys of "
                f"{', '.join(others)} only, so nothing was written: it was replaced or given another name. To open a "
                f"ledger without writer keys, unset ${VARIABLE}"
            )
        return None
    if master is not None and keys is not None:
        try:
            remember_place(place, store.ledger_name, keys)
        except (KeyUnusable, OSError) as problem:  # a process that may only read the folder goes on
            log.info("it is not noted that %s holds %s: %s", place, store.ledger_name, problem)
    return WriterKeys(store.ledger_name, None if master is None else _read_master(master, ring), given, ring, store)


def key_file(ledger_name: str) -> Path | None:
    """Return the file from which a ledger's writer keys are derived; None if it is not here."""
    path = ring_folder(ledger_name, None) / _FILE
    return path if path.exists() else None


def copy_writer_keys(old: str, new: str, tenant: str, origin: str) -> Path | None:
    """Give a ledger the keys of a tenant that moves there from another one, where both are files.

    With them goes what the tenant's journal is called: a program that writes to the database cannot change that.

    Returns:
        The file with the keys if there was none before.
    """
    source, target = ring_folder(old, None), ring_folder(new, None)
    master = read_private(source / _FILE)
    if master is None:
        return None
    keys = WriterKeys(old, _read_master(master, source), {}, source)
    path = _taken_file(target, tenant)
    with locked(target):
        is_new = not path.exists()
        write_private(path, keys.export(tenant, with_rights=True, origin=origin).encode())
    NewestVersions(target / _RIGHTS / file_name(tenant)).keep(losses_kept(keys(tenant).newest))
    return path if is_new else None


def key_maker(keys: Path | None) -> Begin | None:
    """Return what makes the writer keys of a ledger while it is begun; None if $INDELIBLE_WRITER_KEYS is `none`.

    Args:
        keys: The folder of all keys; None for a user who has no home folder and names none.
    """
    if os.environ.get(VARIABLE, "").strip() == _NO_KEYS:
        return None

    def begin(ledger_name: str) -> None:
        try:
            ring = ring_folder(ledger_name, keys)
            with locked(ring):
                write_private(ring / _FILE, os.urandom(KEY_BYTES).hex().encode() + b"\n")
        except (KeyUnusable, OSError) as problem:
            raise KeyUnusable(
                f"the writer keys of a new ledger cannot be kept, so none was begun: {problem}. Name a folder that "
                f"this user can write to with INDELIBLE_KEYS, or begin a ledger without writer keys: {VARIABLE}="
                f"{_NO_KEYS}"
            ) from problem

    return begin


def _read_master(content: bytes, ring: Path | None) -> bytes:
    try:
        master = bytes.fromhex(content.decode("ascii", "replace").strip())
    except ValueError:
        master = b""
    if len(master) != KEY_BYTES:
        raise KeyUnusable(f"{ring}/{_FILE} is no writer key: it has to be {2 * KEY_BYTES} hexadecimal digits")
    return master


def _taken_file(ring: Path, tenant: str) -> Path:
    return ring / f"{_TAKEN}{file_name(tenant)}.key"


def _taken(ring: Path, tenant: str) -> dict[str, str] | None:
    """Return the keys of a tenant that was moved here from another ledger; None if it was not."""
    kept = read_private(_taken_file(ring, tenant))
    return None if kept is None else _read_line(kept.decode("ascii", "replace"))


def tenants_that_came(ring: Path) -> Iterator[str]:
    """Yield the tenants whose keys came here with them from another ledger."""
    for path in ring.glob(f"{_TAKEN}*.key"):
        tenant = text_of(path.stem.removeprefix(_TAKEN))
        if tenant is None:
            tenant = _read_line((read_private(path) or b"").decode("ascii", "replace"))["tenant"]
        yield tenant


def _given(ledger_name: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the keys that the environment holds for a ledger, by tenant, and which other ledgers it has keys of."""
    lines = [_read_line(word) for word in os.environ.get(VARIABLE, "").split() if word != _NO_KEYS]
    own = {keys["tenant"]: keys for keys in lines if keys["ledger"] == ledger_name}
    return own, sorted({keys["ledger"] for keys in lines} - {ledger_name})


def _read_line(line: str) -> dict[str, str]:
    try:
        keys: dict[str, Any] = json.loads(urlsafe_b64decode(line.encode()))
        if keys["v"] != _VERSION or not all(isinstance(keys[name], str) for name in ("ledger", "tenant", "public")):
            raise ValueError
        for name in ("effects", "public", *(("seed",) if "seed" in keys else ())):
            if len(bytes.fromhex(keys[name])) != KEY_BYTES:
                raise ValueError
    except (ValueError, LookupError, TypeError):
        raise KeyUnusable(
            f"${VARIABLE} holds something that is no writer key; set it to what this prints: "
            "indelible keys export-writer"
        ) from None
    return {name: str(value) for name, value in keys.items()}


class _Signing:
    """Signs rights. The private key is made when it is first used: that loads a library of ciphers."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._private: Any = None

    def _key(self) -> Any:
        if self._private is None:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            self._private = Ed25519PrivateKey.from_private_bytes(self._seed)
        return self._private

    def __call__(self, message: bytes) -> bytes:
        signature: bytes = self._key().sign(message)
        return signature

    @property
    def public(self) -> bytes:
        """Is the public half."""
        raw: bytes = self._key().public_key().public_bytes_raw()
        return raw


def _verifier(public: bytes | None, seed: str | None) -> Callable[[bytes, bytes], bool]:
    @lru_cache(maxsize=10_000)
    def verify(message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        raw = public if public is not None else _Signing(bytes.fromhex(seed or "")).public
        try:
            Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return verify
