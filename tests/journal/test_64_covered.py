"""Fault 64: a verdict covers what a signed head covers, and a ledger that lacks what was signed is never verified."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.verifying.findings import Report
from indelible.errors import JournalError
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from tests.journal.exported import key_of
from tests.journal.tampering import Database
from tests.journal.test_set_back import Backup
from tests.server.serving import Served, serve_believing


def pay(order: int) -> ToolCall:
    return ToolCall(tool="pay", args={"order": order}, run_id="payments")


class Place:
    """Is a ledger, the folder with its key, and what an auditor pinned on the first day."""

    def __init__(self, url: str, keys: Path) -> None:
        self.url = url
        self.keys = keys
        self.backup = Backup(url)
        migrate(url, writer_keys=False)  # its rows are changed as if nothing but the journal told
        self.pay(1)
        with self.open() as ledger:
            self.key = key_of(ledger)

    def open(self, **words: Any) -> Ledger:
        return Ledger.open(self.url, **{"keys": self.keys, "seal": False, **words})

    def pay(self, order: int, to: str = "ada", *, seal: bool = True, **words: Any) -> None:
        with self.open(**words) as ledger:
            ledger.run(pay(order), lambda effect: {"paid": to})
            if seal:
                ledger.seal()

    def integrate(self) -> None:
        """Takes what waits into the tree, which needs no key."""
        with self.open(keys=self.keys / "none") as ledger:
            ledger._engine.store.journal.integrate("default", 1000)

    def look(self, **words: Any) -> Report:
        """Verifies where the key is not at hand."""
        with self.open(keys=self.keys / "none") as ledger:
            return verify(LiveEvidence(ledger._engine.store, "default"), [self.key], **words)


@pytest.fixture
def place(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    return Place(store_url, tmp_path / "keys")


def rewritten(place: Place) -> None:
    """The newest head is gone, what it covered is another payment, and all hashes were computed again."""
    place.backup.make()
    place.pay(2, "ada")
    place.backup.put_back()
    place.pay(2, "mallory", seal=False, keys=place.keys / "none")
    place.integrate()


def rewritten_and_grown(place: Place) -> None:
    """As above, and the ledger has more entries by now than were ever signed."""
    rewritten(place)
    for order in range(3, 6):
        place.pay(order, seal=False, keys=place.keys / "none")
    place.integrate()


def set_back(place: Place) -> None:
    """An old backup was restored, or a standby took over that lacked the last commits."""
    place.backup.make()
    place.pay(2)
    place.backup.put_back()


def cut(place: Place) -> None:
    """No head is left."""
    rewritten(place)
    database = Database(place.url)
    database.replace("heads", [])
    database.close()


LACKING = [rewritten, rewritten_and_grown, set_back, cut]


@pytest.fixture(params=LACKING, ids=lambda one: one.__name__)
def lacking(place: Place, request: pytest.FixtureRequest) -> Place:
    request.param(place)
    return place


# By the command, where the signer's memory is at hand


@pytest.mark.parametrize("words", [(), ("--fresh", "1h"), ("--no-semantics",), ("--up-to-head",), ("--deep",)], ids=str)
def test_64_a_ledger_that_lacks_what_was_signed_is_not_verified_by_the_command(
    lacking: Place, cli: Cli, words: tuple[str, ...]
) -> None:
    said = cli("verify", "--url", lacking.url, "--key", lacking.key, "--json", *words, code=None)
    told = json.loads(said.out)
    assert (told["verdict"] == "verified", said.code == 0) == (False, False)
    assert set(told["attacks"].values()) == {"not ruled out"}


def test_64_nor_is_it_exported_as_something_that_verifies(lacking: Place, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    url = ("--url", lacking.url)
    for number, words in enumerate(
        [
            ("export", "bundle"),
            ("export", "bundle", "--run", "payments"),
            ("export", "html"),
            ("export", "ndjson"),
            ("receipt", "payments", "0"),
        ]
    ):
        out = tmp_path / "out" / str(number)
        for no_seal in ((), ("--no-seal",)):
            assert cli(*words, "--out", str(out), *url, *no_seal, code=None).code != 0, words
            assert not out.exists()


# By the server


@pytest.fixture
def server(place: Place) -> Iterator[Callable[[], Served]]:
    begun: list[Served] = []

    def serve() -> Served:
        begun.append(serve_believing(place.url, keys=place.keys, seal=False))
        return begun[0]

    yield serve
    for one in begun:
        one.stop()


def ask(served: Served, path: str, body: dict[str, Any] | None = None) -> httpx2.Response:
    headers = {"Authorization": 'Bearer "default"'}
    if body is None:
        return httpx2.get(served.url + path, headers=headers)
    return httpx2.post(served.url + path, headers=headers, json=body)


def test_64_nor_by_its_server_or_through_it_or_on_the_page(
    lacking: Place, server: Callable[[], Served], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = server()
    for more in ({}, {"up_to_head": True}, {"fresh_within_s": 3600}):
        answer = ask(served, "/v1/journal/verify", {"keys": [lacking.key], **more})
        assert answer.json()["verdict"] != "verified", more
    monkeypatch.setenv("INDELIBLE_TOKEN", '"default"')
    monkeypatch.setenv("INDELIBLE_KEYS", str(lacking.keys / "none"))  # an auditor's machine
    for words in ((), ("--up-to-head",)):
        assert cli("verify", "--url", served.url, "--key", lacking.key, *words, code=None).code != 0
    # What the page verifies begins with a head: it is shown none.
    for path in ("/v1/journal/head", "/v1/journal/checkpoint", "/v1/journal/heads"):
        assert ask(served, path).status_code >= 400, path


# Where there is no memory: what no head covers is the tail, and nothing shows who wrote it


def test_64_without_a_memory_what_no_head_covers_cannot_be_told(place: Place) -> None:
    rewritten(place)
    signed = place.look(up_to_head=True)
    assert (signed.verdict, signed.exit_code) == ("verified", 0), signed.why
    assert signed.tail is not None
    assert signed.size is not None
    assert f"entry {signed.size} of {signed.size + signed.tail.events}" in signed.why
    for words in ({}, {"semantics": False}):
        report = place.look(**words)
        assert (report.verdict, report.exit_code, report.tail) == ("cannot_tell", 2, signed.tail), report.why
        assert report.tail is not None
        assert report.tail.events > 0
        assert not any(report.ruled_out.values())
    assert (signed.ruled_out["edit"], signed.ruled_out["rollback"], signed.ruled_out["truncate_after"]) == (
        True,
        False,
        False,
    )


def test_64_times_inside_events_make_nothing_fresh(place: Place) -> None:
    report = place.look(fresh_within=timedelta(hours=1))
    assert report.verdict == "cannot_tell", report.why
    with place.open() as ledger:
        store = ledger._engine.store
        fresh = verify(LiveEvidence(store, "default"), [place.key], fresh_within=timedelta(hours=1))
    assert (fresh.verdict, "memory" in fresh.grounds) == ("verified", True), fresh.why
    assert (fresh.ruled_out["rollback"], fresh.ruled_out["fork"], fresh.ruled_out["stolen_key_after"]) == (
        True,
        False,
        False,
    )


def test_64_a_memory_that_is_older_than_the_head_rules_out_no_cut(place: Place) -> None:
    """Another machine signed since: of what it signed, this one remembers nothing."""
    (memory,) = place.keys.glob("*/heads/*.head")
    kept = memory.read_bytes()
    place.pay(2)
    memory.write_bytes(kept)
    with place.open() as ledger:
        report = verify(LiveEvidence(ledger._engine.store, "default"), [place.key])
    assert (report.verdict, "memory" in report.grounds) == ("verified", False), report.why


def test_64_a_memory_that_cannot_be_read_tells_nothing(place: Place, cli: Cli) -> None:
    (memory,) = place.keys.glob("*/heads/*.head")
    memory.write_bytes(b"")
    assert cli("verify", "--url", place.url, "--key", place.key, code=2).out.startswith("CANNOT TELL")


# With the key at hand, verify seals first


def test_64_the_command_seals_first_where_the_key_is_at_hand(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.pay(2, seal=False)
    told = cli("verify", "--url", place.url, "--key", place.key, "--up-to-head", "--json").json
    assert told["tail"] == {"events": 2, "is_authenticated": False}, "the signed part alone: nothing is sealed"
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys / "none"))
    told = json.loads(cli("verify", "--url", place.url, "--key", place.key, "--json", code=2).out)
    assert (told["verdict"], told["tail"]["events"]) == ("cannot_tell", 2)
    assert not (place.keys / "none").exists(), "no key is made"
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys))
    told = cli("verify", "--url", place.url, "--key", place.key, "--json").json
    assert (told["verdict"], told["tail"]["events"], told["attacks"]["rollback"]) == ("verified", 0, "ruled out")


def test_64_so_does_the_server(place: Place, server: Callable[[], Served]) -> None:
    place.pay(2, seal=False)
    told = ask(server(), "/v1/journal/verify", {"keys": [place.key]}).json()
    assert (told["verdict"], told["tail"]["events"]) == ("verified", 0)


def test_64_heads_that_were_deleted_are_signed_again_where_the_entries_are_those_that_were_signed(
    place: Place, cli: Cli
) -> None:
    place.pay(2)
    database = Database(place.url)
    database.replace("heads", database.rows("heads")[:1])
    database.close()
    assert place.look().verdict == "cannot_tell"
    assert cli("verify", "--url", place.url, "--key", place.key).code == 0


# What the tail says counts for nothing in the signed part


def test_64_an_erasure_that_no_head_covers_excuses_no_missing_value(place: Place) -> None:
    place.pay(2)
    with place.open(keys=place.keys / "none") as ledger:
        ledger.erase(run_id="payments", by="ana", reason="a request")
        unsigned = verify(LiveEvidence(ledger._engine.store, "default"), [place.key], up_to_head=True)
        assert unsigned.verdict == "cannot_tell", unsigned.why
    with place.open() as ledger:
        ledger.seal()
        assert verify(LiveEvidence(ledger._engine.store, "default"), [place.key]).verdict == "verified"


def test_64_a_loss_that_nobody_signed_explains_no_head(place: Place) -> None:
    """Who can only write the database declares the loss by himself."""
    set_back(place)
    with place.open(keys=place.keys / "none") as ledger:
        lost = {"lost": {"root": "A" * 43 + "=", "size": 50}, "size": 1}
        engine = ledger._engine
        command = Record(
            tenant="default",
            run_id="indelible:journal",
            stamp=engine.mint.stamp(SYSTEM),
            event_type="log_continued",
            facts=facts_json(lost),
        )
        engine.store.apply("default", [command], [None])
    place.integrate()
    with place.open() as ledger:
        assert verify(LiveEvidence(ledger._engine.store, "default"), [place.key]).verdict == "tampered"


# A bundle on the signer's own machine


def test_64_a_bundle_of_another_history_is_not_verified_where_the_signer_remembers(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    """The loss was declared, and a bundle of the lost history turns up."""
    place.backup.make()
    place.pay(2)
    cli("export", "bundle", "--url", place.url, "--out", str(tmp_path / "lost.zip"))
    assert cli("verify", str(tmp_path / "lost.zip"), "--key", place.key, "--fresh", "1h").code == 0
    place.backup.put_back()
    with place.open() as ledger:
        ledger.continue_journal()
    assert cli("verify", str(tmp_path / "lost.zip"), "--key", place.key, code=2).out.startswith("CANNOT TELL")
    cli("export", "bundle", "--url", place.url, "--out", str(tmp_path / "now.zip"))
    place.pay(3)
    told = cli("verify", str(tmp_path / "now.zip"), "--key", place.key, "--json").json
    assert (told["verdict"], told["attacks"]["rollback"]) == ("verified", "not ruled out"), "an older one is older"
    cli("verify", str(tmp_path / "now.zip"), "--key", place.key, "--fresh", "1h", code=2)


def test_64_export_raises_for_programs_too(place: Place, tmp_path: Path) -> None:
    set_back(place)
    with place.open() as ledger, pytest.raises(JournalError):
        ledger.export(tmp_path / "b")
