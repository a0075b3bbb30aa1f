"""The cases that every integration passes, with real processes, some of them killed: ours read 1 or refused.

The whole matrix, native beside ours: indelible conformance. Every case on both stores: INDELIBLE_MATRIX=full
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from indelible.cli.conformance import conformance
from indelible.errors import BadCall, Misconfigured
from indelible.testing.adapters.cases import CASES, played
from indelible.testing.adapters.host import Host, hosting
from indelible.testing.adapters.place import StoreKind
from indelible.testing.adapters.rig import ADAPTERS, Adapter, rig_of
from tests.frameworks import HEAVY
from tests.integrations.matrix import OURS, PAGE, STORES, measured, page_of, plays, published

ON_POSTGRES = CASES if os.environ.get("INDELIBLE_MATRIX") == "full" else ["crash_after_effect"]


@pytest.fixture(scope="module", params=[name for name in ADAPTERS if name not in HEAVY])
def framework(request: pytest.FixtureRequest) -> Iterator[tuple[str, Host]]:
    with hosting(request.param) as host:
        yield request.param, host


@pytest.mark.parametrize(("case", "store"), plays(on_postgres=ON_POSTGRES))
def test_behind_the_ledger_it_happens_once_or_is_refused(
    framework: tuple[str, Host], case: str, store: StoreKind, request: pytest.FixtureRequest
) -> None:
    server = None if store == "sqlite" else request.getfixturevalue("postgres_server_url")
    assert played(framework[1], case, "ledger", server) == OURS[case] == published(framework[0], store)[case].ledger


def test_natively_it_happens_as_often_as_measured(framework: tuple[str, Host]) -> None:
    """Were this to change, the cases would not show any more what the ledger adds. The command plays all of them."""
    native = published(framework[0], "sqlite")["crash_after_effect"].native
    assert played(framework[1], "crash_after_effect", "native") == native == "2"


def test_the_page_says_what_was_measured_and_ours_is_kept() -> None:
    """Make it anew with: python -m tests.integrations.matrix"""
    rows = measured()
    assert PAGE.read_text(encoding="utf-8") == page_of(rows)
    assert [row for row in rows if not row.is_kept] == []
    assert {row.adapter for row in rows} >= set(ADAPTERS) - set(HEAVY)
    for adapter in ADAPTERS:
        for store in STORES:
            assert list(published(adapter, store)) == list(CASES), (adapter, store)


def test_the_command_says_it(postgres_server_url: str) -> None:
    words = ["--adapter", "functions", "--case", "resume_twice", "--store", postgres_server_url, "--json"]
    row = {"adapter": "functions", "case": "resume_twice", "store": "postgres", "native": "3", "ledger": "1"}
    assert json.loads(CliRunner().invoke(conformance, words).stdout) == {"rows": [row]}


def test_what_no_case_can_be_played_on_is_refused_before_anything_is_played() -> None:
    with pytest.raises(Misconfigured, match="name a PostgreSQL database"):
        CliRunner().invoke(conformance, ["--store", "sqlite:///ledger.db"], catch_exceptions=False)


def test_a_framework_that_is_not_installed_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTERS, "mcp", Adapter("no_rig", ("no_such_package.agents",), '"indelible[mcp]"'))
    asked = CliRunner().invoke(conformance, ["--adapter", "mcp"])
    assert asked.exit_code == 2
    assert 'mcp is not installed here; run: pip install "indelible[mcp]"' in asked.output
    with pytest.raises(BadCall, match="pip install"):
        rig_of("mcp")


def test_what_could_not_be_tried_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ADAPTERS:
        monkeypatch.setitem(ADAPTERS, name, Adapter("no_rig", ("no_such_package",), f'"indelible[{name}]"'))
    told = CliRunner().invoke(conformance, ["--json"])
    assert told.exit_code == 1, "nothing was shown"
    assert json.loads(told.output)["not_installed"]["langchain"] == '"indelible[langchain]"'
    assert "mcp            not installed here: pip install" in CliRunner().invoke(conformance).output
