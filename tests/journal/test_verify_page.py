"""The page about verifying says what the code does."""

from __future__ import annotations

import re
from typing import get_args

from indelible.core.verifying.findings import ATTACKS, Ground
from tests.journal.test_verify_live import PAGE


def test_the_attack_table_of_the_page_is_the_one_of_the_code() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## What more rules out more")[2]
    rows = re.findall(r"^\| ([^|]+?) \|((?: (?:ruled out|–) \|)+)$", section, re.MULTILINE)
    grounds = get_args(Ground)
    written = {words: tuple(cell.strip() == "ruled out" for cell in cells.split("|")[:-1]) for words, cells in rows}
    assert written == {
        attack.words: tuple(bool(attack.stopped_by & {"key", ground}) for ground in grounds)
        for attack in ATTACKS.values()
    }
