"""What a model hears: every outcome has a text, the page shows it, and none invites a repeat of what may be done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from indelible import Effect, Ledger, NothingHappened, Refused, ToolCall, errors
from indelible.core.effects import meaning
from indelible.errors import EffectInDoubt, NotRun
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.telling import _OUTCOMES, TEXTS, Outcome, heard_of, replayed, waits, with_note

DOCS = Path(__file__).parents[2] / "docs"


def test_every_outcome_has_a_text_and_the_page_shows_it() -> None:
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert shown == dict(TEXTS)
    assert set(TEXTS) == set(get_args(Outcome))


def test_the_page_about_exceptions_has_the_table_of_the_code() -> None:
    rows = [line for line in (meaning.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(rows) == 10
    assert "\n".join(rows) in (DOCS / "exceptions.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("outcome", ["in_doubt", "running", "replayed", "denied", "key_reused"])
def test_no_text_invites_to_do_it_another_way(outcome: Any) -> None:
    inviting = ("try again", "calling again is safe", "you may call", "timed out", "retry")
    assert not any(words in TEXTS[outcome].lower() for words in inviting)


def test_only_what_did_nothing_may_be_called_again() -> None:
    assert {name for name, text in TEXTS.items() if "you may call" in text} == {"nothing_happened"}


def test_every_refusal_that_a_call_can_meet_has_an_outcome() -> None:
    """Those of runs, votes, erasures and moves are for people and programs, never for a model."""
    about_others = (errors.RunRefused, errors.VoteRefused, errors.OnHold, errors.IllegalMove, errors.ToolUnavailable)
    asked_again = (errors.ApprovalEndedUnused,)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NotRun)]
    leaves = [kind for kind in kinds if not any(other is not kind and issubclass(other, kind) for other in kinds)]
    met = [kind for kind in leaves if not issubclass(kind, about_others + asked_again)]
    assert len(met) > 8
    assert [kind for kind in met if not issubclass(kind, tuple(known for known, _ in _OUTCOMES))] == []


def test_what_is_not_the_ledgers_is_not_explained() -> None:
    assert heard_of(ValueError("x"), "pay") is None


def test_texts_hold_the_facts_and_take_none_of_them_for_a_template(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/l.db", seal=False) as ledger:
        call = ToolCall(tool="pay", args={"to": "{tool} {effect}"}, run_id="r", key=["to"], call_id="c1")
        with pytest.raises(OSError, match="cut"):
            ledger.run(call, _raises(OSError("cut")))
        with pytest.raises(EffectInDoubt) as doubt:
            ledger.run(call, _raises(OSError("cut")))
        heard = heard_of(doubt.value, "pay")
        (effect,) = ledger.effects()
        assert heard is not None
        assert heard.outcome == "in_doubt"
        assert effect.id in heard.text
        other = ToolCall(tool="pay", args={"to": "{tool} {effect}", "n": 2}, run_id="r", key=["to"])
        with pytest.raises(errors.KeyReused) as reused:
            ledger.run(other, _raises(OSError("cut")))
        text = heard_of(reused.value, "pay")
        assert text is not None
        assert all(part in text.text for part in ("n=null", "n=2", "not known yet", effect.id))
        with pytest.raises(Refused):
            ledger.run(ToolCall(tool="mail", run_id="r"), _raises(Refused("{why}")))
        with pytest.raises(errors.EffectFailed) as failed:
            ledger.run(ToolCall(tool="mail", run_id="r"), _raises(Refused("{why}")))
        assert heard_of(failed.value, "mail") == ("failed", "{why}")
        nothing = heard_of(NothingHappened("closed."), "pay")
        assert nothing == ("nothing_happened", "closed. Nothing was done, so you may call pay again.")


def _raises(error: Exception) -> Any:
    def handler(effect: Any) -> None:
        raise type(error)(*error.args)

    return handler


@pytest.mark.parametrize("call_id", ["call_0", "call-12", "toolcall_3", "7", "Call_1"])
def test_an_id_that_is_only_a_number_tells_nothing(call_id: str, tmp_path: Path) -> None:
    """Models that number the calls of each answer lose nothing silently, and read anew."""
    with Ledger.open(f"sqlite:///{tmp_path}/l.db", seal=False) as ledger:
        runs: list[str] = []

        def look() -> str:
            runs.append("look")
            return f"look {len(runs)}"

        def pay() -> str:
            runs.append("pay")
            return "paid"

        words: Any = {"terms": {"look": {"side_effect": "read"}, "pay": {"side_effect": "payment"}}}
        calls = FunctionCalls(ledger, {"look": look, "pay": pay}, run="r", **words)

        def asked(tool: str) -> str:
            call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}}
            return str(calls.answer([call]).messages[0]["content"])

        assert [asked("look"), asked("look")] == ["look 1", "look 2"]
        first, second = asked("pay"), asked("pay")
        (effect,) = ledger.effects(tool="pay")
        assert (effect.id in first, effect.id in second) == (False, True)
        assert runs.count("pay") == 1


def test_a_replay_says_so_only_to_another_call(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/l.db", seal=False) as ledger:
        call = ToolCall(tool="pay", run_id="r", call_id="c1")
        heard: list[Effect] = []
        ledger.run(call, lambda effect: 1, on_replay=heard.append)
        assert heard == []
        ledger.run(call, lambda effect: 1, on_replay=heard.append)
        (effect,) = heard
        assert replayed(effect, call) is None
        note = replayed(effect, ToolCall(tool="pay", run_id="r", call_id="c2"))
        assert note is not None
        assert effect.id in note
        assert with_note("x", note) == f"x\n\n{note}"
        assert with_note("x", None) == "x"
        asked = ledger.begin(ToolCall(tool="wire", run_id="r"), approval="required")
        assert asked.approval.id in waits(asked.approval)  # type: ignore[union-attr]
