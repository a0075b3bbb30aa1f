"""Nothing that agents wrote ever runs in a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, AwaitingApproval, Ledger
from tests.browser.reports import Reader, report_text, rewrite
from tests.journal.exported import call, key_of

Made = tuple[dict[str, str], str]
Report = dict[str, Any]


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
    ledger.deny(begun.approval.id, digest=begun.approval.digest, by=Actor(attack), reason=attack)


@pytest.mark.usefixtures("without_writer_keys")
def test_nothing_that_agents_wrote_ever_runs(open_report: Reader, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}", seal=False) as ledger:
        for number, attack in enumerate(ATTACKS):
            harmful(ledger, attack)
            forged(ledger, attack, number, str(path))
        ledger.seal()
        text, key = report_text(ledger, tmp_path / "all.html"), key_of(ledger)
    page = open_report(text, key=key)
    # Whoever forged events before they were signed wrote what is no event of version 1.
    assert page.locator("#problems > li").count() >= 1
    assert "no event of version 1" in page.inner_text("#problems")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_function(
        "document.querySelectorAll('.event').length === document.querySelectorAll('.timeline > li').length"
    )
    assert page.evaluate("globalThis.wasHit === undefined")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    allowed = "img, svg, iframe, a[href]:not([href^='#']), link, base, math, input:not(#key), meta[http-equiv=refresh]"
    assert page.evaluate(f"document.querySelectorAll({json.dumps(allowed)}).length") == 0
    assert open_report.troubles == []
    shown = page.inner_text("body")
    assert "<script>hit()</script>" in shown
    assert not set("\u2028\u2029\u202e\u202c\u200b\ufeff\u2066\x1b\x07") & set(shown)
    assert "\\u202e" in shown


def test_a_script_put_into_the_page_does_not_run(made: Made, open_report: Reader) -> None:
    """The policy stops a script that was added; whoever can also change the policy can change everything."""
    text = made[0]["run"].replace("</main>", "<script>hit()</script><img src=x onerror=hit()></main>")
    page = open_report(text)
    assert page.evaluate("globalThis.wasHit === undefined")
