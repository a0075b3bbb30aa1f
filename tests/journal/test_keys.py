"""Keys: nobody else can read them, none is lost, and a change of keys survives a crash at any line."""

from __future__ import annotations

import logging
import os
import re
import shlex
import stat
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from indelible.core.journal.notes import log_name, parse_vkey
from indelible.errors import BadCall, BadNote, KeyUnusable
from indelible.journal.keys.files import file_name, locked
from indelible.journal.keys.holders import KeyHolder, MemoryRing
from indelible.journal.keys.ring import KeyRing
from tests.journal.dying import each_moment_kills

LEDGER = "ledger-0123456789ab"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for keys that nothing else uses."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("INDELIBLE_KEY_PASSPHRASE", raising=False)
    return tmp_path / "keys"


@pytest.fixture
def ring(folder: Path) -> KeyRing:
    """A ring with one key."""
    ring = KeyRing.open(LEDGER)
    ring.create()
    return ring


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that makes files which everybody may change."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def statuses(ring: KeyRing) -> list[str]:
    return [key.status for key in ring.all_keys()]


def signs_as(holder: KeyHolder) -> bytes:
    """The public bytes, and proof that the private ones belong to them."""
    Ed25519PublicKey.from_public_bytes(holder.raw).verify(holder.sign(b"message"), b"message")
    return holder.raw


# ── a ring with nothing in it ────────────────────────────────────────────────────────────────────────────────────────


def test_looking_makes_nothing(folder: Path) -> None:
    ring = KeyRing.open(LEDGER)
    assert (ring.all_keys(), ring.current()) == ([], None)
    with pytest.raises(KeyUnusable, match="indelible keys create"):
        ring.holders()
    with pytest.raises(KeyUnusable, match="indelible keys create"):
        ring.export_public("ledger/default")
    assert not folder.exists()


def test_keys_are_in_the_home_folder_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INDELIBLE_KEYS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert KeyRing.open(LEDGER).folder == tmp_path / ".indelible" / "keys" / LEDGER
    assert KeyRing.open(LEDGER, tmp_path / "other").folder == tmp_path / "other" / LEDGER


def test_a_relative_folder_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ring = KeyRing.open(LEDGER, Path("keys"))
    monkeypatch.chdir("/")
    assert ring.folder == tmp_path / "keys" / LEDGER


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("INDELIBLE_KEYS", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(KeyUnusable, match="INDELIBLE_KEYS"):
        KeyRing.open(LEDGER)


def test_a_ledger_cannot_choose_a_folder_outside(folder: Path) -> None:
    for name in ("../../etc", "..", ".", "", "/etc", "a/b", "a\0b", "x" * 5000):
        place = KeyRing.open(name).folder
        assert place.parent == folder
        assert place.name not in ("", ".", "..")
        assert len(place.name) <= 200


def test_no_two_names_share_a_file() -> None:
    names = ["a", "A", "a/b", "a%2fb", "a%2Fb", ".a", "%2ea", "ä", "a\u0308", "x" * 120, "x" * 121, "x" * 122, "", "~"]
    assert len({file_name(name).casefold() for name in names}) == len(names)


# ── making the first key ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("open_umask")
def test_files_are_for_their_owner_alone_whatever_the_umask(ring: KeyRing, folder: Path) -> None:
    ring.begin_rotation()
    assert {mode(folder), mode(ring.folder)} == {0o700}
    assert {path.name: mode(path) for path in ring.folder.iterdir()} == {
        "current.pem": 0o600,
        "lock": 0o600,
        "next.pem": 0o600,
    }


def test_a_new_key_is_told_once_with_its_place_and_public_part(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ring = KeyRing.open(LEDGER)
    made = ring.create("acme corp")
    assert ring.create("acme corp") == made == KeyRing.open(LEDGER).create()
    (said,) = caplog.records
    assert (said.name, said.levelno) == ("indelible.journal", logging.WARNING)
    vkey = ring.export_public(log_name(LEDGER, "acme corp"))
    assert str(made.path) in said.getMessage()
    assert vkey in said.getMessage()
    assert parse_vkey(vkey).raw == made.raw


def test_no_log_and_no_text_of_a_ring_tells_a_secret(ring: KeyRing, caplog: pytest.LogCaptureFixture) -> None:
    pem = (ring.folder / "current.pem").read_text()
    secret = pem.split("PRIVATE KEY-----\n")[1].split("\n")[0]
    assert len(secret) == 64
    for text in (caplog.text, repr(ring), repr(ring.all_keys()), repr(ring.holders())):
        assert secret not in text


def test_a_key_file_is_plain_pkcs8_that_other_tools_read(ring: KeyRing) -> None:
    key = load_pem_private_key((ring.folder / "current.pem").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    assert [key.public_key().public_bytes_raw()] == [holder.raw for holder in ring.holders()]


def test_a_key_that_another_tool_made_is_used(folder: Path) -> None:
    ring = KeyRing.open(LEDGER)
    ring.folder.mkdir(parents=True, mode=0o700)
    private = Ed25519PrivateKey.generate()
    path = ring.folder / "current.pem"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    (key,) = ring.all_keys()
    assert (key.raw, key.created, key.status) == (private.public_key().public_bytes_raw(), None, "current")
    assert signs_as(ring.holders()[0]) == key.raw


def test_a_key_knows_when_it_was_made(folder: Path) -> None:
    before = datetime.now(UTC)
    made = KeyRing.open(LEDGER).create()
    assert made.created is not None
    assert before <= made.created <= datetime.now(UTC)


def test_many_who_make_the_first_key_at_once_make_one(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = threading.Barrier(8)
    made = []

    def make() -> None:
        start.wait()
        made.append(KeyRing.open(LEDGER).create().id)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == len(caplog.records) == 1


# ── what others may do with the files ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bits", [0o040, 0o020, 0o004, 0o002, 0o010, 0o001, 0o066])
@pytest.mark.parametrize("name", ["current.pem", ".", "next.pem"])
def test_a_file_open_to_others_is_refused_with_the_command_that_closes_it(ring: KeyRing, name: str, bits: int) -> None:
    ring.begin_rotation()
    path = ring.folder if name == "." else ring.folder / name
    path.chmod(mode(path) | bits)
    for act in (ring.holders, ring.all_keys, ring.begin_rotation, KeyRing.open(LEDGER).holders):
        with pytest.raises(KeyUnusable) as refused:
            act()
        assert str(path) in str(refused.value)
    command = re.search(r"run: (chmod .*)$", str(refused.value))
    assert command is not None
    subprocess.run(shlex.split(command[1]), check=True)
    assert len(ring.holders()) == 2


@pytest.mark.parametrize("name", ["current.pem", "."])
def test_a_file_of_another_user_is_refused(ring: KeyRing, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(ring.folder / name, 12345, -1)
    else:  # only root can give a file away: let us be somebody else
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(KeyUnusable, match=r"belongs to user \d+.*chown \d+ "):
        ring.holders()


def test_what_is_no_file_is_refused(ring: KeyRing) -> None:
    path = ring.folder / "current.pem"
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(KeyUnusable, match="is no file"):
        ring.holders()
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(KeyUnusable, match="is no file"):
        ring.holders()


def test_a_file_where_the_folder_should_be_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / LEDGER).write_text("")
    with pytest.raises(KeyUnusable, match="is no folder"):
        KeyRing.open(LEDGER).create()


@pytest.mark.parametrize("name", ["current.pem", "lock"])
def test_a_file_that_cannot_be_opened_is_named(ring: KeyRing, name: str) -> None:
    path = ring.folder / name
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(KeyUnusable, match=re.escape(str(path))):
        ring.begin_rotation()


@pytest.mark.parametrize("place", ["file/keys", "/proc/nowhere/keys"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyUnusable, match=re.escape(str(tmp_path / place))):
        KeyRing.open(LEDGER, tmp_path / place).create()


def test_a_lock_that_is_never_given_back_is_named(ring: KeyRing) -> None:
    with (
        locked(ring.folder),
        pytest.raises(KeyUnusable, match=r"another process has held .*lock for 0 s.*fuser"),
        locked(ring.folder, patience=0),
    ):
        pytest.fail("two held one lock")


# ── passphrases ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_locked_key_opens_with_its_passphrase_only(folder: Path) -> None:
    made = KeyRing.open(LEDGER, passphrase="open sesame").create()
    assert b"ENCRYPTED" in made.path.read_bytes()
    assert signs_as(KeyRing.open(LEDGER, passphrase=b"open sesame").holders()[0]) == made.raw
    with pytest.raises(KeyUnusable, match=r"current\.pem is locked.*INDELIBLE_KEY_PASSPHRASE"):
        KeyRing.open(LEDGER).holders()
    with pytest.raises(KeyUnusable, match="passphrase is wrong"):
        KeyRing.open(LEDGER, passphrase="open sesam").holders()


def test_the_public_part_needs_no_passphrase(folder: Path) -> None:
    made = KeyRing.open(LEDGER, passphrase="open sesame").create()
    assert [key.raw for key in KeyRing.open(LEDGER).all_keys()] == [made.raw]
    assert parse_vkey(KeyRing.open(LEDGER).export_public("ledger/default")).raw == made.raw


def test_the_passphrase_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_KEY_PASSPHRASE", "päss")
    made = KeyRing.open(LEDGER).create()
    assert b"ENCRYPTED" in made.path.read_bytes()
    assert KeyRing.open(LEDGER, passphrase="päss").holders()[0].raw == made.raw


def test_an_empty_passphrase_is_a_mistake_not_a_wish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyUnusable, match="empty"):
        KeyRing.open(LEDGER, passphrase="")
    monkeypatch.setenv("INDELIBLE_KEY_PASSPHRASE", "")
    with pytest.raises(KeyUnusable, match="empty"):
        KeyRing.open(LEDGER)


def test_a_passphrase_locks_the_next_key_of_a_ring_that_had_none(ring: KeyRing) -> None:
    KeyRing.open(LEDGER, passphrase="new").begin_rotation()
    assert b"ENCRYPTED" not in (ring.folder / "current.pem").read_bytes()
    assert b"ENCRYPTED" in (ring.folder / "next.pem").read_bytes()


def test_a_rotation_without_the_passphrase_makes_nothing(folder: Path) -> None:
    KeyRing.open(LEDGER, passphrase="secret").create()
    with pytest.raises(KeyUnusable, match="locked"):
        KeyRing.open(LEDGER).begin_rotation()
    assert statuses(KeyRing.open(LEDGER)) == ["current"]


# ── damage and loss ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_key_is_never_used(ring: KeyRing) -> None:
    path = ring.folder / "current.pem"
    whole = path.read_bytes()
    (other,) = KeyRing.open("other").create().path.read_bytes().splitlines()[-2:-1]
    begins = whole.index(b"-----BEGIN")
    for damaged in (
        b"",
        whole[:begins],
        whole[:-40],
        whole.replace(b"PRIVATE KEY", b"PUBLIC KEY"),
        whole.replace(whole.splitlines()[-2], other),  # a good key, but not the one above it
        whole.replace(b"public: ", b"public: AAAA"),
        whole.replace(b"public: ", b"public: !"),
        whole.replace(b"created: 2", b"created: x"),
        rsa_pem(),
    ):
        path.write_bytes(damaged)
        with pytest.raises(KeyUnusable, match=r"current\.pem .*(backup|put back)"):
            KeyRing.open(LEDGER).holders()
        with pytest.raises(KeyUnusable):
            KeyRing.open(LEDGER).begin_rotation()


def rsa_pem() -> bytes:
    private = rsa.generate_private_key(65537, 2048)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_that_was_replaced_in_place_is_noticed(ring: KeyRing) -> None:
    before = ring.holders()[0].raw
    (ring.folder / "current.pem").write_bytes(KeyRing.open("other").create().path.read_bytes())
    assert ring.holders()[0].raw != before


@pytest.mark.parametrize("trace", ["retired", "next", "heads"])
def test_a_lost_key_is_not_quietly_replaced(ring: KeyRing, trace: str) -> None:
    if trace == "heads":
        (ring.folder / "heads").mkdir(mode=0o700)
        (ring.folder / "heads" / "x.head").write_text("signed")
    else:
        _, new = ring.begin_rotation()
        if trace == "retired":
            ring.finish_rotation(new.raw)
    (ring.folder / "current.pem").unlink()
    for act in (ring.create, ring.current, ring.holders, ring.begin_rotation):
        with pytest.raises(KeyUnusable, match=r"current\.pem is missing.*backup"):
            act()
    assert not (ring.folder / "current.pem").exists()


# ── rotating ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_both_keys_sign_during_a_rotation_and_the_new_one_after_it(ring: KeyRing) -> None:
    (first,) = ring.holders()
    old, new = ring.begin_rotation()
    assert signs_as(old) == first.raw != signs_as(new)
    assert [holder.raw for holder in ring.holders()] == [old.raw, new.raw]
    assert statuses(ring) == ["current", "next"]
    ring.finish_rotation(new.raw)
    assert [holder.raw for holder in ring.holders()] == [new.raw]
    assert [(key.status, key.raw) for key in ring.all_keys()] == [("current", new.raw), ("retired", old.raw)]
    assert mode(ring.folder / f"retired-{ring.all_keys()[1].id}.pem") == 0o600


def test_an_open_ring_sees_what_another_process_does(ring: KeyRing) -> None:
    other = KeyRing.open(LEDGER)
    (first,) = ring.holders()
    old, new = other.begin_rotation()
    assert [holder.raw for holder in ring.holders()] == [first.raw, new.raw] == [old.raw, new.raw]
    other.finish_rotation(new.raw)
    assert [holder.raw for holder in ring.holders()] == [new.raw]


def test_a_rotation_that_was_begun_goes_on_with_the_same_key(ring: KeyRing) -> None:
    _, new = ring.begin_rotation()
    assert KeyRing.open(LEDGER).begin_rotation()[1].raw == new.raw


def test_a_slow_finisher_cannot_finish_the_next_rotation(ring: KeyRing) -> None:
    _, new = ring.begin_rotation()
    ring.finish_rotation(new.raw)
    _, newer = ring.begin_rotation()
    ring.finish_rotation(new.raw)
    assert [holder.raw for holder in ring.holders()] == [new.raw, newer.raw]


def test_a_key_is_retired_with_its_date_and_can_still_be_found(ring: KeyRing) -> None:
    made = ring.all_keys()[0]
    _, new = ring.begin_rotation()
    ring.finish_rotation(new.raw)
    retired = ring.find(made.id[:6])
    assert (retired.created, retired.raw, retired.status) == (made.created, made.raw, "retired")
    assert ring.find(ring.export_public("ledger/default", made.id)) == retired
    held = ring.holder_of(made.raw)
    assert held is not None
    assert signs_as(held) == made.raw


@pytest.mark.parametrize("name", ["", " ", "zz", "0123456789abcdef0"])
def test_a_name_that_fits_no_key_is_refused(ring: KeyRing, name: str) -> None:
    with pytest.raises(BadCall, match="indelible keys list"):
        ring.find(name)
    with pytest.raises(BadNote):
        ring.find("a+b")


def test_the_same_key_has_another_public_line_in_each_journal(ring: KeyRing) -> None:
    one, other = ring.export_public("ledger/a"), ring.export_public("ledger/b")
    assert parse_vkey(one).id != parse_vkey(other).id
    assert parse_vkey(one).raw == parse_vkey(other).raw


# ── revoking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_revoked_key_never_signs_again(ring: KeyRing) -> None:
    old, new = ring.begin_rotation()
    ring.finish_rotation(new.raw)
    made = ring.find(ring.all_keys()[1].id)
    assert ring.revoke(made.id).status == ring.revoke(made.id).status == "revoked"
    assert statuses(ring) == ["current", "revoked"]
    assert ring.holder_of(old.raw) is None


def test_a_key_that_signs_cannot_be_revoked(ring: KeyRing) -> None:
    ring.begin_rotation()
    for key in ring.all_keys():
        with pytest.raises(KeyUnusable, match="keys rotate"):
            ring.revoke(key.id)
    assert statuses(ring) == ["current", "next"]


# ── in memory ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ring_in_memory_rotates_as_one_of_files_does() -> None:
    ring = MemoryRing()
    (first,) = ring.holders()
    old, new = ring.begin_rotation()
    assert ring.begin_rotation()[1] is new
    assert [old.raw, new.raw] == [holder.raw for holder in ring.holders()]
    assert first is old
    ring.finish_rotation(old.raw)
    assert len(ring.holders()) == 2
    ring.finish_rotation(new.raw)
    assert list(ring.holders()) == [new]
    assert ring.holder_of(old.raw) is old
    assert ring.holder_of(bytes(32)) is None


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("deed", ["create", "rotate", "revoke"])
def test_killed_at_any_moment_a_ring_stays_usable_and_nothing_is_lost(deed: str, tmp_path: Path) -> None:
    assert each_moment_kills(deed, tmp_path) > 5
