"""The report's file: self-contained, one script and no other, and nothing of the record in clear.

Whether it finds tampering is tested in a real browser: see tests/browser.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.core.journal.merkle import leaf_hash, root_by_inclusion
from indelible.core.journal.notes import parse_head, parse_note
from indelible.errors import BadCall
from indelible.journal.exports import html_report
from indelible.journal.exports.exporting import export
from indelible.journal.exports.selecting import Disclosure, OfRun
from tests.journal.exported import call, store_of, work

XSS_RUN = "</script><script>alert(1)</script><img src=x onerror=alert(1)> {{script}} {{record}}"


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url) as ledger:
        work(ledger)
        ledger.run(call("note", XSS_RUN, x=1), lambda effect: 1)
        ledger.seal()
        yield ledger


class Page(HTMLParser):
    """Collects what a browser would run or load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.is_inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self.is_inside = True

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = False

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.texts[-1] += data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(found, text) for (name, found), text in zip(self.elements, self.texts, strict=True) if name == tag]


def report(ledger: Ledger, out: Path, **words: Any) -> tuple[Page, dict[str, Any]]:
    export(store_of(ledger), ledger.tenant, out, form="html", **words)
    page = Page(out.read_text(encoding="utf-8"))
    (record,) = [text for found, text in page.of("script") if found.get("id") == "record"]
    return page, json.loads(record)


def test_only_the_scripts_and_styles_it_came_with_may_run(ledger: Ledger, tmp_path: Path) -> None:
    page, _ = report(ledger, tmp_path / "report.html")
    (policy,) = [found["content"] for found, _ in page.of("meta") if found.get("http-equiv")]
    assert policy is not None
    (script,) = [text for found, text in page.of("script") if not found]
    ((_, style),) = page.of("style")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'",
        "style-src": f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_is_loaded_and_no_attribute_runs(ledger: Ledger, tmp_path: Path) -> None:
    page, _ = report(ledger, tmp_path / "report.html")
    names = [name for name, _ in page.elements]
    assert names.count("script") == 2
    assert not {"link", "img", "iframe", "object", "embed", "base", "svg"} & set(names)
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "href", "action")]


def test_scripts_never_write_markup_or_reach_the_network() -> None:
    scripts = "".join(map(html_report._part, html_report._SCRIPTS))
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|XMLHttp|WebSocket|import\("
    )
    assert not re.findall(forbidden, scripts)


def test_what_agents_wrote_stands_nowhere_in_clear(ledger: Ledger, tmp_path: Path) -> None:
    page, record = report(ledger, tmp_path / "report.html", selection=OfRun(XSS_RUN))
    assert record["manifest"]["run"] == XSS_RUN
    assert [name for name, _ in page.elements].count("script") == 2
    text = (tmp_path / "report.html").read_text()
    (block,) = re.findall(r'id="record">(.*?)</script>', text, re.DOTALL)
    assert not set("<>&") & set(block)
    assert block.isascii()


def test_every_event_is_proven_with_hashes_that_stand_once(ledger: Ledger, tmp_path: Path) -> None:
    _, record = report(ledger, tmp_path / "report.html")
    head = parse_head(parse_note(record["head"]).text)
    nodes: list[bytes] = []
    for event in record["events"]:
        proof = []
        for one in event["proof"]:
            if isinstance(one, str):
                nodes.append(b64decode(one))
            proof.append(nodes[-1] if isinstance(one, str) else nodes[one])
        assert root_by_inclusion(leaf_hash(b64decode(event["body"])), event["index"], head.size, proof) == head.root
    assert len(record["events"]) == head.size
    assert len(set(nodes)) == len(nodes)


def test_withheld_values_are_not_in_the_page(ledger: Ledger, tmp_path: Path) -> None:
    _, record = report(ledger, tmp_path / "report.html", disclosure=Disclosure(is_without_payloads=True))
    assert not [event for event in record["events"] if event["payloads"]]
    assert record["manifest"]["withheld"] > 0


def test_a_record_too_long_for_a_page_names_what_else_to_do(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "MOST_EVENTS", 5)
    with pytest.raises(BadCall, match=r"choose a run \(--run\)"):
        report(ledger, tmp_path / "report.html")
    assert not list(tmp_path.glob("*report*"))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(scheme: int) -> None:
    styles = html_report._part("page.css").split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", styles[scheme].partition("* {")[0]))
    inks = {
        "paper": ("ink", "quiet", "accent"),
        "sheet": ("ink", "quiet", "accent", "good", "bad", "open"),
        "wash": ("ink", "quiet"),
    }
    pairs = [(ink, ground) for ground, some in inks.items() for ink in some]
    pairs += [(tone, f"{tone}-wash") for tone in ("good", "bad", "open", "blue")]
    pairs += [("ink", f"{tone}-wash") for tone in ("good", "bad", "open")] + [
        ("quiet", "bad-wash"),
        ("sheet", "accent"),
    ]
    for ink, ground in pairs:
        low, high = sorted((_luminance(colours[ink]), _luminance(colours[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{ink} on {ground}"
