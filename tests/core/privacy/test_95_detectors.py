"""Fault 95: `card` and `token` missed most of the usual shapes, and no page said which."""

from __future__ import annotations

import time

import pytest

from indelible.core.events import Event
from indelible.core.privacy.detectors import DETECTORS, found_in
from indelible.core.privacy.forgetting import tells_of_model, why_unknown
from indelible.core.privacy.redaction import Redactor, check_rules, subject_of
from indelible.integrations.detect_secrets import patterns
from tests.core.privacy.shapes import PAGE, Shape, is_missed, miss_list, shapes

# What has no shape of its own needs a path; a published list says so.
NEEDS_A_PATH = {
    "groups of four with space, dash, space", "groups of four with line breaks", "right before a word",
    "Maestro, 12 digits", "full-width digits", "written in words", "bare hexadecimal, 64 digits", "bare UUID",
    "bare base64, 40 characters", "recovery words",
}  # fmt: skip


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: f"{shape.detector}: {shape.name}")
def test_95_a_usual_shape_is_found_whole(shape: Shape) -> None:
    assert is_missed(shape) == (shape.name in NEEDS_A_PATH)


@pytest.mark.parametrize(
    "card", ["4111 1111 1111 1111", "4111-1111-1111-1111", "4111.1111.1111.1111", "5555555555554444"]
)
@pytest.mark.parametrize(
    "beside",
    ["{}", "{} 12/27", "{} 123", "{} 12 27 123", "{}-123", "50 {}", "50-{}", "1234 5678 {}", "{}%20123", "25 {} 12"],
)
def test_a_card_is_found_beside_other_numbers(beside: str, card: str) -> None:
    text = beside.format(card)
    start = text.index(card)
    spans = list(found_in(text, DETECTORS["card"]))
    assert set(range(start, start + len(card))) <= {place for span in spans for place in range(*span)}


def test_two_cards_are_found_beside_each_other() -> None:
    assert len(list(found_in("4242424242424242 4111111111111111", DETECTORS["card"]))) == 2


def test_95_the_page_lists_what_is_not_found() -> None:
    assert miss_list() in PAGE.read_text(), "write it anew: python -m tests.core.privacy.shapes"


@pytest.mark.parametrize(
    "text",
    [
        "the token count is 4096", "48.858370092951", "2026-11-17T18:57:21.358264Z", "order 1234-5678", "session ended",
        "author: Ada Lovelace", "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "auth: true", "design: new", "+4930123456789",
    ],
)  # fmt: skip
def test_95_what_is_no_secret_is_left_alone(text: str) -> None:
    assert [name for name in ("card", "token") if list(found_in(text, DETECTORS[name]))] == []


@pytest.mark.parametrize("text", ["4111 " * 20_000, "secret_" * 20_000, "a:" * 50_000, "://" * 30_000, "1" * 100_000])
def test_95_hostile_texts_take_no_longer_than_others(text: str) -> None:
    began = time.process_time()
    for detector in DETECTORS.values():
        list(found_in(text, detector))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text", ["key=" * 5000, "//" * 10_000, "sl_key: " * 3000, "aws" * 7000, " " * 20_000, ":" * 20_000]
)
def test_95_patterns_of_a_library_take_no_longer_than_others(text: str) -> None:
    began = time.process_time()
    for pattern in patterns():
        list(pattern.finditer(text))
    assert time.process_time() - began < 5


def test_95_patterns_of_a_library_are_rules_beside_the_detectors() -> None:
    key = "AKC" + "5e" * 20  # Artifactory: no detector of ours knows it
    redactor = Redactor(check_rules(["token", *patterns()]), bytes(32), "default")
    assert key in Redactor(check_rules(["token"]), bytes(32), "default").text(f"use {key} here")
    assert key not in redactor.text(f"use {key} here")


# Subjects


def _event(kind: str, effect_id: str | None = None) -> Event:
    return Event(run_id="r", seq=0, effect_id=effect_id, type=kind, hash="00", body=b"{}", signature=None)


def test_95_turns_and_callbacks_tell_of_models_and_other_events_do_not() -> None:
    for tool in ("model.turn", "crewai.question"):
        assert tells_of_model(_event("tool_call_finished", "eff_1"), tool)
    for namespace in ("callback", "langchain", "provedex"):
        assert tells_of_model(_event(f"{namespace}.model_invoked"), None)
    assert tells_of_model(_event("mcp.input_given"), None)
    assert not tells_of_model(_event("tool_call_finished", "eff_1"), "refund")
    assert not tells_of_model(_event("acme.note"), None)
    assert not tells_of_model(_event("plan_locked"), None)
    assert "erase --run r" in why_unknown("r", 3)


def test_95_a_subject_that_is_optional_may_be_absent() -> None:
    assert subject_of("args.customer_id", b'{"city":"Oslo"}', "weather", is_optional=True) is None
    assert subject_of("args.customer_id", b'{"customer_id":"ada"}', "pay", is_optional=True) == "ada"
