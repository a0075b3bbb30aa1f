"""Secrets never reach the record: not by arguments, results, errors, reasons or evidence, on any store."""

from __future__ import annotations

import logging
import re
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_serializer, model_serializer

from indelible import (
    Claimed,
    Failed,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    Resource,
    RunningEffect,
    Succeeded,
    ToolCall,
    migrate,
)
from indelible.core.values.revive import plainly
from indelible.core.values.tags import Redacted
from indelible.errors import (
    BadCall,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    KeyReused,
    KeyUnusable,
    LeaseLost,
    NotRecordable,
    PolicyRefused,
    ResultNotRecorded,
)
from indelible.journal.exports.exporting import export
from indelible.stores import is_postgres
from indelible.testing.clock import FakeClock
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, types_of
from tests.waiting import PATIENCE, eventually

CANARY = "CANARY-hunter2-91"
CARD = "4242424242424242"
RULES = ["args.login.password", "*.secret", "card"]


def login(**changes: Any) -> ToolCall:
    args = {"login": {"user": "ada", "password": CANARY}, "note": f"card {CARD}", "n": 1, **changes}
    return ToolCall(tool="login", args=args, run_id="order-1")


@pytest.fixture
def ledger(shell: Shell) -> Driver:
    """A ledger with redaction rules of its own."""
    return shell.open(redact=RULES)


def stored(url: str) -> Iterator[tuple[str, bytes]]:
    """Gives everything that a store keeps, byte by byte: whole files, or every row of every table."""
    if not is_postgres(url):
        folder = Path(url.removeprefix("sqlite:///")).parent
        yield from ((str(path), path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        return
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'indelible%'").fetchall()
        for (table,) in tables:
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall():
                yield table, b"\0".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in row)


def assert_found_nowhere(url: str, *secrets: str) -> None:
    seen = 0
    for place, content in stored(url):
        seen += 1
        for secret in secrets:
            assert secret.encode() not in content, f"{secret} is in {place}"
    assert seen, "this looked at nothing"


def reprs_of(ledger: Driver) -> str:
    effects = ledger.effects(limit=1000)
    events = [event for effect in effects for event in ledger.events(effect.run_id)]
    return repr([(effect, effect.args, effect.detail, effect.outcome) for effect in effects]) + repr(events)


def test_the_handler_gets_the_callers_own_values_and_the_record_gets_marks(ledger: Driver) -> None:
    seen: list[Any] = []
    ledger.run(login(), lambda effect: seen.append(effect.args))
    assert seen[0]["login"]["password"] == CANARY
    assert seen[0]["note"] == f"card {CARD}"
    (effect,) = ledger.effects()
    assert isinstance(effect.args["login"]["password"], Redacted)
    assert effect.args["login"]["user"] == "ada"
    assert_found_nowhere(ledger.url, CANARY, CARD)
    assert CANARY not in reprs_of(ledger)
    assert CANARY not in repr(login())


def test_equal_secrets_are_the_same_call_and_different_ones_are_not(shell: Shell) -> None:
    handler = Count()
    for _ in range(2):
        shell.open(redact=RULES).run(login(), handler)
    assert handler.entries == 1
    shell.open(redact=RULES).run(login(login={"user": "ada", "password": "another"}), handler)
    assert handler.entries == 2


def test_a_different_secret_under_the_same_key_is_a_loud_conflict(ledger: Driver) -> None:
    def call(password: str) -> ToolCall:
        return ToolCall(tool="login", args={"user": "ada", "secret": password}, run_id="order-1", key=["user"])

    assert isinstance(ledger.begin(call("one")), Claimed)
    with pytest.raises(KeyReused):
        ledger.begin(call("two"))


def test_a_key_field_may_be_a_secret(ledger: Driver) -> None:
    handler = Count()
    for _ in range(2):
        ledger.run(ToolCall(tool="t", args={"secret": CANARY, "n": 1}, run_id="r", key=["secret"]), handler)
    assert handler.entries == 1
    assert_found_nowhere(ledger.url, CANARY)


def test_first_return_and_replay_are_the_same_recorded_form(ledger: Driver) -> None:
    result = {"ok": True, "secret": "CANARY-result-17", "echo": f"welcome {CANARY}", "card": int(CARD)}
    first = ledger.run(login(), lambda effect: result)
    again = ledger.run(login(), Count())
    assert first == again
    assert isinstance(first["secret"], Redacted)
    assert first["ok"] is True
    assert_found_nowhere(ledger.url, CANARY, CARD, "CANARY-result-17")


@pytest.mark.parametrize(("options", "kind"), [({"failed_on": ValueError}, EffectFailed), ({}, EffectInDoubt)])
def test_an_exception_is_raised_as_itself_and_recorded_without_its_secrets(
    ledger: Driver, options: dict[str, Any], kind: type[IndelibleError]
) -> None:
    with pytest.raises(ValueError, match=CANARY):
        ledger.run(login(), Count(ValueError(f"bad password {CANARY} for card {CARD}")), **options)
    with pytest.raises(kind) as replayed:
        ledger.run(login(), Count())
    assert CANARY not in told(replayed.value)
    assert "[redacted value " in str(replayed.value)
    assert_found_nowhere(ledger.url, CANARY, CARD)
    assert CANARY not in reprs_of(ledger)


def told(error: BaseException) -> str:
    return repr(error) + str(error) + "".join(traceback.format_exception_only(error))


@pytest.mark.parametrize("error", [NothingHappened, MayHaveHappened, TimeoutError])
def test_reasons_do_not_tell_secrets(ledger: Driver, error: type[Exception]) -> None:
    with pytest.raises(error):
        ledger.run(login(), Count(error(f"no answer for {CANARY}, {CARD}")))
    assert_found_nowhere(ledger.url, CANARY, CARD)
    if error is MayHaveHappened:
        with pytest.raises(EffectInDoubt) as refused:
            ledger.run(login(), Count())
        assert CANARY not in told(refused.value)


def test_what_a_probe_says_is_redacted_too(ledger: Driver) -> None:
    def run(probe: Any) -> Any:
        return ledger.run(login(), Count(), reconcile=probe)

    with pytest.raises(MayHaveHappened):
        ledger.run(login(), Count(MayHaveHappened("?")))

    def broken(effect: Any) -> Any:
        raise ValueError(f"cannot log in with {CANARY}")

    with pytest.raises(EffectInDoubt) as refused:
        run(broken)
    assert CANARY not in told(refused.value)
    with pytest.raises(EffectInDoubt) as nonsense:
        run(lambda effect: CANARY)
    assert CANARY not in told(nonsense.value)
    assert run(lambda effect: Succeeded({"echo": CANARY}))["echo"].startswith("[redacted value ")
    assert_found_nowhere(ledger.url, CANARY)


def test_what_people_say_is_redacted_by_the_detectors(ledger: Driver) -> None:
    with pytest.raises(MayHaveHappened):
        ledger.run(login(), Count(MayHaveHappened("?")))
    (effect,) = ledger.effects()
    ledger.settle(effect, Failed(f"card {CARD} closed"), by="ana", evidence=f"they said {CARD}")
    ledger.retry(effect.id, by="ana", reason=f"again with {CARD}")
    ledger.cancel(effect.id, by="ana", reason=f"stop {CARD}")
    asking = ledger.begin(login(n=2), approval="required")
    ledger.deny(asking.approval.id, by="ana", reason=f"not with {CARD}")
    assert_found_nowhere(ledger.url, CARD)


def test_a_result_committed_by_hand_is_redacted(ledger: Driver) -> None:
    begun = ledger.begin(login())
    value = ledger.commit(begun.claim, Succeeded({"secret": CANARY, "card": CARD}))
    assert isinstance(value["secret"], Redacted)
    other = ledger.begin(login(n=2, word="CANARY-word-5"), redact=["args.word"])
    ledger.commit(other.claim, Failed(f"no {CARD} for {CANARY} and CANARY-word-5", "CardError"))
    assert CANARY not in repr((begun, other))
    assert_found_nowhere(ledger.url, CANARY, CARD, "CANARY-word-5")


def test_a_late_result_is_redacted(ledger: Driver) -> None:
    gate = Gate({"echo": CANARY, "card": CARD})

    def slow(effect: RunningEffect) -> Any:
        return gate(effect)

    running = ledger.spawn("run", login(), slow, timeout=timedelta(milliseconds=50))
    with pytest.raises(TimeoutError):
        running.result(PATIENCE)
    gate.open()
    if ledger.kind != "async":  # the other one's handler is a coroutine, which the time limit has cancelled
        eventually(lambda: types_of(ledger)[-1] == "tool_call_finished")
        assert CANARY not in reprs_of(ledger)
    assert_found_nowhere(ledger.url, CANARY, CARD)


def test_the_late_result_of_an_older_attempt_is_redacted(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(redact=RULES, clock=clock)
    slow = ledger.begin(login(), on_crash="retry").claim
    clock.advance(LEASE)
    ledger.run(login(), Count("second"), on_crash="retry")
    with pytest.raises(LeaseLost):
        ledger.commit(slow, Succeeded({"echo": CANARY, "card": CARD}))
    assert types_of(ledger)[-1] == "tool_call_late"
    assert_found_nowhere(ledger.url, CANARY, CARD)


def test_a_result_that_cannot_be_recorded_tells_nothing(ledger: Driver) -> None:
    with pytest.raises(ResultNotRecorded) as refused:
        ledger.run(login(), Count({"x": {CANARY: {"a set"}}}))
    assert CANARY not in told(refused.value)
    assert_found_nowhere(ledger.url, CANARY)


@pytest.mark.parametrize("rule", [None, "args.salary", "*.salary", "args.pay"])
def test_an_amount_that_a_budget_adds_up_is_recorded_or_refused(shell: Shell, rule: str | None) -> None:
    amount = "7731992" if rule is None else "7731993"
    path = "pay.salary" if rule == "args.pay" else "salary"
    budget = {"name": "payroll", "sum": path, "limit": 10**9, "window": "1h"}
    policy = {"rules": [{"name": "all", "then": "allow"}], "budgets": [budget]}
    ledger = shell.open(policy=policy, **({} if rule is None else {"redact": [rule]}))
    args = {"pay": {"salary": int(amount)}} if rule == "args.pay" else {"salary": int(amount)}
    call = ToolCall(tool="pay", args=args, run_id="r")
    if rule is None:
        assert ledger.run(call, lambda effect: "paid") == "paid"
        return
    with pytest.raises(PolicyRefused):
        ledger.run(call, lambda effect: "paid")
    assert_found_nowhere(ledger.url, amount)


def test_the_rules_of_ledger_tool_and_call_add_up(shell: Shell) -> None:
    ledger = shell.open(redact=["card"])

    @ledger.tool(redact=["args.pin"])
    def pay(pin: str, note: str, token: str) -> str:
        return f"{pin} {note}"

    assert ledger.call(pay, "CANARY-pin-1", CARD, "CANARY-token-1") != ""
    ledger.run(pay.bind("CANARY-pin-2", CARD, "CANARY-token-2"), Count(), redact=["args.token"])
    assert_found_nowhere(ledger.url, CARD, "CANARY-pin-1", "CANARY-pin-2", "CANARY-token-2")


def test_an_approved_call_runs_with_the_secret_that_was_approved(ledger: Driver) -> None:
    question = ledger.begin(login(), approval="required")
    ledger.approve(question.approval.id, digest=question.approval.digest, by="ana")
    (asking,) = ledger.effects()
    seen: list[Any] = []
    ledger.run(login(), lambda effect: seen.append(effect.args["login"]["password"]))
    assert seen == [CANARY]
    mark = asking.args["login"]["password"]
    with pytest.raises(BadCall):  # an agent that read the mark cannot pass it for the secret
        ledger.begin(login(login={"user": "ada", "password": mark}), approval="required")


def test_nothing_of_it_is_logged_or_exported(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Ledger.open(sqlite_url, redact=RULES) as ledger:
        ledger.run(login(), lambda effect: {"secret": CANARY, "card": CARD})
        with pytest.raises(ValueError, match=CANARY):
            ledger.run(login(n=2), Count(ValueError(CANARY)))
        ledger.seal()
        for form in ("ndjson", "bundle", "html", "csv"):
            export(ledger._engine.store, "default", tmp_path / form, form=form)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"ndjson", "html", "csv", "manifest.json"} <= {path.name for path in written}
    for path in written:
        content = path.read_bytes()
        assert CANARY.encode() not in content, path
        assert CARD.encode() not in content, path
    assert CANARY not in caplog.text
    assert CARD not in caplog.text


# ── the key ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_kept_outside_the_database_for_its_owner_alone(
    sqlite_url: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path_factory.mktemp("keys")
    monkeypatch.setenv("INDELIBLE_KEYS", str(keys))
    with Ledger.open(sqlite_url, redact=RULES) as ledger:
        ledger.run(login(), Count())
    (kept,) = keys.rglob("redaction.key")
    assert kept.stat().st_mode & 0o777 == 0o600
    key = kept.read_text().strip()
    assert re.fullmatch("[0-9a-f]{64}", key)
    assert_found_nowhere(sqlite_url, key)
    found = list(stored(sqlite_url))
    assert found
    for place, content in found:
        assert bytes.fromhex(key) not in content, place


@pytest.mark.usefixtures("without_writer_keys")
def test_a_process_with_another_key_is_refused_for_it_would_run_calls_again(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Count()
    with Ledger.open(sqlite_url, redact=RULES) as ledger:
        ledger.run(login(), handler)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "elsewhere"))
    with Ledger.open(sqlite_url, redact=RULES) as ledger, pytest.raises(KeyUnusable, match=r"redaction\.key"):
        ledger.run(login(), handler)
    monkeypatch.setenv("INDELIBLE_REDACTION_KEY", "ab" * 32)
    with Ledger.open(sqlite_url, redact=RULES) as ledger, pytest.raises(KeyUnusable, match="another key"):
        ledger.run(login(), handler)
    assert handler.entries == 1


@pytest.mark.parametrize("bad", ["", "ab", "zz" * 32])
def test_a_damaged_key_is_refused(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    with Ledger.open(sqlite_url, redact=RULES) as ledger:
        ledger.run(login(), Count())
    (kept,) = (tmp_path / "keys").rglob("redaction.key")
    kept.write_text(bad)
    with Ledger.open(sqlite_url, redact=RULES) as ledger, pytest.raises(KeyUnusable, match="64 hexadecimal"):
        ledger.run(login(), Count())


def test_a_ledger_in_memory_has_a_key_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path))
    with Ledger.open(":memory:", redact=RULES) as ledger:
        handler = Count()
        for _ in range(2):
            ledger.run(login(), handler)
        assert handler.entries == 1
        assert isinstance(ledger.effects()[0].args["login"]["password"], Redacted)
    assert list(tmp_path.rglob("redaction.key")) == []


def test_a_ledger_without_rules_makes_no_key(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path))
    with Ledger.open(sqlite_url) as ledger:
        ledger.run(login(), Count())
    assert list(tmp_path.rglob("redaction.key")) == []


# ── what is not covered ──────────────────────────────────────────────────────────────────────────────────────────────


def _resource_of(args: dict[str, Any]) -> Resource:
    return Resource(namespace="bank", type="card", id=args["card"])


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ({"scope": "args.card"}, True),
        ({"turn": "args.card"}, True),
        ({"exclusive": _resource_of}, True),
        ({"resource": _resource_of}, False),
        ({"key": ["card"]}, False),
        ({"varies": ["card"]}, False),
        ({"subject": "args.card"}, False),
    ],
)
def test_95_what_is_made_of_a_redacted_argument_is_told_as_the_page_says(
    words: dict[str, Any], is_told: bool, store_url: str
) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False, run="order-1") as ledger:

        @ledger.tool(side_effect="payment", redact=["args.card"], **words)
        def pay(card: str, amount: int = 5) -> str:
            return "paid"

        assert pay(CANARY) == "paid"
    assert any(CANARY.encode() in content for _, content in stored(store_url)) is is_told


def test_95_a_probe_gets_marks_and_what_it_answers_by_itself_is_told_as_the_page_says(store_url: str) -> None:
    migrate(store_url)
    asked: list[Any] = []

    def lose(effect: RunningEffect) -> None:
        raise TimeoutError

    def find_out(effect: Any) -> Any:
        asked.append(effect.args["card"])
        return Succeeded({"echo": CANARY, "card": CANARY})

    with Ledger.open(store_url, seal=False) as ledger:
        words: dict[str, Any] = {
            "side_effect": "payment",
            "redact": ["args.card", "result.card"],
            "reconcile": find_out,
        }
        for run, is_made_again in (("a", True), ("b", False)):
            call = ToolCall(run_id=run, tool="pay", args={"card": CANARY})
            with pytest.raises(TimeoutError):
                ledger.run(call, lose, **words)
            (lost,) = ledger.effects(run_id=run)
            if is_made_again:
                ledger.run(call, lose, **words)
            else:
                ledger.reconcile(effects=[lost])
            value: Any = ledger.effects(run_id=run)[0].detail
            assert isinstance(value["card"], Redacted)
            assert (value["echo"] == CANARY) is not is_made_again
    assert [type(card) for card in asked] == [Redacted, Redacted]


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Named(NamedTuple):
    """Is recorded as a list, without its names."""

    number: str
    secret: Any


class Aliased(BaseModel):
    """Asks for other names in its dump."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)
    secret: str = Field(alias="code")


class Written(BaseModel):
    """Writes its field under another name."""

    secret: str

    @model_serializer
    def _written(self) -> dict[str, str]:
        return {"code": self.secret}


class Holding(BaseModel):
    """Holds objects, which its dump makes plain."""

    one: Named
    more: dict[str, Written]


@dataclass
class Around:
    """Holds objects."""

    inside: list[Named]


class Numbered(BaseModel):
    """Writes numbers as the names of what it holds."""

    lines: dict[int, Named]

    @field_serializer("lines")
    def _written(self, lines: dict[int, Named]) -> dict[str, Named]:
        return {str(number): line for number, line in lines.items()}


class Flat(BaseModel):
    """Writes what is inside of what it holds."""

    login: Written
    cards: deque[Named] = deque()

    @model_serializer
    def _written(self) -> dict[str, Any]:
        return {"flat": self.login.secret, "cards": [*self.cards]}


class Listed(BaseModel):
    """Writes a list for what is none."""

    cards: deque[Named]

    @field_serializer("cards")
    def _written(self, cards: deque[Named]) -> list[Named]:
        return [*cards]


class Many(RootModel[list[Named]]):
    """Is recorded as what it holds."""


OBJECTS: dict[str, Any] = {
    "a named tuple": Named("1", CANARY),
    "a named tuple in one": Named("1", Named(CANARY, {"deep": CANARY})),
    "a model with aliases": Aliased(secret=CANARY),
    "a model that writes itself": Written(secret=CANARY),
    "a model of objects": Holding(one=Named("1", CANARY), more={"a": Written(secret=CANARY)}),
    "a dataclass of objects": Around([Named("1", CANARY)]),
    "a model that writes numbers as names": Numbered(lines={1: Named("1", CANARY)}),
    "a model that writes what is inside": Flat(login=Written(secret=CANARY)),
    "a list of them": [Flat(login=Written(secret=CANARY))],
    "a model that writes a list": Listed(cards=deque([Named("1", CANARY)])),
    "a model of a list": Many([Named("1", CANARY)]),
}


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_95_a_result_is_recorded_without_a_field_that_a_rule_names(name: str, shell: Shell) -> None:
    """However the object is recorded: at a number, under an alias, or as its class writes it."""
    ledger, call = shell.open(redact=["*.secret"]), ToolCall(run_id="order-1", tool="look", args={})
    ledger.run(call, lambda effect: {"whole": OBJECTS[name]})
    assert ledger.effects()[0].status == "succeeded"
    assert_found_nowhere(shell.url, CANARY)


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_95_arguments_are_marked_or_refused_if_a_rule_names_a_field_of_theirs(name: str, shell: Shell) -> None:
    ledger, value = shell.open(redact=["*.secret"]), OBJECTS[name]
    handler = Count()
    with suppress(BadCall, NotRecordable):
        ledger.run(ToolCall(run_id="order-1", tool="look", args={"whole": value}), handler)
    assert len(ledger.effects()) == handler.entries
    assert_found_nowhere(shell.url, CANARY)


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_95_so_are_those_of_a_tool_as_objects_and_as_json(name: str, store_url: str) -> None:
    value = OBJECTS[name]
    migrate(store_url)
    with Ledger.open(store_url, seal=False, run="order-1", redact=["*.secret"]) as ledger:

        @ledger.tool
        def look(whole: Any) -> None: ...

        look.__wrapped__.__annotations__["whole"] = type(value)
        for said in (value, plainly(value)):
            with suppress(BadCall, NotRecordable):
                look(said)
            assert_found_nowhere(store_url, CANARY)


class Sparse(BaseModel):
    """Writes what it has, and nothing of what it has not."""

    id: str
    secret: str | None = None

    @model_serializer(mode="wrap")
    def _written(self, write: Any) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value is not None}


def test_95_a_field_without_a_value_hides_nothing_of_its_object(shell: Shell) -> None:
    ledger = shell.open(redact=["*.secret"])
    for _ in range(2):
        result = ledger.run(ToolCall(run_id="a", tool="look", args={}), lambda effect: Sparse(id="ch_1"))
        assert result == {"id": "ch_1"}


def test_95_a_path_leads_through_a_named_tuple_and_names_any_field_by_a_star(shell: Shell) -> None:
    ledger = shell.open(redact=["result.secret.deep", "result.other.*", "result.words[].number"])
    value = {"secret": 1}, Named("1", {"deep": CANARY, "kept": "x"})
    ledger.run(ToolCall(run_id="a", tool="look", args={}), lambda effect: value[1])
    ledger.run(ToolCall(run_id="b", tool="look", args={}), lambda effect: {"other": Named(CANARY, "")})
    ledger.run(ToolCall(run_id="c", tool="look", args={}), lambda effect: {"words": [Named(CANARY, "kept too")]})
    results = {one.run_id: one.detail_json for one in ledger.effects()}
    assert b"kept" in results["a"]
    assert b"kept too" in results["c"]
    assert_found_nowhere(shell.url, CANARY)
