"""An approval that came with a grant falls away, and the call is approved again: the record stays believed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.explored import Path, examine, pinned
from tests.core.forged import Journal
from tests.core.making import ADA, BO, REF, SECOND, Shelf, asks, cast, take_back
from tests.core.verifying.test_permissions import TERMS, caught, opening, put


def approved_again(is_granted_again: bool = False) -> Path:
    """Approve with a grant, take it back, and approve again, with another grant or with none."""
    path = Path(Shelf())
    opening(path, verdict=asks())
    path.send(cast(path.shelf.approval(), ADA, at=path.shelf.now, grant=TERMS, grant_id="grt_1", pinned=pinned()))
    path.send(take_back(path.shelf.approval(), ADA, at=path.shelf.now))
    path.shelf.now += SECOND
    words: dict[str, Any] = {"grant": TERMS, "grant_id": "grt_2", "pinned": pinned()} if is_granted_again else {}
    path.send(cast(path.shelf.approval(), BO, at=path.shelf.now, **words))
    return path


@pytest.mark.parametrize(("is_granted_again", "grant"), [(False, None), (True, "grt_2")])
def test_69_an_approval_that_is_given_again_names_only_the_grant_that_came_with_it(
    is_granted_again: bool, grant: str | None
) -> None:
    path = approved_again(is_granted_again)
    assert path.shelf.approval().grant == grant
    examine(path.events, path.shown())


def test_69_the_name_of_a_grant_that_older_ledgers_left_is_believed_and_no_other() -> None:
    journal = Journal(approved_again())
    again = journal.index("approval_received", 1)
    examine(*journal.retold(again, "approval", put(grant="grt_1")))
    assert "another grant" in caught(*journal.retold(again, "approval", put(grant="grt_9"))).flaw.what
    first = journal.index("approval_received")
    assert "names no grant" in caught(*journal.retold(first, "approval", put(grant=None))).flaw.what


def test_69_a_name_of_a_grant_whose_state_before_is_not_shown_is_not_judged() -> None:
    journal = Journal(approved_again())
    events, shown = journal.retold(journal.index("approval_received", 1), "approval", put(grant="grt_1"))
    revoked = events[journal.index("approval_revoked")]
    del shown[REF.scope, revoked.seq]["approval"]
    examine(events, shown)
