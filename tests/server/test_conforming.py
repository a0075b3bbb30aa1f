"""schemathesis finds no answer that is our fault or is not described; the long run is `tests.server.conforming`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conforming import Conformity, conform, is_whole, prepared
from tests.server.places import Place

EXAMPLES = int(os.environ.get("INDELIBLE_CONFORMING", "1"))


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    prepared(made)
    yield made
    made.close()


def test_every_operation_answers_as_it_is_described(place: Place) -> None:
    seen = Conformity()
    conform(place, "admin", examples=EXAMPLES, coverage=False, seed=6, seen=seen)
    assert not seen.failures, "\n\n".join(f"{what}\n{how}" for what, how in seen.failures.items())
    assert len(seen.operations) == len(place.described.operations) - 1, "all but the stream, which does not end"
    assert is_whole(place) == "verified"
