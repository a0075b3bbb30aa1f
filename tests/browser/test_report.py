"""The report checks itself: a genuine one verifies, every change is caught and named, and nothing in it ever runs."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import PublicKey, parse_note, parse_vkey
from indelible.journal.exports.exporting import export
from indelible.journal.exports.selecting import Between, Disclosure, OfRun
from tests.browser.reports import Reader, record_in, report_text, verdict, with_record
from tests.journal.exported import key_of, store_of, work

Made = tuple[dict[str, str], str]
Report = dict[str, Any]


def test_a_key_is_given_by_hand(made: Made, open_report: Reader) -> None:
    reports, key = made
    page = open_report(reports["run"])
    page.fill("#key", key)
    page.click("button")
    page.wait_for_selector("#verdict[data-state=verified]")


@pytest.mark.parametrize("kind", ["run", "journal"])
def test_a_genuine_report_verifies_against_the_pinned_key(made: Made, open_report: Reader, kind: str) -> None:
    reports, key = made
    page = open_report(reports[kind], key=key)
    assert verdict(page) == "verified"
    assert page.locator(".bad").count() == 0
    assert page.locator("#checks li[data-state=good]").count() == 5
    assert "does not rule out" in page.inner_text("main")
    assert open_report.troubles == []


def test_a_period_verifies_and_says_that_runs_began_earlier(open_report: Reader, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "part.html", Between(4, 15)), key_of(ledger)
    page = open_report(text, key=key)
    assert verdict(page) == "verified"
    assert "begins before this file, at event" in page.inner_text("#runs")


def test_without_a_key_nothing_is_verified(made: Made, open_report: Reader) -> None:
    page = open_report(made[0]["run"])
    assert verdict(page) == "unkeyed"
    assert page.input_value("#key") == ""
    assert "proves nothing" in page.inner_text("#verdict")
    assert "never to be trusted" in page.inner_text("#claimed")


def test_a_key_may_come_with_the_link_and_is_told_so(made: Made, open_report: Reader) -> None:
    reports, key = made
    page = open_report(reports["run"], key=key)
    assert verdict(page) == "verified"
    assert "came with the link" in page.inner_text("#key-note")


def test_another_key_does_not_verify(made: Made, open_report: Reader) -> None:
    reports, key = made
    other = PublicKey(parse_vkey(key).name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    page = open_report(reports["run"], key=other.vkey)
    assert verdict(page) == "changed"
    assert "no signature by the key you gave" in page.inner_text("#verdict")


@pytest.mark.parametrize("raw", ["01" + "00" * 31, "00" * 32, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f"])
def test_a_weak_key_is_no_key(made: Made, open_report: Reader, raw: str) -> None:
    from hashlib import sha256

    name = parse_vkey(made[1]).name
    content = b"\1" + bytes.fromhex(raw)
    number = sha256(f"{name}\n".encode() + content).hexdigest()[:8]
    vkey = f"{name}+{number}+{b64encode(content).decode()}"
    page = open_report(made[0]["run"])
    page.fill("#key", vkey)
    page.click("button")
    page.wait_for_function("document.querySelector('#verdict-why').textContent.includes('no key that one person')")
    assert verdict(page) == "unkeyed"


@pytest.mark.parametrize("key", ["nonsense", "a+b+c", "name+00000000+AAAA", "{damaged}"])
def test_a_key_that_cannot_be_read_is_told(made: Made, open_report: Reader, key: str) -> None:
    name, number, rest = made[1].split("+", 2)
    damaged = f"{name}+{number[:-1]}{'0' if number[-1] != '0' else '1'}+{rest}"
    page = open_report(made[0]["run"])
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


def test_a_browser_without_ed25519_says_so_and_never_verified(made: Made, open_report: Reader) -> None:
    page = open_report(made[0]["run"], key=made[1], before=NO_ED25519)
    assert verdict(page) == "cannot"
    assert "Cannot check the signature here" in page.inner_text("#verdict")


def test_a_browser_without_cryptography_says_so(made: Made, open_report: Reader) -> None:
    page = open_report(made[0]["run"], before=NO_CRYPTOGRAPHY)
    assert verdict(page) == "cannot"


def test_withheld_values_are_told_and_no_change(open_report: Reader, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        hide = Disclosure(frozenset({"args"}))
        export(store_of(ledger), ledger.tenant, tmp_path / "part.html", form="html", disclosure=hide)
        key = key_of(ledger)
    text = (tmp_path / "part.html").read_text()
    page = open_report(text, key=key)
    assert verdict(page) == "verified"
    assert "not disclosed in this file" in page.inner_text("#runs")


def test_erased_values_are_told_as_erased_on_the_record(open_report: Reader, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        erased = {"basis": "request", "erased": [{"fields": ["args", "key"], "seq": 0}]}
        record(ledger, "order-1", "payload_erased", erased, erased=((0, "args"), (0, "key")))
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_report(text, key=key)
    assert verdict(page) == "verified"
    assert "2 values not shown: 2 erased on the record, 0 withheld" in page.inner_text("#checks")
    assert "erased, on the record" in page.inner_text("#runs")


def test_a_key_that_the_journal_revoked_no_longer_counts(open_report: Reader, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        key = key_of(ledger)
        record(ledger, JOURNAL_RUN, "key_revoked", {"key": key, "size": 3})
        ledger.seal()
        text = report_text(ledger, tmp_path / "all.html")
    page = open_report(text, key=key)
    assert verdict(page) == "changed"
    assert "no longer counts" in page.inner_text("#verdict")


def test_a_key_that_was_replaced_on_the_record_still_verifies_the_whole_journal(
    open_report: Reader, tmp_path: Path
) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", keys=tmp_path / "keys") as ledger:
        work(ledger)
        ledger.seal()
        key = key_of(ledger)
        ledger.rotate_keys()
        text = report_text(ledger, tmp_path / "all.html")
        assert key_of(ledger) != key
    assert verdict(open_report(text, key=key)) == "verified"


def test_68_a_report_verifies_with_every_key_that_was_pinned(open_report: Reader, tmp_path: Path) -> None:
    keys = []
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", keys=tmp_path / "keys") as ledger:
        work(ledger)
        for _ in range(3):
            ledger.seal()
            keys.append(key_of(ledger))
            ledger.rotate_keys()
        keys.append(key_of(ledger))
        texts = [
            report_text(ledger, tmp_path / f"{number}.html", selection)
            for number, selection in enumerate((OfRun("order-1"), Between(2, 9), None))
        ]
    for text in texts:
        for key in keys:
            assert verdict(open_report(text, key=key)) == "verified"
    spoiled = record_in(texts[0])
    note = parse_note(spoiled["head"])
    for place, line in enumerate(note.signatures):
        other = type(line)(line.name, line.key_id, bytes([line.content[0] ^ 1]) + line.content[1:])
        signatures = (*note.signatures[:place], other, *note.signatures[place + 1 :])
        text = with_record(texts[0], {**spoiled, "head": str(type(note)(note.text, signatures))})
        assert verdict(open_report(text, key=keys[0])) == "changed"


def test_a_journal_that_was_continued_says_so(open_report: Reader, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        work(ledger)
        record(ledger, JOURNAL_RUN, "log_continued", {"lost": {"root": "A" * 43 + "=", "size": 9}, "size": 3})
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_report(text, key=key)
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


def test_the_page_has_landmarks_and_names(made: Made, open_report: Reader) -> None:
    page = open_report(made[0]["run"])
    for role in ("banner", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_label("Public key of this journal").count() == 1
    assert page.get_by_role("status").count() == 1
    assert page.get_by_role("region", name="Run order-1").count() == 1
