"""The report: one HTML file for people, which shows an excerpt and checks itself in the browser, without network.

What agents and people wrote travels as base64 inside a data block, so nothing of it can be taken for markup; the page
shows it as text only. The page's policy lets no script run but the one whose hash it names.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime
from hashlib import sha256
from importlib import resources
from typing import IO, Any

from indelible.errors import BadCall
from indelible.journal.exports.bundle import Prover, manifest
from indelible.journal.exports.excerpt import Excerpt, Shown

REPORT_FORMAT = "indelible/report/v1"
MOST_EVENTS = 20_000
_SCRIPTS = ("verifier.js", "text.js", "runs.js", "page.js")


def write_report(excerpt: Excerpt, out: IO[bytes], made_at: datetime) -> None:
    """Writes the page, and the record between its two halves."""
    before, after = _page()
    out.write(before)
    out.write(b'{"events":[')
    prover, known = Prover(excerpt), dict[bytes, int]()
    for number, shown in enumerate(excerpt.read()):
        if number == MOST_EVENTS:
            raise BadCall(
                f"more than {MOST_EVENTS} events are too many for one page: choose a run (--run) or a shorter period "
                "(--from, --to), or export a bundle"
            )
        out.write(b"," if number else b"")
        out.write(b"\n" + _harmless(_event(shown, prover.proof(shown.entry.index), known)))
    summary = manifest(excerpt, REPORT_FORMAT, made_at)
    out.write(b'\n],"head":' + _harmless(str(excerpt.note)) + b',"manifest":' + _harmless(summary) + b"}\n")
    out.write(after)


def _event(shown: Shown, proof: list[bytes], known: dict[bytes, int]) -> dict[str, Any]:
    """Gives an event for the page; a hash of a proof that came before is named by its number."""
    payloads = [
        {"field": payload.field, "salt": payload.salt.hex(), "value": _base64(payload.value)}
        for payload in shown.payloads
    ]
    ways: list[int | str] = []
    for node in proof:
        if node in known:
            ways.append(known[node])
        else:
            known[node] = len(known)
            ways.append(_base64(node))
    return {"body": _base64(shown.entry.body), "index": shown.entry.index, "payloads": payloads, "proof": ways}


def _page() -> tuple[bytes, bytes]:
    """Gives what stands before the record and after it."""
    style = _part("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_part, _SCRIPTS)) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _part("page.html")
    for name, text in (("{{policy}}", policy), ("{{style}}", style), ("{{script}}", script)):
        before, _, after = page.partition(name)
        page = before + text + after
    above, _, below = page.partition("{{record}}")
    return above.encode(), below.encode()


def _part(name: str) -> str:
    return resources.files("indelible.journal.exports").joinpath("report_page", name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Names a text by its hash, as a content security policy does."""
    return f"'sha256-{_base64(sha256(text.encode()).digest())}'"


def _harmless(content: object) -> bytes:
    """Gives JSON that cannot end the element it stands in."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
