"""A store behind a server, when something is wrong between the two: what may be asked again is, and nothing else."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from indelible import Ledger
from indelible.core.commands import (
    Attend,
    Claimed,
    Decided,
    Expire,
    Finish,
    Keep,
    Kept,
    Moved,
    NoSuchEffect,
    Open,
    Relinquish,
)
from indelible.core.ports import Filter
from indelible.core.runs.commands import SealCheckpoint, StartRun, TakeRun
from indelible.errors import (
    Misconfigured,
    NotAuthenticated,
    NotRun,
    OutcomeUnknown,
    StoreUnavailable,
    TooLarge,
    UnknownEffect,
)
from indelible.stores.reach import Reach
from indelible.stores.remote import RemoteStore
from indelible.testing.commands import LEASE, Commands, message
from indelible.testing.suite import apply_one, ask_about, take_claim
from tests.core.crossing import COMMANDS, one_of_each
from tests.scenarios.shells import charge, in_thread, prepare_store
from tests.server.serving import Served, serve_believing
from tests.stores.between import Between
from tests.waiting import PATIENCE, eventually

SHORT = timedelta(milliseconds=200)
REPEATABLE = {Open, Finish, Relinquish, Expire, Attend, Keep, StartRun, TakeRun, SealCheckpoint}
"""Are those that are carried out once, however often they arrive; whoever adds one says why it is so."""
SAID = {"type": "/problems/unknown-effect", "detail": "no such thing", "status": 404}
INTRODUCTION = {"ledger": "ledger-x", "protocol": 1, "tenant": "t"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A real server."""
    server = serve_believing(prepare_store(f"sqlite:///{tmp_path_factory.mktemp('remote') / 'ledger.db'}"))
    yield server
    server.stop()


@pytest.fixture
def between(served: Served) -> Iterator[Between]:
    """What stands between."""
    proxy = Between(served.url)
    yield proxy
    proxy.stop()


@pytest.fixture
def make() -> Commands:
    return Commands(f"tenant-{os.urandom(6).hex()}")


@pytest.fixture
def store(between: Between, make: Commands) -> Iterator[RemoteStore]:
    """A client that has been introduced."""
    client = connected(between.url, make.tenant)
    between.requests.clear()
    yield client
    client.close()


def connected(url: str, tenant: str, patience: timedelta = timedelta(seconds=PATIENCE)) -> RemoteStore:
    """Opens a client of this tenant."""
    client = RemoteStore(url, token=quote(json.dumps(tenant)), reach=Reach(patience=timedelta(seconds=PATIENCE)))
    client._line._reach = Reach(patience=patience)  # not before: a busy machine may take longer to introduce itself
    return client


# A server that is not there


def test_a_server_that_is_not_there_is_told_when_the_store_is_opened() -> None:
    gone = Between()
    gone.stop()
    with pytest.raises(StoreUnavailable, match=f"{gone.url} cannot be reached"):
        connected(gone.url, "t")


def test_a_server_that_went_away_is_asked_until_patience_ends(between: Between, make: Commands) -> None:
    """Nothing arrived, so whatever it was may be asked again later."""
    client = connected(between.url, make.tenant, SHORT)
    between.stop()
    for command in (make.open("effect"), make.cancel(make.ref("effect"))):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            client.apply(make.tenant, [command], [None])
    with pytest.raises(StoreUnavailable):
        client.look([make.ref("effect")])
    client.close()


def test_the_next_of_several_servers_is_asked_when_one_is_gone(
    between: Between, served: Served, make: Commands
) -> None:
    gone = Between(served.url)
    client = connected(f"{gone.url}, {between.url}/", make.tenant)
    gone.stop()
    assert isinstance(apply_one(client, make.open("effect")), Claimed)
    assert isinstance(apply_one(client, make.cancel(make.ref("nothing"))), NoSuchEffect)
    assert [path for path, _ in between.requests] == ["/v1/store/apply"] * 2
    client.close()


def test_nothing_is_asked_of_a_store_that_is_closed(store: RemoteStore, make: Commands) -> None:
    store.close()
    store.close()
    for question in (
        lambda: apply_one(store, make.open("x")),
        lambda: store.look([]),
        lambda: store.effects(make.tenant, Filter()),
        lambda: store.journal.tree(make.tenant),
    ):
        with pytest.raises(StoreUnavailable, match="closed here; open it again"):
            question()
    assert store.alarm() is None


# An answer that never came


def test_an_opening_whose_answer_got_lost_is_carried_out_once(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    for losses in ("lose", "swallow"), ("lose", "lose"):
        between.acts = list(losses)  # type: ignore[arg-type]
        opening = make.open(f"effect-{losses[1]}")
        claimed = apply_one(store, opening)
        assert isinstance(claimed, Claimed)
        assert claimed.claim.token == opening.token
        between.acts = ["lose"]
        assert isinstance(apply_one(store, make.finish(claimed.claim)), Moved)
    assert len(store.events(make.tenant, "run-1", -1, 9)) == 4
    assert len(between.requests) == 2 * (3 + 2) + 1


def test_other_commands_that_repeat_safely_are_carried_out_once(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    claim, approval = take_claim(store, make, "effect"), ask_about(store, make, "asked").approval
    for command, answer in (
        (make.relinquish(claim), Moved),
        (make.expire(make.ref("effect")), Moved),
        (make.attend(approval), Decided),
        (make.keep(message("m")), Kept),
    ):
        between.acts = ["lose"]
        assert isinstance(apply_one(store, command), answer)
    assert len(store.events(make.tenant, "run-1", -1, 9)) == 3


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_only_what_is_carried_out_once_anyway_is_sent_again(
    kind: type, between: Between, make: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the rest nobody can tell whether it was done, and that is what is said."""
    monkeypatch.setattr("indelible.stores.remote.line.times", lambda *_: PATIENCE)  # each request ends when it is cut
    client = connected(between.url, make.tenant, SHORT)
    between.requests.clear()
    between.always = "swallow"
    command = one_of_each(COMMANDS)[kind]
    with pytest.raises(OutcomeUnknown, match="look before asking again"):
        client.apply(make.tenant, [command], [None])
    assert (len(between.requests) > 1) is (kind in REPEATABLE)
    if kind not in REPEATABLE:
        between.requests.clear()
        with pytest.raises(OutcomeUnknown):
            client.apply(make.tenant, [make.open("x"), command], [None, None])
        assert len(between.requests) == 1, "nor together with others"
    client.close()


def test_a_vote_whose_answer_got_lost_was_counted(store: RemoteStore, between: Between, make: Commands) -> None:
    approval = ask_about(store, make, "effect").approval
    between.acts = ["lose"]
    with pytest.raises(OutcomeUnknown):
        apply_one(store, make.approve(approval))
    (effect,) = store.look([make.ref("effect")]).effects
    assert effect is not None
    assert effect.status == "ready"


def test_what_is_only_read_is_asked_again(store: RemoteStore, between: Between, make: Commands) -> None:
    claim = take_claim(store, make, "effect")
    questions = [
        lambda: store.look([make.ref("effect")]),
        lambda: store.heartbeat(claim, LEASE),
        lambda: store.events(make.tenant, "run-1", -1, 5),
        lambda: store.journal.tree(make.tenant),
    ]
    for question in questions:
        between.acts = ["swallow", "lose"]
        assert question()


# What servers say


def test_a_server_that_is_busy_has_done_nothing_and_is_asked_again(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    busy: list[Any] = [
        (503, {"type": "/problems/store-unavailable", "detail": "later"}),
        (429, {"type": "/problems/asked-too-often", "detail": "later"}),
        (429, b"<html>"),
        (408, b""),
    ]
    approval = ask_about(store, make, "effect").approval
    between.acts = list(busy)
    assert isinstance(apply_one(store, make.approve(approval)), Decided)
    assert not between.acts


@pytest.mark.parametrize("status", [500, 502, 503, 504, 522])
def test_what_stands_between_may_have_passed_on_what_it_says_it_could_not(
    store: RemoteStore, between: Between, make: Commands, status: int
) -> None:
    """So what is carried out once anyway is asked again, and a vote is not."""
    approval = ask_about(store, make, "effect").approval
    between.acts = [(status, b"<html>"), (status, {"detail": "later"})]
    assert isinstance(apply_one(store, make.open("other")), Claimed)
    between.acts = [(status, b"<html>")]
    between.requests.clear()
    with pytest.raises(OutcomeUnknown, match=f"status {status}.*look before asking again"):
        apply_one(store, make.approve(approval))
    assert len(between.requests) == 1


def test_a_server_is_given_the_time_it_asks_for(between: Between, make: Commands) -> None:
    client = connected(between.url, make.tenant, timedelta(seconds=50))
    between.acts = [(429, b"", {"Retry-After": "1"})]
    began = time.monotonic()
    client.look([])
    assert time.monotonic() - began >= 1
    between.requests.clear()
    between.acts = [(429, b"", {"Retry-After": "60"})]
    with pytest.raises(StoreUnavailable, match="busy"):
        client.look([])
    assert len(between.requests) == 1, "that is longer than we have"
    client.close()


def test_what_was_in_doubt_stays_so_whatever_is_said_afterwards(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    between.acts = ["lose", (401, {"type": "/problems/not-authenticated", "detail": "it was revoked"})]
    with pytest.raises(OutcomeUnknown, match="it was revoked, and before that there was no answer"):
        apply_one(store, make.open("effect"))
    assert store.look([make.ref("effect")]).effects[0] is not None


def test_an_answer_that_cannot_be_read_is_no_word_that_nothing_was_done(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    between.acts = [(200, b'{"answer": [{"is"')]
    assert isinstance(apply_one(store, make.open("effect")), Claimed)
    between.acts = [(200, b"<html>")]
    with pytest.raises(OutcomeUnknown, match="no Indelible server answers"):
        apply_one(store, make.cancel(make.ref("effect")))
    between.acts = [(200, {"answer": 5})]
    with pytest.raises(OutcomeUnknown, match="answers apply with something else"):
        apply_one(store, make.cancel(make.ref("effect")))


def test_a_server_that_stays_busy_is_told_in_its_own_words(
    between: Between, make: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.remote.line._PAUSES", (10 * PATIENCE,))  # more than it has patience for
    client = connected(between.url, make.tenant)
    between.always = (503, {"type": "/problems/store-unavailable", "detail": "the disk is full", "status": 503})
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        client.look([])
    client.close()


def test_a_server_that_does_not_know_what_became_of_it_is_asked_again_under_the_same_token(
    store: RemoteStore, between: Between, make: Commands
) -> None:
    unknown = (503, {"type": "/problems/outcome-unknown", "detail": "the commit was sent", "status": 503})
    between.acts = [unknown]
    assert isinstance(apply_one(store, make.open("effect")), Claimed)
    between.acts = [unknown]
    with pytest.raises(OutcomeUnknown, match="the commit was sent"):
        apply_one(store, make.cancel(make.ref("effect")))
    assert len(between.requests) == 3


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        ((404, SAID), UnknownEffect, "no such thing"),
        ((400, b"<html>"), Misconfigured, "no Indelible server answers"),
        ((413, b"<html>"), TooLarge, "lets nothing as large through"),
        ((200, {"answer": 5}), Misconfigured, "answers look with something else"),
        ((200, {}), Misconfigured, "answers look with something else"),
        ((302, b"", {"Location": "https://other.example/"}), Misconfigured, "sends us on to https://other.example/"),
        ((421, {"detail": "x"}), Misconfigured, "--allowed-host"),
        ((429, {"type": "/problems/not-run", "detail": "no"}), NotRun, "no"),
        ((401, b"who?"), NotAuthenticated, "does not know this credential"),
        (
            (401, {"type": "/problems/not-authenticated", "detail": "it was revoked"}),
            NotAuthenticated,
            "it was revoked",
        ),
    ],
)
def test_what_a_server_says_is_raised_at_once(
    store: RemoteStore, between: Between, act: Any, kind: type[Exception], words: str
) -> None:
    between.acts = [act]
    with pytest.raises(kind, match=words):
        store.look([])
    assert len(between.requests) == 1


@pytest.mark.parametrize(
    "introduction",
    [INTRODUCTION | {"protocol": 2}, INTRODUCTION | {"protocol": None}, INTRODUCTION | {"ledger": 5}, {}],
)
def test_a_server_of_another_time_is_not_used(introduction: Any) -> None:
    old = Between(always=(200, introduction))
    with pytest.raises(Misconfigured, match="bring the older one up to date"):
        connected(old.url, "t")
    old.stop()


@pytest.mark.parametrize("introduction", [[], "text", b"<html>"])
def test_what_is_no_server_of_ours_is_not_used(introduction: Any) -> None:
    other = Between(always=(200, introduction))
    with pytest.raises(Misconfigured, match="no Indelible server answers at"):
        connected(other.url, "t")
    other.stop()


def test_a_server_that_keeps_another_ledger_is_not_asked(
    between: Between, make: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two servers of two ledgers, named as if they were of one, would do everything twice."""
    elsewhere = serve_believing(prepare_store(f"sqlite:///{tmp_path_factory.mktemp('other') / 'ledger.db'}"))
    client = connected(f"{between.url},{elsewhere.url}", make.tenant)
    take_claim(client, make, "effect")
    between.always = "swallow"
    for question in (lambda: client.look([]), lambda: apply_one(client, make.open("other"))):
        with pytest.raises((Misconfigured, OutcomeUnknown), match="keeps another ledger than the one you began with"):
            question()
    client.close()
    elsewhere.stop()


def test_a_server_that_has_learnt_another_protocol_meanwhile_says_so(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.server.routes.store.PROTOCOL", 2)
    with pytest.raises(Misconfigured, match="speaks protocol 2; bring the older side up to date"):
        store.look([])


def test_whoever_is_not_known_is_told_when_the_store_is_opened() -> None:
    closed = Between(always=(401, {"type": "/problems/not-authenticated", "detail": "get another one", "status": 401}))
    with pytest.raises(NotAuthenticated, match="get another one"):
        connected(closed.url, "t")
    assert len(closed.requests) == 1
    closed.stop()


# Processes and waiting


def test_a_forked_child_does_not_share_connections(store: RemoteStore, between: Between, make: Commands) -> None:
    take_claim(store, make, "effect")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads run, and that is what this is about
        child = os.fork()
    if child == 0:
        is_there = store.look([make.ref("effect")]).effects[0] is not None
        store.close()
        os._exit(17 if is_there else 18)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert store.look([make.ref("effect")]).effects[0] is not None
    (_, mine), (_, childs), (_, again) = between.requests
    assert mine == again != childs


class Counted:
    """Is a store that counts looks."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, refs: Any) -> Any:
        self.looks += 1
        return self._store.watch(refs)


def test_an_alarm_wakes_whoever_waits_at_another_client_without_a_look_at_times(
    served: Served, make: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an hour between two looks, only the alarm is left to wake anybody in time."""
    for name in ("LOOK_AT_LEAST_EVERY", "LOOK_EVERY_REMOTELY"):
        monkeypatch.setattr(f"indelible.engine.waiting.{name}", timedelta(hours=1))
    counted: Any = Counted(connected(served.url, make.tenant))
    entered = threading.Event()
    with (
        Ledger.open(store=counted, tenant=make.tenant) as waiting,
        Ledger.open(served.url, token=quote(json.dumps(make.tenant)), tenant=make.tenant) as other,
    ):
        call = charge()
        caller: Future[Any] = in_thread(lambda: waiting.run(call, lambda effect: entered.set(), approval="required"))
        (approval,) = eventually(lambda: other.approvals())
        eventually(lambda: counted.looks)
        before = counted.looks
        other.approve(approval.id, digest=approval.digest, by="ada")
        caller.result(PATIENCE)
        assert entered.is_set()
        assert counted.looks <= before + 2, "the alarm rang, and nobody looked at times"
    counted.close()
