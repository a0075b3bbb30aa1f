"""`indelible runs`: the documented pages, line by line, on every store; what is not valid is named and exits with 1."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from indelible import Ledger, ToolCall
from indelible.cli.behind import reading_of
from indelible.core.runs.run import side_effect_key
from indelible.errors import ApprovalPending, RunOver
from indelible.runs import reading
from tests.chaos.procs import Child
from tests.cli.conftest import SLY, Cli
from tests.cli.test_events import change


@pytest.fixture
def run_id(ledger_url: str) -> str:
    """A run that planned, paid, told of a mail, made a file, was saved, and waits for a person."""
    with Ledger.open(ledger_url, seal=True) as ledger:

        @ledger.tool(side_effect="payment")
        def pay(amount: int) -> dict[str, int]:
            return {"paid": amount}

        @ledger.tool("sync", side_effect="external_mutation", approval="required", wait=False)
        def sync(batch: str) -> None:
            raise AssertionError("nobody approved this")

        def work() -> None:
            words = {"agent": "lead-enrichment-agent", "intent": "Enrich leads", "runtime": "own"}
            with ledger.start_run("order-123", **words) as run:
                run.record("plan_locked", step="plan")
                pay(5)
                key = side_effect_key("mail", "ana", "00")
                mailed = {"side_effect": "notification", "side_effect_key": key, "actor": "mailer"}
                run.record_all([{"event_type": "execution_succeeded", "payload": {"to": "ana"}, **mailed}] * 2)
                run.artifact("leads.csv", content=b"x", step="review")
                run.checkpoint({"step": "sync"}, suggested="sync then mail")
                sync("batch-1")

        with pytest.raises(ApprovalPending):
            work()
    return "order-123"


@contextmanager
def sealing(url: str) -> Iterator[None]:
    """Lets somebody with the key seal, as a worker does, until the block is left."""
    is_over = threading.Event()

    def seal() -> None:
        with Ledger.open(url, seal=True) as ledger:
            while not is_over.wait(0.05):
                ledger.seal()

    sealer = threading.Thread(target=seal)
    sealer.start()
    try:
        yield
    finally:
        is_over.set()
        sealer.join()


def shape(text: str) -> str:
    """Gives a page with what differs from one time to the next taken out."""
    text = re.sub(r"ckpt_[0-9a-f]+", "ckpt_X", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", re.sub(r"evt_[0-9a-f]{64}", "evt_X", text))
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)


RULE = "─" * 44


def test_inspect_prints_the_documented_page(cli: Cli, run_id: str) -> None:
    assert (
        shape(cli("runs", "inspect", run_id).out)
        == f"""\
Run: order-123
{RULE}
Status:              blocked
Intent:              Enrich leads
Current Step:        review
Agent:               lead-enrichment-agent
Runtime:             own

Events:              11
Checkpoints:         2
Artifacts:           1
Unresolved Approvals: 1
Blocked Side Effects: 2

Last Safe Event:     evt_X
Latest Checkpoint:   ckpt_X
Resumable:           Yes
Lineage Valid:       Yes

Created:             TIME
Updated:             TIME
"""
    )


def test_show_is_inspect_and_is_not_listed_twice(cli: Cli, run_id: str) -> None:
    assert shape(cli("runs", "show", run_id).out) == shape(cli("runs", "inspect", run_id).out)
    assert "  show" not in cli("runs", "--help").out


def test_events_prints_the_documented_table(cli: Cli, run_id: str) -> None:
    wide = "─" * 84
    assert (
        cli("runs", "events", run_id).out
        == f"""\
Events for run: order-123
{wide}
Seq  Event Type                   Actor                    Status      Side Effect
{wide}
  1  run_started                  agent                    recorded    none
  2  plan_locked                  agent                    recorded    none
  3  tool_call_started            agent                    recorded    payment
  4  tool_call_finished           indelible                recorded    payment
  5  execution_succeeded          mailer                   recorded    notification
  6  execution_succeeded          mailer                   skipped     notification
  7  artifact_created             agent                    recorded    none
  8  checkpoint_sealed            agent                    recorded    none
  9  approval_requested           agent                    recorded    external_mutation
 10  checkpoint_sealed            agent                    recorded    none
 11  run_blocked                  agent                    recorded    none
"""
    )


def test_checkpoint_prints_the_documented_lines(cli: Cli, run_id: str) -> None:
    said = cli("runs", "checkpoint", run_id, "--suggested", "go on").out
    assert (
        shape(said)
        == "Checkpoint created: ckpt_X\nSealed Hash:        HASH\nResumable:          Yes\nReason:             manual\n"
    )
    sealed = cli("runs", "inspect", run_id, "--json").json["checkpoints"][0]
    assert sealed["sealedHash"] in said
    assert sealed["suggestedNextAction"] == "go on"
    assert cli("runs", "checkpoint", run_id, "--at", "2", "--json").json["atSeq"] == 1


def test_resume_prints_the_documented_page_and_leaves_the_run_to_an_agent(
    cli: Cli, run_id: str, ledger_url: str
) -> None:
    cli("runs", "checkpoint", run_id)
    assert (
        shape(cli("runs", "resume", run_id).out)
        == f"""\
Resumed run: order-123
{RULE}
Checkpoint:          ckpt_X
Current Step:        review
Receipts:            4
Artifacts:           1
Unresolved Approvals: 1
Blocked Side Effects: 2
Suggested Next:      await_approval_then_execute
"""
    )
    with Ledger.open(ledger_url) as ledger:
        active = ledger.resume_run(run_id)
        assert active.context is not None
        assert active.context.state == {"step": "sync"}, "a checkpoint without a state does not lose the agent's"
        assert "driven by" in cli("runs", "resume", run_id, code=1).err
        active.cancel()


def test_verify_prints_the_documented_page(cli: Cli, run_id: str) -> None:
    assert cli("runs", "verify", run_id).out.startswith(f"""\
Verification for run: order-123
{RULE}
Ledger Integrity:     Valid
Checkpoint Integrity: Valid
Lineage Continuity:   Valid

Total Checkpoints:    2
Valid Checkpoints:    2
""")


def test_json_has_the_documented_names(cli: Cli, run_id: str) -> None:
    page = cli("runs", "inspect", run_id, "--json").json
    assert {"run", "events", "checkpoints", "artifacts", "resumableCheckpoints"} <= set(page)
    assert {
        "runId", "ledgerId", "agentId", "intentSummary", "status", "currentStep", "lastSafeEventId", "createdAt",
        "updatedAt",
    } <= set(page["run"])  # fmt: skip
    assert {"eventId", "seq", "eventType", "status", "createdAt"} <= set(page["events"][0])
    assert page["resumableCheckpoints"] == [one["checkpointId"] for one in page["checkpoints"]]
    report = cli("runs", "verify", run_id, "--json").json
    assert report["ledgerIntegrity"].keys() >= {"valid", "hash"}
    assert report["checkpointIntegrity"]["checkpoints"][0].keys() >= {"checkpointId", "valid"}
    assert report["lineageContinuity"] == {"valid": True, "parentRunId": None, "why": None}
    sealed = cli("runs", "checkpoint", run_id, "--json").json
    assert set(sealed) >= {"checkpointId", "sealedHash", "isResumable", "createdAt"}
    context = cli("runs", "resume", run_id, "--json").json
    assert isinstance(context["blockedSideEffectKeys"], list)
    assert len(context["blockedSideEffectKeys"]) == 2
    assert context["unresolvedApprovals"][0]["tool"] == "sync"
    lines = cli("runs", "events", run_id, "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(len(lines)))


def test_a_list_says_what_was_filtered_and_goes_on(cli: Cli, run_id: str, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        for number in range(3):
            ledger.start_run(f"r{number}", agent=SLY).complete()
    said = cli("runs", "list", "--status", "completed", "--limit", "2").out
    assert "Shown: 2 runs. Filter: status completed." in said
    assert "--before r1" in said
    rest = cli("runs", "list", "--status", "completed", "--before", "r1", "--json").json
    assert [run["runId"] for run in rest["runs"]] == ["r0"]
    assert "\x1b" not in said
    assert (
        "the only run. Filter: agent lead-enrichment-agent."
        in cli("runs", "list", "--agent", "lead-enrichment-agent").out
    )


def test_an_empty_ledger_says_how_to_start_a_run(cli: Cli, ledger_url: str) -> None:
    assert "ledger.start_run" in cli("runs", "list").out


@pytest.mark.parametrize("verb", ["inspect", "events", "verify", "resume", "checkpoint", "timeline", "fork"])
def test_a_run_that_is_not_there_is_said_to_be(cli: Cli, ledger_url: str, verb: str) -> None:
    assert "nope" in cli("runs", verb, "nope", code=2).err


def test_events_are_followed_until_the_run_is_over(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        active = ledger.start_run("live", agent="a")
        said: list[str] = []
        follower = threading.Thread(target=lambda: said.append(cli("runs", "events", "live", "-f").out))
        follower.start()
        active.record("plan_locked")
        active.complete()
        follower.join()
    assert [line.split()[1] for line in said[0].splitlines()[4:]] == ["run_started", "plan_locked", "run_completed"]


def test_a_long_run_is_printed_while_it_is_read(cli: Cli, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PAGE", 3)
    with Ledger.open(ledger_url) as ledger:
        active = ledger.start_run("long", agent="a")
        active.record_all([{"event_type": "acme.noted", "payload": {"n": number}} for number in range(9)])
        active.release()
        few = iter(reading_of(ledger, "long"))
        assert next(few).type == "run_started"
        ledger.record("long", "acme.noted", {"n": 9})
        assert [event.seq for event in few] == list(range(1, 11)), "what came in while the first page was printed"
    whole = cli("runs", "events", "long", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in whole] == list(range(11))
    assert cli("runs", "events", "long", "--json", "--after", "4", "--limit", "5").out.splitlines() == whole[4:9]
    some = cli("runs", "events", "long", "--after", "4", "--limit", "5").out.splitlines()
    assert ([line.split()[0] for line in some[4:-1]], some[-1]) == (list("56789"), "There are more. Add: --after 9")
    assert "There are more" not in cli("runs", "events", "long", "--after", "6", "--limit", "5").out
    assert "leave out one of them" in cli("runs", "events", "long", "-f", "--limit", "5", code=2).err
    assert cli("runs", "inspect", "long", "--json").json["events"] == [json.loads(line) for line in whole]
    change(ledger_url, "UPDATE indelible_events SET body = ? WHERE run_id = 'long' AND seq = 4", b"{}")
    stati = [json.loads(line)["status"] for line in cli("runs", "events", "long", "--json").out.splitlines()]
    assert stati == ["recorded"] * 4 + ["unread"] * 7, "no page believes what the one before did not"


def test_a_timeline_draws_what_waited_and_what_was_done(cli: Cli, run_id: str) -> None:
    for width in ("80", "200"):
        drawn = cli("runs", "timeline", run_id, "--width", width).out
        assert all(len(line) <= int(width) for line in drawn.splitlines()), width
        pay, sync = (next(line for line in drawn.splitlines() if line.startswith(tool)) for tool in ("pay", "sync"))
        assert "#" in pay
        assert "." in sync.partition("|")[2]
    assert "*" in next(line for line in drawn.splitlines() if line.startswith("checkpoints"))
    facts = cli("runs", "timeline", run_id, "--json").json
    assert [effect["stretches"][0]["kind"] for effect in facts["effects"]] == ["executing", "waiting"]
    assert len(facts["checkpoints"]) == 2


def test_a_fork_is_compared_with_the_run_it_comes_from(cli: Cli, run_id: str, ledger_url: str) -> None:
    forked = cli("runs", "fork", run_id, "--at", "4", "--name", "f1").out
    assert "Forked order-123 at event 4: f1" in forked
    assert "A dry run" in forked
    by_id = cli("runs", "events", run_id, "--json").out.splitlines()[3]
    again = cli("runs", "fork", run_id, "--at", json.loads(by_id)["eventId"], "--json").json
    assert (json.loads(by_id)["seq"], again["atSeq"]) == (3, 3), "the record counts from 0"
    same = cli("runs", "diff", run_id, "f1", code=1).out
    assert "  pay  succeeded" in same
    assert "- sync  requires_approval" in same
    assert "2 calls compared, different: 1." in same
    found = cli("runs", "diff", run_id, run_id, "--json").json
    assert {one["kind"] for one in found["differences"]} == {"same"}
    assert cli("runs", "fork", run_id, "--for-real", "--json").json["isDryRun"] is False
    for at in ("99", "0", "x"):
        assert f"no event {at}; its last is 11" in cli("runs", "fork", run_id, "--at", at, code=2).err


def test_a_run_is_canceled_with_a_reason(cli: Cli, run_id: str) -> None:
    cli("runs", "cancel", run_id, code=2)
    assert cli("runs", "cancel", run_id, "-m", "no longer wanted", "--json").json["status"] == "canceled"
    assert "is canceled" in cli("runs", "resume", run_id, code=1).err


def test_a_packet_is_written_once_and_taken_over_with_its_key(
    cli: Cli, run_id: str, ledger_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.packet"
    target = f"sqlite:///{tmp_path / 'other.db'}"
    with Ledger.open(target) as other:
        to = other.journal_name
    with sealing(ledger_url):
        copy = cli("runs", "packet", run_id, "--out", str(tmp_path / "copy"), "--json").json
        assert copy["handedOverTo"] is None
        said = cli("runs", "packet", run_id, "--out", str(file), "--to", to).out
    assert "2 effects" in said  # one was made, one waits for a person
    assert to in said
    assert cli("runs", "inspect", run_id, "--json").json["run"]["handedOverTo"] == to
    assert to in cli("runs", "inspect", run_id).out
    assert "there already" in cli("runs", "packet", run_id, "--out", str(file), code=2).err
    assert "name the key" in cli("runs", "import", str(file), "--url", target, code=2).err
    key = cli("keys", "export-public").out.strip()
    assert "Imported run: order-123" in cli("runs", "import", str(file), "--key", key, "--url", target).out
    copied = ("runs", "import", str(tmp_path / "copy"), "--trust", "--url", f"sqlite:///{tmp_path / 'third.db'}")
    Ledger.open(f"sqlite:///{tmp_path / 'third.db'}").close()
    assert "copy for reading" in cli(*copied, code=1).err
    assert (
        cli("runs", "inspect", run_id, "--url", target, "--json").json["run"]["importedFrom"] == key.partition("+")[0]
    )
    context = cli("runs", "resume", run_id, "--url", target, "--json").json
    assert context["state"] == {"step": "sync"}
    altered = file.read_text().replace('"amount":5', '"amount":6').replace("Enrich leads", "Enrich ledas")
    (tmp_path / "altered").write_text(altered)
    assert "altered" in cli("runs", "import", str(tmp_path / "altered"), "--key", key, "--url", target, code=1).err


def drive_until_refused(line: Connection, url: str) -> list[str]:
    """Is a process that drives a run and calls a tool for it whenever it is told to, until one call is refused."""
    entered: list[int] = []
    with Ledger.open(url) as ledger:
        ledger.start_run("order-9", agent="billing")
        while True:
            number = len(entered)
            call = ToolCall(tool="pay", args={"number": number}, run_id="order-9")
            try:
                ledger.run(call, lambda _, number=number: entered.append(number))  # type: ignore[misc]
            except RunOver as refusal:
                return [*map(str, entered), refusal.code]
            line.send("paid")
            line.recv()


def test_a_canceled_run_calls_no_tool_from_then_on(ledger_url: str, cli: Cli) -> None:
    """Its driver is another process with a lease of half a minute, that has not been told anything."""
    with Child(drive_until_refused, ledger_url) as driver:
        for _ in range(2):
            assert driver.hear() == "paid"
            driver.tell("go on")
        assert driver.hear() == "paid"
        assert "Canceled run: order-9" in cli("runs", "cancel", "order-9", "-m", "wrong customer", "--by", "ana").out
        driver.tell("go on")
        assert driver.result() == ["0", "1", "2", "over"]
    assert len(cli("effects", "list", "--run", "order-9", "--json").json["effects"]) == 3


SHOP = """
from indelible import Refused, {kind}

ledger = {kind}.open()

@ledger.tool(side_effect="payment", compensate=lambda effect: refund(effect.args["n"]))
def buy(n): ...

def refund(number):
    if number == 2:
        raise Refused("too old")
    return "refunded"
"""


@pytest.mark.parametrize("kind", ["Ledger", "AsyncLedger"])
def test_compensate_says_what_came_of_each_and_exits_with_what_is_left(
    ledger_url: str, cli: Cli, tmp_path: Path, kind: str
) -> None:
    with Ledger.open(ledger_url) as ledger, ledger.start_run("order-7", agent="shop"):
        for number in (1, 2):
            ledger.run(ToolCall(tool="buy", args={"n": number}, run_id="order-7"), str, side_effect="payment")
    (tmp_path / f"shop_{kind}.py").write_text(SHOP.format(kind=kind))
    words = ("runs", "compensate", "order-7", "--ledger", f"shop_{kind}:ledger")
    said = cli(*words, code=1)
    assert [line.split()[1:] for line in said.out.splitlines() if "eff_" in line] == [
        ["buy", "failed", "Refused:", "too", "old"],
        ["buy", "done"],
    ]
    assert "2 effects, 1 left to make good." in said.out
    del sys.modules[f"shop_{kind}"]
    (tmp_path / f"shop_{kind}.py").write_text(SHOP.format(kind=kind).replace("number == 2", "False"))
    (failed,) = cli("effects", "list", "--status", "failed", "--json").json["effects"]
    cli("effects", "retry", failed["id"], "--by", "ana", "--reason", "asked them")
    again = cli(*words, "--json").json["compensations"]
    assert [(one["status"], one["value"]) for one in again] == [("done", "refunded"), ("nothing_to_do", "refunded")]
    del sys.modules[f"shop_{kind}"]


@pytest.mark.parametrize(
    ("named", "why"), [("shop", "as in"), ("no_such_module:x", "cannot be imported"), ("json:dumps", "is no ledger")]
)
def test_compensate_needs_the_ledger_that_knows_the_tools(ledger_url: str, cli: Cli, named: str, why: str) -> None:
    assert why in cli("runs", "compensate", "order-7", "--ledger", named, code=2).err
