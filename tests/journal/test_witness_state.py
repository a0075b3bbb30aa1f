"""What a witness keeps: its state and its key, which nobody else may change."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from indelible.errors import BadNote, JournalError, KeyUnusable
from indelible.journal.witnesses.cosigner import Cosigner, HeadFolder, hold_key, open_key, origin_hash, read_key
from tests.journal.watched import LOG, ORIGIN, STRANGER, Log, running

# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_witness_remembers_after_a_restart(tmp_path: Path) -> None:
    log = Log().to(5)
    with running(tmp_path / "w") as witness:
        assert witness.post(log.request(0))[0] == 200
    with running(tmp_path / "w") as again:
        assert again.post(log.to(4).grown("fork").request(5))[0] == 422
        assert again.post(log.to(3).request(0)) == (409, b"5\n")
        assert again.post(log.to(6).request(5))[0] == 200
        assert again.key.public == witness.key.public


def test_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with running(tmp_path / "w") as witness:
            witness.post(Log().to(5).request(0))
            witness.post(Log().to(4).grown("fork").request(5))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in [*witness.state.iterdir(), tmp_path / "w" / "key.pem"]} == {0o600}
    assert witness.state.stat().st_mode & 0o777 == 0o700


def test_state_that_others_may_change_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "w") as witness:
        pass
    witness.state.chmod(0o770)
    with pytest.raises(JournalError, match="chmod 700"), running(tmp_path / "w"):
        pass


def test_torn_or_edited_state_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "w") as witness:
        witness.post(Log().to(5).request(0))
    path = witness.state / f"{origin_hash(ORIGIN)}.head"
    good = path.read_bytes()
    line_ends = [n + 1 for n, byte in enumerate(good) if byte == ord("\n")]
    torn = [good[:n] for n in {*range(0, len(good), 7), *line_ends} - {len(good)}]
    edited = [good.replace(b"\n5\n", b"\n4\n"), bytes(len(good)), str(Log().to(4).note).encode()]
    for bad in [*torn, *edited]:
        path.write_bytes(bad)
        with pytest.raises(JournalError, match="start over as another witness"), running(tmp_path / "w"):
            pass
    path.write_bytes(good)
    with running(tmp_path / "w") as again:
        assert again.post(Log().to(6).request(5))[0] == 200


def test_state_of_another_log_or_key_is_refused(tmp_path: Path) -> None:
    other = replace(Log(), origin="another/log", secret=STRANGER)
    with running(tmp_path / "w", LOG, other.key) as witness:
        witness.post(Log().to(5).request(0))
        witness.post(other.to(2).request(0))
    ours, theirs = (witness.state / f"{origin_hash(origin)}.head" for origin in (ORIGIN, "another/log"))
    kept = ours.read_bytes()
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(JournalError), running(tmp_path / "w"):
        pass
    ours.write_bytes(kept)
    (tmp_path / "w" / "key.pem").unlink()
    with pytest.raises(JournalError), running(tmp_path / "w"):
        pass


def test_what_a_killed_writer_left_half_written_is_no_state(tmp_path: Path) -> None:
    with running(tmp_path / "w") as witness:
        witness.post(Log().to(5).request(0))
    (witness.state / f"{origin_hash(ORIGIN)}.new").write_bytes(b"half a no")
    with running(tmp_path / "w") as again:
        assert again.post(Log().to(6).request(5))[0] == 200


def test_two_witnesses_share_neither_state_nor_key(tmp_path: Path) -> None:
    with running(tmp_path / "w") as witness:
        with pytest.raises(JournalError, match="another witness works with"):
            HeadFolder(witness.state, witness.key.public)
        held = hold_key(tmp_path / "w" / "key.pem")
        with pytest.raises(JournalError, match="another witness signs with"):
            hold_key(tmp_path / "w" / "key.pem")
        os.close(held)


def test_what_cannot_be_written_down_is_not_cosigned(tmp_path: Path) -> None:
    with running(tmp_path / "w") as witness:
        witness.post(Log().to(5).request(0))
        in_the_way = witness.state / f"{origin_hash(ORIGIN)}.new"
        in_the_way.mkdir()
        assert witness.post(Log().to(6).request(5))[0] == 500
        in_the_way.rmdir()
        assert witness.post(Log().to(6).request(5))[0] == 500  # nobody knows what the disk holds
    with running(tmp_path / "w") as again:
        assert again.post(Log().to(6).request(5))[0] == 200


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_made_once_and_keeps_its_name(tmp_path: Path) -> None:
    made = open_key(tmp_path / "key.pem", "witness.example/1")
    assert made.public.name == "witness.example/1"
    for name in (None, "witness.example/1"):
        assert open_key(tmp_path / "key.pem", name).public == made.public
    with pytest.raises(KeyUnusable, match=r"the key of witness\.example/1"):
        open_key(tmp_path / "key.pem", "another")


def test_a_key_made_by_another_tool_is_used_under_the_name_it_is_given(tmp_path: Path) -> None:
    pem = STRANGER.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    (tmp_path / "key.pem").chmod(0o600)
    assert read_key(tmp_path / "key.pem", "one").public.name == "one"
    assert read_key(tmp_path / "key.pem").public.name.startswith("witness-")


def test_a_key_that_cannot_be_trusted_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    open_key(path)
    good = path.read_bytes()
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for bad in (b"", good[:60], b"witness: x\n", other):
        path.write_bytes(bad)
        with pytest.raises(KeyUnusable):
            read_key(path)
    with pytest.raises(KeyUnusable, match="indelible witness key"):
        read_key(tmp_path / "none.pem")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_not_used(tmp_path: Path) -> None:
    open_key(tmp_path / "key.pem")
    os.chown(tmp_path / "key.pem", 65_534, -1)
    with pytest.raises(KeyUnusable, match="chown"):
        read_key(tmp_path / "key.pem")


def test_a_name_that_no_key_can_have_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadNote):
        open_key(tmp_path / "key.pem", "no spaces")
    assert not (tmp_path / "key.pem").exists()


def test_a_witness_watches_logs_and_not_witnesses(tmp_path: Path) -> None:
    key = open_key(tmp_path / "key.pem")
    with (
        closing(HeadFolder(tmp_path / "state", key.public)) as heads,
        pytest.raises(BadNote, match="not of a log"),
    ):
        Cosigner(key, [key.public], heads)
