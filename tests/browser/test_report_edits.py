"""Every change of a report is caught by the report itself, and named."""

from __future__ import annotations

import copy
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger
from indelible.core.events import event_hash
from indelible.core.journal.notes import Note, PublicKey, Signature, parse_note, parse_vkey, sign_note
from indelible.journal.exports.selecting import OfRun
from tests.browser.reports import Reader, record_in, report_text, rewrite, verdict, with_record
from tests.journal.exported import call, key_of

Made = tuple[dict[str, str], str]
Report = dict[str, Any]


def body_edit(number: int, old: str, new: str) -> Callable[[Report], None]:
    def edit(record: Report) -> None:
        text = b64decode(record["events"][number]["body"]).decode()
        assert old in text
        record["events"][number]["body"] = b64encode(text.replace(old, new, 1).encode()).decode()

    return edit


def flipped(text: str, place: int = 5) -> str:
    raw = bytearray(b64decode(text))
    raw[place % len(raw)] ^= 1
    return b64encode(raw).decode()


def rechained(record: Report) -> None:
    """Edits an event and repairs the chain after it, as somebody who can hash would."""
    before = None
    for number, event in enumerate(record["events"]):
        body = json.loads(b64decode(event["body"]))
        if number == 4:
            body["tool"] = "harmless.tool"
        if before is not None:
            body["prev"] = before
        raw = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        before = event_hash(raw)
        event["body"] = b64encode(raw).decode()


def a_payload(record: Report) -> dict[str, Any]:
    found: dict[str, Any] = next(event["payloads"][0] for event in record["events"] if event["payloads"])
    return found


def at(path: str, change: Callable[[Any], Any]) -> Callable[[Report], None]:
    """Changes one value, named by its path."""

    def edit(record: Report) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        target: Any = record
        for part in way:
            target = target[part]
        target[last] = change(target[last])

    return edit


def drop(number: int) -> Callable[[Report], None]:
    def edit(record: Report) -> None:
        resolve(record)
        del record["events"][number]
        record["manifest"] |= {
            "events": len(record["events"]),
            "payloads": sum(len(event["payloads"]) for event in record["events"]),
            "first": record["events"][0]["index"],
            "last": record["events"][-1]["index"],
        }

    return edit


def resolve(record: Report) -> None:
    """Writes every proof out in full, so that events can be moved."""
    nodes: list[str] = []
    for event in record["events"]:
        for place, one in enumerate(event["proof"]):
            if isinstance(one, str):
                nodes.append(one)
            else:
                event["proof"][place] = nodes[one]


def swap(record: Report) -> None:
    resolve(record)
    events = record["events"]
    events[3], events[4] = events[4], events[3]


def double(record: Report) -> None:
    resolve(record)
    record["events"].insert(3, copy.deepcopy(record["events"][3]))
    record["manifest"]["events"] += 1
    record["manifest"]["payloads"] += len(record["events"][3]["payloads"])


def double_payload(record: Report) -> None:
    payloads = record["events"][0]["payloads"]
    payloads.append(payloads[0])
    record["manifest"]["payloads"] += 1


def move_payload(record: Report) -> None:
    donor, taker = [event for event in record["events"] if event["payloads"]][:2]
    taker["payloads"].append(donor["payloads"].pop())


def head_line(number: int, new: Callable[[str], str]) -> Callable[[Report], None]:
    def edit(record: Report) -> None:
        lines = record["head"].split("\n")
        lines[number] = new(lines[number])
        record["head"] = "\n".join(lines)

    return edit


def forge_signature(line: str) -> str:
    dash, name, content = line.split(" ")
    return f"{dash} {name} {flipped(content, 40)}"


def resign(record: Report) -> None:
    """Signs a head of its own with another key of the same name."""
    key = Ed25519PrivateKey.generate()
    note = parse_note(record["head"])
    public = PublicKey(note.signatures[0].name, key.public_key().public_bytes_raw())
    record["head"] = str(sign_note(note.text, public, key.sign))


def manifest(name: str, value: Any) -> Callable[[Report], None]:
    return at(f"manifest.{name}", lambda _: value)


def inject(path: str) -> Callable[[Report], None]:
    def edit(record: Report) -> None:
        target: Any = record
        for part in path.split(".") if path else []:
            target = target[int(part) if part.isdigit() else part]
        target["injected"] = 1

    return edit


EDITS: dict[str, Callable[[Report], None]] = {
    "body: an actor": body_edit(0, '"id":"agent"', '"id":"angel"'),
    "body: a time": body_edit(1, '"at":"2', '"at":"3'),
    "body: a type": body_edit(2, "tool_call_started", "tool_call_entered"),
    "body: a status": body_edit(3, '"status":"in_doubt"', '"status":"succeeded"'),
    "body: a tool": body_edit(2, "stripe.refund", "stripe.charge"),
    "body: a link": body_edit(5, '"prev":"', '"prev":"0'),
    "body: a number": body_edit(5, '"seq":5', '"seq":6'),
    "body: a run": body_edit(5, '"run":"order-1"', '"run":"order-2"'),
    "body: a journal": body_edit(5, '"log":"', '"log":"x'),
    "body: a version": body_edit(5, '"v":1', '"v":2'),
    "body: a space": body_edit(5, ",", ", "),
    "body: an added member": body_edit(5, '"v":1', '"v":1,"w":2'),
    "body: no JSON": body_edit(5, "}", "]"),
    "body: no base64": at("events.4.body", lambda text: "!" + text),
    "body: empty": at("events.4.body", lambda _: ""),
    "body: the chain repaired": rechained,
    "event: the first is gone": drop(0),
    "event: a middle one is gone": drop(6),
    "event: the last is gone, uncounted": lambda record: record["events"].pop(),
    "event: two change places": swap,
    "event: one comes twice": double,
    "event: another place": at("events.3.index", lambda index: index + 1),
    "event: no place": at("events.3.index", str),
    "payload: a value": lambda record: a_payload(record).update(value=flipped(a_payload(record)["value"])),
    "payload: a salt": lambda record: a_payload(record).update(salt="00" * 32),
    "payload: a field": lambda record: a_payload(record).update(field="result"),
    "payload: a field of every object": lambda record: a_payload(record).update(field="constructor"),
    "payload: gone, uncounted": lambda record: record["events"][0]["payloads"].clear(),
    "payload: twice": double_payload,
    "payload: in another event": move_payload,
    "proof: a hash": at("events.0.proof.0", flipped),
    "proof: a number": at("events.2.proof.1", lambda _: 0),
    "proof: a number too large": at("events.2.proof.1", lambda _: 10_000),
    "proof: too short": lambda record: record["events"][-1]["proof"].pop(),
    "proof: too long": lambda record: record["events"][-1]["proof"].append(0),
    "proof: none": at("events.3.proof", lambda _: None),
    "head: another journal": head_line(0, lambda line: line + "x"),
    "head: a larger tree": head_line(1, lambda line: str(int(line) + 1)),
    "head: another root": head_line(2, flipped),
    "head: a forged signature": head_line(4, forge_signature),
    "head: a signature cut short": head_line(4, lambda line: line[:-8]),
    "head: no signature": head_line(4, lambda line: ""),
    "head: another key of the same name": resign,
    "head: gone": at("head", lambda _: ""),
    "manifest: events": manifest("events", 3),
    "manifest: payloads": manifest("payloads", 3),
    "manifest: withheld": manifest("withheld", 3),
    "manifest: first": manifest("first", 3),
    "manifest: last": manifest("last", 3),
    "manifest: origin": manifest("origin", "other/default"),
    "manifest: root": at("manifest.root", flipped),
    "manifest: size": manifest("size", 5),
    "manifest: run": manifest("run", "order-9"),
    "manifest: another kind": manifest("kind", "journal"),
    "manifest: no kind": manifest("kind", "gossip"),
    "manifest: format": manifest("format", "indelible/report/v2"),
    "manifest: a member gone": lambda record: record["manifest"].pop("origin"),
    "injected into the record": inject(""),
    "injected into the manifest": inject("manifest"),
    "injected into an event": inject("events.2"),
    "injected into a payload": inject("events.0.payloads.0"),
    "no events": at("events", lambda _: []),
    "events are none": at("events", lambda _: None),
}


# Each takes a third of a second, so one in six is tried every day, of every kind some; INDELIBLE_EDITS=all tries all.
TRIED = list(EDITS)[:: 1 if os.environ.get("INDELIBLE_EDITS") == "all" else 6]


@pytest.mark.parametrize("name", TRIED)
def test_every_edit_of_the_record_is_caught(made: Made, open_report: Reader, name: str) -> None:
    reports, key = made
    record = record_in(reports["run"])
    before = copy.deepcopy(record)
    EDITS[name](record)
    assert record != before
    page = open_report(with_record(reports["run"], record), key=key)
    assert verdict(page) == "changed"
    assert page.inner_text("#verdict-why")
    assert open_report.troubles == []


def test_66_a_record_of_another_tenant_is_not_verified_by_relabelling_its_signature(
    made: Made, open_report: Reader
) -> None:
    # One key signs the journals of all tenants: only the name in the line tells for which of them.
    reports, key = made
    record, ours = record_in(reports["run"]), parse_vkey(key)
    other = PublicKey(f"{ours.name}-2", ours.raw)
    page = open_report(with_record(reports["run"], record), key=other.vkey)
    assert (verdict(page), "Another journal" in page.inner_text("#verdict")) == ("changed", True)
    note = parse_note(record["head"])
    relabelled = tuple(Signature(other.name, other.id, one.content) for one in note.signatures)
    page = open_report(
        with_record(reports["run"], {**record, "head": str(Note(note.text, relabelled))}), key=other.vkey
    )
    assert (verdict(page), "Another journal" in page.inner_text("#verdict")) == ("changed", True)


def test_a_value_that_is_gone_from_a_whole_journal_is_missed(made: Made, open_report: Reader) -> None:
    reports, key = made
    record = record_in(reports["journal"])
    next(event for event in record["events"] if event["payloads"])["payloads"].pop()
    record["manifest"]["payloads"] -= 1
    page = open_report(with_record(reports["journal"], record), key=key)
    assert (verdict(page), "values are missing" in page.inner_text("#problems")) == ("changed", True)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "{", "1", '"</"'])
def test_a_record_that_is_none_is_never_verified(made: Made, open_report: Reader, text: str) -> None:
    reports, key = made
    page = open_report(with_record(reports["run"], text), key=key)
    assert verdict(page) == "changed"


def test_a_changed_event_is_a_red_row_with_expected_and_found(made: Made, open_report: Reader) -> None:
    reports, key = made
    record = record_in(reports["run"])
    EDITS["body: a status"](record)
    page = open_report(with_record(reports["run"], record), key=key)
    index = record["events"][3]["index"]
    assert f"The first bad entry is {index}." in page.inner_text("#verdict")
    row = page.locator(f"#entry-{index}")
    assert "bad" in str(row.get_attribute("class"))
    root = b64decode(record["manifest"]["root"]).hex()
    assert f"expected\n{root}" in row.inner_text()
    assert "found" in row.inner_text()


def test_a_cut_tail_of_a_run_is_told_as_not_ruled_out(made: Made, open_report: Reader) -> None:
    reports, key = made
    record = record_in(reports["run"])
    drop(-1)(record)
    page = open_report(with_record(reports["run"], record), key=key)
    assert verdict(page) == "verified"
    assert "Later events of this run that were left out" in page.inner_text("#open")


def test_a_cut_tail_of_a_whole_journal_is_caught(made: Made, open_report: Reader) -> None:
    reports, key = made
    record = record_in(reports["journal"])
    drop(-1)(record)
    page = open_report(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"
    assert "last events are missing" in page.inner_text("#problems")


def test_a_gap_that_no_chain_shows_is_caught_by_the_places(made: Made, open_report: Reader) -> None:
    """The last event of a run may go without breaking its chain; its place in the journal is empty then."""
    reports, key = made
    record = record_in(reports["journal"])
    runs = [json.loads(b64decode(event["body"]))["run"] for event in record["events"]]
    last = len(runs) - 1 - runs[::-1].index("order-1")
    assert last < len(runs) - 1
    drop(last)(record)
    page = open_report(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"
    assert "missing, doubled or out of order" in page.inner_text("#problems")


@pytest.mark.parametrize(
    "claim", [{"kind": "run", "run": "order-1"}, {"kind": "gossip"}], ids=["a run, with others in it", "no kind"]
)
def test_a_journal_cannot_pass_for_something_else(made: Made, open_report: Reader, claim: dict[str, str]) -> None:
    reports, key = made
    record = record_in(reports["journal"])
    record["manifest"] |= claim
    page = open_report(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"


FLAWS = {"prev": "1" * 64, "seq": 70, "log": "other/default", "v": 2, "run": "other", "commits": [], "actor": "ana"}


def flawed(ledger: Ledger, path: Path, member: str) -> None:
    """Does a little work in a run named like the member that then gets a wrong value, before it is signed."""
    ledger.run(call("note.write", member, n=1), lambda effect: 1)
    rewrite(ledger, str(path), member, lambda body: body.update({member: FLAWS[member]}))


@pytest.mark.usefixtures("without_writer_keys")
def test_what_was_signed_of_a_run_and_does_not_hold_together_is_caught(open_report: Reader, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}", seal=False) as ledger:
        ledger.run(call("note.write", "genuine", n=1), lambda effect: 1)
        for member in FLAWS:
            flawed(ledger, path, member)
        ledger.seal()
        key = key_of(ledger)
        texts = {run: report_text(ledger, tmp_path / f"{run}.html", OfRun(run)) for run in ("genuine", *FLAWS)}
    found = {run: verdict(open_report(text, key=key)) for run, text in texts.items()}
    assert found == {"genuine": "verified"} | dict.fromkeys(FLAWS, "changed")


@pytest.mark.usefixtures("without_writer_keys")
@pytest.mark.parametrize("member", FLAWS)
def test_what_was_signed_of_a_journal_and_does_not_hold_together_is_caught(
    open_report: Reader, tmp_path: Path, member: str
) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}", seal=False) as ledger:
        flawed(ledger, path, member)
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    assert verdict(open_report(text, key=key)) == "changed"
