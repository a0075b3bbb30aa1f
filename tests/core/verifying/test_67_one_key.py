"""One key has one effect: a record in which two effects were entered under one key is named, where keys are shown."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.events import commitment
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.payloads import Disclosed
from tests.core.told import HASH, Teller
from tests.core.verifying.test_examination import examine

SALT = b"s" * 32
KEY, OTHER = b"k" * 32, b"o" * 32


def keyed(key: bytes, *names: str) -> dict[str, str]:
    return {"key": commitment(SALT, "key", key), **dict.fromkeys(names, HASH)}


def shown(**keys: bytes) -> Any:
    return {int(place[1:]): {"key": Disclosed(0, "key", SALT, key)} for place, key in keys.items()}


def paid_twice(second: bytes = KEY) -> Teller:
    teller = Teller()
    teller.started(effect="eff_1", commits=keyed(KEY, "args"))
    teller.finished(effect="eff_1")
    teller.started(effect="eff_2", commits=keyed(second, "args"), run="run-2")
    teller.finished(effect="eff_2", run="run-2")
    return teller


def test_67_two_effects_entered_under_one_key_are_named() -> None:
    with pytest.raises(Caught, match="another effect") as caught:
        examine(paid_twice().bodies, shown=shown(_0=KEY, _2=KEY))
    assert (caught.value.flaw.index, caught.value.flaw.run, caught.value.flaw.seq) == (2, "run-2", 0)


def test_67_two_keys_or_a_key_that_is_not_shown_accuse_nobody() -> None:
    examine(paid_twice(OTHER).bodies, shown=shown(_0=KEY, _2=OTHER))
    examine(paid_twice().bodies, shown=shown(_0=KEY))


def test_67_an_effect_that_was_asked_about_first_counts_when_it_is_entered() -> None:
    teller = Teller()
    asked = keyed(KEY, "approval", "args")
    teller.effect("approval_requested", "requires_approval", 0, effect="eff_1", commits=asked)
    teller.started(effect="eff_2", commits=keyed(KEY, "args"), run="run-2")
    examine(teller.bodies, shown=shown(_0=KEY, _1=KEY))
    teller.effect("approval_received", "ready", 0, "approval", "reason", effect="eff_1")
    teller.effect("tool_call_started", "processing", 1, "approval", effect="eff_1")
    with pytest.raises(Caught, match="another effect") as caught:
        examine(teller.bodies, shown=shown(_0=KEY, _1=KEY), has_values=True)
    assert caught.value.flaw.index == 3


def test_67_what_was_denied_was_never_entered() -> None:
    teller = Teller()
    asked = keyed(KEY, "approval", "args")
    teller.effect("approval_requested", "requires_approval", 0, effect="eff_1", commits=asked)
    teller.effect("approval_denied", "denied", 0, "approval", "reason", effect="eff_1")
    teller.started(effect="eff_2", commits=keyed(KEY, "args"), run="run-2")
    teller.finished(effect="eff_2", run="run-2")
    examine(teller.bodies, shown=shown(_0=KEY, _2=KEY), has_values=True)


def test_67_one_effect_may_be_entered_again() -> None:
    teller = Teller()
    teller.started(commits=keyed(KEY, "args"), on_crash="retry")
    teller.effect("tool_call_started", "processing", 2, on_crash="retry")
    examine(teller.bodies, shown=shown(_0=KEY), has_values=True)
