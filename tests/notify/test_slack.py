"""A question in Slack shows all of it, escaped, and can be answered there only if it does."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from indelible.core.approvals.approval import Question
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from indelible.errors import BadCall
from indelible.notify.channels import GiveUp, Message, NotSent
from indelible.notify.hidden import Secret
from indelible.notify.slack import SlackChannel
from indelible.notify.slack_blocks import APPROVE, DENY, MOST_SECTIONS, fenced, sight_of
from tests.notify.making import NASTY, approval, approved, denied, effect, message
from tests.notify.receivers import cutting
from tests.notify.slack_api import CHANNEL, TOKEN, SlackApi, buttons, shown, slack_api
from tests.waiting import refusing


@pytest.fixture
def slack() -> Iterator[SlackApi]:
    with slack_api() as running:
        yield running


def channel_to(slack: SlackApi, **settings: Any) -> SlackChannel:
    settings = {"token": Secret(TOKEN), "channel": CHANNEL, "api": slack.api, **settings}
    return SlackChannel("ops", timeout=timedelta(seconds=10), **settings)


def follow_up(made: Message, *receipts: dict[str, Any]) -> Message:
    """Gives a message that knows what was posted before."""
    names = ["requested", "escalated-1", "escalated-2"]
    earlier = dict(zip(names, receipts, strict=False))
    return Message(id=made.id, about=made.about, approval=made.approval, effect=made.effect, earlier=earlier)


# ── what it shows ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_shows_everything_and_has_two_buttons(slack: SlackApi) -> None:
    receipt = channel_to(slack).send(message(args={"amount": 5, "to": "Zoë"}))
    assert receipt == {"channel": CHANNEL, "ts": "1700000000.000100"}
    (content,) = slack.messages.values()
    for said in ("refund", "payment", "run-1", "refunds need a person", '"amount": 5', '"to": "Zoë"', "1 person"):
        assert said in shown(content)
    digest = approval(effect({"amount": 5, "to": "Zoë"})).digest
    assert digest[:16] in shown(content)
    values = {action: json.loads(button["value"]) for action, button in buttons(content).items()}
    assert values == {
        APPROVE: {"id": "apr_1", "digest": digest, "decision": "approve"},
        DENY: {"id": "apr_1", "digest": digest, "decision": "deny"},
    }
    assert "confirm" in buttons(content)[APPROVE]
    assert content["metadata"]["event_payload"] == {"delivery": "apr_1:1:requested:ops"}


def test_nothing_formats_mentions_or_hides(slack: SlackApi) -> None:
    about = effect({NASTY: NASTY})
    channel_to(slack).send(message(effect=about, approval=approval(about, tool=NASTY, run_id=NASTY)))
    (content,) = slack.messages.values()
    raw = json.dumps(content["blocks"], ensure_ascii=False)
    assert "<!channel>" not in raw
    assert "&lt;!channel&gt;" in raw
    assert not {"\u202e", "\u200b", "\u3164"} & set(raw)
    sections = [block["text"] for block in content["blocks"] if block["type"] == "section"]
    fences = [section["text"] for section in sections if section["type"] == "mrkdwn"]
    assert fences
    for text in fences:
        assert text.startswith("```\n")
        assert text.endswith("\n```")
        assert "`" not in text[3:-3]  # no fence can be closed from inside
    assert "⟨U+202E⟩⟨U+200B⟩" in shown(content)
    assert "⟨U+0060⟩" in shown(content)


LIMITS = {"section": 3000, "header": 150}


def test_every_block_is_within_slacks_limits() -> None:
    for args in (
        {"a": "x" * 28_000},
        {"a": "&" * 5_000},
        {str(n): "ä" * 50 for n in range(300)},
        {},
        {"a": "\n" * 4000},
    ):
        sight = sight_of(message(args=args))
        assert len(sight.blocks) <= 50
        sizes = {kind: [len(one["text"]["text"]) for one in sight.blocks if one["type"] == kind] for kind in LIMITS}
        assert all(0 < min(sizes[kind]) <= max(sizes[kind]) <= most for kind, most in LIMITS.items())
    long = sight_of(message(approval=approval(tool="t" * 500)))
    assert len(long.blocks[0]["text"]["text"]) == 150


def test_all_arguments_are_there_however_they_are_divided() -> None:
    text = json.dumps({str(number): "y" * 300 for number in range(60)}, indent=2)
    blocks, is_whole = fenced(text)
    assert is_whole
    assert len(blocks) > 3
    assert "\n".join(block["text"]["text"][4:-4] for block in blocks) == text
    line = "z" * 9_000
    blocks, is_whole = fenced(line)
    assert is_whole
    assert "".join(block["text"]["text"][4:-4] for block in blocks) == line


def test_84_what_is_too_long_for_slack_is_not_shown_in_part_and_not_decided_there() -> None:
    sight = sight_of(message(args={"a": "x" * 40_000, "amount": 10**6}))
    content = {"blocks": sight.blocks}
    assert buttons(content) == {}
    assert "xxx" not in shown(content)
    assert "Decide with: indelible approvals show apr_1" in shown(content)
    assert len([b for b in sight.blocks if b["type"] == "section"]) <= MOST_SECTIONS + 3


def test_84_slack_shows_the_arguments_that_the_digest_in_its_button_is_of_or_has_no_button() -> None:
    asked, edited = effect({"to": "bob"}), effect({"to": "mallory"}, opened_seq=1, version=2)
    content = {"blocks": sight_of(message(approval=approval(asked), effect=edited)).blocks}
    assert buttons(content) == {}
    assert "mallory" not in shown(content)


def test_84_slack_tells_of_arguments_that_cannot_be_opened_here_and_has_no_button() -> None:
    sealed = effect(args_json=encode(Encrypted(b"\x01" + bytes(52))))
    content = {"blocks": sight_of(message(effect=sealed)).blocks}
    assert buttons(content) == {}
    assert "indelible approvals show apr_1" in shown(content)


def test_84_slack_shows_json_that_says_the_same_and_what_to_look_at_closely() -> None:
    args = {"to": "p\u0430ypal", "note": NASTY}
    parts = [b["text"]["text"] for b in sight_of(message(args=args)).blocks if b["type"] == "section"]
    (fence,) = [part for part in parts if "p\u0430ypal" in part]
    text, _, closely = unescape(fence.strip("`\n")).partition("\n\nlook closely\n")
    assert json.loads(text) == args
    assert "args.to: mixes Cyrillic and Latin letters" in closely


def test_what_has_to_be_signed_cannot_be_approved_there() -> None:
    question = Question(rule="signed", needs_signature=True)
    content = {"blocks": sight_of(message(approval=approval(question=question))).blocks}
    assert buttons(content) == {}
    assert "has to be signed" in shown(content)


def test_the_link_leads_to_the_page_and_decides_nothing() -> None:
    content = {"blocks": sight_of(message(link="https://ledger.example/approvals/apr_1")).blocks}
    assert "<https://ledger.example/approvals/apr_1|look at it>" in shown(content)


# ── what becomes of it ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_message_is_changed_when_it_is_decided(slack: SlackApi) -> None:
    channel = channel_to(slack)
    receipt = dict(channel.send(message()))
    assert channel.send(follow_up(approved(), receipt)) == {"changed": 1}
    (content,) = slack.messages.values()
    assert buttons(content) == {}
    assert "was approved by alice" in shown(content)


def test_every_message_that_asked_is_changed(slack: SlackApi) -> None:
    channel = channel_to(slack)
    receipts = [dict(channel.send(message(about))) for about in ("requested", "escalated-1")]
    assert len(slack.questions) == 2
    channel.send(follow_up(denied("too much"), *receipts))
    assert slack.questions == []
    assert all("was denied by carol: too much" in shown(content) for content in slack.messages.values())


def test_an_edited_question_is_shown_anew_and_told_of(slack: SlackApi) -> None:
    channel = channel_to(slack)
    receipt = dict(channel.send(message(args={"amount": 5})))
    about = effect({"amount": 4})
    edited = message("edited-2", effect=about, approval=approval(about, editors=("bob",)))
    channel.send(follow_up(edited, receipt))
    first, note = slack.messages.values()
    assert '"amount": 4' in shown(first)
    assert "edited by" in shown(first)
    assert json.loads(buttons(first)[APPROVE]["value"])["digest"] == edited.approval.digest
    assert note["thread_ts"] == receipt["ts"]
    assert buttons(note) == {}


def test_a_message_that_somebody_deleted_is_told_anew(slack: SlackApi) -> None:
    receipt = channel_to(slack).send(follow_up(approved(), {"channel": CHANNEL, "ts": "1.1"}))
    assert receipt["ts"] in slack.messages
    assert "was approved by alice" in shown(slack.messages[receipt["ts"]])


def test_how_it_ended_is_told_where_it_was_never_asked(slack: SlackApi) -> None:
    assert "ts" in channel_to(slack).send(approved())


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_slack_can_ask_to_be_left_alone(slack: SlackApi) -> None:
    slack.refusals.append(("ratelimited", 429, {"Retry-After": "30"}))
    with pytest.raises(NotSent, match="ratelimited") as problem:
        channel_to(slack).send(message())
    assert problem.value.after == timedelta(seconds=30)
    assert not isinstance(problem.value, GiveUp)
    assert slack.calls == ["chat.postMessage"]  # the library does not try again by itself


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "invalid_blocks"])
def test_what_no_retry_mends_is_given_up(slack: SlackApi, error: str) -> None:
    slack.refusals.append((error, 200, {}))
    with pytest.raises(GiveUp, match=error):
        channel_to(slack).send(message())


def test_a_wrong_token_is_not_shown(slack: SlackApi) -> None:
    with pytest.raises(NotSent, match="invalid_auth") as problem:
        channel_to(slack, token=Secret("xoxb-wrong")).send(message())
    assert "xoxb" not in str(problem.value)


def test_a_slack_that_is_down_is_tried_again(slack: SlackApi) -> None:
    slack.refusals.append(("Something <b>else</b>", 500, {}))
    with pytest.raises(NotSent, match=r"unknown \(500\)"):
        channel_to(slack).send(message())
    with refusing() as port, pytest.raises(NotSent, match="cannot be reached"):
        channel_to(slack, api=f"http://127.0.0.1:{port}/api/").send(message())
    slack.receiver.behave = cutting(1)
    with pytest.raises(NotSent, match="cannot be reached"):
        channel_to(slack).send(message())


def test_no_secret_and_no_argument_gets_into_the_log(slack: SlackApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    channel = channel_to(slack, signing_secret=Secret("hidden"))
    channel.check()
    channel.send(message(args={"card": "4242 4242"}))
    said = f"{caplog.text} {channel!r} {channel.place} {vars(channel)!r}"
    assert TOKEN not in said
    assert "hidden" not in said
    assert "4242" not in said


@pytest.mark.parametrize(
    "settings", [{"channel": "#ops"}, {"people": {"alice": "U1"}}, {"people": {"U1": ""}}, {"team": "acme"}]
)
def test_ids_are_slacks_own(settings: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        SlackChannel("ops", **{"token": Secret(TOKEN), "channel": CHANNEL, **settings})
