"""`indelible demo`: every claim holds, and every claim can fail.

A mutant is the library with one promise taken out, in the demo's own processes too. The demo must notice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from indelible.cli.demo.proofs import CLAIMS, Seen, judge
from indelible.cli.demo.story import one_byte_other
from tests.cli.conftest import Cli
from tests.core.journal.test_chain import record
from tests.docs.following import answers
from tests.docs.pages import ROOT, blocks, typed

NAMES = {claim.__name__ for claim in CLAIMS}


def demo(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "indelible.cli", "demo", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_every_claim_holds_and_is_printed_as_the_readme_shows_it() -> None:
    said = demo()
    assert (said.returncode, said.stderr) == (0, "")
    (shown,) = (one for block in blocks(ROOT / "README.md") for one in typed(block) if one.answer)
    assert answers(said.stdout, shown.answer), said.stdout
    assert said.stdout.count("✓") == len(CLAIMS)
    for words in (
        "refund handler ran 1x",
        "replayed 2x",
        "(KeyReused)",
        "2 of 2 questions still stand",
        "approved 4200, called with 9900 → ApprovalPending, handler entered 0x",
        "approved once → ran 1x with 4200",
        "chain verified: ",
        "→ caught at seq 3",
    ):
        assert words in said.stdout
    assert "@ledger.tool" in said.stdout
    assert "indelible doctor" in said.stdout


def test_it_says_how_long_it_took_and_leaves_nothing_behind(tmp_path: Path) -> None:
    said = demo("--json", TMPDIR=str(tmp_path))
    report = json.loads(said.stdout)
    assert {proof["name"] for proof in report["proofs"]} == NAMES
    assert report["ok"] is True
    assert report["seconds"] > 0  # about two on an idle machine
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_kept_can_be_looked_at(cli: Cli, tmp_path: Path) -> None:
    report = json.loads(demo("--json", "--keep", TMPDIR=str(tmp_path)).stdout)
    url = f"sqlite:///{report['folder']}/ledger.db"
    assert "chain intact: 7 events" in cli("events", "order-123", "--url", url).out
    effects = cli("effects", "list", "--url", url, "--json").json["effects"]
    assert {effect["status"] for effect in effects if effect["run_id"] != "order-790"} == {"succeeded"}
    asked = cli("approvals", "list", "--status", "all", "--run", "order-790", "--url", url, "--json").json["approvals"]
    assert [approval["status"] for approval in asked] == ["denied", "stale"]
    assert "args.amount: 4200 → 9900" in cli("approvals", "show", asked[0]["id"], "--url", url).out


MUTANTS: dict[str, tuple[str, set[str]]] = {
    "what is in doubt is run again": (
        """
        import dataclasses
        from indelible.core.effects import tightening
        careful = tightening.handling_of
        tightening.handling_of = lambda options: dataclasses.replace(careful(options), on_crash="retry")
        """,
        {"ran_once", "held_in_doubt", "retried_by_a_person"},
    ),
    "a replay gives another value": (
        """
        from indelible.core.effects.effect import Effect
        Effect.detail = property(lambda self: {"id": "re_other", "amount": 1, "mail": "m"})
        """,
        {"ran_once", "settled_by_probe"},
    ),
    "the process is not killed": (
        """
        import subprocess
        subprocess.Popen.kill = lambda self: self.stdin.close()
        """,
        {"ran_once", "held_in_doubt", "retried_by_a_person", "question_survived"},
    ),
    "probes are not asked": (
        """
        import indelible.core.effects.walk
        def probe(effect, reconcile, mint, screen=None):
            return effect
            yield
        indelible.core.effects.walk.probe = probe
        """,
        {"settled_by_probe", "mailed_once"},
    ),
    "probes leave no name": (
        """
        import dataclasses
        import indelible.core.effects.walk as walk
        from indelible import Actor
        settling = walk._settling
        walk._settling = lambda effect, outcome, stamp, *rest: settling(
            effect, outcome, dataclasses.replace(stamp, actor=Actor("somebody")), *rest
        )
        """,
        {"settled_by_probe"},
    ),
    "the mail goes out twice": (
        """
        from indelible import Ledger
        run = Ledger.run
        def twice(self, call, handler, **options):
            def both(effect):
                if call.tool == "email.send":
                    handler(effect)
                return handler(effect)
            return run(self, call, both, **options)
        Ledger.run = twice
        """,
        {"mailed_once"},
    ),
    "nobody has to allow a retry": (
        """
        from indelible import Ledger
        from indelible.core.effects.effect import Actor
        retry = Ledger.retry
        Ledger.retry = lambda self, effect, by, reason: retry(self, effect, by=Actor("bot", "system"), reason=reason)
        """,
        {"retried_by_a_person"},
    ),
    "other arguments pass": (
        """
        import dataclasses, sys
        import indelible.engine.writer
        from indelible.core import batch, steps
        careful = steps.next_step
        def careless(command, effect, *rest):
            if effect is not None and isinstance(command, steps.Open):
                command = dataclasses.replace(command, digest=effect.digest)
            return careful(command, effect, *rest)
        for module in list(sys.modules.values()):
            if getattr(module, "next_step", None) is careful:
                module.next_step = careless
        """,
        {"other_arguments_refused", "swapped_arguments_refused"},
    ),
    "any digest approves": (
        """
        from indelible import Ledger
        approve = Ledger.approve
        def trusting(self, approval, *, digest, **words):
            return approve(self, approval, digest=self.get_approval(approval.id).digest, **words)
        Ledger.approve = trusting
        """,
        {"swapped_arguments_refused"},
    ),
    "an approval is not used up": (
        """
        import dataclasses
        import indelible.core.effects.claiming as claiming
        claiming.consumed = lambda approval, attempt: dataclasses.replace(approval, version=approval.version + 1)
        """,
        {"approved_ran_once"},
    ),
    "nobody is asked": (
        """
        from indelible import Ledger
        run = Ledger.run
        Ledger.run = lambda self, call, handler, **words: run(self, call, handler, **{**words, "approval": "none"})
        """,
        {"question_survived", "swapped_arguments_refused", "approved_ran_once"},
    ),
    "events do not name the one before": (
        """
        import secrets
        import indelible.core.batch
        indelible.core.batch.event_hash = lambda body: secrets.token_hex(32)
        """,
        {"chain_intact"},
    ),
    "the check of the chain sees nothing": (
        """
        import indelible.cli.demo.story as demo
        from indelible.core.events import NO_EVENTS
        demo.check_chain = lambda events, run_id: demo.Intact(len(list(events)), NO_EVENTS)
        """,
        {"edit_caught"},
    ),
    "the check of the chain cries wolf": (
        """
        import indelible.cli.demo.story as demo
        demo.check_chain = lambda events, run_id: demo.Broken(3, 3, "wolf")
        """,
        {"chain_intact", "edit_caught"},
    ),
    "the check of payloads sees nothing": (
        """
        import indelible.cli.demo.story as demo
        demo.altered_payloads = lambda event, payloads: []
        """,
        {"payload_edit_caught"},
    ),
    "anybody may sign the journal": (
        """
        from indelible.core.journal.notes import Note
        Note.signed_by = lambda self, key: True
        """,
        {"other_key_refused"},
    ),
    "the verifier looks at nothing": (
        """
        from indelible.journal.evidence import verification
        def run(self, now):
            self._report.verdict = "verified"
        verification._Verification.run = run
        """,
        {"journal_edit_caught", "other_key_refused"},
    ),
    "the journal is not sealed": (
        """
        from indelible.journal.sealing import Sealer
        Sealer.seal = lambda self: None
        """,
        {"journal_verified"},
    ),
    "the agent cannot work": (
        """
        from indelible import Ledger
        def broken(self, *words, **options):
            raise RuntimeError("out of order")
        Ledger.begin = Ledger.run = broken
        """,
        NAMES | {"played_to_the_end"},
    ),
}


def test_every_claim_has_a_mutant_that_breaks_it() -> None:
    assert set().union(*(broken for _, broken in MUTANTS.values())) == NAMES | {"played_to_the_end"}


# Each plays the whole demo, so every third one does so every day; INDELIBLE_MUTANTS=all plays all.
PLAYED = list(MUTANTS)[:: 1 if os.environ.get("INDELIBLE_MUTANTS") == "all" else 3]


@pytest.mark.parametrize("name", PLAYED)
def test_a_mutant_does_not_pass(tmp_path: Path, name: str) -> None:
    code, broken = MUTANTS[name]
    (tmp_path / "sitecustomize.py").write_text(dedent(code))
    said = demo("--json", PYTHONPATH=str(tmp_path))
    assert said.returncode == 1, said
    proofs = {proof["name"]: proof["held"] for proof in json.loads(said.stdout)["proofs"]}
    assert not any(proofs[name] for name in broken), said.stdout


def test_a_broken_claim_is_printed_as_such(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(dedent(MUTANTS["the check of payloads sees nothing"][0]))
    said = demo(PYTHONPATH=str(tmp_path))
    assert said.returncode == 1
    assert "✗ DID NOT HOLD: recorded amount edited, 4200 to 9900 → NOT caught" in said.stdout
    assert "Next, three lines" not in said.stdout


def test_what_was_not_seen_did_not_hold() -> None:
    proofs = list(judge(Seen()))
    assert proofs
    assert not any(proof.held for proof in proofs)


def test_the_edit_changes_one_byte_and_leaves_a_readable_record() -> None:
    events = list(record())
    assert events
    for event in events:
        body = one_byte_other(event.body)
        assert sum(a != b for a, b in zip(body, event.body, strict=True)) == 1
        changed: dict[str, Any] = json.loads(body)
        assert [name for name in changed if changed[name] != event.read()[name]] == ["at"]
