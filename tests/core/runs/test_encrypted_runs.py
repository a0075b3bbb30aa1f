"""What is told of a run goes on the record encrypted: payloads, states, reasons, and effects taken over."""

from __future__ import annotations

import pytest

from indelible.core.commands import Adopt, is_about_effect
from indelible.core.effects.identity import Ref
from indelible.core.privacy.encryption import DataKey, KeyId, encrypted_command, opened_answer, opened_value
from indelible.core.runs.commands import EndRun, NewCheckpoint, RunMoved, SealCheckpoint, Tell
from indelible.core.runs.run import Happening
from tests.core.making import REF, effect, open_command, stamp

KEY = DataKey(b"h" * 16, b"k" * 32)
PLACE = Ref("default", "r", "")
SAID = b'"CANARY"'
ABOUT = {"tenant": "default", "run_id": "r", "stamp": stamp()}


def have(key_id: KeyId) -> DataKey | None:
    return KEY if key_id.holder == b"h" * 16 else None


def opened(value: bytes | None, field: str, ref: Ref = PLACE) -> bytes | None:
    assert value is not None
    assert b"CANARY" not in value
    return opened_value(value, ref, field, have)


def test_what_happened_is_encrypted_and_what_says_nothing_stays() -> None:
    bare = Happening(type="plan_locked")
    told = Tell(happenings=(Happening(type="acme.note", payload_json=SAID), bare), **ABOUT)  # type: ignore[arg-type]
    made = encrypted_command(told, KEY)
    assert isinstance(made, Tell)
    assert opened(made.happenings[0].payload_json, "payload") == SAID
    assert made.happenings[1] == bare


@pytest.mark.parametrize("state", [SAID, None])
def test_a_state_is_encrypted(state: bytes | None) -> None:
    new = NewCheckpoint(id="ckpt_1", reason="manual", state_json=state)
    sealed = encrypted_command(SealCheckpoint(checkpoint=new, **ABOUT), KEY)  # type: ignore[arg-type]
    words = {"status": "failed", "reason_json": SAID, **ABOUT}
    ended = encrypted_command(EndRun(checkpoint=new, **words), KEY)  # type: ignore[arg-type]
    assert isinstance(sealed, SealCheckpoint)
    assert isinstance(ended, EndRun)
    assert opened(ended.reason_json, "reason") == SAID
    for checkpoint in (sealed.checkpoint, ended.checkpoint):
        assert checkpoint is not None
        assert (checkpoint.state_json if state is None else opened(checkpoint.state_json, "state")) == state


def test_a_run_that_ends_without_a_checkpoint_has_none() -> None:
    ended = encrypted_command(EndRun(status="completed", reason_json=SAID, **ABOUT), KEY)  # type: ignore[arg-type]
    assert isinstance(ended, EndRun)
    assert ended.checkpoint is None


@pytest.mark.parametrize(("args", "detail"), [(SAID, SAID), (None, None)])
def test_an_effect_that_is_taken_over_is_encrypted(args: bytes | None, detail: bytes | None) -> None:
    adopt = Adopt(effect=effect("failed", args_json=args, detail_json=detail), stamp=stamp(), origin_json=b"{}")
    made = encrypted_command(adopt, KEY)
    assert isinstance(made, Adopt)
    for value, field, said in ((made.effect.args_json, "args", args), (made.effect.detail_json, "error", detail)):
        assert (value if said is None else opened(value, field, REF)) == said


def test_answers_about_runs_pass_as_they_are() -> None:
    answer = RunMoved(None)
    assert opened_answer(answer, have) is answer


def test_commands_say_whether_an_effect_can_be_at_their_place() -> None:
    assert is_about_effect(open_command())
    assert not is_about_effect(Tell(happenings=(), **ABOUT))  # type: ignore[arg-type]
