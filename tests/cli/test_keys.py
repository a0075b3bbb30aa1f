"""`indelible keys`: where the keys are, what auditors get, and changes of keys that go on the record."""

from __future__ import annotations

import json
import re
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Ledger, RunningEffect, ToolCall, migrate
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import parse_vkey
from indelible.core.journal.rotation import check_rotation
from indelible.errors import ApprovalPending, KeyUnusable
from indelible.journal.keys.writers import VARIABLE
from tests.cli.conftest import Cli
from tests.journal.exported import key_of
from tests.journal.tampering import Database
from tests.lending import lend_writer_keys
from tests.scenarios.shells import Count, charge


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for keys that nothing else uses."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("INDELIBLE_KEY_PASSPHRASE", raising=False)
    return tmp_path / "keys"


def work(url: str, tenant: str = "default") -> None:
    """Lets an agent do something, and the journal be signed."""

    def handler(effect: RunningEffect) -> int:
        return 1

    with Ledger.open(url, tenant=tenant) as ledger:
        ledger.run(ToolCall(tool="count", args={}, run_id="r"), handler)
        assert ledger.seal() is not None


def own_events(url: str, kind: str, tenant: str = "default") -> list[dict[str, Any]]:
    with Ledger.open(url, tenant=tenant) as ledger:
        return [event.read()["facts"] for event in ledger.events(JOURNAL_RUN) if event.type == kind]


def statuses(cli: Cli) -> list[str]:
    return [key["status"] for key in cli("keys", "list", "--json").json["keys"]]


def test_looking_at_keys_makes_none(cli: Cli, ledger_url: str, keys: Path) -> None:
    said = cli("keys", "list").out
    assert "No keys yet" in said
    assert "indelible keys create" in said
    assert cli("keys", "list", "--json").json["keys"] == []
    assert not list(keys.rglob("*.pem"))


def test_without_a_key_there_is_nothing_to_export(cli: Cli, ledger_url: str) -> None:
    said = cli("keys", "export-public", code=1)
    assert said.out == ""
    assert "indelible keys create" in said.err
    assert cli("keys", "export-public", "--json", code=1).error["type"] == "KeyUnusable"


def test_a_key_is_made_once_and_shown_with_its_place(cli: Cli, ledger_url: str, keys: Path) -> None:
    said = cli("keys", "create", "--json")
    made = said.json
    assert (made["is_new"], said.err) == (True, "")
    path = Path(made["key"]["file"])
    assert path.is_relative_to(keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = cli("keys", "create", "--json").json
    assert (again["is_new"], again["key"]) == (False, made["key"])
    assert "is there already" in cli("keys", "create").out
    listed = cli("keys", "list").out
    assert re.search(rf"^{made['key']['id']} +current +\d+s +current\.pem$", listed, re.MULTILINE)
    assert str(path.parent) in listed


def test_the_public_key_stands_alone_on_stdout(cli: Cli, ledger_url: str) -> None:
    cli("keys", "create")
    said = cli("keys", "export-public")
    assert said.err == ""
    key = parse_vkey(said.out.removesuffix("\n"))
    assert said.out == key.vkey + "\n"
    assert key.name.endswith("/default")
    other = parse_vkey(cli("keys", "export-public", "--tenant", "acme").out)
    assert (other.raw, other.name) == (key.raw, key.name.replace("/default", "/acme"))
    assert cli("keys", "export-public", "--json").json == {"tenant": "default", "public": key.vkey}


def test_the_exported_key_verifies_the_head_that_the_ledger_signed(cli: Cli, ledger_url: str) -> None:
    work(ledger_url)
    with Ledger.open(ledger_url) as ledger:
        note = ledger.seal()
    assert note is not None
    assert note.signed_by(parse_vkey(cli("keys", "export-public").out))


def test_no_command_prints_a_secret(cli: Cli, ledger_url: str, keys: Path) -> None:
    cli("keys", "create")
    (path,) = keys.rglob("current.pem")
    secret = path.read_text().splitlines()[-2]
    for words in (["list"], ["create"], ["export-public"]):
        for more in ([], ["--json"]):
            said = cli("keys", *words, *more)
            assert secret not in said.out + said.err


def test_a_rotation_is_on_the_record_of_every_tenant(cli: Cli, ledger_url: str) -> None:
    for tenant in ("default", "acme"):
        work(ledger_url, tenant)
    before = cli("keys", "export-public").out.strip()
    said = cli("keys", "rotate", "--json").json
    after = cli("keys", "export-public").out.strip()
    assert (said["old"], said["new"]) == (before, after)
    assert before != after
    assert statuses(cli) == ["current", "retired"]
    for tenant in ("default", "acme"):
        (facts,) = own_events(ledger_url, "key_rotated", tenant)
        old, new = check_rotation(facts)
        assert (old.raw, new.raw) == (parse_vkey(before).raw, parse_vkey(after).raw)
        with Ledger.open(ledger_url, tenant=tenant) as ledger:
            note = ledger.seal()
        assert note is not None
        assert note.signed_by(new)
    text = cli("keys", "rotate").out
    assert f"Signed until now:  {after}" in text
    assert statuses(cli) == ["current", "retired", "retired"]


def test_a_retired_key_can_still_be_exported(cli: Cli, ledger_url: str) -> None:
    work(ledger_url)
    before = cli("keys", "export-public").out
    cli("keys", "rotate")
    retired = cli("keys", "list", "--json").json["keys"][1]
    assert cli("keys", "export-public", retired["id"]).out == before == retired["public"] + "\n"


def test_a_rotation_without_a_key_is_refused(cli: Cli, ledger_url: str) -> None:
    assert "indelible keys create" in cli("keys", "rotate", code=1).err


def test_an_interrupted_rotation_is_shown_and_finished(cli: Cli, ledger_url: str, keys: Path) -> None:
    from indelible.journal.keys.ring import KeyRing

    work(ledger_url)
    (path,) = keys.rglob("current.pem")
    _, new = KeyRing.open(path.parent.name).begin_rotation()
    assert "indelible keys rotate" in cli("keys", "list").out
    cli("keys", "rotate")
    assert statuses(cli) == ["current", "retired"]
    assert parse_vkey(cli("keys", "export-public").out).raw == new.raw


def test_a_retired_key_is_revoked_on_the_record(cli: Cli, ledger_url: str) -> None:
    work(ledger_url)
    first = cli("keys", "list", "--json").json["keys"][0]
    refused = cli("keys", "revoke", "--yes", first["id"], code=1)
    assert "indelible keys rotate" in refused.err
    assert own_events(ledger_url, "key_revoked") == []
    cli("keys", "rotate")
    said = cli("keys", "revoke", "--yes", first["id"][:8], "--json").json
    assert (said["key"]["id"], said["key"]["status"]) == (first["id"], "revoked")
    (facts,) = own_events(ledger_url, "key_revoked")
    assert facts["key"] == first["public"]
    assert statuses(cli) == ["current", "revoked"]
    assert "revoked" in cli("keys", "revoke", "--yes", first["id"]).out


@pytest.mark.parametrize("words", [("revoke", "nope"), ("export-public", "nope"), ("revoke",), ("shred",)])
def test_what_is_not_there_is_wrong_usage(cli: Cli, ledger_url: str, words: tuple[str, ...]) -> None:
    cli("keys", "create")
    assert cli("keys", *words, code=2).out == ""


def test_keys_open_to_others_are_refused_with_the_command_that_closes_them(
    cli: Cli, ledger_url: str, keys: Path
) -> None:
    cli("keys", "create")
    (path,) = keys.rglob("current.pem")
    path.chmod(0o644)
    for words in (["list"], ["export-public"], ["create"], ["rotate"]):
        said = cli("keys", *words, code=1)
        assert f"chmod 600 {path}" in said.err.replace("'", "")
    error = json.loads(cli("keys", "list", "--json", code=1).err)["error"]
    assert (error["type"], error["exit_code"]) == ("KeyUnusable", 1)


def test_65_a_writer_key_lets_a_worker_without_the_folder_write_and_decide_nothing(
    cli: Cli, store_url: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    said = cli("migrate").out
    assert str(next(keys.rglob("writers.key"))) in said
    assert "indelible keys export-writer" in said
    assert "export-writer" not in cli("migrate").out, "it is told once"
    assert cli("migrate", "--json").json["writer_keys"] == str(next(keys.rglob("writers.key")))
    assert cli("keys", "export-writer", "--json").json["variable"] == VARIABLE
    line = cli("keys", "export-writer").out.strip()
    whole = cli("keys", "export-writer", "--rights").out.strip()
    ring = next(keys.rglob("writers.key"))
    assert stat.S_IMODE(ring.stat().st_mode) == 0o600
    with Ledger.open(store_url) as ledger:
        with pytest.raises(ApprovalPending) as asked:
            ledger.run(charge(), Count(), approval="required", wait=False)
        approval = ledger.get_approval(asked.value.approval.id)
    with pytest.raises(KeyUnusable):
        Ledger.open(store_url, keys=tmp_path / "none", seal=False)
    monkeypatch.setenv(VARIABLE, line)
    with Ledger.open(store_url, keys=tmp_path / "none", seal=False) as worker:
        with pytest.raises(KeyUnusable):
            worker.approve(approval.id, digest=approval.digest, by=Actor("ana"))
        assert worker.run(charge(run_id="another"), Count("paid")) == "paid"
    monkeypatch.setenv(VARIABLE, whole)
    with Ledger.open(store_url, keys=tmp_path / "none", seal=False) as office:
        office.approve(approval.id, digest=approval.digest, by=Actor("ana"))
    monkeypatch.setenv(VARIABLE, line)
    with Ledger.open(store_url, keys=tmp_path / "none", seal=False) as worker:
        assert worker.run(charge(), Count("paid"), approval="required", wait=False) == "paid"
    monkeypatch.delenv(VARIABLE)
    with Ledger.open(store_url, seal=True) as ledger:
        assert ledger.seal() is not None
        assert ledger.run(charge(run_id="third"), Count("paid")) == "paid", "nothing stopped"
    monkeypatch.setenv(VARIABLE, "no key")
    with pytest.raises(KeyUnusable):
        Ledger.open(store_url, keys=tmp_path / "none", seal=False)


def test_65_a_ledger_that_was_begun_without_writer_keys_stays_without(
    cli: Cli, store_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    assert "writer keys" not in cli("migrate", "--no-writer-keys").out
    work(store_url)
    assert cli("migrate", "--json").json["writer_keys"] is None
    assert cli("keys", "export-writer", "--json", code=1).error["type"] == "KeyUnusable"
    work(store_url, "acme")
    assert not list(keys.rglob("writers.key"))


def test_65_the_doctor_says_whether_the_writer_keys_are_here(
    cli: Cli, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdict() -> tuple[str, str]:
        checks = cli("doctor", "--json", code=None).json["checks"]
        assert "ledger" not in {check["name"] for check in checks}
        return next((check["verdict"], check["fix"] or "") for check in checks if check["name"] == "writer keys")

    monkeypatch.setenv("INDELIBLE_URL", store_url)
    cli("migrate")
    work(store_url)
    assert verdict() == ("ok", "")
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "none"))
    found, fix = verdict()
    assert found == "warn"
    assert "indelible keys export-writer" in fix
    assert VARIABLE in fix


def test_65_the_doctor_warns_of_a_ledger_without_writer_keys(
    cli: Cli, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    cli("migrate", "--no-writer-keys")
    work(store_url)
    for given, expected in ((None, "warn"), ("none", "ok")):
        if given is not None:
            monkeypatch.setenv(VARIABLE, given)
        checks = cli("doctor", "--json", code=None).json["checks"]
        assert [check["verdict"] for check in checks if check["name"] == "writer keys"] == [expected]


@pytest.fixture
def read_elsewhere(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with writer keys whose keys are not on this machine; the key that an auditor pinned."""
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    migrate(store_url)
    work(store_url)
    with Ledger.open(store_url) as ledger:
        pinned = key_of(ledger)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "none"))
    return pinned


def test_65_reading_needs_no_writer_key(cli: Cli, store_url: str, read_elsewhere: str, tmp_path: Path) -> None:
    report = cli("verify", "--key", read_elsewhere, "--json", code=0).json
    assert (report["verdict"], report["tail"]["events"]) == ("verified", 0)
    assert cli("export", "bundle", "--out", str(tmp_path / "bundle.zip"), "--no-seal", code=0)
    (effect,) = cli("effects", "list", "--json", code=0).json["effects"]
    for words in (("effects", "show", effect["id"]), ("runs", "list"), ("events", "r"), ("journal", "head")):
        cli(*words, code=0)
    cli("tail", "--once", code=0)
    assert cli("stop", "--reason", "a drill", "--json", code=1).error["type"] == "KeyUnusable"
    assert not list((tmp_path / "none").rglob("*.pem"))


def test_65_a_tail_counts_as_written_by_key_holders_where_the_writer_key_is(
    cli: Cli, store_url: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_elsewhere: str
) -> None:
    with Ledger.open(store_url, keys=keys, seal=False) as ledger:
        ledger.run(charge(run_id="later"), Count("paid"))
        ledger._engine.store.journal.integrate("default", 1)
        lend_writer_keys(monkeypatch, ledger, with_rights=False)
    report = cli("verify", "--key", read_elsewhere, "--json", code=0).json
    assert report["verdict"] == "verified"
    assert report["tail"]["is_authenticated"]
    assert report["tail"]["events"] > 1
    monkeypatch.delenv(VARIABLE)
    report = cli("verify", "--key", read_elsewhere, "--json", code=2).json
    assert not report["tail"]["is_authenticated"]
    assert cli("verify", "--key", read_elsewhere, "--up-to-head", "--json", code=0).json["verdict"] == "verified"


@pytest.mark.parametrize("place", ["tree", "waiting"])
def test_65_a_tail_with_an_event_by_another_program_is_not_verified(
    cli: Cli, store_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch, read_elsewhere: str, place: str
) -> None:
    with Ledger.open(store_url, keys=keys, seal=False) as ledger:
        ledger.run(charge(run_id="later"), Count("paid"))
        lend_writer_keys(monkeypatch, ledger)
        if place == "tree":
            ledger._engine.store.journal.integrate("default", 100)
    with closing(Database(store_url)) as database:
        rows = database.rows("events")
        next(row for row in rows if row["run_id"] == "later")["mac"] = None
        database.replace("events", rows)
    report = cli("verify", "--key", read_elsewhere, "--json", code=2).json
    assert (report["verdict"], report["tail"]["is_authenticated"]) == ("cannot_tell", False)
