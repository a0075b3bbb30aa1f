"""All verifiers give the same verdict for the same bytes: each reads every published vector."""

from __future__ import annotations

import gzip
import re
import sys
import warnings
from pathlib import Path

import pytest

from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from indelible.core.verifying.trust import JOURNAL_MEMBERS
from indelible.journal.evidence.bundle import LogEvidence
from indelible.journal.evidence.files import Folder
from indelible.journal.evidence.verification import verify
from indelible.testing.record.judging import by_command, judged, our_own
from indelible.testing.record.vectors import Form, vectors
from tests.journal import rules_making
from tests.journal.standing_alone import standalone
from tests.journal.vector_making import WHERE, all_vectors, text_of


def test_69_the_vectors_are_what_their_script_makes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a .zip with a name twice is what one of them is
        made = text_of(all_vectors())
    assert gzip.decompress(WHERE.read_bytes()).decode() == made, "run: python -m tests.journal.vector_making"


def test_69_the_rules_for_other_languages_and_the_page_are_the_core_s() -> None:
    assert rules_making.WHERE.read_text(encoding="utf-8") == rules_making.text()
    for path, tables in rules_making.TABLES.items():
        page = path.read_text(encoding="utf-8")
        assert page == rules_making.page_with(page, tables), "run: python -m tests.journal.rules_making"


def test_69_anybody_s_verifier_can_be_judged(tmp_path: Path) -> None:
    """As docs/reference/bundle.md says: a command is judged by its exit code."""
    vector = next(vectors())
    for code, verdict in enumerate(("verified", "tampered", "cannot_tell", "exit code 3")):
        (tmp_path / "says.py").write_text(f"import sys; sys.exit({code})")
        judge = by_command(f"{sys.executable} -I {tmp_path / 'says.py'}")
        assert judge(vector, tmp_path / "bundle") == verdict
    assert not [one.name for one in judged(our_own, ["zip"]) if not one.is_right]


def test_69_there_are_enough_of_them_and_of_every_verdict() -> None:
    found = list(vectors())
    assert len(found) >= 250
    assert {verdict for one in found for verdict in one.expected.values()} == {"verified", "tampered", "cannot_tell"}


@pytest.mark.parametrize("form", ["bundle", "zip", "ndjson", "log"])
def test_69_the_command_gives_the_verdict_of_every_vector(form: Form, tmp_path: Path) -> None:
    wrong, chosen = {}, [one for one in vectors() if form in one.expected]
    for number, vector in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = vector.written(form, folder)
        evidence = LogEvidence(Folder(path), str(path)) if form == "log" else path
        report = verify(evidence, vector.keys, after=vector.after)
        if report.verdict != vector.expected[form]:
            wrong[vector.name] = (report.verdict, report.why)
    print(f"indelible verify, {form}: {len(chosen)} vectors judged, {len(wrong)} otherwise than expected")
    assert not wrong


@pytest.mark.parametrize("form", ["bundle", "zip", "ndjson"])
def test_69_the_verifier_in_a_bundle_gives_the_verdict_of_every_vector(form: Form, tmp_path: Path) -> None:
    wrong, chosen = {}, [one for one in vectors() if form in one.expected]
    for number, vector in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = standalone(vector.written(form, folder), list(vector.keys), list(vector.after))
        if found != vector.expected[form]:
            wrong[vector.name] = found
    print(f"verify.py, {form}: {len(chosen)} vectors judged, {len(wrong)} otherwise than expected")
    assert not wrong


def test_69_the_page_names_the_facts_of_every_event_of_a_journal_about_itself() -> None:
    page = rules_making.EVENTS.read_text(encoding="utf-8")
    rows = {cells[1].strip("` "): cells[3] for line in page.splitlines() if len(cells := line.split("|")) == 6}
    for type_, members in JOURNAL_MEMBERS.items():
        named = re.findall(r"`([a-z_]+)`", rows[type_])
        inner = {"root"} if type_ == "log_continued" else set()  # of what was lost
        assert set(named) - inner == members, type_


def test_69_the_page_names_every_event_that_commits_to_a_sheet() -> None:
    page = rules_making.EVENTS.read_text(encoding="utf-8")
    rows = {cells[1].strip("` "): cells[4] for line in page.splitlines() if len(cells := line.split("|")) == 6}
    for type_, kind in FACTS_OF_SHEETS.items():
        assert f"`{kind}`" in rows[type_], type_
