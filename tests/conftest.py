"""Fixtures for every test: a real PostgreSQL, an empty database, and both stores."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import pytest

from tests.left_out import LeftOut
from tests.order import shuffle
from tests.postgres import PostgresServer, fresh_database
from tests.waiting import PATIENCE

# What PostgreSQL's files may come to, for all who run beside this process, each with a server of its own.
_ROOM = max(4, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) * 768 * 1024**2

# A shell that starts us in the background has SIGINT ignored, and some tests interrupt themselves.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Ledgers make their keys on first use. These are not for the home of whoever runs the tests.
_KEYS = tempfile.TemporaryDirectory(prefix="indelible-keys-")
os.environ["INDELIBLE_KEYS"] = _KEYS.name

# Examples that touch a disk or a database take as long as they take: slowness is the timeout's business.
hypothesis.settings.register_profile(
    "indelible", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "indelible"))


# A test that asks a server over HTTP and does not say for how long waits longer than httpx2's five seconds.
with contextlib.suppress(ImportError):  # the environment of the heavy frameworks has none
    from httpx2._config import DEFAULT_TIMEOUT_CONFIG

    for _wait in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, _wait, PATIENCE)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Runs `@pytest.mark.anyio` tests on asyncio, the one event loop the library supports."""
    return "asyncio"


@pytest.fixture(scope="session")
def _postgres_cluster() -> Iterator[PostgresServer]:
    with PostgresServer(directory=_roomy_memory()) as server:
        yield server


def _roomy_memory() -> str | None:
    """Gives a folder in memory if there is one with room: there a database is made in half the time.

    Nothing that tests do to the server needs a disk: what a killed server wrote, the kernel still has.
    """
    folder = Path("/dev/shm")
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    return str(folder) if free > _ROOM and os.access(folder, os.W_OK) else None


@pytest.fixture
def postgres_server(_postgres_cluster: PostgresServer) -> PostgresServer:
    """A private PostgreSQL, up and answering. A test may stop or kill it: it is started again for the next test.

    One per test session, started when first asked for. With pytest-xdist each worker has its own, so that tests that
    kill it disturb nobody; making a cluster takes half a second.
    """
    return _postgres_cluster.start()


@pytest.fixture
def postgres_server_url(request: pytest.FixtureRequest) -> str:
    """Names a PostgreSQL server for what makes databases of its own there, and drops them."""
    shared = os.environ.get("INDELIBLE_TEST_POSTGRES")
    return shared or str(request.getfixturevalue("postgres_server").url)


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty PostgreSQL database for one test: on a private server, or on the one INDELIBLE_TEST_POSTGRES names."""
    if shared := os.environ.get("INDELIBLE_TEST_POSTGRES"):
        with fresh_database(shared) as url:
            yield url
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with fresh_database(server.url) as url:
            yield url
            server.start()  # the test may have killed it, and the database is to be dropped


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store of each kind: a test that takes this runs whole on both."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def without_writer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets ledgers be begun without writer keys: a test writes to their tables, or plays a process without keys."""
    monkeypatch.setenv("INDELIBLE_WRITER_KEYS", "none")


@pytest.fixture
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys for one test; take it before what begins a ledger."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


# Each scenario goes through three shells and on both stores; all six pairs of them take three times as long.
_LEFT_OUT = ("[blocking-postgres", "[async-sqlite")
# Of the scenarios over HTTP one in so many runs every day, chosen by its name; INDELIBLE_MATRIX=http runs them all.
_ONE_IN = 32
# What shares the ledger's own database, or looks at its keys, has neither behind a server.
_NOT_OVER_HTTP = (
    "test_transactions.py",
    "test_encryption.py",
    "test_approving_hidden.py",
    "test_runs_hidden.py",
    "test_an_approved_handler_writes_in_the_transaction_that_settles_it",
    "test_a_transaction_that_is_rolled_back_with_its_attempt_gives_the_approval_back",
    "test_what_a_handler_writes_in_its_transaction_is_spent_in_the_same_commit",
    "test_a_caller_of_the_same_ledger_is_told_without_asking_the_store",
    # It stops a process that is the server here as well, perhaps while that holds the file's lock.
    "test_a_zombie_that_wakes_after_its_lease_can_do_nothing[http-sqlite",
    # Their clock runs on by minutes while one request is under way.
    "test_a_function_that_raises_holds_up_no_call_and_is_called_again",
    "test_24_a_message_that_could_not_be_sent_is_sent_later",
    "test_24_a_message_outlives_the_process_that_could_not_send_it",
)


_NEVER = "what no server can do"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Lets the last lines of a log name each test that failed, with its error, and cut neither."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not reporter.isatty:
        reporter._tw.fullwidth = 240


_LEFT = pytest.StashKey[LeftOut]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out some pairs of shell and store, unless INDELIBLE_MATRIX=full asks for all, or =http for those.

    INDELIBLE_MATRIX=quick keeps one shell on SQLite. This is a variable so that `-k` stays free for the developer.
    """
    matrix = os.environ.get("INDELIBLE_MATRIX")

    def why_left_out(item: pytest.Item) -> str | None:
        is_scenario, is_fault = "tests/scenarios/" in item.nodeid, "tests/faults/" in item.nodeid
        is_http = (is_scenario or is_fault) and "[http-" in item.nodeid
        if is_http and any(name in item.nodeid for name in _NOT_OVER_HTTP):
            return _NEVER
        if matrix == "quick":
            needs = " ".join([item.nodeid, *getattr(item, "fixturenames", [])])
            # Each shell once is enough here: scenarios go through the blocking one, faults through the other.
            shell = "[async-" if is_scenario else "[blocking-"
            return "tests that the quick run leaves out" if is_http or "postgres" in needs or shell in needs else None
        if matrix is not None:
            is_other = matrix == "http" and not is_http and "test_remote_conformance" not in item.nodeid
            return "tests that do not go through HTTP" if is_other else None
        if is_http:
            is_drawn = is_scenario and crc32(item.nodeid.encode()) % _ONE_IN == 0
            return None if is_drawn else f"{'scenarios' if is_scenario else 'faults'} over HTTP"
        is_other_pair = is_scenario and any(pair in item.nodeid for pair in _LEFT_OUT)
        return "scenarios through blocking calls on PostgreSQL or awaited ones on SQLite" if is_other_pair else None

    why = {item: why_left_out(item) for item in items}
    left_out = [item for item in items if why[item] is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if why[item] is None]
    if seed := os.environ.get("INDELIBLE_ORDER"):
        shuffle(items, seed)
    told = LeftOut(
        Counter(reason for reason in why.values() if reason not in (None, _NEVER)),
        {str(item.path.relative_to(config.rootpath)) for item in items if item.path.is_relative_to(config.rootpath)},
    )
    config.stash[_LEFT] = told
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist collects, and another process reports
        config.workeroutput["left_out"] = told.to_words()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keeps what a worker told: each of them collects the same tests."""
    if words := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[_LEFT] = LeftOut.from_words(words)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says what was left out, so that a green run claims no more than it tried."""
    if lines := config.stash.get(_LEFT, LeftOut()).lines():
        terminalreporter.section("left out", sep="=")
        for line in lines:
            terminalreporter.write_line(line)
