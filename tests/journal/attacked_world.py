"""A ledger made by honest means, what callers see of it, and how it is judged after its database was changed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest

from indelible import Actor, GrantTerms, Ledger, MayHaveHappened, NothingHappened, Refused, ToolCall, migrate
from indelible.core.people.credentials import Token
from indelible.core.people.person import Ticket
from indelible.core.people.standing import person_id
from indelible.core.sheets import SheetFilter
from indelible.errors import EffectFailed, IndelibleError, RecordForged
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.writers import VARIABLE, WriterKeys
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.signin.people import People
from indelible.stores import is_postgres
from tests.journal.decided import approve, ask, lose, nothing, refund, wire
from tests.journal.exported import key_of
from tests.journal.tampering import TABLES, Database, Row

ROOT = Actor("root")
OPEN_POLICY: dict[str, Any] = {
    "people": {"ana": {"roles": "lead"}, "bo": {"roles": "lead"}, "mallory": {"roles": "lead"}},
    "approvals": {"notify": "nobody"},
    "rules": [{"name": "all", "then": "allow"}],
}
POLICY: dict[str, Any] = {
    "people": {"ana": {"roles": "lead"}, "bo": {"roles": "lead"}},
    "approvals": {"notify": "nobody"},
    "rules": [
        {"name": "one person", "match": {"tool": ["wire", "refund"]}, "then": "ask"},
        {"name": "never", "match": {"tool": "drop"}, "then": "refuse"},
        {"name": "all else", "then": "allow"},
    ],
    "budgets": [{"name": "money", "match": {"tool": "charge"}, "limit": 100, "window": "24h", "sum": "amount"}],
}
Dump = dict[str, list[Row]]
SECRET = "a" * 43
FORGED_TOKEN = Token("default", "key_01a1ec5438fa21ceb152719cffff", SECRET)
FORGED_SESSION = Ticket("default", person_id("mallory"), "ses_01a1ec5438fa21ceb152719cffff", SECRET)


def charge(amount: int, run_id: str = "order-1") -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id=run_id)


def mail(number: int, run_id: str = "order-2") -> ToolCall:
    return ToolCall(tool="mail", args={"n": number}, run_id=run_id)


def fail(effect: Any) -> None:
    raise Refused("card declined")


@dataclass
class World:
    """Is a template of a ledger's database with its folder of keys, and its honest states on the way."""

    url: str
    keys: Path
    states: dict[str, Dump] = field(default_factory=dict)
    twin: Dump = field(default_factory=dict)
    """Is the final state of a second ledger in which much went otherwise."""
    tokens: dict[str, Token] = field(default_factory=dict)
    sessions: dict[str, Ticket] = field(default_factory=dict)
    baseline: list[Seen] = field(default_factory=list)

    @property
    def final(self) -> Dump:
        """Return a copy of the state that is attacked."""
        return copied(self.states["final"])

    def keep(self, name: str) -> None:
        """Keep an honest state."""
        database = Database(self.url)
        self.states[name] = dumped(database)
        database.close()


def dumped(database: Database) -> Dump:
    """Read every table."""
    return {table: database.rows(table) for table in TABLES}


def copied(dump: Dump) -> Dump:
    """Return a copy whose rows can be changed."""
    return {table: [dict(row) for row in rows] for table, rows in dump.items()}


def build(world: World, *, is_twin: bool = False) -> World:
    """Make a ledger with three tenants: one that is attacked, one like it, and one whose effects are stopped."""
    migrate(world.url)
    world.tokens["forged"], world.sessions["forged"] = FORGED_TOKEN, FORGED_SESSION
    _live(world, "default", is_twin=is_twin)
    if is_twin:
        world.keep("final")
        return world
    _live(replace(world, states={}, tokens={}, sessions={}), "other", is_twin=True)
    with Ledger.open(world.url, tenant="held", seal=False) as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.stop(by=ROOT, reason="look")
        ledger.go(by=ROOT)
        ledger.seal()
        world.keep("held went on")
        ledger.stop(by=ROOT, reason="look again")
        ledger.seal()
    world.keep("final")
    return world


def _live(world: World, tenant: str, *, is_twin: bool) -> None:
    """Leave something of everything; in a twin more is allowed."""
    soon = datetime.now(UTC) + timedelta(days=1)

    def keep(name: str) -> None:
        if not is_twin:
            world.keep(name)

    with Ledger.open(world.url, tenant=tenant, seal=False) as ledger:
        people, tokens = People(ledger._engine.store, tenant), Credentials(ledger._engine.store, tenant)
        ledger.apply_policy(OPEN_POLICY, by="ana")
        keep("open policy")
        ledger.apply_policy(OPEN_POLICY if is_twin else POLICY, by="ana")
        for name in ("ana", "bob", "leo", "mia", "zoe"):
            world.sessions[name] = people.open_link(people.invite(name, ("approver",), by=ROOT)[1])[1]
        world.sessions["link"] = people.invite("dee", ("admin",), by=ROOT)[1]
        for name in ("bot", "gone", "late", "last"):
            world.tokens[name] = tokens.give(name, ("agent",), by=ROOT)[1]
        world.tokens["boss"] = tokens.give("boss", ("admin",), by=ROOT)[1]
        calls: tuple[tuple[ToolCall, Callable[[Any], Any]], ...] = (
            (charge(60), lambda effect: "evil" if is_twin else "paid 60"),
            (mail(1), nothing if is_twin else lose),
            (mail(2), (lambda effect: "sent") if is_twin else fail),
            (mail(3), nothing),
            (mail(4), nothing),
            (mail(5), lose),
            (mail(6), lambda effect: "evil" if is_twin else "sent 6"),
        )
        for call, handler in calls:
            with suppress(MayHaveHappened, Refused, NothingHappened):
                ledger.run(call, handler)
        ledger.begin(mail(7), lease=timedelta(days=1))
        if not is_twin:
            for amount in (1, 2, 3, 4, 5, 6, 7, 8):
                question = ask(ledger, wire(amount))
                if amount in (1, 4, 6, 8):
                    keep(f"asked {amount}")
                    approve(ledger, question, "ana")
            ledger.run(wire(1), lambda effect: "wired 1")
            ledger.deny(ask(ledger, wire(3)).id, by="bo", reason="no")
            ledger.cancel(ask(ledger, wire(5)).effect_id, by="bo")
            approve(ledger, ask(ledger, refund("order-8")), "ana", grant=GrantTerms(count=4, until=soon))
            approve(ledger, ask(ledger, refund("order-8", 6)), "bo", grant=GrantTerms(count=5, until=soon))
            for run_id in ("order-8", "order-9"):
                ledger.run(refund(run_id), lambda effect: "refunded")
        ended = [ledger.delegate(to, until=soon, by="bo") for to in ("dee", "eve", "fay", "gus")]
        ledger.stop(by=ROOT, reason="look")
        keep("stopped")
        ledger.go(by=ROOT)
        limited = ["note.*"] if not is_twin else ["note.*", "drop", "mail"]
        limit = ledger.start_run("lead-1", agent="sales", intent="enrich", allowed_tools=limited)
        limit.checkpoint({"leads": 1})
        limit.fail("no network")
        saved = ledger.start_run("lead-2", agent="sales", intent="enrich")
        saved.checkpoint({"step": 1})
        keep("unsealed 1")
        ledger.seal()
        keep("sealed 1")
        _go_on(ledger, world, tokens, people, ended[:2], ("gone", "bob"), (30, 6, 3))
        saved.checkpoint({"step": 2})
        keep("unsealed 2")
        ledger.seal()
        keep("sealed 2")
        _go_on(ledger, world, tokens, people, ended[2:3], ("late", "leo"), (4, 8, 4))
        saved.checkpoint({"step": 3})
        saved.fail("no network")
        for grant in ledger.grants():
            if grant.given_by == "bo":
                ledger.end_grant(grant.id, by="bo")
        keep("unsealed 3")
        ledger.seal()
        keep("sealed 3")
        tokens.revoke(world.tokens["last"].credential_id, by=ROOT)
        keep("unsealed 4")
        people.revoke(world.sessions["mia"].person_id, by=ROOT)
        ledger.run(mail(8), lambda effect: "sent 8")
        with suppress(MayHaveHappened):
            ledger.run(mail(9), lose)
        if not is_twin:
            ledger.deny(ask(ledger, wire(7)).id, by="bo", reason="no")


def _go_on(
    ledger: Ledger,
    world: World,
    tokens: Credentials,
    people: People,
    delegations: list[Any],
    leaving: tuple[str, str],
    numbers: tuple[int, int, int],
) -> None:
    """Spend, use up, revoke and end something."""
    amount, approved, lost = numbers
    ledger.run(charge(amount), lambda effect: f"paid {amount}")
    if any(one.status == "approved" for one in ledger.approvals(status="approved")):
        ledger.run(wire(approved), lambda effect: f"wired {approved}")
        ledger.run(refund(f"order-1{approved}"), lambda effect: "refunded")
    with suppress(MayHaveHappened):
        ledger.run(mail(lost), lose)
    tokens.revoke(world.tokens[leaving[0]].credential_id, by=ROOT)
    people.revoke(world.sessions[leaving[1]].person_id, by=ROOT)
    for one in delegations:
        ledger.end_delegation(one.id, by="bo")


class Place(NamedTuple):
    """Is a copy of a world that can be attacked."""

    url: str
    keys: Path


@contextmanager
def lent(world: World, folder: Path, number: int) -> Iterator[Place]:
    """Lend a copy of a world's database and keys."""
    keys = folder / f"keys-{number}"
    shutil.copytree(world.keys, keys)
    try:
        if is_postgres(world.url):
            name = urlsplit(world.url).path[1:]
            with psycopg.connect(world.url.replace(name, "postgres", 1), autocommit=True) as server:
                server.execute(f"CREATE DATABASE {name}_{number} TEMPLATE {name}".encode())
                try:
                    yield Place(world.url.replace(name, f"{name}_{number}", 1), keys)
                finally:
                    server.execute(f"DROP DATABASE {name}_{number} WITH (FORCE)".encode())
            return
        file = Path(world.url.removeprefix("sqlite:///"))
        copy = folder / f"copy-{number}.db"
        shutil.copy(file, copy)
        try:
            yield Place(f"sqlite:///{copy}", keys)
        finally:
            for leftover in folder.glob(f"{copy.name}*"):
                leftover.unlink()
    finally:
        shutil.rmtree(keys)


# What callers see


class Seen(NamedTuple):
    """Is what one look came to: `what` is entered, value, failed, let in, or refused."""

    name: str
    what: str
    detail: str


def calls() -> dict[str, ToolCall]:
    """Name the calls that are made again: each stands in its own way."""
    return {
        **{f"charge {amount}": charge(amount) for amount in (60, 30, 4, 50)},
        **{f"mail {number}": mail(number) for number in range(1, 10)},
        **{f"wire {amount}": wire(amount) for amount in range(1, 10)},
        "granted 1": refund("order-31"),
        "granted 2": refund("order-32"),
        "granted 3": refund("order-33"),
        "ended grant": refund("order-34", 6),
        "refused": ToolCall(tool="drop", args={}, run_id="order-1"),
        "beyond limits": ToolCall(tool="drop.all", args={}, run_id="lead-1"),
    }


_KINDS = ("approval", "checkpoint", "credential", "delegation", "grant", "person", "run", "driver", "limit", "budget")
_SHORT = ("far", "sealed")
"""Names those who make these calls alone."""
_THEIR_CALLS = ("charge 60", "mail 1", "mail 3", "wire 2", "wire 7", "refused")


def look(ledger: Ledger, world: World, *, by: str, held: Ledger | None) -> list[Seen]:
    """Make every call again, sign in with every token and session, and read what programs go by."""
    seen: list[Seen] = []

    def note(name: str, ask: Callable[[], tuple[str, str]]) -> None:
        try:
            what, detail = ask()
        except EffectFailed as problem:
            what, detail = "failed", str(problem)
        except Exception as problem:  # whatever is raised lets nothing happen
            what, detail = "refused", type(problem).__name__
        seen.append(Seen(f"{by}: {name}", what, detail))

    def run(desk: Ledger, call: ToolCall) -> tuple[str, str]:
        entered: list[str] = []

        def handler(effect: Any) -> str:
            entered.append(f"{effect.tool} {dict(effect.args)}")
            return f"done {call.tool} {dict(call.args or {})}"

        try:
            value = desk.run(call, handler, wait=False)
        except Exception:
            if entered:
                return "entered", entered[0]
            raise
        return ("entered", entered[0]) if entered else ("value", repr(value))

    if held is not None:
        note("held mail 2", lambda: run(held, mail(2)))
    for name, call in calls().items():
        if by not in _SHORT or name in _THEIR_CALLS:
            note(name, lambda call=call: run(ledger, call))
    identity = Identity(ledger._engine.store)
    for name, token in world.tokens.items():
        note(f"token {name}", lambda token=token: ("let in", _caller(identity, token)))
    for name, ticket in world.sessions.items():
        if name != "link":
            note(f"session {name}", lambda ticket=ticket: ("let in", _signed_in(identity, ticket)))
    if by not in _SHORT:
        note("vote of dee", lambda: _vote(ledger, "dee"))
        note("vote of mallory", lambda: _vote(ledger, "mallory"))
        for kind in _KINDS:
            note(f"rows of {kind}", lambda kind=kind: _rows(ledger, kind))
        note("effects", lambda: ("value", f"read {ledger.effects(limit=1000)[:0]}"))
    note("policy", lambda: ("value", repr(ledger.policy())) if ledger.policy() else ("refused", "no body"))
    if by != "far":  # one of those before it may drive the run
        note("checkpoint", lambda: ("value", _resumed(ledger, "lead-2")))
    return seen


def _caller(identity: Identity, token: Token) -> str:
    found = identity._look(token.tenant, token.credential_id)
    if found is None:
        raise Refused("unknown")
    now = datetime.now(UTC)
    caller = found.credential.admits(token, token.tenant, now, person=found.person, principal=found.principal)
    return f"{caller.actor.id} {sorted(caller.scopes)}"


def _signed_in(identity: Identity, ticket: Ticket) -> str:
    found = identity._sessions._look(ticket.tenant, f"{ticket.person_id} {ticket.name}")
    if found is None:
        raise Refused("unknown")
    caller, _ = found.person.admits(ticket, found.seen_at, datetime.now(UTC), found.rules)
    return f"{caller.actor.id} {sorted(caller.scopes)}"


def _rows(ledger: Ledger, kind: str) -> tuple[str, str]:
    """Read all sheets of a kind; one without a body is one that nothing is decided on."""
    found = ledger._engine.store.sheets(ledger.tenant, SheetFilter(kind=kind, limit=1000))
    if any(sheet.body is None for sheet in found):
        raise RecordForged("a sheet has no body")
    return "value", "read"


def _vote(ledger: Ledger, by: str) -> tuple[str, str]:
    question = ask(ledger, wire(20))
    ledger.approve(question.id, digest=question.digest, by=by)
    return "let in", by


def _resumed(ledger: Ledger, run_id: str) -> str:
    run = ledger.resume_run(run_id)
    return repr(run.context.state)


# Judging


@dataclass
class Verdict:
    """Is what came of an attack."""

    gained: list[Seen] = field(default_factory=list)
    """Says what callers got that they would not have got: a handler entered, a sign-in, another value."""
    refused: list[str] = field(default_factory=list)
    """Says what was refused that would have been given."""
    is_stopped: bool = False
    verify: str = ""
    why: str = ""


@contextmanager
def under_attack(world: World, place: Place, tenant: str) -> Iterator[Callable[[], Verdict]]:
    """Open what is open before an attack; the block attacks, then calls what is lent to judge."""
    with ExitStack() as stack:
        before = stack.enter_context(Ledger.open(place.url, seal=False, wakeups=False))
        held = stack.enter_context(Ledger.open(place.url, tenant="held", seal=False, wakeups=False))
        for one in (before, held):
            one.stopped()
            one.policy()
        identity = Identity(before._engine.store)
        for token in world.tokens.values():
            with suppress(IndelibleError, Refused):
                _caller(identity, token)
        yield lambda: _judge(world, place, tenant, before, held)


def _judge(world: World, place: Place, tenant: str, before: Ledger, held: Ledger) -> Verdict:
    seen: list[Seen] = []
    verdict = Verdict()
    try:
        seen += look(before, world, by="open before", held=held)
        with (
            Ledger.open(place.url, seal=False, wakeups=False) as fresh,
            Ledger.open(place.url, tenant="held", seal=False, wakeups=False) as fresh_held,
        ):
            seen += look(fresh, world, by="fresh", held=fresh_held)
        with _far(place, before) as far:
            seen += look(far, world, by="far", held=None)
        with Ledger.open(place.url, tenant=tenant, seal=False, wakeups=False) as sealing:
            try:
                sealing.seal()
            except IndelibleError as problem:
                verdict.refused.append(f"seal: {type(problem).__name__}")
            seen += [one for one in look(sealing, world, by="sealed", held=None) if tenant == "default"]
            try:
                stop = sealing.stopped()
                verdict.is_stopped = (stop is not None and stop.by == "system") or (
                    stop is not None and tenant != "held"
                )
            except IndelibleError as problem:
                verdict.refused.append(f"stop: {type(problem).__name__}")
            evidence = LiveEvidence(sealing._engine.store, tenant, sealing._engine.notary.seal_with_own_key)
            report = verify(evidence, [world_key(world, tenant, sealing)])
            verdict.verify, verdict.why = report.verdict, report.why
    except IndelibleError as problem:
        verdict.refused.append(f"open: {type(problem).__name__}: {problem}")
    if world.baseline:
        _compare(world.baseline, seen, verdict)
    else:
        world.baseline = seen
    return verdict


@contextmanager
def _far(place: Place, near: Ledger) -> Iterator[Ledger]:
    """Open a ledger as on another machine: with exported keys, and no folder that remembers."""
    keys = near._engine.store.macs
    assert isinstance(keys, WriterKeys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, keys.export(near.tenant, with_rights=True))
        with Ledger.open(place.url, keys=place.keys / "far", seal=False, wakeups=False) as far:
            yield far


_pinned: dict[tuple[str, str], str] = {}


def world_key(world: World, tenant: str, ledger: Ledger) -> str:
    """Return the key as an auditor noted it before the attack."""
    place = (str(world.keys), tenant)
    if place not in _pinned:
        _pinned[place] = key_of(ledger)
    return _pinned[place]


def _compare(honest: list[Seen], seen: list[Seen], verdict: Verdict) -> None:
    """Hold what was seen against the honest world: entries counted by what was done, all else look by look."""
    was = {one.name: one for one in honest}
    left = Counter(one.detail for one in honest if one.what == "entered")
    for one in seen:
        before = was[one.name]
        if one.what == "entered":
            left[one.detail] -= 1
            if left[one.detail] < 0:
                verdict.gained.append(one)
        elif one.what == "refused" or "(erased)" in one.detail:
            if before.what != "refused" or one.detail == "RecordForged":
                verdict.refused.append(f"{one.name}: {one.detail}")
        elif (one.what, one.detail) != (before.what, before.detail) and not _is_own(one):
            verdict.gained.append(one)


def _is_own(one: Seen) -> bool:
    """Is this what a handler returned that was entered here? Its entry was counted."""
    return one.what == "value" and one.detail.strip("'\"").startswith("done ")


# What an attack comes to

NO_EVIDENCE = frozenset(
    {"delivery", "driver", "sheets.body", "effects.lease_until", "runs.begun_at", "trees"}
    | {"payloads.mac", "events.mac", "ledger.has_macs"}
)
"""Names what docs/verify.md lists as carrying no evidence, of what is attacked."""
_SINCE_THE_HEAD = ("token last", "session mia", "wire 7", "mail 8", "mail 9")
COLUMNS = (
    *("refused", "named, stopped", "found by verify", "entered, then named", "entered, then found"),
    *("not ruled out", "no evidence", "VIOLATION"),
)


def outcome(world: World, where: str, dump: Dump, verdict: Verdict) -> str:
    """Say in which column of the table an attack belongs."""
    final = world.states["final"]
    lacks_tail = not _places(final["pending"]) <= _places(dump["events"])
    lacks_events = not _places(final["events"]) <= _places(dump["events"])
    gained = [
        one
        for one in verdict.gained
        if not (lacks_tail and one.name.partition(": ")[2].startswith(_SINCE_THE_HEAD))
        and not (lacks_events and one.name.startswith("far: "))  # nothing remembers there how much there was
    ]
    if gained:
        return _of_gains(gained, dump, final, verdict)
    if verdict.gained:  # all of it is what the unsealed part had taken away or done
        return "not ruled out"
    if any("RecordForged" in one or "no body" in one or one.startswith("open:") for one in verdict.refused):
        return "refused"
    if verdict.is_stopped:
        return "named, stopped"
    if verdict.verify != "verified" or any(one.startswith(("seal", "stop")) for one in verdict.refused):
        return "found by verify"
    if lacks_tail:
        return "not ruled out"
    is_only_heads = all(dump[table] == final[table] for table in TABLES if table != "heads")
    return (
        "no evidence" if where in NO_EVIDENCE or is_only_heads else "VIOLATION"
    )  # the signer signs the same tree again


def _of_gains(gained: list[Seen], dump: Dump, final: Dump, verdict: Verdict) -> str:
    """Say what it is when a handler was entered that should not have been: what is found may be, what is quiet not."""
    if any(one.what != "entered" for one in gained):
        return "VIOLATION"
    rows = {tuple(row[name] for name in TABLES["effects"]): row for row in dump["effects"]}
    was = {tuple(row[name] for name in TABLES["effects"]): row for row in final["effects"]}
    if verdict.is_stopped and any(key in rows and rows[key]["version"] < row["version"] for key, row in was.items()):
        return "entered, then named"
    is_gone = any(key not in rows or rows[key]["id"] != row["id"] for key, row in was.items())
    is_gone = is_gone or not _limits(final) <= _limits(dump)
    return "entered, then found" if is_gone and verdict.verify != "verified" else "VIOLATION"


def _limits(dump: Dump) -> set[tuple[str, str]]:
    return {(row["tenant"], row["id"]) for row in dump["sheets"] if row["kind"] == "limit"}


def _places(rows: list[Row]) -> set[tuple[str, str, int]]:
    return {(row["tenant"], row["run_id"], row["seq"]) for row in rows if row["tenant"] == "default"}
