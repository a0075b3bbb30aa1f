"""The cases that every integration passes, for the heavy frameworks and on both stores: ours read 1 or refused.

The whole matrix: .venv-frameworks/bin/indelible conformance
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indelible.testing.adapters.cases import CASES, played
from indelible.testing.adapters.host import Host, hosting
from indelible.testing.adapters.place import StoreKind
from indelible.testing.adapters.rig import ADAPTERS
from tests.frameworks import HEAVY
from tests.integrations.matrix import OURS, plays, published


@pytest.fixture(scope="module", params=[name for name in ADAPTERS if name in HEAVY])
def framework(request: pytest.FixtureRequest) -> Iterator[tuple[str, Host]]:
    with hosting(request.param) as host:
        yield request.param, host


@pytest.mark.parametrize(("case", "store"), plays(on_postgres=CASES))
def test_behind_the_ledger_it_happens_once_or_is_refused(
    framework: tuple[str, Host], case: str, store: StoreKind, request: pytest.FixtureRequest
) -> None:
    server = None if store == "sqlite" else request.getfixturevalue("postgres_server_url")
    assert played(framework[1], case, "ledger", server) == OURS[case] == published(framework[0], store)[case].ledger


def test_natively_it_happens_as_often_as_measured(framework: tuple[str, Host]) -> None:
    """Were this to change, the page would say too much. The command plays all of them."""
    native = published(framework[0], "sqlite")["crash_after_effect"].native
    assert played(framework[1], "crash_after_effect", "native") == native
