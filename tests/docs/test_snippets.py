"""Every piece of Python on a page runs, after those above it, as one program.

A page takes some names for granted, as a reader does: `stripe`, `url`, a call. They are given here, as real as they can
be. A page with a test of its own is named with it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp.server import Server

import indelible
from indelible import Effect, Ledger, ToolCall
from tests.docs.pages import ROOT, Block, blocks, named, pages
from tests.http.provider import providing
from tests.server.serving import serve_believing

# Where a page's own test follows it more closely than can be done here.
FOLLOWED_BY = {
    "docs/approvals.md": "tests/cli/test_approvals_page.py",
    "docs/http.md": "tests/server/test_http_page.py",
    "docs/integrations/adk.md": "tests/frameworks/test_pages.py",
    "docs/integrations/changing-frameworks.md": "tests/integrations/test_durability.py",
    "docs/integrations/crewai.md": "tests/frameworks/test_pages.py",
    "docs/integrations/claude-agent-sdk.md": "tests/frameworks/test_claude_agent.py",
    "docs/integrations/functions.md": "tests/integrations/test_function_calls.py",
    "docs/integrations/instrument.md": "tests/integrations/test_instrument.py",
    "docs/integrations/langchain.md": "tests/integrations/test_langchain_page.py",
    "docs/integrations/openai-agents.md": "tests/integrations/test_other_pages.py",
    "docs/integrations/pydantic-ai.md": "tests/integrations/test_other_pages.py",
    "docs/integrations/strands.md": "tests/frameworks/test_pages.py",
    "docs/migrate/locus.md": "tests/compat/test_locus.py",
    "docs/runs.md": "tests/test_docs_runs.py",
    "docs/testing.md": "tests/testing/test_plugin.py",
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/migrate/zehrava.md": "tests/compat/test_zehrava_page.py",
    "docs/witness.md": "tests/journal/test_asking_witnesses.py",  # a log and its witnesses, which that test has
}


def program(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind == "python" and block.not_run is None]


def run(text: str, names: dict[str, Any], where: str) -> None:
    """Runs one block; it may await."""
    code = compile(text, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def charge(effect: Effect) -> dict[str, str]:
    return {"id": "ch_1", "key": effect.key}


class Stripe:
    """A provider with one charge in its books."""

    def refund(self, order: str, amount: int) -> dict[str, Any]:
        return {"id": f"re_{order}", "amount": amount}

    def find_by_idempotency_key(self, key: str) -> Any:
        return SimpleNamespace(id="ch_1")


class Kms:
    """A client of somebody else's key store."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()

    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


CALL = ToolCall(
    run_id="order-123", tool="stripe.charge", args={"customer_id": "customer-7", "order": {"customer": "c"}}
)

Names = dict[str, Any]


def nothing(closing: ExitStack) -> Names:
    return {}


def around(**names: Any) -> Callable[[ExitStack], Names]:
    """Names that need not be closed."""
    return lambda closing: names


def ledger_at(url: str, **more: Any) -> Callable[[ExitStack], Names]:
    return lambda closing: {"ledger": closing.enter_context(Ledger.open(url)), **more}


def approve_soon(ledger: Ledger) -> None:
    """Lets a person say yes to the first question that comes."""

    def person() -> None:
        while not (waiting := ledger.approvals(status="pending")):
            threading.Event().wait(0.05)
        ledger.approve(waiting[0], digest=waiting[0].digest, by="ana")

    threading.Thread(target=person, daemon=True).start()


def interrupted(ledger: Ledger) -> str:
    """A run that somebody began and did not end."""
    ledger.start_run("order-124", agent="billing").release()
    return "order-124"


def forgetting(closing: ExitStack) -> Names:
    ledger = closing.enter_context(Ledger.open("sqlite:///forgetting.db"))
    for amount in range(3):  # so that event 4 has a result
        call = ToolCall(run_id="order-123", tool="charge", args={"amount": amount})
        ledger.run(call, handler=charge)
    return {"ledger": ledger, "timedelta": timedelta, "call": CALL, "handler": charge}


def export(closing: ExitStack) -> Names:
    ledger = closing.enter_context(Ledger.open("sqlite:///export.db"))
    ledger.run(CALL, handler=charge)
    ledger.export("for-its-key.zip")
    with zipfile.ZipFile("for-its-key.zip") as bundle:
        key = json.loads(bundle.read("manifest.json"))["keys"][0]
    return {"ledger": ledger, "indelible": indelible, "public_key": key}


def served(closing: ExitStack) -> Names:
    server = serve_believing("sqlite:///served.db")
    closing.callback(server.stop)
    page = SimpleNamespace(
        connect=lambda url, **words: closing.enter_context(indelible.connect(url, **words)),
        connect_async=indelible.connect_async,
    )
    return {"indelible": page, "served": server.url, "token": json.dumps("default")}


def readme(closing: ExitStack) -> Names:
    return served(closing) | {
        "stripe": Stripe(),
        "charge": lambda *_, **__: {"id": "ch_1"},
        "approve_soon": approve_soon,
        "interrupted": interrupted,
    }


def bank(closing: ExitStack) -> Names:
    return {"ledger": closing.enter_context(Ledger.open(":memory:")), "bank": Server("bank")}


def paying(closing: ExitStack) -> Names:
    provider = closing.enter_context(providing())
    return {"provider": provider.url, "look_up": lambda key: None}


@dataclass(frozen=True, slots=True)
class Props:
    """What a page takes for granted, and what stands for its made-up addresses and keys."""

    names: Callable[[ExitStack], Names] = nothing
    instead: dict[str, str] = field(default_factory=dict)


PROPS = {
    "README.md": Props(
        readme,
        {
            'wire("DE02': 'approve_soon(ledger)\n    wire("DE02',
            'resume_run("order-123")': "resume_run(interrupted(ledger))",
            '"https://ledger.example"': "served",
            '"ind.…"': "token",
        },
    ),
    "docs/encryption.md": Props(around(url="sqlite:///agent.db", Ledger=Ledger, call=CALL, handler=charge)),
    "docs/export.md": Props(export, {'key="ledger-…+…"': "key=public_key"}),
    "docs/forgetting.md": Props(forgetting, {"seq=4": "seq=5"}),
    "docs/exceptions.md": Props(
        ledger_at(":memory:", stripe=Stripe(), CardDeclined=ValueError, current_effect=indelible.current_effect)
    ),
    "docs/same-call.md": Props(ledger_at(":memory:", stripe=Stripe())),
    "docs/in-doubt.md": Props(ledger_at(":memory:", stripe=Stripe())),
    "docs/integrations/mcp.md": Props(bank, {'"https://tools.example/mcp"': "bank"}),
    "docs/keys.md": Props(around(client=Kms(), url="sqlite:///agent.db"), {'"/var/lib/indelible"': '"heads"'}),
    "docs/notifications.md": Props(around(url="sqlite:///other.db", tell_me=lambda approval, effect: None)),
    "docs/policy.md": Props(around(load_new_customers=lambda: {"c7"})),
    "docs/redaction.md": Props(around(url="sqlite:///agent.db", Ledger=Ledger)),
    "docs/reference/canonical.md": Props(around(Decimal=Decimal)),
    "docs/requests.md": Props(paying, {'"https://api.example': 'provider + "'}),
    "docs/server.md": Props(
        served,
        {
            '"https://ledger.example"': "served",
            '"https://a.example,https://b.example"': 'f"{served},{served}"',
            '"ind.…"': "token",
        },
    ),
}


def text_of(page: Path, props: Props) -> Iterator[tuple[Block, str]]:
    """Gives each block as it is run; what is put in another's place has to be on the page."""
    whole = "".join(block.text for block in program(page))
    assert [made_up for made_up in props.instead if made_up not in whole] == []
    for block in program(page):
        text = block.text
        for made_up, real in props.instead.items():
            text = text.replace(made_up, real)
        yield block, text


@pytest.mark.parametrize(
    "page", [page for page in pages() if program(page) and named(page) not in FOLLOWED_BY], ids=named
)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    props = PROPS.get(named(page), Props())
    with ExitStack() as closing:
        names = props.names(closing)
        for block, text in text_of(page, props):
            run(text, names, f"{named(page)}:{block.line}")
            if isinstance(ledger := names.get("ledger"), Ledger):
                closing.callback(ledger.close)
            if isinstance(client := names.get("client"), httpx.Client):
                closing.callback(client.close)


def test_pages_with_a_test_of_their_own_are_named_in_it() -> None:
    for page, test in FOLLOWED_BY.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), (page, test)
