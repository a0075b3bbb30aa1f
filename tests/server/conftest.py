"""What tests of the server share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.postgres import fresh_database
from tests.server.places import Place, sqlite_place


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def each_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on each kind of store, made once for a module: its tests choose names that do not meet."""
    folder = tmp_path_factory.mktemp("place")
    if request.param == "sqlite":
        made = sqlite_place(folder)
        yield made
        made.close()
        return
    shared = os.environ.get("INDELIBLE_TEST_POSTGRES") or request.getfixturevalue("_postgres_cluster").start().url
    with fresh_database(shared) as url:
        made = Place(url, keys=folder / "keys")
        yield made
        made.close()
