"""`indelible approvals approve`, `deny`, `revoke`, `edit`: what a person says counts for exactly what they saw."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from indelible import Approval, Ledger
from indelible.core.approvals.approval import is_signed
from indelible.errors import EffectDenied
from tests.cli.asking import TOOL, TWO, approval_at, approve, ask, call_again, refund
from tests.cli.conftest import Cli, Said
from tests.waiting import PATIENCE


@pytest.fixture
def asked(ledger_url: str) -> Approval:
    """One approval that anybody may decide."""
    return ask(ledger_url)


# ── approve and deny ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("digits", [12, 16, 63, 64])
def test_approve_takes_the_digest_or_enough_of_it(cli: Cli, asked: Approval, ledger_url: str, digits: int) -> None:
    said = cli("approvals", "approve", asked.id, "--digest", asked.digest[:digits], "--by", "ana").out
    assert f"{asked.id} {TOOL}: pending → approved, by ana. It may run once" in said
    assert call_again(ledger_url) == {"refunded": 4200}
    assert call_again(ledger_url) == {"refunded": 4200}
    assert approval_at(ledger_url, asked).status == "consumed"


def test_a_wrong_digest_is_refused_and_changes_nothing(cli: Cli, asked: Approval, ledger_url: str) -> None:
    nearly = asked.digest[:11] + ("0" if asked.digest[11] != "0" else "1")
    for wrong in ("0" * 64, nearly, asked.digest[:20] + "0" * 44, asked.digest[1:13]):
        said = cli("approvals", "approve", asked.id, "--digest", wrong, "--by", "ana", code=1)
        assert said.out == ""
        assert "does not ask about" in said.err
        assert "nothing was changed" in said.err
        assert f"indelible approvals show {asked.id}" in said.err
        assert asked.digest not in said.err  # whoever has not looked does not get it from us
    told = cli("approvals", "approve", asked.id, "--digest", "0" * 64, "--json", code=1)
    assert told.error["type"] == "VoteRefused"
    assert approval_at(ledger_url, asked) == asked


@pytest.mark.parametrize("wrong", ["", "abc", "0" * 11, "g" * 12, "0" * 65, "-" * 12])
def test_what_is_no_digest_is_wrong_usage(cli: Cli, asked: Approval, ledger_url: str, wrong: str) -> None:
    said = cli("approvals", "approve", asked.id, "--digest", wrong, code=2)
    assert "first 12 hexadecimal digits" in said.err
    assert approval_at(ledger_url, asked) == asked


def test_approve_needs_a_digest(cli: Cli, asked: Approval) -> None:
    assert "--digest" in cli("approvals", "approve", asked.id, code=2).err


def test_what_was_edited_since_is_not_approved(cli: Cli, asked: Approval, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        ledger.edit_approval(asked.id, {"charge": "ch_1", "amount": 9_000_000}, digest=asked.digest, by="eve")
    cli("approvals", "approve", asked.id, "--digest", asked.digest, "--by", "ana", code=1)
    assert approval_at(ledger_url, asked).status == "pending"


def test_the_requester_cannot_approve(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, actor="Ana", principal="dora")
    for name in ("ana", "DORA"):
        said = cli("approvals", "approve", approval.id, "--digest", approval.digest, "--by", name, code=1)
        assert "cannot decide it" in said.err
    assert approval_at(ledger_url, approval).votes == ()


def test_a_quorum_takes_people_of_their_roles(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    yes = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by"]
    assert "not for mallory to decide" in cli(*yes, "mallory", code=1).err
    assert "pending → pending, by ana. 1 more approval is needed." in cli(*yes, "ana").out
    assert "already decided by ANA" in cli(*yes, "ANA", code=1).err
    assert "pending → approved, by bob" in cli(*yes, "bob").out
    assert call_again(ledger_url, policy=TWO) == {"refunded": 4200}


def test_deny_needs_a_reason_and_the_agent_is_told(cli: Cli, asked: Approval, ledger_url: str) -> None:
    assert "--reason" in cli("approvals", "deny", asked.id, code=2).err
    assert cli("approvals", "deny", asked.id, "-m", "", code=2).err
    assert approval_at(ledger_url, asked).status == "pending"
    said = cli("approvals", "deny", asked.id, "-m", "ask the customer first", "--by", "ana").out
    assert "pending → denied, by ana. Every later call is refused." in said
    with pytest.raises(EffectDenied, match="ask the customer first"):
        call_again(ledger_url)
    assert "it is denied" in cli("approvals", "approve", asked.id, "--digest", asked.digest, code=1).err


def test_deny_can_be_bound_to_a_digest(cli: Cli, asked: Approval, ledger_url: str) -> None:
    cli("approvals", "deny", asked.id, "-m", "no", "--digest", "0" * 12, code=1)
    assert approval_at(ledger_url, asked).status == "pending"
    cli("approvals", "deny", asked.id, "-m", "no", "--digest", asked.digest[:12])
    assert approval_at(ledger_url, asked).status == "denied"


def test_a_decision_for_programs(cli: Cli, asked: Approval) -> None:
    told = cli("approvals", "approve", asked.id, "--digest", asked.digest, "--by", "ana", "--json").json
    assert (told["was"], told["by"], told["approval"]["status"]) == ("pending", "ana", "approved")


def test_whoever_waits_goes_on(cli: Cli, ledger_url: str) -> None:
    asking, values = threading.Event(), list[Any]()

    def wait() -> None:
        with Ledger.open(ledger_url, on_approval_required=lambda approval, effect: asking.set()) as ledger:
            values.append(ledger.run(refund(), lambda effect: effect.args["amount"], approval="required", wait=60))

    agent = threading.Thread(target=wait)
    agent.start()
    assert asking.wait(PATIENCE)
    (approval,) = cli("approvals", "list", "--json").json["approvals"]
    cli("approvals", "approve", approval["id"], "--digest", approval["digest"], "--by", "ana")
    agent.join(PATIENCE)
    assert values == [4200]


# ── revoke ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_can_be_taken_back_until_it_runs(cli: Cli, asked: Approval, ledger_url: str) -> None:
    approve(ledger_url, asked)
    assert "no vote of bob" in cli("approvals", "revoke", asked.id, "--by", "bob", code=1).err
    said = cli("approvals", "revoke", asked.id, "--by", "ana", "-m", "wrong customer").out
    assert "approved → pending, by ana. 1 more approval is needed." in said
    approve(ledger_url, asked)
    assert call_again(ledger_url) == {"refunded": 4200}
    assert "it is consumed" in cli("approvals", "revoke", asked.id, "--by", "ana", code=1).err


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def edited(cli: Cli, approval: Approval, args: str, *words: str, code: int = 0) -> Said:
    digest = approval.digest[:12]
    return cli("approvals", "edit", approval.id, "--digest", digest, "--args", args, "--by", "ana", *words, code=code)


@pytest.mark.parametrize("home", ["ledger", "agent"])
def test_an_edit_asks_anew_and_runs_as_edited(cli: Cli, ledger_url: str, home: str, tmp_path: Path) -> None:
    words = []
    if home == "ledger":
        with Ledger.open(ledger_url) as ledger:
            ledger.apply_policy(TWO, by="ana")
        approval = ask(ledger_url)
    else:
        (tmp_path / "policy.json").write_text(json.dumps(TWO))
        approval, words = ask(ledger_url, policy=TWO), ["--policy", "policy.json"]
    approve(ledger_url, approval)
    said = edited(cli, approval, '{"charge": "ch_1", "amount": 42}', *words)
    assert "2 more approvals are needed. The digest is another one now" in said.out
    assert said.err == ""
    now = approval_at(ledger_url, approval)
    assert now.digest != approval.digest
    assert now.votes == ()
    approve(ledger_url, now, "bob")
    approve(ledger_url, now, "cy")
    assert call_again(ledger_url, policy=None if home == "ledger" else TWO) == {"refunded": 42}


def test_an_edit_without_the_agents_policy_is_told_and_runs_nothing(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    said = edited(cli, approval, '{"charge": "ch_1", "amount": 42}')
    assert "edit with --policy FILE" in said.err
    now = approval_at(ledger_url, approval)
    for name in ("bob", "cy"):
        approve(ledger_url, now, name)
    assert ask(ledger_url, policy=TWO).replaces == now.id


def test_arguments_are_edited_from_a_file_and_from_the_input(
    cli: Cli, asked: Approval, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "args.json").write_text('{"charge": "ch_1", "amount": 7}')
    edited(cli, asked, "@args.json")
    shown = cli("approvals", "show", asked.id, "--json").json
    assert shown["args"] == {"amount": 7, "charge": "ch_1"}
    url = ["--url", ledger_url]
    digest = shown["approval"]["digest"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "indelible.cli",
            "approvals",
            "edit",
            asked.id,
            "--digest",
            digest,
            "--args",
            "@-",
            "--json",
            *url,
        ],
        input=b'{"charge": "ch_1", "amount": 8}',
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["approval"]["edited_by"]
    assert cli("approvals", "show", asked.id, "--json").json["args"]["amount"] == 8


def test_what_show_prints_can_be_edited_without_changing_its_types(cli: Cli, ledger_url: str) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    args = {
        "price": Decimal("1.1"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "big": 2**70,
        "raw": b"\0",
        "$x": 1,
        "f": 0.5,
    }
    approval = ask(ledger_url, refund(**args))
    shown = cli("approvals", "show", approval.id, "--json").json["args"]
    edited(cli, approval, json.dumps(shown | {"amount": 1}))
    again = cli("approvals", "show", approval.id, "--json").json
    assert again["args"] == shown | {"amount": 1}
    assert [one["path"] for one in again["edited"]] == ["args.amount"]
    with Ledger.open(ledger_url) as ledger:
        effect = ledger.get_effect(approval.effect_id)
    assert effect is not None
    assert effect.args == {"charge": "ch_1", "amount": 1, **args}


@pytest.mark.parametrize(
    "args",
    ["", "{", "[]", "1", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1e999}', '{"a": {"$decimal": "x"}}', "@missing.json",
     '{"$nope": 1}', '{"a": 9007199254740993}', "\ud800"],
)  # fmt: skip
def test_arguments_that_are_not_clear_are_refused(cli: Cli, asked: Approval, ledger_url: str, args: str) -> None:
    assert edited(cli, asked, args, code=2).err.startswith("indelible: ")
    assert approval_at(ledger_url, asked) == asked


def test_an_edit_needs_the_digest_that_was_shown(cli: Cli, asked: Approval, ledger_url: str) -> None:
    cli("approvals", "edit", asked.id, "--digest", "0" * 12, "--args", "{}", "--by", "ana", code=1)
    assert approval_at(ledger_url, asked) == asked


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def key_file(path: Path, key: Ed25519PrivateKey, passphrase: bytes | None = None) -> Path:
    lock: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    path.chmod(0o600)
    return path


def signed_policy(key: Ed25519PrivateKey) -> dict[str, Any]:
    raw = key.public_key().public_bytes_raw()
    return {
        "people": {"ana": {"key": b64encode(raw).decode()}},
        "rules": [
            {"name": "r", "match": {"tool": TOOL}, "then": "ask", "approvals": {"signed": True, "people": ["ana"]}}
        ],
    }


def test_a_vote_is_signed_with_the_voters_own_key(cli: Cli, ledger_url: str, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    approval = ask(ledger_url, policy=signed_policy(key))
    assert "--key FILE" in cli("approvals", "show", approval.id, "--by", "ana").out
    yes = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by", "ana"]
    assert "needs the signature of ana" in cli(*yes, code=1).err
    wrong = key_file(tmp_path / "wrong.pem", Ed25519PrivateKey.generate())
    assert "not ana's" in cli(*yes, "--key", str(wrong), code=1).err
    assert approval_at(ledger_url, approval).votes == ()
    right = key_file(tmp_path / "ana.pem", key)
    assert "→ approved" in cli(*yes, "--key", str(right)).out
    (vote,) = approval_at(ledger_url, approval).votes
    assert vote.via == "signature"
    assert vote.signature is not None
    assert is_signed(key.public_key().public_bytes_raw(), vote.signature, approval.digest, is_approval=True)
    assert "ana approved" in (said := cli("approvals", "show", approval.id).out)
    assert "(signature, signed)" in said


def test_a_denial_is_signed_too(cli: Cli, ledger_url: str, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    approval = ask(ledger_url, policy=signed_policy(key))
    no = ["approvals", "deny", approval.id, "-m", "no", "--by", "ana"]
    cli(*no, code=1)
    assert "→ denied" in cli(*no, "--key", str(key_file(tmp_path / "ana.pem", key))).out


def test_a_key_with_a_passphrase(cli: Cli, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Ed25519PrivateKey.generate()
    approval = ask(ledger_url, policy=signed_policy(key))
    path = key_file(tmp_path / "ana.pem", key, b"s3cret")
    yes = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by", "ana", "--key", str(path)]
    assert "INDELIBLE_KEY_PASSPHRASE" in cli(*yes, code=1).err
    monkeypatch.setenv("INDELIBLE_KEY_PASSPHRASE", "s3cret")
    assert "→ approved" in cli(*yes).out


def test_a_key_that_cannot_be_used_is_told_with_its_cure(cli: Cli, ledger_url: str, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    approval = ask(ledger_url, policy=signed_policy(key))
    yes = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by", "ana", "--key"]
    assert "indelible approvals key missing.pem" in cli(*yes, "missing.pem", code=1).err
    path = key_file(tmp_path / "ana.pem", key)
    path.chmod(0o644)
    assert "chmod 600" in cli(*yes, str(path), code=1).err
    path.chmod(0o600)
    path.write_text("no key at all")
    assert cli(*yes, str(path), code=1).err
    assert approval_at(ledger_url, approval) == approval


@pytest.mark.parametrize("passphrase", [None, "s3cret"])
def test_a_key_is_made_for_its_owner_alone(
    cli: Cli, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passphrase: str | None
) -> None:
    if passphrase is not None:
        monkeypatch.setenv("INDELIBLE_KEY_PASSPHRASE", passphrase)
    made = cli("approvals", "key", "ana.pem")
    assert "made ana.pem" in made.err
    assert (tmp_path / "ana.pem").stat().st_mode & 0o777 == 0o600
    assert (b"ENCRYPTED" in (tmp_path / "ana.pem").read_bytes()) == (passphrase is not None)
    again = cli("approvals", "key", "ana.pem", "--json")
    assert (again.json["key"], again.json["is_new"], again.err) == (made.out.strip(), False, "")
    policy = signed_policy(Ed25519PrivateKey.generate()) | {"people": {"ana": {"key": made.out.strip()}}}
    approval = ask(ledger_url, policy=policy)
    words = ["--digest", approval.digest, "--by", "ana", "--key", "ana.pem"]
    assert "→ approved" in cli("approvals", "approve", approval.id, *words).out
    assert cli("approvals", "key", "no/such/folder.pem", code=1).err


# ── grants ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_can_grant_more_such_calls(cli: Cli, asked: Approval, ledger_url: str) -> None:
    yes = ["approvals", "approve", asked.id, "--digest", asked.digest, "--by", "ana"]
    said = cli(*yes, "--grant", "2", "--until", "8h", "--pin", "amount").out
    grant = re.search(r"grt_[0-9a-f]+", said)
    assert grant is not None
    listed = cli("approvals", "grants").out
    assert re.search(rf"{grant[0]} +{TOOL} +2 +.*\(in 7h\) +amount +ana +{asked.id}", listed)
    assert call_again(ledger_url, refund(charge="ch_2")) == {"refunded": 4200}
    (left,) = cli("approvals", "grants", "list", "--tool", TOOL, "--json").json["grants"]
    assert (left["uses_left"], left["pin"], left["given_by"]) == (1, ["amount"], "ana")
    assert cli("approvals", "grants", "list", "--tool", "other", "--json").json["grants"] == []
    ask(ledger_url, refund(charge="ch_3", amount=4201))  # what is pinned is other, so somebody is asked
    said = cli("approvals", "grants", "end", grant[0][:20], "--by", "ana", "-m", "enough").out
    assert "ended, with 1 use left" in said
    ask(ledger_url, refund(charge="ch_4"))
    assert "Shown: 0 grants." in cli("approvals", "grants").out


def test_a_grant_pins_all_arguments_unless_it_says_which(cli: Cli, asked: Approval, ledger_url: str) -> None:
    cli("approvals", "approve", asked.id, "--digest", asked.digest, "--grant", "1", "--until", "1h")
    assert "all arguments" in cli("approvals", "grants").out
    ask(ledger_url, refund("order-2", charge="ch_2"))
    assert call_again(ledger_url, refund("order-3")) == {"refunded": 4200}


def test_nobody_grants_where_several_have_to_decide(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    words = ["--digest", approval.digest, "--by", "ana", "--grant", "2", "--until", "8h"]
    assert "vote without a grant" in cli("approvals", "approve", approval.id, *words, code=1).err
    assert approval_at(ledger_url, approval) == approval


@pytest.mark.parametrize(
    "words",
    [["--grant", "0", "--until", "8h"], ["--grant", "2"], ["--until", "8h"], ["--pin", "amount"],
     ["--grant", "2", "--until", "yesterday"], ["--grant", "2", "--until", "2020-01-01"],
     ["--grant", "2", "--until", "0h"],
     ["--grant", "2", "--until", "8h", "--pin", "nope"], ["--grant", "2", "--until", "999999w"]],
)  # fmt: skip
def test_a_grant_that_is_not_clear_is_refused(cli: Cli, asked: Approval, ledger_url: str, words: list[str]) -> None:
    said = cli("approvals", "approve", asked.id, "--digest", asked.digest, "--by", "ana", *words, code=2)
    assert said.err.startswith("indelible: ")
    assert approval_at(ledger_url, asked) == asked


# ── delegations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_somebody_else_decides_for_a_while(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    yes = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by"]
    cli(*yes, "dora", code=1)
    said = cli("approvals", "delegate", "--to", "dora", "--until", "7d", "--by", "ana", "-m", "on holiday").out
    assert re.search(r"dlg_[0-9a-f]+: dora may decide for ana until \d{4}-", said)
    (listed,) = cli("approvals", "delegations", "--json").json["delegations"]
    assert (listed["giver"], listed["to"]) == ("ana", "dora")
    assert re.search(r"ana +dora +.*\(in 6d\)", cli("approvals", "delegations").out)
    cli(*yes, "dora")
    assert "dora on behalf of ana approved" in cli("approvals", "show", approval.id).out
    assert (
        "dora no longer decides for ana" in cli("approvals", "delegations", "end", listed["id"][:16], "--by", "ana").out
    )
    assert "Shown: 0 delegations." in cli("approvals", "delegations", "list").out


@pytest.mark.parametrize(
    "words", [["--to", "dora"], ["--until", "7d"], ["--to", "ana", "--until", "7d"], ["--to", "", "--until", "7d"],
              ["--to", "dora", "--until", "soon"]],
)  # fmt: skip
def test_a_delegation_that_is_not_clear_is_refused(cli: Cli, ledger_url: str, words: list[str]) -> None:
    assert cli("approvals", "delegate", "--by", "ana", *words, code=2).err
    assert cli("approvals", "delegations", "--json").json["delegations"] == []


def test_what_is_not_there_cannot_be_ended(cli: Cli, ledger_url: str) -> None:
    for words in (["delegations", "end", "dlg_1"], ["grants", "end", "grt_1"], ["grants", "end", ""]):
        assert cli("approvals", *words, code=2).err.startswith("indelible: ")
