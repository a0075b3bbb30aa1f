"""`indelible erase`, `prune`, `hold`."""

from __future__ import annotations

import pytest

from indelible import Ledger, MayHaveHappened
from tests.cli.conftest import Cli, call, lose

CANARY = "CANARY-cli"


@pytest.fixture
def paid(ledger_url: str) -> str:
    """A ledger with two calls about two people, and a third that is in doubt."""
    with Ledger.open(ledger_url, subject="args.customer") as ledger:
        for customer in ("ada", "bob"):
            ledger.run(call("pay", customer=customer, note=CANARY), lambda effect: CANARY)
        with pytest.raises(MayHaveHappened, match="went dead"):
            ledger.run(call("pay", customer="eve"), lose)
    return ledger_url


@pytest.mark.parametrize(
    "words", [("erase", "--run", "order-1", "--reason", "asked"), ("prune", "--before", "0h")], ids=["erase", "prune"]
)
def test_without_a_terminal_nothing_goes_unless_the_user_says_yes(cli: Cli, paid: str, words: tuple[str, ...]) -> None:
    def would_go() -> int:
        count: int = cli("prune", "--before", "0h", "--dry-run", "--json").json["erased"]
        return count

    before = would_go()
    cli(*words, code=2)
    assert would_go() == before > 0
    cli(*words, "--yes", code=1 if words[0] == "erase" else 0)
    assert would_go() < before


def test_a_field_an_event_and_a_run_are_erased(cli: Cli, paid: str) -> None:
    said = cli(
        "erase", "--yes", "--run", "order-1", "--seq", "0", "--field", "args", "--reason", "asked", "--by", "ana"
    ).out
    assert "Erased 1 payload of 1 run.\n  order-1: 1" in said
    told = cli("erase", "--yes", "--run", "order-1", "--reason", "asked", "--by", "ana", "--json", code=1).json
    assert told["runs"] == {"order-1": 8}
    assert told["kept"][0]["why"].startswith("it is in doubt")
    assert "Kept eff_" in cli("erase", "--yes", "--run", "order-1", "--reason", "asked", code=1).out
    said = cli("events", "order-1").out
    assert "payload_erased" in said
    assert "chain intact" in said
    with Ledger.open(paid) as ledger:
        effect = ledger.effects(status="succeeded")[-1]
    shown = cli("effects", "show", effect.id).out
    assert shown.count("(erased)") >= 2
    assert CANARY not in shown
    assert CANARY not in cli("effects", "list", "--json").out


def test_a_person_is_erased(cli: Cli, paid: str) -> None:
    assert cli("erase", "--yes", "--subject", "ada", "--reason", "asked", "--json").json["erased"] == 4
    assert cli("erase", "--yes", "--subject", "ada", "--reason", "asked", "--json").json["erased"] == 0
    assert "or under another spelling" in cli("erase", "--yes", "--subject", "adda", "--reason", "asked").out
    assert "settle it first" in cli("erase", "--yes", "--subject", "eve", "--reason", "asked", "--force", code=1).err


def test_pruning_rehearses(cli: Cli, paid: str) -> None:
    assert "Would erase 8 payloads of 1 run." in cli("prune", "--before", "0h", "--dry-run").out
    assert "Erased 0 payloads of 0 runs." in cli("prune", "--yes", "--before", "90d").out
    assert cli("prune", "--yes", "--before", "0d", "--json", "--no-rewrite").json["erased"] == 8
    assert cli("prune", "--yes", "--before", "2020-01-31", "--json").json["erased"] == 0


def test_holds_are_placed_listed_and_lifted(cli: Cli, paid: str) -> None:
    placed = cli("hold", "add", "--run", "order-1", "--reason", "lawsuit", "--json").json
    assert placed["run_id"] == "order-1"
    assert placed["id"] in cli("hold", "list").out
    assert placed["id"] in cli("erase", "--yes", "--run", "order-1", "--reason", "asked", code=1).err
    said = cli("prune", "--yes", "--before", "0d").out
    assert "Kept run order-1" in said
    assert "was lifted" in cli("hold", "remove", placed["id"], "--reason", "settled").out
    assert cli("hold", "list", "--json").json["holds"] == []
    assert "hold_" in cli("hold", "add", "--subject", "ada", "--reason", "lawsuit").out
    assert "a subject, " in cli("hold", "list").out
    (left,) = cli("hold", "list", "--json").json["holds"]
    assert cli("hold", "remove", left["id"], "--reason", "settled", "--json").json["subject_mark"]
    assert "hold list" in cli("hold", "remove", "hold_x", "--reason", "settled", code=2).err


def test_a_reason_is_needed(cli: Cli, paid: str) -> None:
    for words in (["erase", "--run", "order-1"], ["hold", "add", "--run", "order-1"]):
        assert "--reason" in cli(*words, code=2).err


def test_an_erased_run_is_shown_as_such_and_nobody_goes_on_with_it(cli: Cli, paid: str) -> None:
    with Ledger.open(paid) as ledger:
        with ledger.start_run("lead-1", agent="sales", intent=CANARY) as run:
            run.record("plan_locked", {"goal": CANARY}, step="plan", side_effect_key="k", side_effect="payment")
            run.artifact(f"file:{CANARY}")
            run.checkpoint({"at": CANARY})
        ledger.start_run("lead-2", agent="sales").fail(CANARY)
    assert "lead-1" in cli("prune", "--yes", "--before", "0h").out
    listed = cli("runs", "list").out
    assert "(erased)" in next(line for line in listed.splitlines() if line.startswith("lead-1"))
    inspected = cli("runs", "inspect", "lead-1").out
    assert "Intent:              (erased)" in inspected
    assert "Resumable:           No" in inspected
    shown = [
        cli("runs", command, "lead-1", *more).out for command in ("inspect", "events") for more in ((), ("--json",))
    ]
    shown += [cli("runs", "timeline", "lead-1").out, cli("events", "lead-1").out, listed]
    assert all(CANARY not in one for one in shown)
    assert "Ledger Integrity:     Valid" in cli("runs", "verify", "lead-1").out
    for command in (("resume", "lead-1"), ("fork", "lead-1"), ("packet", "lead-1", "--out", "never.json")):
        assert "is completed, and what was recorded of it is erased" in cli("runs", *command, code=1).err
    kept = cli("erase", "--yes", "--run", "lead-2", "--reason", "asked", code=1).out
    assert "Kept run lead-2: it is failed and needs what it is gone on with" in kept
    cli("runs", "cancel", "lead-2", "-m", "done")
    assert "Erased" in cli("erase", "--yes", "--run", "lead-2", "--reason", "asked").out
    assert CANARY not in cli("runs", "inspect", "lead-2", "--json").out
