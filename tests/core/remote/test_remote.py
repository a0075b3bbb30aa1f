"""Promises of core.remote.questions: each question has its types, and is for those who need it."""

from __future__ import annotations

import inspect

import pytest

from indelible.core.journal.journal import JournalStore
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ForgettingStore
from indelible.core.remote.questions import APPLY, QUESTIONS, may_read_sheets, unseen_payloads
from indelible.core.rights import RIGHTS
from indelible.core.scopes import SCOPES

# What is done by the server itself, is told when a client is introduced, or is no question.
NOT_ASKED = {
    "": {"transaction", "alarm", "close", "writer_id", "journal", "forgetting", "origin", "has_macs"},
    "journal.": {"integrate", "keep_head", "tenants"},
    "forgetting.": set[str](),
}
_BESIDE_THE_PORT = {"await", "apply", "packet"}


def test_a_question_is_for_those_who_have_its_right() -> None:
    for question in QUESTIONS.values():
        assert question.scopes == RIGHTS[question.verb].scopes
    assert APPLY.scopes == set(SCOPES), "what may be written is decided for each command"


@pytest.mark.parametrize(("part", "port"), [("", Store), ("journal.", JournalStore), ("forgetting.", ForgettingStore)])
def test_every_verb_of_a_store_is_a_question_or_the_servers_own(part: str, port: type) -> None:
    verbs = {name for name, held in vars(port).items() if not name.startswith("_") and name not in NOT_ASKED[part]}
    verbs -= {name for name in verbs if not inspect.isfunction(vars(port)[name])}
    asked = {name.removeprefix(part) for name in QUESTIONS if ("." in name) is bool(part) and name.startswith(part)}
    assert asked - _BESIDE_THE_PORT == verbs - _BESIDE_THE_PORT


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in _BESIDE_THE_PORT])
def test_the_words_of_a_question_are_those_of_the_verb(name: str) -> None:
    """In their order: the server passes them on as they come."""
    part, _, verb = name.rpartition(".")
    port = {"": Store, "journal": JournalStore, "forgetting": ForgettingStore}[part]
    wanted = [word for word in inspect.signature(getattr(port, verb)).parameters if word not in ("self", "tenant")]
    assert list(QUESTIONS[name].words) == wanted


@pytest.mark.parametrize("kind", ["policy", "grant", "budget", "delegation", "delivery"])
def test_agents_do_not_read_the_rules_they_are_under(kind: str) -> None:
    assert not may_read_sheets(frozenset({"agent"}), kind)
    assert not may_read_sheets(frozenset(), kind)
    for scope in ("approver", "auditor", "admin"):
        assert may_read_sheets(frozenset({"agent", scope}), kind)


@pytest.mark.parametrize("kind", ["approval", "run", "checkpoint", "driver", "limit", "mark"])
def test_everybody_reads_what_work_needs(kind: str) -> None:
    for scope in SCOPES:
        assert may_read_sheets(frozenset({scope}), kind)


@pytest.mark.parametrize("kind", ["credential", "person", "challenge", "seen"])
def test_nobody_reads_from_afar_by_what_the_server_knows_them(kind: str) -> None:
    assert not may_read_sheets(frozenset(SCOPES), kind)


def test_values_of_own_runs_are_hidden_as_the_sheets_are_except_from_auditors() -> None:
    own = "indelible:people"
    assert {"policy", "person"} <= unseen_payloads(frozenset({"agent"}), own)
    assert "person" in unseen_payloads(frozenset({"approver"}), own)
    assert not unseen_payloads(frozenset({"auditor"}), own)
    assert not unseen_payloads(frozenset({"agent"}), "order-1")
