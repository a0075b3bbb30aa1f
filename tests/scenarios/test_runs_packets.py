"""A run is carried from one ledger to another, with nothing repeated and nothing taken on trust."""

from __future__ import annotations

import functools
import json
import os
import signal
import types
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from indelible import AwaitingApproval, Idempotent, Ledger, MayHaveHappened, Refused
from indelible.core.runs.run import side_effect_key
from indelible.core.values.shapes import misshapen
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectInDoubt,
    IndelibleError,
    JournalError,
    PolicyRefused,
    RunOver,
    RunRefused,
)
from indelible.runs import keeping
from indelible.runs.packets import packet_schema
from tests.chaos.procs import Child
from tests.journal.exported import key_of
from tests.scenarios.hands import resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, charge, prepare_store

MAIL = side_effect_key("mail", "ada@example.com", "00")
STATE = {"cursor": 2, "price": Decimal("1.10"), "since": datetime(2026, 1, 2, tzinfo=UTC)}


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["sqlite to postgres", "postgres to sqlite"])
def places(
    request: pytest.FixtureRequest, kind: str, sqlite_url: str, postgres_url: str, tmp_path: Path
) -> Iterator[tuple[Driver, Driver]]:
    """Two ledgers of the same tenant on two stores of two kinds, each with a key of its own."""
    urls = [sqlite_url, postgres_url]
    if request.param.startswith("postgres"):
        urls.reverse()
    shells = [Shell(kind, prepare_store(url, tmp_path / f"keys{number}")) for number, url in enumerate(urls)]
    first, second = (
        shell.open(tenant="acme", keys=tmp_path / f"keys{number}", seal=True) for number, shell in enumerate(shells)
    )
    yield first, second
    for shell in shells:
        shell.close()


def name_of(driver: Driver) -> str:
    name: str = driver.ledger.journal_name
    return name


def ask(driver: Driver, answer: Any, asked: list[Any]) -> Any:
    async def awaited(request: Any) -> Any:
        asked.append(request)
        return answer

    def blocking(request: Any) -> Any:
        asked.append(request)
        return answer

    return blocking if driver.kind != "async" else awaited


def work(ledger: Driver) -> None:
    """Does half of what is to be done, of every kind there is, and hands it off."""
    run = started(ledger, allowed_tools=["fetch", "charge", "mail", "model.*"], intent="Enrich leads")
    run.model_turn("gpt", {"prompt": "plan"}, ask(ledger, "fetch, then charge", []))
    ledger.run(charge(run_id="r1", tool="fetch", args={}), Count({"leads": 3}), side_effect="read")
    ledger.run(charge(run_id="r1"), Count({"id": "ch_1", "fee": Decimal("0.30")}), side_effect="payment")
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(run_id="r1", tool="mail"), Count(MayHaveHappened("line cut")), side_effect="notification")
    with pytest.raises(Refused):
        ledger.run(charge(run_id="r1", args={"amount": 0}), Count(Refused("no")), side_effect="payment")
    run.record("execution_succeeded", {"n": 1}, side_effect="notification", side_effect_key=MAIL, step="mail")
    run.artifact("s3://leads.csv", content=b"a,b", metadata={"rows": 3})
    run.hand_off("another ledger", state=STATE, suggested="charge_the_rest")


def test_a_run_goes_on_in_another_ledger_with_nothing_repeated(places: tuple[Driver, Driver], tmp_path: Path) -> None:
    here, there = places
    work(here)
    before = resumed(here).context
    here.end_run("r1", "blocked", by="ada", reason="it goes on elsewhere")
    path = tmp_path / "run.packet"
    here.export_packet("r1", path, to=name_of(there))
    assert path.stat().st_mode & 0o077 == 0, "it holds arguments and results"
    run = there.import_packet(path, key=key_of(here.ledger))
    assert (run.status, run.agent, run.intent) == ("blocked", "scout", "Enrich leads")
    again = resumed(there)
    context = again.context
    assert context.state == STATE
    assert context.current_step == "mail"
    assert context.blocked_side_effect_keys == before.blocked_side_effect_keys
    assert [line.tool for line in context.in_doubt] == ["mail"]
    assert [one.uri for one in context.artifacts] == ["s3://leads.csv"]
    assert [one.metadata for one in context.artifacts] == [{"rows": 3}]
    assert context.remaining_permissions["allowed_tools"] == ["fetch", "charge", "mail", "model.*"]
    assert [(one.type, one.payload) for one in context.receipts] == [(one.type, one.payload) for one in before.receipts]
    handler, asked = Count("again"), []
    assert again.model_turn("gpt", {"prompt": "make a plan"}, ask(there, "no", asked)) == "fetch, then charge"
    assert there.run(charge(run_id="r1", tool="fetch", args={}), handler, side_effect="read") == {"leads": 3}
    paid = there.run(charge(run_id="r1"), handler, side_effect="payment")
    assert paid == {"id": "ch_1", "fee": Decimal("0.30")}
    with pytest.raises(EffectInDoubt):
        there.run(charge(run_id="r1", tool="mail"), handler, side_effect="notification")
    with pytest.raises(PolicyRefused):
        there.run(charge(run_id="r1", tool="other"), handler)
    assert (handler.entries, asked) == (0, [])
    words = {"side_effect": "notification", "side_effect_key": MAIL}
    assert again.record("execution_succeeded", **words).status == "skipped"
    assert there.run(charge(run_id="r1", args={"amount": 6}), handler, side_effect="payment") == "again", "new is new"
    assert there.verify_run("r1").is_valid
    assert told(here)[-1] == "packet_exported"


def test_a_packet_of_a_packet_is_as_good(places: tuple[Driver, Driver], tmp_path: Path) -> None:
    """There and on to a third ledger, of the first kind again."""
    here, there = places
    work(here)
    there.import_packet(here.export_packet("r1", to=name_of(there)), key=key_of(here.ledger))
    third_shell = Shell(here.kind, f"sqlite:///{tmp_path / 'third.db'}")
    try:
        third = third_shell.open(tenant="acme", keys=tmp_path / "keys3", seal=True)
        third.import_packet(there.export_packet("r1", to=name_of(third)), key=key_of(there.ledger))
        context = resumed(third).context
        assert (context.state, context.current_step) == (STATE, "mail")
        assert [one.uri for one in context.artifacts] == ["s3://leads.csv"]
        handler = Count()
        assert third.run(charge(run_id="r1"), handler, side_effect="payment")["id"] == "ch_1"
        assert handler.entries == 0
    finally:
        third_shell.close()


def test_a_packet_adds_nothing_to_another_run_of_its_name(ledger: Driver, exported: dict[str, Any]) -> None:
    before = told(ledger)
    with pytest.raises(RunRefused, match="here already"):
        ledger.import_packet(exported, trust=True)
    assert told(ledger) == before


def test_a_run_that_is_over_is_not_gone_on_with_elsewhere(shell: Shell, elsewhere: Driver) -> None:
    ledger = shell.open(seal=True)
    started(ledger).complete()
    with pytest.raises(RunOver):
        ledger.export_packet("r1", to=name_of(elsewhere))
    with pytest.raises(RunRefused):
        elsewhere.import_packet(ledger.export_packet("r1"), key=key_of(ledger.ledger))


def test_a_packet_is_not_taken_over_a_run_that_is_there(places: tuple[Driver, Driver]) -> None:
    here, there = places
    work(here)
    packet = here.export_packet("r1", to=name_of(there))
    imported = there.import_packet(packet, key=key_of(here.ledger))
    before = told(there), told(here)
    assert there.import_packet(packet, key=key_of(here.ledger)) == imported, "the same packet is the same run"
    with pytest.raises(RunRefused, match="here already"):
        here.import_packet(packet, key=key_of(here.ledger))
    later = here.export_packet("r1", to=name_of(there))
    with pytest.raises(RunRefused, match="here already"):
        there.import_packet(later, key=key_of(here.ledger))
    assert (told(there), told(here)[:-1]) == before, "nothing was added to either"


def import_and_die(line: Connection, url: str, packet: dict[str, Any], writes: int, *, is_written: bool) -> None:
    """Is a process that is killed just before or after its nth transaction, while it imports a packet."""
    keeping._AT_ONCE = 2
    ledger = Ledger.open(url, tenant="acme", wakeups=False)
    apply, count = ledger._engine.store.apply, 0

    def dying(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == writes and not is_written:
            os.kill(os.getpid(), signal.SIGKILL)
        answers = apply(*args)
        if count == writes:
            os.kill(os.getpid(), signal.SIGKILL)
        return answers

    ledger._engine.writer._store = types.SimpleNamespace(apply=dying, address=url)  # type: ignore[assignment]
    ledger.import_packet(packet, trust=True)


def test_an_import_that_was_killed_anywhere_is_made_whole_by_another(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    url = prepare_store(store_url)
    with Ledger.open(url, tenant="acme") as ledger:
        to = ledger.journal_name
    with Ledger.open(f"sqlite:///{tmp_path / 'first.db'}", tenant="acme", seal=True) as first:
        for number in range(3):
            work_of(first, f"r{number}")
        packets = [first.export_packet(f"r{number}", to=to) for number in range(3)]
    ends = []
    # Six effects are three transactions, and the run is the fourth.
    for packet, writes, is_written in zip(packets, (2, 4, 4), (False, False, True), strict=True):
        run_id = packet["packet"]["runId"]
        with Child(functools.partial(import_and_die, is_written=is_written), url, packet, writes) as child:
            assert child.join() == -signal.SIGKILL
        with Ledger.open(url, tenant="acme") as ledger:
            run = ledger.get_run(run_id)
            ends.append((len(ledger.effects(run_id=run_id)), run is not None and run.status != "open"))
            assert ledger.import_packet(packet, trust=True).status == "blocked"
            assert len(ledger.effects(run_id=run_id)) == 6
            context = ledger.resume_run(run_id).context
            assert context is not None
            assert context.state == {"cursor": 2}
            assert len(context.receipts) == 7
            assert ledger.verify_run(run_id).is_valid
            types_told = [event.type for event in ledger.events(run_id, limit=100)]
            assert types_told.count("tool_call_adopted") == 6
            assert types_told.count("run_started") == 1
    assert ends == [(2, False), (6, False), (6, True)], "a run is there whole or not at all"


def work_of(ledger: Ledger, run_id: str) -> None:
    """Makes six effects in a run and hands it off."""
    run = ledger.start_run(run_id, agent="scout")
    for number in range(6):
        call = charge(run_id=run_id, args={"n": number})
        ledger.run(call, lambda effect: effect.args, side_effect="payment")
    run.artifact("leads.csv")
    run.hand_off("another", state={"cursor": 2})


# One store is enough for what is refused before anything is written.


@pytest.fixture
def exported(ledger: Driver, shell: Shell, elsewhere: Driver) -> dict[str, Any]:
    """A packet as it is read from its file by others."""
    sealing = shell.open(seal=True)
    run = started(sealing)
    sealing.run(charge(run_id="r1"), Count({"id": "ch_1"}), side_effect="payment")
    run.hand_off("another", state={"cursor": 2})
    packet: dict[str, Any] = json.loads(json.dumps(sealing.export_packet("r1", to=name_of(elsewhere))))
    packet["key"] = key_of(sealing.ledger)
    return packet


@pytest.fixture
def elsewhere(shell: Shell, tmp_path: Path) -> Iterator[Driver]:
    """Another ledger of the same tenant."""
    other = Shell(shell.kind, f"sqlite:///{tmp_path / 'elsewhere.db'}")
    yield other.open(tenant=shell.tenant)
    other.close()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Names every place in a packet where something stands."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path


def changed(value: Any) -> Any:
    """Gives something else of the same kind, where there is such a thing."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x" if not value.endswith("x") else value[:-1]
        case _:
            return "x"


def test_a_packet_that_was_altered_anywhere_is_refused(exported: dict[str, Any], elsewhere: Driver) -> None:
    key = exported.pop("key")
    places = list(leaves(exported))
    assert len(places) > 40
    for path in places:
        forged = json.loads(json.dumps(exported))
        at = forged
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = changed(at[path[-1]])
        with pytest.raises(IndelibleError):
            elsewhere.import_packet(forged, key=key)
    assert elsewhere.get_run("r1") is None
    assert elsewhere.effects() == []
    assert elsewhere.import_packet(exported, key=key).status == "blocked", "and as it is it is taken"


def test_a_packet_from_which_something_was_taken_is_refused(exported: dict[str, Any], elsewhere: Driver) -> None:
    key = exported.pop("key")
    for where, names in ((exported, list(exported)), (exported["packet"], list(exported["packet"]))):
        for name in names:
            kept = where.pop(name)
            with pytest.raises(IndelibleError):
                elsewhere.import_packet(exported, key=key)
            where[name] = kept
    exported["packet"]["effects"].clear()
    with pytest.raises(JournalError):
        elsewhere.import_packet(exported, key=key)
    assert elsewhere.effects() == []


def test_a_packet_is_not_proven_by_another_key(exported: dict[str, Any], elsewhere: Driver) -> None:
    with pytest.raises(JournalError, match="altered, or is of another ledger"):
        elsewhere.import_packet(exported, key=key_of(elsewhere.ledger))
    with pytest.raises(IndelibleError):
        elsewhere.import_packet(exported, key="no key at all")
    with pytest.raises(BadCall, match="name the key"):
        elsewhere.import_packet(exported)
    assert elsewhere.effects() == []
    assert elsewhere.import_packet(exported, trust=True).status == "blocked", "unless somebody says so"


def test_a_packet_of_another_tenant_is_refused(exported: dict[str, Any], shell: Shell, tmp_path: Path) -> None:
    other = Shell(shell.kind, f"sqlite:///{tmp_path / 'elsewhere.db'}")
    try:
        stranger = other.open(tenant="stranger")
        with pytest.raises(BadCall, match="tenant"):
            stranger.import_packet(exported, key=exported["key"])
        assert stranger.effects() == []
        assert stranger.runs() == []
    finally:
        other.close()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"packet": 1}', '{"packet": {"kind": "other"}}', "\x00"])
def test_what_is_no_packet_is_refused(ledger: Driver, tmp_path: Path, content: str) -> None:
    path = tmp_path / "packet"
    path.write_text(content)
    for named in (path, str(path), tmp_path / "missing"):
        with pytest.raises(BadCall):
            ledger.import_packet(named, trust=True)


def test_a_packet_of_a_later_version_is_refused(exported: dict[str, Any], elsewhere: Driver) -> None:
    exported["packet"]["schemaVersion"] = 2
    with pytest.raises(BadCall, match="version 1"):
        elsewhere.import_packet(exported, trust=True)


# The schema


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Packets of runs that have nothing, and of runs that have everything there is."""
    folder = tmp_path_factory.mktemp("shapes")
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys", seal=True) as ledger:
        ledger.start_run("empty", agent="scout").release()
        run = ledger.start_run("full", agent="scout", intent="all", allowed_tools=["*"], permissions={"region": "eu"})
        run.record("plan_locked", step="plan")
        ledger.run(charge(run_id="full", call_id="c1"), lambda _: {"fee": Decimal("0.30")}, side_effect="payment")
        for problem in (MayHaveHappened("line cut"), ZeroDivisionError("no")):
            with pytest.raises(type(problem)):
                ledger.run(charge(run_id="full", tool=type(problem).__name__), Count(problem), side_effect="write")
        with pytest.raises(ApprovalPending):
            ledger.run(charge(run_id="full", tool="ask"), str, approval="required", wait=False)
        canceled = ledger.begin(charge(run_id="full", tool="later"), approval="required", wait=False)
        assert isinstance(canceled, AwaitingApproval)
        ledger.cancel(canceled.effect.id, by="ada", reason="no")
        denied = ledger.begin(charge(run_id="full", tool="never"), approval="required", wait=False)
        assert isinstance(denied, AwaitingApproval)
        ledger.deny(denied.approval.id, reason="no", by="ada")
        ledger.begin(charge(run_id="full", tool="under-way"))
        run.record("execution_succeeded", {"n": 1}, side_effect="notification", side_effect_key=MAIL, step="mail")
        run.artifact("s3://leads.csv", content=b"a,b", metadata={"rows": 3})
        run.hand_off("another", state=STATE, suggested="go on")
        ledger.start_run("delegates", agent="scout").delegate("researcher")
        failed = ledger.start_run("failed", agent="scout", parent="delegates")
        failed.fail("on purpose", state=[1, None, "x"])
        ledger.run(charge(run_id="forgotten"), Count({"id": 1}), side_effect="payment")
        ledger.erase(run_id="forgotten", fields=["args", "result"], by="ada", reason="asked to")
        ledger.start_run("forgotten", agent="scout").release()
        names = ("empty", "full", "failed", "forgotten")
        copies = [ledger.export_packet(name) for name in (*names, "delegates")]
        handed = [ledger.export_packet(name, to="ledger-0/default") for name in names]
        return [json.loads(json.dumps(packet)) for packet in (*handed, *copies)]


def test_the_schema_is_one_and_real_packets_keep_to_it(shapes: list[dict[str, Any]]) -> None:
    Draft202012Validator.check_schema(packet_schema())
    for packet in shapes:
        Draft202012Validator(packet_schema()).validate(packet)
        assert misshapen(packet, packet_schema(), "it") is None
    statuses = {effect["status"] for effect in shapes[1]["packet"]["effects"]}
    assert statuses == {"succeeded", "failed", "in_doubt", "denied", "canceled", "requires_approval"}


def test_every_field_of_a_packet_is_in_the_schema_and_on_its_page(shapes: list[dict[str, Any]]) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/packet.md").read_text()
    schema = packet_schema()

    def described(value: Any, asked: Any) -> Iterator[str]:
        asked = schema["$defs"][asked["$ref"].removeprefix("#/$defs/")] if "$ref" in asked else asked
        if isinstance(value, list) and "items" in asked:
            for one in value:
                yield from described(one, asked["items"])
        elif isinstance(value, dict) and "properties" in asked:
            assert set(value) == set(asked["properties"])
            for name, inner in value.items():
                yield name
                yield from described(inner, asked["properties"][name])

    names = {name for packet in shapes for name in described(packet, schema)}
    assert len(names) > 50
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_our_own_check_and_that_of_others_agree_on_every_broken_packet(shapes: list[dict[str, Any]]) -> None:
    theirs = Draft202012Validator(packet_schema())
    packet = shapes[1]
    refused = 0
    for path in leaves(packet):
        at = packet
        for name in path[:-1]:
            at = at[name]
        kept = at[path[-1]]
        for other in (None, 7, "x", []):
            at[path[-1]] = other
            is_refused = misshapen(packet, packet_schema(), "it") is not None
            refused += is_refused
            if other == 7 or path[1:2] == ("run",):  # theirs takes long
                assert is_refused == (not theirs.is_valid(packet)), (path, other)
        at[path[-1]] = kept
    assert refused > 200


def test_what_would_be_sent_again_is_held_in_another_ledger_and_keeps_its_turn(
    places: tuple[Driver, Driver], tmp_path: Path
) -> None:
    """The provider remembers a key from the first entry on, and the other ledger does not know when that was."""
    here, there = places
    run = started(here)
    words: dict[str, Any] = {"side_effect": "payment", "downstream": Idempotent(attempts=1)}
    call = charge(run_id="r1", dedupe="turn", turn="m1")
    with pytest.raises(ConnectionError):
        here.run(call, Count(ConnectionError("cut")), **words)
    assert [effect.on_crash for effect in here.effects()] == ["resend"]
    run.hand_off("another ledger")
    path = tmp_path / "run.packet"
    here.export_packet("r1", path, to=name_of(there))
    there.import_packet(path, key=key_of(here.ledger))
    (effect,) = there.effects()
    assert (effect.status, effect.on_crash, effect.turn) == ("in_doubt", "hold", "m1")
    resumed(there)
    handler = Count()
    with pytest.raises(EffectInDoubt):
        there.run(call, handler, **words)
    assert handler.entries == 0


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("runId",), 5, r"the file\.packet\.runId must be string, not int"),
        (("effects", 0, "status"), "ready", r"packet\.effects\[0\]\.status must be one of succeeded"),
        (("effects", 0, "key"), "xyz", r"effects\[0\]\.key must look like"),
        (("receipts", 0), {}, r"receipts\[0\] lacks eventId"),
        (("head",), None, r"packet\.head must be string"),
    ],
)
def test_a_packet_that_breaks_its_schema_is_refused_by_the_place(
    exported: dict[str, Any], elsewhere: Driver, path: tuple[Any, ...], value: Any, told: str
) -> None:
    at = exported["packet"]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises(BadCall, match=told):
        elsewhere.import_packet(exported, trust=True)
    assert elsewhere.effects() == []


def test_the_packet_has_the_documented_fields(exported: dict[str, Any]) -> None:
    documented = {
        "runId", "ledgerId", "checkpointEventId", "currentStep", "receipts", "artifacts", "unresolvedApprovals",
        "nonReplayableSideEffects", "suggestedNextAction", "schemaVersion",
    }  # fmt: skip
    assert documented <= set(exported["packet"])


def test_an_effect_under_way_is_in_doubt_in_the_packet(shell: Shell, elsewhere: Driver) -> None:
    ledger = shell.open(seal=True)
    run = started(ledger)
    ledger.begin(charge(run_id="r1"), side_effect="payment")
    run.hand_off("another")
    elsewhere.import_packet(ledger.export_packet("r1", to=name_of(elsewhere)), key=key_of(ledger.ledger))
    handler = Count()
    with pytest.raises(EffectInDoubt):
        elsewhere.run(charge(run_id="r1"), handler, side_effect="payment")
    assert handler.entries == 0
