"""Tools that run at the server: the agent holds no secret, and each call happens at most once."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from indelible import Actor, Failed, Ledger, NothingHappened, ToolCall, current_effect, migrate
from indelible.core.commands import Relinquish
from indelible.core.effects import walk
from indelible.core.effects.identity import digest_of
from indelible.core.effects.requests import Judged
from indelible.core.events import instant
from indelible.core.policy.verdicts import Verdict
from indelible.core.remote import replies
from indelible.core.remote.problems import name_of
from indelible.core.remote.wire import to_wire
from indelible.errors import (
    BadCall,
    IndelibleError,
    Misconfigured,
    NotPermitted,
    OutcomeUnknown,
    StillRunning,
    StoreUnavailable,
)
from indelible.server.app import create_app
from indelible.server.gateway import MOST_ANSWER_BYTES, Gateway
from indelible.server.gateway_tools import GatewayTool, load_tools
from indelible.server.ledgers import Ledgers
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.stores import open_store
from tests.server.serving import Served
from tests.waiting import PATIENCE, eventually, free_port

SECRET = "CANARY-secret-of-the-tool"
CALLS: list[dict[str, Any]] = []


def book(**args: Any) -> dict[str, Any]:
    CALLS.append(args)
    return {"booked": args}


def book_paid(amount: int, currency: str = "usd") -> str:
    CALLS.append({"amount": amount, "currency": currency})
    return "paid"


def unrecordable(now: Any = print) -> None: ...


async def book_later(**args: Any) -> str:
    return "later"


def end_all(how: str) -> None:
    """Ends its process, as a script does that is called as a function."""
    CALLS.append({"how": how})
    sys.exit(how)


async def end_all_later(how: str) -> None:
    CALLS.append({"how": how})
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "cancel": asyncio.CancelledError}[how]


def lose(order: str) -> None:
    CALLS.append({"order": order})
    raise ConnectionResetError("the answer was lost")


def roll_back(order: str) -> str:
    running = current_effect()
    assert running is not None
    with running.transaction() as connection:
        connection.execute("ROLLBACK")
        CALLS.append({"order": order})
    return f"booked {order}"


async def take_long(**args: Any) -> None:
    CALLS.append(args)
    await asyncio.Event().wait()


class Bank(http.server.BaseHTTPRequestHandler):
    """A tool on another machine: it remembers what it was sent, and answers as it is told."""

    seen: list[dict[str, Any]]
    answers: list[tuple[int, bytes]]
    is_inside: threading.Event
    may_go_on: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append({"headers": dict(self.headers), "args": json.loads(body)})
        self.is_inside.set()
        assert self.may_go_on.wait(PATIENCE)
        status, answer = self.answers.pop(0) if self.answers else (200, b'{"id": "ch_1"}')
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words: Any) -> None:
        """Says nothing."""


@pytest.fixture
def bank() -> Iterator[Any]:
    kind = type(
        "OneBank", (Bank,), {"seen": [], "answers": [], "is_inside": threading.Event(), "may_go_on": threading.Event()}
    )
    kind.may_go_on.set()  # type: ignore[attr-defined]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    kind.url = f"http://127.0.0.1:{server.server_port}/charge"  # type: ignore[attr-defined]
    yield kind
    server.shutdown()
    server.server_close()
    thread.join()


class Place:
    def __init__(self, url: str, tools: Path) -> None:
        migrate(url)
        self.url, self.store = url, open_store(url)
        self.gateway = Gateway(load_tools(tools, {"BANK": f"Bearer {SECRET}"}))
        self.served = Served(
            create_app(Ledgers(open_store(url), gateway=self.gateway, seal=False), Identity(self.store))
        )
        self.tokens = {
            scope: str(Credentials(self.store, "default").give(scope, (scope,), by=Actor("root"))[1])
            for scope in ("agent", "approver")
        }

    def post(self, tool: str, args: Any, who: str = "agent", headers: Any = None, **words: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **(headers or {})}
        url = f"{self.served.url}/v1/tools/{tool}/calls"
        return httpx2.post(
            url, json={"args": args, "run_id": "order-1", **words}, headers=headers, trust_env=False, timeout=PATIENCE
        )


TOOLS = """
[tools."bank.charge"]
url = "{url}"
side_effect = "payment"
description = "Charges a card."
headers = {{ Authorization = {{ env = "BANK" }} }}
[tools."bank.charge".schema]
type = "object"
additionalProperties = false
required = ["amount"]
properties = {{ amount = {{ type = "integer", maximum = 100 }} }}

[tools."bank.wire"]
url = "{url}"
approval = "required"

[tools."books.book"]
python = "tests.server.test_gateway:book"
key = ["order"]

[tools."bank.declared"]
url = "{url}"
refused = [402, 422]
nothing = [429]

[tools."bank.read"]
url = "{url}"
side_effect = "read"

[tools."bank.away"]
url = "{away}"
side_effect = "payment"

[tools."bank.keyed"]
url = "{url}"
downstream_window_s = 3600

[tools."bank.turns"]
url = "{url}"
dedupe = "turn"

[tools."bank.defaults"]
url = "{url}"
schema = {{ properties = {{ currency = {{ default = "usd" }} }} }}

[tools."bank.one"]
url = "{url}"
exclusive = {{ namespace = "shop", type = "order", id = "args.order" }}
varies = ["memo"]
added = {{ currency = "usd" }}

[tools."books.kept"]
python = "tests.server.test_gateway:book"
key = ["order"]
on_reuse = "replay"

[tools."books.paid"]
python = "tests.server.test_gateway:book_paid"

[tools."books.hidden"]
python = "tests.server.test_gateway:book_paid"
schema = {{ type = "object", properties = {{ amount = {{ type = "integer" }} }}, required = ["amount"] }}

[tools."books.closed"]
python = "tests.server.test_gateway:book_paid"
schema = {{ type = "object", properties = {{ amount = {{ type = "integer" }} }}, additionalProperties = false }}

[tools."books.later"]
python = "tests.server.test_gateway:book_later"

[tools."books.ends"]
python = "tests.server.test_gateway:end_all"

[tools."books.ends_later"]
python = "tests.server.test_gateway:end_all_later"

[tools."books.loses"]
python = "tests.server.test_gateway:lose"

[tools."books.rolled_back"]
python = "tests.server.test_gateway:roll_back"

[tools."books.long"]
python = "tests.server.test_gateway:take_long"
timeout_s = 0.05
"""


@pytest.fixture
def place(store_url: str, bank: Any, tmp_path: Path) -> Iterator[Place]:
    tools = tmp_path / "tools.toml"
    tools.write_text(TOOLS.format(url=bank.url, away=f"http://127.0.0.1:{free_port()}/away"))
    CALLS.clear()
    made = Place(store_url, tools)
    yield made
    bank.may_go_on.set()
    made.served.stop()
    made.store.close()


def test_a_call_runs_once_with_the_servers_secret_which_nobody_else_sees(place: Place, bank: Any) -> None:
    answers = [place.post("bank.charge", {"amount": 5}, run_id="order-1") for _ in range(3)]
    told = [one.json() for one in answers]
    assert [one.pop("replayed") for one in told] == [False, True, True]
    assert [one.headers.get("idempotent-replayed") for one in answers] == [None, "true", "true"]
    assert told[0] == told[1] == told[2]
    assert {word: told[0][word] for word in ("status", "value", "error")} == {
        "status": "succeeded",
        "value": {"id": "ch_1"},
        "error": None,
    }
    (sent,) = bank.seen
    assert sent["args"] == {"amount": 5}
    assert sent["headers"]["Authorization"] == f"Bearer {SECRET}"
    with Ledger.open(place.url) as ledger:
        (effect,) = ledger.effects()
        assert sent["headers"]["Idempotency-Key"] == effect.key
        assert sent["headers"]["Indelible-Fence"] == "1"
        assert (effect.side_effect, effect.status) == ("payment", "succeeded")
        assert (told[0]["effect_id"], told[0]["created_at"]) == (effect.id, instant(effect.created_at))
        told = [event.read() for event in ledger.events("order-1")]
        assert {one["actor"]["id"] for one in told} == {"agent"}
        assert SECRET not in str(told) + str(effect)
    assert SECRET not in "".join(one.text for one in answers)


def test_61_a_call_of_which_nothing_happened_is_made_under_the_same_idempotency_key(place: Place, bank: Any) -> None:
    keyed = {"Idempotency-Key": "k-1"}
    bank.answers += [(429, b"not now")]
    answers = [place.post("bank.declared", {"amount": 5}, headers=keyed) for _ in range(3)]
    assert [one.status_code for one in answers] == [503, 200, 200]
    assert answers[0].json()["type"] == "/problems/tool-unavailable"
    assert [one.headers.get("idempotent-replayed") for one in answers] == [None, None, "true"]
    assert len(bank.seen) == 2


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown, StillRunning])
def test_61_how_a_call_stood_is_no_answer_to_keep(
    place: Place, bank: Any, kind: type[IndelibleError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool was entered and its answer got lost on the way: the ledger knows the call again."""
    run, keyed = Gateway.run, {"Idempotency-Key": "k-1"}

    async def runs(*words: Any) -> Any:
        await run(*words)
        raise kind("not now")

    monkeypatch.setattr(Gateway, "run", runs)
    first = place.post("bank.charge", {"amount": 5}, headers=keyed)
    assert first.json()["type"] == f"/problems/{name_of(kind)}"
    monkeypatch.undo()
    again = place.post("bank.charge", {"amount": 5}, headers=keyed)
    assert (again.status_code, again.json()["value"], len(bank.seen)) == (200, {"id": "ch_1"}, 1)


def test_61_a_call_whose_server_died_is_asked_of_the_ledger(place: Place, bank: Any, monkeypatch: Any) -> None:
    async def dies(*words: Any) -> Any:
        raise asyncio.CancelledError

    keyed = {"Idempotency-Key": "k-1"}
    monkeypatch.setattr(Gateway, "run", dies)
    with contextlib.suppress(httpx2.HTTPError):
        place.post("bank.charge", {"amount": 5}, headers=keyed)
    monkeypatch.undo()
    assert place.post("bank.charge", {"amount": 5}, headers=keyed).json()["type"] == "/problems/still-running"
    monkeypatch.setattr(replies, "PATIENCE", timedelta(0))
    assert place.post("bank.charge", {"amount": 5}, headers=keyed).status_code == 200
    assert len(bank.seen) == 1


def test_61_a_call_that_was_approved_meanwhile_is_made_under_the_same_idempotency_key(place: Place, bank: Any) -> None:
    keyed = {"Idempotency-Key": "k-1"}
    asked, again = (place.post("bank.wire", {"amount": 5}, wait_s=0, headers=keyed) for _ in range(2))
    assert (asked.status_code, again.status_code) == (202, 202)
    with Ledger.open(place.url) as ledger:
        ledger.approve(asked.json()["approval"]["id"], digest=asked.json()["approval"]["digest"], by="ana")
    answers = [place.post("bank.wire", {"amount": 5}, wait_s=0, headers=keyed) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 200]
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert len(bank.seen) == 1


def test_what_the_schema_does_not_allow_is_refused_before_anything_is_recorded(place: Place, bank: Any) -> None:
    for args in ({}, {"amount": 101}, {"amount": "5"}, {"amount": 5, "to": "CANARY-me"}):
        refused = place.post("bank.charge", args)
        assert refused.status_code == 400
        assert "schema" in refused.json()["detail"]
        assert "CANARY" not in refused.text
    assert bank.seen == []
    with Ledger.open(place.url) as ledger:
        assert ledger.effects() == []


def test_a_person_is_asked_and_then_exactly_that_runs(place: Place, bank: Any) -> None:
    asked = place.post("bank.wire", {"to": "DE02"}, wait_s=0)
    assert asked.status_code == 202
    assert bank.seen == []
    question = asked.json()["approval"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(place.post, "bank.wire", {"to": "DE02"})
        with Ledger.open(place.served.url, token=place.tokens["approver"]) as person:
            person.approve(question["id"], digest=question["digest"], by="whoever")
        assert waiting.result().json()["value"] == {"id": "ch_1"}
    assert [sent["args"] for sent in bank.seen] == [{"to": "DE02"}]


UNIQUE = GatewayTool(name="t", words={}, schema={"properties": {"items": {"uniqueItems": True}}})


@pytest.mark.parametrize(
    ("items", "is_fine"),
    [
        ([{"n": n} for n in range(5000)], True),  # compared each with each, this took twenty seconds
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([1, True, "1", None, [1], [True], 0, False], True),
        ([[1], [1.0]], False),
        ("aa", True),
    ],
)
def test_repeats_are_found_without_comparing_each_with_each(items: Any, is_fine: bool) -> None:
    compared = Draft202012Validator(UNIQUE.schema).is_valid({"items": items[:50]})
    assert compared == is_fine, "as the library has it"
    if is_fine:
        UNIQUE.check({"items": items})
    else:
        with pytest.raises(BadCall, match=r"args.items does not fit the tool's schema \(uniqueItems\)"):
            UNIQUE.check({"items": items})


def test_an_edit_keeps_to_what_the_tool_takes(place: Place, bank: Any) -> None:
    with (
        Ledger.open(place.url) as inside,
        Ledger.open(place.served.url, token=place.tokens["approver"]) as person,
        httpx2.Client(headers={"Authorization": f"Bearer {place.tokens['approver']}"}, trust_env=False) as client,
    ):
        inside.apply_policy({"defaults": {"payment": "ask"}}, by="root")
        asked = place.post("bank.charge", {"amount": 5}, wait_s=0).json()["approval"]
        edit = {"args": {"amount": 5000}, "digest": asked["digest"]}
        refused = client.post(f"{place.served.url}/v1/approvals/{asked['id']}/edit", json=edit)
        assert (refused.status_code, "schema" in refused.text) == (400, True)
        with pytest.raises(BadCall, match="schema"):
            person.edit_approval(asked["id"], edit["args"], digest=asked["digest"], by="approver")
        # Who has the database itself is not asked what a tool takes; the tool is not given it all the same.
        edited = inside.edit_approval(asked["id"], edit["args"], digest=asked["digest"], by="ana")
        inside.approve(edited, digest=edited.digest, by="bob")
    assert place.post("bank.charge", {"amount": 5}).json()["status"] == "failed"
    assert bank.seen == []


# What the tool answers, the status of the effect then, and what a second call gets.
ANSWERS: list[tuple[tuple[int, bytes], str, str]] = [
    ((402, b"no money"), "in_doubt", "in_doubt"),
    ((404, b"a gateway's own"), "in_doubt", "in_doubt"),
    ((409, b"the second send of a retry"), "in_doubt", "in_doubt"),
    ((429, b"later"), "in_doubt", "in_doubt"),
    ((500, b"?"), "in_doubt", "in_doubt"),
    ((503, b"?"), "in_doubt", "in_doubt"),
    ((0, b""), "in_doubt", "in_doubt"),
    ((303, b"see there"), "in_doubt", "in_doubt"),
    ((200, b"x" * (MOST_ANSWER_BYTES + 1)), "in_doubt", "in_doubt"),
    ((200, b"plain words"), "succeeded", "succeeded"),
    ((200, b""), "succeeded", "succeeded"),
    ((200, b"[" * 100_000), "succeeded", "succeeded"),  # deeper than anybody reads, and done
]
DECLARED: list[tuple[tuple[int, bytes], str, str]] = [
    ((402, b"no money"), "failed", "failed"),
    ((422, b"no such card"), "failed", "failed"),
    ((429, b"later"), "ready", "succeeded"),
    ((404, b"a gateway's own"), "in_doubt", "in_doubt"),
    ((0, b""), "in_doubt", "in_doubt"),
]
HARMLESS: list[tuple[tuple[int, bytes], str, str]] = [
    ((404, b"no such thing"), "failed", "failed"),
    ((500, b"?"), "failed", "failed"),
    ((0, b""), "failed", "failed"),
]
TOLD = {
    "succeeded": (200, "succeeded"),
    "failed": (200, "failed"),
    "in_doubt": (409, "/problems/effect-in-doubt"),
    "ready": (503, "/problems/tool-unavailable"),
}


@pytest.mark.parametrize(
    ("tool", "answers"), [("bank.charge", ANSWERS), ("bank.declared", DECLARED), ("bank.read", HARMLESS)]
)
def test_37_a_status_decides_only_what_the_tools_file_says(
    place: Place, bank: Any, tool: str, answers: list[tuple[tuple[int, bytes], str, str]]
) -> None:
    """A lost answer was recorded failed, and a 429 of any proxy meant that nothing happened."""
    with Ledger.open(place.url) as ledger:
        for amount, (answer, first, again) in enumerate(answers):
            bank.answers.append(answer)
            for status in (first, again):
                told = place.post(tool, {"amount": amount})
                said = told.json()
                assert (told.status_code, said.get("type", said["status"])) == TOLD[status], (answer[:20], said)
                (effect,) = [one for one in ledger.effects() if one.args["amount"] == amount]
                assert effect.status == status, answer[:20]
    assert len(bank.seen) == len(answers) + sum(again != first for _, first, again in answers)


def test_37_what_is_in_doubt_keeps_its_budget_and_what_is_refused_gives_it_back(place: Place, bank: Any) -> None:
    with Ledger.open(place.url) as inside:
        budget = {"name": "money", "match": {"tool": "bank.*"}, "sum": "amount", "limit": 10, "window": "24h"}
        allowed = {"payment": "allow", "external_mutation": "allow"}
        inside.apply_policy({"budgets": [budget], "defaults": allowed}, by="root")
    for tool, answer, then in (("bank.charge", 404, 429), ("bank.declared", 402, 200)):
        bank.answers.append((answer, b"?"))
        assert place.post(tool, {"amount": 6}).status_code in (200, 409)
        next_one = place.post(tool, {"amount": 5}, run_id="another")
        assert next_one.status_code == then, (tool, next_one.text)
        if then == 429:
            assert next_one.json()["type"] == "/problems/budget-exceeded"
            with Ledger.open(place.url) as inside:
                (doubt,) = inside.effects(status="in_doubt")
                inside.settle(doubt, Failed("it was not done"), by="ana", evidence="looked")


def test_a_connection_that_was_never_made_leaves_the_call_ready(place: Place, bank: Any) -> None:
    with Ledger.open(place.url) as ledger:
        for attempt in (1, 2):
            told = place.post("bank.away", {"amount": 5})
            assert (told.status_code, told.json()["type"]) == (503, "/problems/tool-unavailable")
            assert [(one.status, one.attempt) for one in ledger.effects()] == [("ready", attempt)]
        place.gateway.tools["bank.away"] = replace(place.gateway.tools["bank.away"], url=bank.url)
        assert place.post("bank.away", {"amount": 5}).json()["status"] == "succeeded"
    assert [sent["headers"]["Indelible-Fence"] for sent in bank.seen] == ["3"]


def test_a_request_of_which_nothing_was_seen_may_have_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that traces nothing proves nothing, whatever it raises."""

    async def raises(*words: Any, **more: Any) -> Any:
        raise httpx2.ConnectError("refused")

    monkeypatch.setattr(Gateway, "_asked", raises)
    assert place.post("bank.charge", {"amount": 5}).json()["type"] == "/problems/effect-in-doubt"


def test_within_the_window_of_its_keys_a_provider_is_sent_the_same_again(place: Place, bank: Any) -> None:
    bank.answers += [(0, b""), (500, b"?")]
    assert place.post("bank.keyed", {"amount": 5}).json()["status"] == "succeeded"
    assert len({sent["headers"]["Idempotency-Key"] for sent in bank.seen}) == 1
    assert [sent["headers"]["Indelible-Fence"] for sent in bank.seen] == ["1", "2", "3"]


def test_38_defaults_are_judged(place: Place, bank: Any) -> None:
    with Ledger.open(place.url) as inside:
        rule = {"name": "no dollars", "match": {"args": {"currency": {"eq": "usd"}}}, "then": "refuse"}
        inside.apply_policy({"rules": [rule]}, by="root")
        for tool in ("bank.defaults", "books.paid"):
            refused = place.post(tool, {"amount": 5})
            assert (refused.status_code, refused.json()["type"]) == (403, "/problems/policy-refused")
    assert (bank.seen, CALLS) == ([], [])


def test_38_defaults_are_shown_to_the_approver_and_sent(place: Place, bank: Any) -> None:
    with Ledger.open(place.url) as inside:
        inside.apply_policy({"defaults": {"external_mutation": "ask"}}, by="root")
        for tool in ("bank.defaults", "books.paid"):
            question = place.post(tool, {"amount": 5}, wait_s=0).json()["approval"]
            same = place.post(tool, {"amount": 5, "currency": "usd"}, wait_s=0).json()["approval"]
            assert question["id"] == same["id"], "a default that is spelled out makes the same call"
            inside.approve(question["id"], digest=question["digest"], by="ana")
            assert place.post(tool, {"amount": 5}).json()["status"] == "succeeded"
        assert {str(effect.args) for effect in inside.effects()} == {"{'amount': 5, 'currency': 'usd'}"}
    assert [sent["args"] for sent in bank.seen] == [{"amount": 5, "currency": "usd"}]
    assert CALLS == [{"amount": 5, "currency": "usd"}]


@pytest.mark.parametrize("tool", ["books.hidden", "books.closed"])
def test_38_defaults_of_a_function_that_its_schema_does_not_list_are_judged_shown_and_edited(
    place: Place, bank: Any, tool: str
) -> None:
    with Ledger.open(place.url) as inside:
        rule = {"name": "no dollars", "match": {"args": {"currency": {"eq": "usd"}}}, "then": "refuse"}
        inside.apply_policy({"rules": [rule]}, by="root")
        assert place.post(tool, {"amount": 5}).json()["type"] == "/problems/policy-refused"
        inside.apply_policy({"defaults": {"external_mutation": "ask"}}, by="root")
        assert place.post(tool, {"amount": "5"}).status_code == 400
        if tool == "books.closed":
            assert place.post(tool, {"amount": 5, "currency": "usd"}).status_code == 400, "no caller may name it"
        # The server looks a new policy up at times, not for each call.
        eventually(lambda: "approval" in place.post(tool, {"amount": 5}, wait_s=0).json())
        question = place.post(tool, {"amount": 5}, wait_s=0).json()["approval"]
        view = inside.view_approval(question["id"], by="ana")
        assert view.args == {"amount": 5, "currency": "usd"}
        edited = inside.edit_approval(
            question["id"], {"amount": 4, "currency": "usd"}, digest=question["digest"], by="ana"
        )
        inside.approve(edited, digest=edited.digest, by="bob")
        assert place.post(tool, {"amount": 5}).json()["status"] == "succeeded"
    assert CALLS == [{"amount": 4, "currency": "usd"}]


def test_44_a_function_of_the_servers_is_entered_with_what_added_says(store_url: str, tmp_path: Path) -> None:
    """The recorded call has no currency. The tools file names the value that stands for it, or the call is refused."""
    table = """
[tools."{name}"]
python = "tests.server.test_gateway:book_paid"
{more}
"""
    tools = tmp_path / "tools.toml"
    tools.write_text(
        table.format(name="said", more='added = { currency = "eur" }')
        + table.format(name="unsaid", more='varies = ["currency"]')
    )
    CALLS.clear()
    migrate(store_url)
    with Ledger.open(store_url) as before:
        for name in ("said", "unsaid"):
            with pytest.raises(NothingHappened):
                before.run(ToolCall(tool=name, args={"amount": 5}, run_id="order-1"), _closed)
    made = Place(store_url, tools)
    try:
        assert made.post("said", {"amount": 5, "currency": "eur"}).json()["status"] == "succeeded"
        assert made.post("unsaid", {"amount": 5}).status_code != 200
    finally:
        made.served.stop()
        made.store.close()
    assert CALLS == [{"amount": 5, "currency": "eur"}]


def _closed(effect: Any) -> None:
    raise NothingHappened("the bank is closed")


def test_a_call_that_was_made_in_an_earlier_turn_is_asked_about(place: Place, bank: Any) -> None:
    words: dict[str, Any] = {"run_id": "chat", "wait_s": 0}
    for turn, status, replayed in (("m1", 200, False), ("m1", 200, True), ("m2", 202, None), (None, 200, True)):
        told = place.post("bank.turns", {"amount": 5}, **words, **({} if turn is None else {"turn": turn}))
        assert (told.status_code, told.json().get("replayed")) == (status, replayed), turn
    assert place.post("bank.charge", {"amount": 5}, turn="m1", dedupe="turn", **words).status_code == 200
    assert place.post("bank.charge", {"amount": 5}, turn="m2", dedupe="turn", **words).status_code == 202
    assert len(bank.seen) == 2


def test_the_file_says_what_is_one_call_and_what_excludes_another(place: Place, bank: Any) -> None:
    bank.answers.append((500, b"?"))
    assert place.post("bank.one", {"order": "1", "amount": 5}).status_code == 409
    busy = place.post("bank.one", {"order": "1", "amount": 6})
    assert (busy.status_code, busy.json()["type"]) == (409, "/problems/resource-busy")
    first = place.post("bank.one", {"order": "2", "amount": 5, "memo": "rent"})
    same = place.post("bank.one", {"order": "2", "amount": 5, "memo": "the rent", "currency": "usd"})
    assert (first.json()["replayed"], same.json()["replayed"]) == (False, True)
    assert place.post("bank.one", {"order": "2", "amount": 5, "currency": "eur"}).json()["replayed"] is False
    assert place.post("books.kept", {"order": 1, "note": "a"}).json()["replayed"] is False
    assert place.post("books.kept", {"order": 1, "note": "b"}).json()["replayed"] is True


def test_who_goes_away_does_not_stop_what_runs(place: Place, bank: Any) -> None:
    bank.may_go_on.clear()
    at, body = urlsplit(place.served.url), json.dumps({"args": {"amount": 7}, "run_id": "order-1"})
    headers = {"Authorization": f"Bearer {place.tokens['agent']}", "Content-Type": "application/json"}
    with contextlib.closing(http.client.HTTPConnection(str(at.hostname), at.port, timeout=PATIENCE)) as line:
        line.request("POST", "/v1/tools/bank.charge/calls", body, headers)
        assert bank.is_inside.wait(PATIENCE)
    bank.may_go_on.set()
    assert place.post("bank.charge", {"amount": 7}).json()["value"] == {"id": "ch_1"}
    assert len(bank.seen) == 1


def test_40_functions_run_here_too_and_their_key_fields_hold(place: Place) -> None:
    """The same key with other arguments got 200, for a deed that was never done."""
    first = place.post("books.book", {"order": 1, "note": "a"}).json()
    assert first["value"] == {"booked": {"order": 1, "note": "a"}}
    assert place.post("books.book", {"order": 1, "note": "a"}).json()["value"] == first["value"]
    other = place.post("books.book", {"order": 1, "note": "b"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/key-reused")
    assert (other.json()["effect_id"], other.json()["effect_status"]) == (first["effect_id"], "succeeded")
    assert other.json()["outcome"] == {"status": "succeeded", "value": first["value"]}
    assert other.json()["differing"] == {"note": {"recorded": "a", "given": "b"}}
    assert CALLS == [{"order": 1, "note": "a"}]
    assert place.post("books.later", {}).json()["value"] == "later"


def test_nor_can_it_claim_its_compensation(place: Place) -> None:
    """So it would say that the tool's work is undone."""
    with Ledger.open(place.served.url, token=place.tokens["agent"]) as agent:
        prepared = agent._prepare(ToolCall(tool="own", args={"effect": "eff_1"}, run_id="order-1"), {})
        opened = walk.opening(prepared, agent._mint, Judged(Verdict(decision="allow")))
    tool = "bank.charge.compensate"
    digest = digest_of(opened.ref.tenant, tool, opened.args_json, None)
    answer = httpx2.post(
        f"{place.served.url}/v1/store/apply",
        headers={"Authorization": f"Bearer {place.tokens['agent']}"},
        json={"commands": [to_wire(replace(opened, tool=tool, digest=digest))]},
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/not-permitted")


def test_an_agent_cannot_claim_a_tool_that_the_server_runs(place: Place) -> None:
    with Ledger.open(place.served.url, token=place.tokens["agent"]) as agent:
        with pytest.raises(NotPermitted, match="runs at the server"):
            agent.begin(ToolCall(tool="bank.charge", args={"amount": 5}, run_id="order-1"))
        assert agent.run(ToolCall(tool="own", args={}, run_id="order-1"), lambda effect: 1) == 1
    headers = {"Authorization": f"Bearer {place.tokens['agent']}"}
    begun = httpx2.post(
        f"{place.served.url}/v1/effects", json={"tool": "bank.charge"}, headers=headers, trust_env=False
    )
    assert begun.status_code == 403


def test_what_became_of_a_servers_tool_is_for_people_to_say(place: Place, bank: Any) -> None:
    bank.answers.append((500, b"?"))
    assert place.post("bank.charge", {"amount": 5}).status_code == 409
    with (
        Ledger.open(place.served.url, token=place.tokens["agent"]) as agent,
        Ledger.open(place.served.url, token=place.tokens["approver"]) as person,
        httpx2.Client(headers={"Authorization": f"Bearer {place.tokens['agent']}"}, trust_env=False) as client,
    ):
        (effect,) = agent.effects()
        path = f"{place.served.url}/v1/effects/{effect.id}"
        told = {"outcome": {"status": "failed", "error": "no"}, "evidence": "my word"}
        assert client.post(f"{path}/settle", json=told).status_code == 403
        assert client.post(f"{path}/retry", json={"reason": "again"}).status_code == 403
        with pytest.raises(NotPermitted):
            agent.settle(effect, Failed("no"), by="agent", evidence="my word")
        with pytest.raises(NotPermitted):
            agent.retry(effect, by="agent", reason="again")
        assert place.post("bank.charge", {"amount": 5}).status_code == 409, "it is as much in doubt as before"
        person.retry(effect, by="approver", reason="the bank has not heard of it")
    assert place.post("bank.charge", {"amount": 5}).json()["status"] == "succeeded"
    assert len(bank.seen) == 2


def test_tools_are_listed_without_where_they_are(place: Place, bank: Any) -> None:
    headers = {"Authorization": f"Bearer {place.tokens['agent']}"}
    listed = httpx2.get(f"{place.served.url}/v1/tools", headers=headers, trust_env=False)
    named = {tool["name"]: tool for tool in listed.json()["tools"]}
    assert {"bank.charge", "bank.wire", "books.book", "books.later"} <= set(named)
    assert named["bank.charge"]["schema"]["required"] == ["amount"]
    assert named["bank.wire"]["needs_approval"]
    assert bank.url not in listed.text
    assert SECRET not in listed.text
    assert place.post("nobody.knows", {}).status_code == 400
    assert place.post("bank.charge", {"amount": 5}, who="approver").status_code == 403


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("books.ends", {"how": "exit"}),
        ("books.ends_later", {"how": "exit"}),
        ("books.ends_later", {"how": "interrupt"}),
        ("books.ends_later", {"how": "cancel"}),
        ("books.long", {"order": "1"}),
    ],
)
def test_41_a_function_that_ends_its_process_or_takes_too_long_is_in_doubt_and_the_server_runs_on(
    place: Place, tool: str, args: dict[str, str]
) -> None:
    for _ in range(2):
        answer = place.post(tool, args)
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, "effect-in-doubt")
    assert [args] == CALLS
    assert place.post("books.later", {}).json()["value"] == "later"


def test_37_a_function_whose_doubt_cannot_be_written_may_have_happened(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider's answer is lost while another program holds the database: its row still says `processing`."""
    kind, applied = type(place.store), type(place.store).apply

    def apply(self: Any, tenant: str, commands: Any, known: Any) -> Any:
        if any(isinstance(command, Relinquish) for command in commands):
            raise StoreUnavailable("the database is locked")
        return applied(self, tenant, commands, known)

    monkeypatch.setattr(kind, "apply", apply)
    answer = place.post("books.loses", {"order": "1"})
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, "effect-in-doubt")
    assert CALLS == [{"order": "1"}]


def test_37_a_function_whose_report_is_refused_may_have_happened(place: Place) -> None:
    """The answer was 400 "The request is wrong", for a call that is in doubt."""
    for told in ("result-not-recorded", "effect-in-doubt"):
        answer = place.post("books.rolled_back", {"order": "1"})
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, told)
    assert CALLS == [{"order": "1"}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tools = 1", "nothing else"),
        ("[other]", "nothing else"),
        ("[tools", "cannot be read"),
        ('[tools.x]\nurl = "ftp://x"', "address such as"),
        ('[tools.x]\nurl = "https://x"\npython = "a:b"', "either url or python"),
        ('[tools.x]\npython = "no.such:thing"', "package.module:name"),
        ('[tools.x]\npython = "tests.server.test_gateway:SECRET"', "cannot be called"),
        ('[tools.x]\nurl = "https://x"\nwhere = 1', "some of"),
        ('[tools.x]\nurl = "https://x"\nside_effect = "some"', "side_effect"),
        ('[tools.x]\nurl = "https://x"\nschema = { type = "nothing" }', "no JSON Schema"),
        ('[tools.x]\nurl = "https://x"\nheaders = { A = { env = "NOT_SET" } }', "NOT_SET"),
        ('[tools.x]\nurl = "https://x"\nheaders = { A = 1 }', "is text"),
        ('[tools.x]\nurl = "https://x"\ntimeout_s = "soon"', "x:"),
        ('[tools."a b"]\nurl = "https://x"', "a b"),
        ('[tools.x]\nurl = "https://x"\nrefused = [200]', "refused"),
        ('[tools.x]\nurl = "https://x"\nrefused = 422', "refused"),
        ('[tools.x]\nurl = "https://x"\nnothing = ["429"]', "nothing"),
        ('[tools.x]\nurl = "https://x"\nrefused = [429]\nnothing = [429]', "either"),
        ('[tools.x]\npython = "tests.server.test_gateway:book"\nrefused = [422]', "refused"),
        ('[tools.x]\npython = "tests.server.test_gateway:book"\nheaders = { A = "b" }', "headers is for"),
        ('[tools.x]\npython = "tests.server.test_gateway:unrecordable"', "default"),
        ('[tools.x]\nurl = "https://x"\ndedupe = "call"', "dedupe"),
        ('[tools.x]\nurl = "https://x"\nkey = "order"', "key"),
        ('[tools.x]\nurl = "https://x"\nvaries = "memo"', "varies"),
        ('[tools.x]\nurl = "https://x"\nadded = ["currency"]', "added"),
        ('[tools.x]\nurl = "https://x"\nexclusive = "order"', "exclusive"),
        ('[tools.x]\nurl = "https://x"\ndownstream_window_s = 0', "window"),
        ('[tools.x]\nurl = "https://x"\ndownstream_window_s = 9\non_crash = "retry"', "on_crash"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_place(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=why):
        load_tools(path, {})
