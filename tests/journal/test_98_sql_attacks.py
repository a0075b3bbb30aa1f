"""With SQL alone and no key, nothing is gained: changes are refused, or named at the next seal, or found by verify.

Each attack changes a copy of a ledger's database, and computes again what can be computed without a key. Then programs
that were open before and programs that start afterwards make every call and sign in with every token. 60 attacks run by
default, others with each commit. INDELIBLE_SQL_ATTACKS=all runs all, INDELIBLE_SQL_ATTACKS="NAME" the one of that name.
"""

from __future__ import annotations

import os
import random
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import psycopg
import pytest

from indelible import Actor, GrantTerms, Ledger, migrate
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.people.credentials import Token
from indelible.engine.mint import SystemMint
from indelible.errors import KeyUnusable, PolicyRefused, RecordForged, SignerRefused, Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.writers import VARIABLE, WriterKeys
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.signin.people import People
from indelible.stores import is_postgres, open_store
from tests.commit import COMMIT
from tests.journal.attacked_world import (
    COLUMNS,
    OPEN_POLICY,
    POLICY,
    Dump,
    Verdict,
    World,
    build,
    lent,
    mail,
    outcome,
    under_attack,
)
from tests.journal.decided import ask, wire
from tests.journal.exported import key_of
from tests.journal.sql_attacks import Attack, attacks
from tests.journal.tampering import Database
from tests.lending import lend_writer_keys
from tests.postgres import fresh_database

SAMPLE = 60
SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def world(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A ledger by honest means, and a second one to copy from."""
    made = World(store_url, tmp_path / "keys")
    monkeypatch.setenv("INDELIBLE_KEYS", str(made.keys))
    build(made)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "other-keys"))
    if is_postgres(store_url):
        name = urlsplit(store_url).path[1:]
        with fresh_database(store_url.replace(name, "postgres", 1)) as url:
            made.twin = build(World(url, tmp_path / "other-keys"), is_twin=True).states["final"]
    else:
        url = f"sqlite:///{tmp_path / 'other.db'}"
        made.twin = build(World(url, tmp_path / "other-keys"), is_twin=True).states["final"]
    verdict = tried(made, None, tmp_path, 0, monkeypatch)[1]
    assert (verdict.refused, verdict.is_stopped, verdict.verify) == ([], False, "verified"), verdict.why
    verdict = tried(made, None, tmp_path, 0, monkeypatch)[1]
    assert (verdict.gained, verdict.refused) == ([], []), "what is seen of the honest world is the same each time"
    return made


def tried(
    world: World, attack: Attack | None, folder: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Verdict]:
    """Attack a copy of a world; return the column of the table, and what was seen."""
    dump, before = world.final, world.states["final"]
    with lent(world, folder, number) as place:
        monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys))
        with under_attack(world, place, "default" if attack is None else attack.tenant) as judge:
            if attack is not None:
                attack.change(dump)
                if _content(dump) == _content(before):
                    return "nothing changed", Verdict()
                database = Database(place.url)
                try:
                    for table, rows in dump.items():
                        if rows != before[table]:
                            database.replace(table, rows)
                except (apsw.ConstraintError, psycopg.Error):
                    return "refused", Verdict(refused=["by the database itself"])
                finally:
                    database.close()
            verdict = judge()
    return outcome(world, "" if attack is None else attack.where, dump, verdict), verdict


def _content(dump: Dump) -> dict[str, Counter[str]]:
    """Return the rows of each table, whatever their order."""
    return {table: Counter(repr(sorted(row.items())) for row in rows) for table, rows in dump.items()}


def chosen(found: list[Attack]) -> list[Attack]:
    """Return the attacks of this run: all, those of one name, or some that the commit draws."""
    asked = os.environ.get("INDELIBLE_SQL_ATTACKS")
    if asked is None:
        return random.Random(COMMIT).sample(found, SAMPLE)
    return [attack for attack in found if asked in ("all", attack.name)]


# A minute alone; all attacks take a quarter of an hour, and much more on a busy machine.
@pytest.mark.timeout(9000 if "INDELIBLE_SQL_ATTACKS" in os.environ else 900)
def test_98_no_attack_by_sql_gains_anything(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attacks(world)
    assert len(found) >= 300
    table: Counter[tuple[str, str]] = Counter()
    violations = []
    drawn = chosen(found)
    assert drawn, "no attack has the name in INDELIBLE_SQL_ATTACKS"
    for number, attack in enumerate(drawn, 1):
        column, verdict = tried(world, attack, tmp_path, number, monkeypatch)
        table[attack.kind, column] += 1
        if column == "VIOLATION":
            alone = f"INDELIBLE_SQL_ATTACKS={shlex.quote(attack.name)}"
            violations.append((alone, attack.where, verdict.gained[:3], verdict.refused[:3], verdict.why))
    with capsys.disabled():
        print(f"\n{'':10}" + "".join(f"{column:>21}" for column in COLUMNS))
        for kind in sorted({kind for kind, _ in table}):
            print(f"{kind:10}" + "".join(f"{table[kind, column]:>21}" for column in COLUMNS))
    assert violations == [], "\n".join(map(str, violations))
    unchanged = sum(number for (_, column), number in table.items() if column == "nothing changed")
    assert unchanged <= 1, "an attack that attacks nothing"


# Keys


def test_98_a_worker_without_its_key_is_refused_at_open_and_nothing_stops(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        assert ledger.run(mail(1), lambda effect: "sent") == "sent"
        for given in ("", other_keys(tmp_path)):
            monkeypatch.setenv(VARIABLE, given)
            with pytest.raises(KeyUnusable):
                Ledger.open(store_url, keys=tmp_path / "none", seal=False)
        monkeypatch.delenv(VARIABLE)
        ledger.seal()
        assert ledger.stopped() is None
        assert ledger.run(mail(2), lambda effect: "sent") == "sent"
        lend_writer_keys(monkeypatch, ledger, with_rights=False)
        with Ledger.open(store_url, keys=tmp_path / "none", seal=False) as worker:
            assert worker.run(mail(3), lambda effect: "sent") == "sent"
        ledger.seal()
        assert ledger.stopped() is None


def other_keys(folder: Path) -> str:
    """Return the writer keys of another ledger."""
    migrate(f"sqlite:///{folder / 'another.db'}")
    with Ledger.open(f"sqlite:///{folder / 'another.db'}", seal=False) as another:
        keys = another._engine.store.macs
        assert isinstance(keys, WriterKeys)
        return keys.export("default", with_rights=True)


def hold(ledger: Ledger) -> None:
    ledger.run(mail(1), lambda effect: "sent")
    ledger.hold(run_id=mail(1).run_id, by="ana", reason="a lawsuit")


def revoke_key(ledger: Ledger) -> None:
    """Say that the key that signs never signed."""
    facts = facts_json({"key": "any", "size": 0})
    stamp = SystemMint().stamp(SYSTEM)
    told = Record(tenant="default", run_id=JOURNAL_RUN, stamp=stamp, event_type="key_revoked", facts=facts)
    ledger._engine.store.apply("default", [told], [None])


RIGHTS: dict[str, Callable[[Ledger], object]] = {
    "hold": hold,
    "key": revoke_key,
    "vote": lambda ledger: ledger.approve(ask(ledger, wire(1)).id, digest=ask(ledger, wire(1)).digest, by="ana"),
    "grant": lambda ledger: ledger.approve(
        ask(ledger, wire(1)).id, digest=ask(ledger, wire(1)).digest, by="ana", grant=GrantTerms(count=2, until=SOON)
    ),
    "policy": lambda ledger: ledger.apply_policy(OPEN_POLICY, by="ana"),
    "stop": lambda ledger: ledger.stop(by="ana", reason="look"),
    "go": lambda ledger: ledger.go(by="ana"),
    "delegation": lambda ledger: ledger.delegate("eve", until=SOON, by="ana"),
    "token": lambda ledger: Credentials(ledger._engine.store, "default").give("bot", ("agent",), by=Actor("ana")),
    "person": lambda ledger: People(ledger._engine.store, "default").invite("eve", ("admin",), by=Actor("ana")),
}


@pytest.mark.parametrize("right", RIGHTS)
def test_98_a_key_exported_for_effects_cannot_make_a_right(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.apply_policy(POLICY, by="ana")
        if right == "go":
            ledger.stop(by="ana", reason="look")
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger, with_rights=False)
        with Ledger.open(store_url, keys=tmp_path / "none", seal=False) as worker:
            with pytest.raises(KeyUnusable):
                RIGHTS[right](worker)
            if right != "go":
                assert worker.run(mail(1), lambda effect: "sent") == "sent"
        monkeypatch.delenv(VARIABLE)
        ledger.seal()
        assert (ledger.stopped() is not None) == (right == "go")
        RIGHTS[right](ledger)


FOLLOWING: dict[str, Callable[[Ledger, str], object]] = {
    "token": lambda ledger, id_: Credentials(ledger._engine.store, "default").revoke(id_, by=Actor("ana")),
    "policy": lambda ledger, _: ledger.apply_policy(POLICY, by="ana"),
    "stop": lambda ledger, _: ledger.stop(by="ana", reason="look"),
}


@pytest.mark.parametrize("right", FOLLOWING)
@pytest.mark.parametrize("is_event_gone", [False, True], ids=["row", "row and event"])
def test_98_a_machine_with_exported_keys_believes_no_right_that_was_put_back(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, is_event_gone: bool
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger, closing(Database(store_url)) as database:
        ledger.apply_policy(OPEN_POLICY, by="ana")
        token = Credentials(ledger._engine.store, "default").give("bot", ("agent",), by=Actor("ana"))[1]
        ledger.stop(by="ana", reason="look")
        ledger.go(by="ana")
        ledger.seal()
        old, events = database.rows("sheets"), database.rows("events")
        lend_writer_keys(monkeypatch, ledger)
        assert is_let_in(store_url, tmp_path / "far", token if right == "token" else None, 1)
        FOLLOWING[right](ledger, token.credential_id)
        ledger.seal()
        database.replace("sheets", old)
        if is_event_gone:
            database.replace("events", events)
        assert not is_let_in(store_url, tmp_path / "far", token if right == "token" else None, 2)


def is_let_in(url: str, keys: Path, token: Token | None, number: int) -> bool:
    """Sign in or call, in a process that has exported keys and a folder that remembers nothing."""
    try:
        with Ledger.open(url, keys=keys, seal=False) as far:
            if token is not None:
                return Identity(far._engine.store)._look(token.tenant, token.credential_id) is not None
            return bool(far.run(mail(number), lambda effect: "sent") == "sent")
    except (PolicyRefused, RecordForged, Stopped):
        return False


@pytest.mark.parametrize("more", [1, 10**12])
def test_98_a_tree_that_was_said_to_be_larger_is_not_signed(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        ledger.run(wire(5), lambda effect: "paid")
        head = ledger.seal()
        ledger.run(wire(6), lambda effect: "paid")
        with closing(Database(store_url)) as database:
            (tree,) = database.rows("trees")
            database.replace("trees", [{**tree, "size": tree["size"] + more}])
        with pytest.raises(SignerRefused):
            ledger.seal()
        assert ledger._engine.store.journal.heads("default", 1) == [str(head)]
        report = verify(LiveEvidence(ledger._engine.store, "default"), [key_of(ledger)])
        assert report.verdict != "verified"


def test_98_an_event_that_was_put_into_the_tree_by_hand_is_not_signed(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only events that wait were examined: one that a program without keys took into the tree itself was signed."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        ledger.run(wire(5), lambda effect: "paid")
        head = ledger.seal()
        with closing(open_store(store_url)) as attacker:
            stamp = SystemMint().stamp(SYSTEM)
            forged = Record(tenant="default", run_id="x", stamp=stamp, event_type="noted", facts=facts_json({}))
            attacker.apply("default", [forged], [None])
            assert attacker.journal.integrate("default", 10) is not None
        with pytest.raises(SignerRefused):
            ledger.seal()
        assert ledger._engine.store.journal.heads("default", 1) == [str(head)]
        assert ledger.stopped() is not None
