"""The report checks itself: a genuine one verifies, every change is caught and named, and nothing in it ever runs."""

from __future__ import annotations

import copy
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Actor, AwaitingApproval, Ledger
from indelible.core.commands import Record
from indelible.core.effects import SYSTEM
from indelible.core.events import event_hash, facts_json
from indelible.core.journal import JOURNAL_RUN
from indelible.core.notes import PublicKey, parse_note, parse_vkey, sign_note
from indelible.journal.exporting import export
from indelible.journal.selecting import Between, Disclosure, OfRun
from tests.browser.pages import Open, record_in, report_text, verdict, with_record
from tests.journal.exported import call, key_of, store_of, work

Made = tuple[dict[str, str], str]
Report = dict[str, Any]


@pytest.mark.parametrize("kind", ["run", "journal"])
def test_a_genuine_report_verifies_against_the_pinned_key(made: Made, open_page: Open, kind: str) -> None:
    reports, key = made
    page = open_page(reports[kind], key=key)
    assert verdict(page) == "verified"
    assert page.locator(".bad").count() == 0
    assert page.locator("#checks li[data-state=good]").count() == 5
    assert "does not rule out" in page.inner_text("main")
    assert page.troubles == [page.url]  # type: ignore[attr-defined]


def test_a_period_verifies_and_says_that_runs_began_earlier(open_page: Open, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "part.html", Between(4, 15)), key_of(ledger)
    page = open_page(text, key=key)
    assert verdict(page) == "verified"
    assert "begins before this file, at event" in page.inner_text("#runs")


def test_without_a_key_nothing_is_verified(made: Made, open_page: Open) -> None:
    page = open_page(made[0]["run"])
    assert verdict(page) == "unkeyed"
    assert page.input_value("#key") == ""
    assert "proves nothing" in page.inner_text("#verdict")
    assert "never to be trusted" in page.inner_text("#claimed")


def test_a_key_may_come_with_the_link_and_is_told_so(made: Made, open_page: Open) -> None:
    from urllib.parse import quote

    reports, key = made
    page = open_page(reports["run"], fragment=f"#key={quote(key, safe='')}")
    assert verdict(page) == "verified"
    assert "came with the link" in page.inner_text("#key-note")


def test_another_key_does_not_verify(made: Made, open_page: Open) -> None:
    reports, key = made
    other = PublicKey(parse_vkey(key).name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    page = open_page(reports["run"], key=other.vkey)
    assert verdict(page) == "changed"
    assert "no signature by the key you gave" in page.inner_text("#verdict")


@pytest.mark.parametrize("raw", ["01" + "00" * 31, "00" * 32, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f"])
def test_a_weak_key_is_no_key(made: Made, open_page: Open, raw: str) -> None:
    from hashlib import sha256

    name = parse_vkey(made[1]).name
    content = b"\1" + bytes.fromhex(raw)
    number = sha256(f"{name}\n".encode() + content).hexdigest()[:8]
    vkey = f"{name}+{number}+{b64encode(content).decode()}"
    page = open_page(made[0]["run"])
    page.fill("#key", vkey)
    page.click("button")
    page.wait_for_function("document.querySelector('#verdict-why').textContent.includes('no key that one person')")
    assert verdict(page) == "unkeyed"


@pytest.mark.parametrize("key", ["nonsense", "a+b+c", "name+00000000+AAAA", "{damaged}"])
def test_a_key_that_cannot_be_read_is_told(made: Made, open_page: Open, key: str) -> None:
    name, number, rest = made[1].split("+", 2)
    damaged = f"{name}+{number[:-1]}{'0' if number[-1] != '0' else '1'}+{rest}"
    page = open_page(made[0]["run"])
    page.fill("#key", damaged if key == "{damaged}" else key)
    page.click("button")
    page.wait_for_function("document.querySelector('#verdict-word').textContent.includes('no usable key')")
    assert verdict(page) == "unkeyed"


NO_ED25519 = """
const importKey = crypto.subtle.importKey.bind(crypto.subtle);
crypto.subtle.importKey = (form, key, algorithm, ...rest) => algorithm === "Ed25519"
  ? Promise.reject(new DOMException("", "NotSupportedError"))
  : importKey(form, key, algorithm, ...rest);
"""
NO_CRYPTOGRAPHY = "Object.defineProperty(Crypto.prototype, 'subtle', { get: () => undefined });"


def test_a_browser_without_ed25519_says_so_and_never_verified(made: Made, open_page: Open) -> None:
    page = open_page(made[0]["run"], key=made[1], before=NO_ED25519)
    assert verdict(page) == "cannot"
    assert "Cannot check the signature here" in page.inner_text("#verdict")


def test_a_browser_without_cryptography_says_so(made: Made, open_page: Open) -> None:
    page = open_page(made[0]["run"], before=NO_CRYPTOGRAPHY)
    assert verdict(page) == "cannot"


# ── tampering ────────────────────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_of_the_record_is_caught(made: Made, open_page: Open, name: str) -> None:
    reports, key = made
    record = record_in(reports["run"])
    before = copy.deepcopy(record)
    EDITS[name](record)
    assert record != before
    page = open_page(with_record(reports["run"], record), key=key)
    assert verdict(page) == "changed"
    assert page.inner_text("#verdict-why")
    assert page.troubles == [page.url]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "{", "1", '"</"'])
def test_a_record_that_is_none_is_never_verified(made: Made, open_page: Open, text: str) -> None:
    reports, key = made
    page = open_page(with_record(reports["run"], text), key=key)
    assert verdict(page) == "changed"


def test_a_changed_event_is_a_red_row_with_expected_and_found(made: Made, open_page: Open) -> None:
    reports, key = made
    record = record_in(reports["run"])
    EDITS["body: a status"](record)
    page = open_page(with_record(reports["run"], record), key=key)
    index = record["events"][3]["index"]
    assert f"The first bad entry is {index}." in page.inner_text("#verdict")
    row = page.locator(f"#entry-{index}")
    assert "bad" in str(row.get_attribute("class"))
    root = b64decode(record["manifest"]["root"]).hex()
    assert f"expected\n{root}" in row.inner_text()
    assert "found" in row.inner_text()


def test_a_cut_tail_of_a_run_is_told_as_not_ruled_out(made: Made, open_page: Open) -> None:
    reports, key = made
    record = record_in(reports["run"])
    drop(-1)(record)
    page = open_page(with_record(reports["run"], record), key=key)
    assert verdict(page) == "verified"
    assert "Later events of this run that were left out" in page.inner_text("#open")


def test_a_cut_tail_of_a_whole_journal_is_caught(made: Made, open_page: Open) -> None:
    reports, key = made
    record = record_in(reports["journal"])
    drop(-1)(record)
    page = open_page(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"
    assert "last events are missing" in page.inner_text("#problems")


def test_a_gap_that_no_chain_shows_is_caught_by_the_places(made: Made, open_page: Open) -> None:
    """The last event of a run may go without breaking its chain; its place in the journal is empty then."""
    reports, key = made
    record = record_in(reports["journal"])
    runs = [json.loads(b64decode(event["body"]))["run"] for event in record["events"]]
    last = len(runs) - 1 - runs[::-1].index("order-1")
    assert last < len(runs) - 1
    drop(last)(record)
    page = open_page(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"
    assert "missing, doubled or out of order" in page.inner_text("#problems")


@pytest.mark.parametrize(
    "claim", [{"kind": "run", "run": "order-1"}, {"kind": "gossip"}], ids=["a run, with others in it", "no kind"]
)
def test_a_journal_cannot_pass_for_something_else(made: Made, open_page: Open, claim: dict[str, str]) -> None:
    reports, key = made
    record = record_in(reports["journal"])
    record["manifest"] |= claim
    page = open_page(with_record(reports["journal"], record), key=key)
    assert verdict(page) == "changed"


FLAWS = {"prev": "1" * 64, "seq": 70, "log": "other/default", "v": 2, "run": "other", "commits": [], "actor": "ana"}


@pytest.mark.parametrize("member", FLAWS)
@pytest.mark.parametrize("selection", [None, OfRun("order-2")], ids=["journal", "run"])
def test_what_was_signed_and_still_does_not_hold_together_is_caught(
    open_page: Open, tmp_path: Path, member: str, selection: OfRun | None
) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}", seal=False) as ledger:
        work(ledger)
        rewrite(ledger, str(path), "order-2", lambda body: body.update({member: FLAWS[member]}))
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html", selection), key_of(ledger)
    assert verdict(open_page(text, key=key)) == "changed"


def test_withheld_values_are_told_and_no_change(open_page: Open, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        hide = Disclosure(frozenset({"args"}))
        export(store_of(ledger), ledger.tenant, tmp_path / "part.html", form="html", disclosure=hide)
        key = key_of(ledger)
    text = (tmp_path / "part.html").read_text()
    page = open_page(text, key=key)
    assert verdict(page) == "verified"
    assert "not disclosed in this file" in page.inner_text("#runs")


def test_erased_values_are_told_as_erased_on_the_record(open_page: Open, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        erased = {"basis": "request", "erased": [{"fields": ["args", "key"], "seq": 0}]}
        record(ledger, "order-1", "payload_erased", erased, erased=((0, "args"), (0, "key")))
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_page(text, key=key)
    assert verdict(page) == "verified"
    assert "2 values not shown: 2 erased on the record, 0 withheld" in page.inner_text("#checks")
    assert "erased, on the record" in page.inner_text("#runs")


def test_a_key_that_the_journal_revoked_or_replaced_no_longer_counts(open_page: Open, tmp_path: Path) -> None:
    for number, make in enumerate(("key_revoked", "key_rotated")):
        with Ledger.open(f"sqlite:///{tmp_path / f'ledger-{number}.db'}") as ledger:
            work(ledger)
            ledger.seal()
            key = key_of(ledger)
            facts: dict[str, Any] = {"key": key, "size": 3}
            if make == "key_rotated":
                facts = {"new": "x", "new_signature": "x", "old": key, "old_signature": "x"}
            record(ledger, JOURNAL_RUN, make, facts)
            ledger.seal()
            text = report_text(ledger, tmp_path / f"{number}.html")
        page = open_page(text, key=key)
        assert verdict(page) == "changed"
        assert "no longer counts" in page.inner_text("#verdict")


def test_a_journal_that_was_continued_says_so(open_page: Open, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        record(ledger, JOURNAL_RUN, "log_continued", {"lost": {"root": "x", "size": 9}, "size": 3})
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_page(text, key=key)
    assert verdict(page) == "verified"
    assert "the journal was continued after a loss" in page.inner_text("#checks")


def record(ledger: Ledger, run_id: str, event_type: str, facts: dict[str, Any], **words: Any) -> None:
    """Writes an event that is about no effect."""
    stamp = ledger._engine.mint.stamp(SYSTEM)
    command = Record(
        tenant=ledger.tenant,
        run_id=run_id,
        stamp=stamp,
        event_type=event_type,
        facts=facts_json(facts),
        **words,
    )
    store_of(ledger).apply(ledger.tenant, [command], [None])


# ── markup, scripts and unseen characters in what agents wrote ───────────────────────────────────────────────────────

ATTACKS = [
    "<script>hit()</script>",
    "</script><script>hit()</script>",
    "</style><script>hit()</script>",
    "</title><img src=x onerror=hit()>",
    '"><img src=x onerror=hit()>',
    "'><svg onload=hit()>",
    "<svg><animate onbegin=hit() attributeName=x dur=1s>",
    "<iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    "<a href='javascript:hit()'>x</a>",
    "javascript:hit()",
    "<details open ontoggle=hit()>",
    "<input autofocus onfocus=hit()>",
    "<math><mtext></mtext><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=hit()&gt;'>",
    "<meta http-equiv=refresh content='0;url=https://example.org/'>",
    "<base href=https://example.org/><link rel=stylesheet href=//example.org/x.css>",
    "<!--<script>hit()//--></script>",
    "]]><script>hit()</script>",
    "{{constructor.constructor('hit()')()}} ${hit()} `${hit()}`",
    "\u2028hit()\u2029 \u202ehit()\u202c \u200b\ufeff\u2066 \x1b[2J\x07",
    "__proto__",
]


def forged(ledger: Ledger, attack: str, number: int, path: str) -> None:
    """Writes an event whose every text is an attack."""
    begun = ledger.begin(call("tool", f"forged-{number}", x=attack), approval="required", side_effect="write")
    assert isinstance(begun, AwaitingApproval)

    def put(body: dict[str, Any]) -> None:
        body |= dict.fromkeys(("tool", "type", "status", "side_effect", "effect", "on_crash", "writer"), attack)
        body |= {"actor": {"id": attack, "kind": attack, "via": attack}, "facts": {attack: [attack]}}
        body["commits"][attack] = attack

    rewrite(ledger, path, f"forged-{number}", put)


def rewrite(ledger: Ledger, path: str, run_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the last event of a run behind the ledger's back, before it is sealed: so the change gets signed."""
    event = ledger.events(run_id)[-1]
    body = event.read()
    change(body)
    raw = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    place = (bytes.fromhex(event_hash(raw)), run_id, event.seq)
    connection = apsw.Connection(path)
    connection.execute("UPDATE indelible_events SET body = ?, hash = ? WHERE run_id = ? AND seq = ?", (raw, *place))
    connection.execute("UPDATE indelible_pending SET hash = ? WHERE run_id = ? AND seq = ?", place)
    connection.close()


def harmful(ledger: Ledger, attack: str) -> None:
    """Does what an agent may do: attacks in arguments, results, errors, names and reasons."""

    def fail(effect: object) -> None:
        raise ValueError(attack)

    run_id = f"run {attack}"
    ledger.run(call("note", run_id, **{"text": attack, attack: attack}), lambda effect: {attack: attack})
    with pytest.raises(ValueError):
        ledger.run(call("fail", run_id, x=1), fail, side_effect="none")
    begun = ledger.begin(call("ask", run_id, x=1), approval="required")
    assert isinstance(begun, AwaitingApproval)
    ledger.deny(begun.effect, digest=begun.effect.digest, by=Actor(attack), reason=attack)


def test_nothing_that_agents_wrote_ever_runs(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}", seal=False) as ledger:
        for number, attack in enumerate(ATTACKS):
            harmful(ledger, attack)
            forged(ledger, attack, number, str(path))
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_page(text, key=key)
    assert verdict(page) == "verified"
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_function(
        "document.querySelectorAll('.event').length === document.querySelectorAll('.timeline > li').length"
    )
    assert page.evaluate("globalThis.wasHit === undefined")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    allowed = "img, svg, iframe, a[href]:not([href^='#']), link, base, math, input:not(#key), meta[http-equiv=refresh]"
    assert page.evaluate(f"document.querySelectorAll({json.dumps(allowed)}).length") == 0
    assert page.troubles == [page.url]  # type: ignore[attr-defined]
    shown = page.inner_text("body")
    assert "<script>hit()</script>" in shown
    assert not set("\u2028\u2029\u202e\u202c\u200b\ufeff\u2066\x1b\x07") & set(shown)
    assert "\\u202e" in shown


def test_a_script_put_into_the_page_does_not_run(made: Made, open_page: Open) -> None:
    """The policy stops a script that was added; whoever can also change the policy can change everything."""
    text = made[0]["run"].replace("</main>", "<script>hit()</script><img src=x onerror=hit()></main>")
    page = open_page(text)
    assert page.evaluate("globalThis.wasHit === undefined")


def test_the_page_has_landmarks_and_names(made: Made, open_page: Open) -> None:
    page = open_page(made[0]["run"])
    for role in ("banner", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_label("Public key of this journal").count() == 1
    assert page.get_by_role("status").count() == 1
    assert page.get_by_role("region", name="Run order-1").count() == 1
