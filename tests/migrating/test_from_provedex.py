"""`indelible migrate from provedex`: what holds is taken over and told, and the line that does not hold is named.

`provedex.ndjson` was signed by provedex 0.1.1 itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger, verify
from indelible.migrating import provedex
from tests.cli.conftest import Cli, cli, ledger_url
from tests.journal.exported import key_of

__all__ = ["cli", "ledger_url"]

THEIRS = Path(__file__).parent / "provedex.ndjson"
LINES = THEIRS.read_text(encoding="utf-8").splitlines()
SIGNER = json.loads(LINES[0])["signer_pubkey"]
FROM = ("migrate", "from", "provedex")


def signed(events: list[dict[str, Any]], *keys: Ed25519PrivateKey) -> list[str]:
    """Signs events as provedex does: with a new key, or with those that are given, one after the other."""
    keys = keys or (Ed25519PrivateKey.generate(),)
    parent, lines = "0" * 64, []
    for seq, event in enumerate(events):
        key = keys[seq * len(keys) // len(events)]
        public = public_of(key)
        body = {"seq": seq, "timestamp_nanos": 1_794_798_087_575_668_104 + seq, "event": event, "parent_hash": parent}
        digest = sha256(json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()
        parent = digest.hex()
        proof = {"self_hash": parent, "signature": key.sign(digest).hex(), "signer_pubkey": public}
        lines.append(json.dumps({**body, **proof}, ensure_ascii=False))
    return lines


def public_of(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def called(number: int) -> dict[str, Any]:
    payload = {"tool_name": "t", "args_sha256": "0" * 64, "args_redacted": {"n": number}}
    return {"type": "ToolCalled", "payload": payload}


def test_a_ledger_of_theirs_is_verified_and_taken_over(ledger_url: str, cli: Cli, tmp_path: Path) -> None:
    said = cli(*FROM, str(THEIRS), "--key", SIGNER.upper(), "--json").json
    assert said["became"] == {"events": 7, "here already": 0}
    assert f"each is signed, by {SIGNER}" in said["verified"]
    assert not any("whose key" in line for line in said["not_verified"])
    assert any("cut off at the end" in line for line in said["not_verified"])
    with Ledger.open(ledger_url, seal=True) as ledger:
        told: list[Any] = []
        story = ledger.run_story(said["run_id"], each=told.append)
        assert [event.payload for event in told[1:]] == [json.loads(line) for line in LINES]
        assert {event.type for event in told[1:]} == set(provedex.RECORDED_AS.values())
        assert story.head.length == 8
        run = ledger.get_run(said["run_id"])
        assert run is not None
        assert (run.agent, run.intent, run.runtime) == ("scribe", "visit-7", "provedex")
        ledger.export(tmp_path / "bundle")
        assert verify(tmp_path / "bundle", key_of(ledger)).verdict == "verified"
    assert "events" in cli(*FROM, str(THEIRS)).out


def test_without_the_operators_key_it_is_said_that_nobody_vouches_for_it(sqlite_url: str, cli: Cli) -> None:
    said = cli(*FROM, str(THEIRS), "--url", sqlite_url).out
    assert "Not verified: whose key that is" in said
    assert "the operator's public key" not in said


def rewritten(number: int, **changes: Any) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        line = {**json.loads(lines[number]), **changes}
        return [*lines[:number], json.dumps(line, ensure_ascii=False), *lines[number + 1 :]]

    return change


def with_event(number: int, event: dict[str, Any]) -> Callable[[list[str]], list[str]]:
    return rewritten(number, event=event)


@pytest.mark.parametrize(
    ("tamper", "line", "why"),
    [
        (with_event(3, called(1)), 4, "it was changed"),
        (rewritten(2, timestamp_nanos=5), 3, "it was changed"),
        (lambda lines: [*lines[:2], *lines[3:]], 3, "and 2 comes here"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1, "and 0 comes here"),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], 5, "and 4 comes here"),
        (rewritten(5, signature="00" * 64), 6, "signature"),
        (rewritten(5, signature="x"), 6, "signature"),
        (rewritten(1, signer_pubkey="00" * 32), 2, "signature"),
        (rewritten(1, parent_hash="11" * 32), 2, "does not follow"),
        (rewritten(1, approved_by="eve"), 2, "nobody signed: approved_by"),
        (rewritten(1, event={"type": "Made up"}), 2, "no event"),
        (rewritten(1, self_hash=5), 2, "no event"),
        (lambda lines: [lines[0], lines[1].replace("{", '{"seq":0,', 1), *lines[2:]], 2, "two members of one name"),
        (lambda lines: [*lines[:2], "not json", *lines[2:]], 3, "no event"),
        (lambda lines: [*lines[:2], "[]", *lines[2:]], 3, "no event"),
        (lambda lines: [*lines[:2], *signed([called(0), called(1), called(2)])[2:]], 3, "does not follow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_line_that_does_not_hold_is_named_and_nothing_comes(
    tamper: Callable[[list[str]], list[str]], line: int, why: str, sqlite_url: str, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.ndjson"
    path.write_text("\n".join(tamper(LINES)) + "\n", encoding="utf-8")
    said = cli(*FROM, str(path), "--url", sqlite_url, code=1)
    assert f"line {line}: " in said.err
    assert why in said.err
    with Ledger.open(sqlite_url) as ledger:
        assert not ledger.runs()


def test_a_file_with_nothing_in_it_is_no_proof_of_anything(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "empty.ndjson"
    path.write_text("\n")
    assert "nothing that could be verified" in cli(*FROM, str(path), "--url", sqlite_url, code=1).err
    cli(*FROM, str(tmp_path / "missing"), "--url", sqlite_url, code=2)


def test_one_that_is_wholly_signed_by_another_key_is_refused(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "forged.ndjson"
    path.write_text("\n".join(signed([json.loads(line)["event"] for line in LINES])) + "\n", encoding="utf-8")
    assert "not only by what --key names" in cli(*FROM, str(path), "--key", SIGNER, "--url", sqlite_url, code=1).err


def test_an_operator_who_changed_the_key_gives_both(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    path, old, new = tmp_path / "ledger.ndjson", Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    path.write_text("\n".join(signed([called(0), called(1)], old, new)) + "\n", encoding="utf-8")
    taking = (*FROM, str(path), "--url", sqlite_url)
    assert public_of(new) in cli(*taking, "--key", public_of(old), code=1).err
    said = cli(*taking, "--key", public_of(old), "--key", public_of(new), "--json").json
    assert said["became"]["events"] == 2
    assert not any("whose key" in line for line in said["not_verified"])


def test_a_torn_last_line_is_left_out_and_named(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "torn.ndjson"
    path.write_text("\n".join(LINES[:3]) + "\n" + LINES[3][:40], encoding="utf-8")
    said = cli(*FROM, str(path), "--url", sqlite_url, "--json", code=1).json
    assert said["left_out"] == [{"name": "line 4", "why": "it was never finished"}]
    assert said["became"]["events"] == 3
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")  # it was finished meanwhile, and has grown
    said = cli(*FROM, str(path), "--url", sqlite_url, "--json").json
    assert said["became"] == {"events": 4, "here already": 3}


def test_a_file_that_was_cut_since_is_found_out(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ledger.ndjson"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    name = cli(*FROM, str(path), "--url", sqlite_url, "--json").json["run_id"]
    path.write_text("\n".join(LINES[:3]) + "\n", encoding="utf-8")
    assert "cut or rewritten" in cli(*FROM, str(path), "--url", sqlite_url, code=1).err
    path.write_text("\n".join(signed([called(0)])) + "\n", encoding="utf-8")
    assert "--run" in cli(*FROM, str(path), "--run", name, "--url", sqlite_url, code=2).err


def test_many_events_come_some_at_a_time(sqlite_url: str, tmp_path: Path) -> None:
    path = tmp_path / "long.ndjson"
    path.write_text("\n".join(signed([called(number) for number in range(450)])) + "\n", encoding="utf-8")
    told: list[tuple[int, int | None]] = []

    def stop(done: int, total: int | None) -> None:
        told.append((done, total))
        if len(told) == 1:
            raise KeyboardInterrupt

    with Ledger.open(sqlite_url) as ledger:
        with pytest.raises(KeyboardInterrupt):
            provedex.take_over(ledger, path, progress=stop)
        taking, name = provedex.take_over(ledger, path, progress=stop)
        assert told == [(200, 450), (400, 450), (450, 450)]
        assert taking.became == {"events": 250, "here already": 200}
        assert ledger.run_story(name).head.length == 451
