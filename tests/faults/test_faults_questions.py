"""FAULT 84: whatever is asked, wherever it is shown, the arguments shown, recorded and run are the same.

Each place that asks a person is shown generated arguments, with injections, in all sizes, edited before or after.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import unescape
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indelible import Approval, Effect, Ledger, RunningEffect, ToolCall, migrate
from indelible.cli.approvals.watch import Following
from indelible.cli.approvals.watch_screen import ShowPage
from indelible.cli.approvals.watch_terminal import _Terminal
from indelible.cli.opening import Where
from indelible.cli.root import root
from indelible.core.values.canonical import encode
from indelible.errors import ApprovalPending, VoteRefused
from indelible.integrations.mcp_words import MOST_SHOWN, question
from indelible.integrations.terms import question_of
from indelible.notify.channels import Message
from indelible.notify.email import html_text, plain_text
from indelible.notify.slack_blocks import sight_of
from indelible.notify.webhook import content_of
from tests.notify.slack_api import buttons
from tests.server.places import Place

INJECTIONS = [
    'x"\\\u202e\u200b\x1b[2J<script>alert(1)</script>&`*bold*`<!channel>\r\nBcc: all@example.com\u3164⟨U+0041⟩',
    '",\n  "amount": 1,\n  "x": "',
    "paid by bob" + " " * 60 + "\uff02amount\uff02: 1,",
    "```\n<!channel> approve",
    "&lt;b&gt;&amp;",
    "p\u0430ypal",
    r"\u202e and \n",
    "e" + "\u0301" * 9,
    "\n\nlook closely\n  nothing",
    "\n}\n\nlook closely",
    "indelible approvals approve apr_1 --digest 000000000000",
    "\x00\x7f\U000e0041\ud7ff",
]
TEXT = st.one_of(st.text(max_size=20), st.sampled_from(INJECTIONS))
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), TEXT)
FINITE = SCALAR.filter(lambda value: not isinstance(value, float) or abs(value) < 1e300)
VALUE = st.recursive(
    FINITE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
SIZES = st.sampled_from([0, 0, 0, 3_000, 19_000, 60_000])
"""What fits everywhere, and what does not fit an MCP form, or Slack."""


@dataclass(frozen=True)
class Asked:
    """One generated question: what the agent says, what an approver makes of it, and when."""

    args: dict[str, Any]
    edited: dict[str, Any]
    is_edited_before: bool
    is_edited_after: bool


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    args = draw(st.dictionaries(TEXT, VALUE, min_size=1, max_size=4))
    size = draw(SIZES)
    if size:
        args["blob"] = draw(st.sampled_from("x&\u202e\u0430`\n")) * size
    edited = {name: f"edited {draw(TEXT)}" for name in args}
    return Asked(args, edited, draw(st.booleans()), draw(st.booleans()))


class Seen(NamedTuple):
    """What a person sees at a place: the arguments, and what their vote would name; None where they have no vote."""

    args: Any
    digest: str | None


def same(one: Any, other: Any) -> bool:
    """Are these the same JSON? True is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def first_json(text: str) -> Any:
    """Return the JSON that a text begins with; None if it says that there is none."""
    if text.startswith("(not shown: "):
        return None
    return json.JSONDecoder().raw_decode(text)[0]


class Desk:
    """Has a tool and people who decide, on one store."""

    def __init__(self, ledger: Ledger, url: str) -> None:
        self.ledger = ledger
        self.url = url
        self.entered: list[bytes] = []

    def run(self, call: ToolCall) -> Any:
        return self.ledger.run(call, self._enter, approval="required", side_effect="payment", wait=False)

    def _enter(self, effect: RunningEffect) -> str:
        self.entered.append(encode(effect.args))
        return "paid"

    def pending(self, call: ToolCall) -> ApprovalPending:
        with pytest.raises(ApprovalPending) as waits:
            self.run(call)
        return waits.value

    def edit(self, approval: Approval, args: dict[str, Any]) -> None:
        self.ledger.edit_approval(approval, args, digest=approval.digest, by="eve")

    def vote(self, approval: Approval, digest: str) -> bool:
        """Vote; say whether it counts."""
        try:
            self.ledger.approve(approval.id, digest=digest, by="ana")
        except VoteRefused as refused:
            if refused.code != "digest":
                raise
            return False
        return True

    def read(self, approval: Approval) -> tuple[Approval, Effect]:
        found, effect = self.ledger.get_approval(approval.id), self.ledger.get_effect(approval.effect_id)
        assert found is not None
        assert effect is not None
        return found, effect

    def message(self, approval: Approval) -> Message:
        found, effect = self.read(approval)
        return Message(id="apr_1:1:requested:ops", about="requested", approval=found, effect=effect)


Shows = Callable[[Desk, ApprovalPending], Seen]


def by_library(desk: Desk, pending: ApprovalPending) -> Seen:
    shown = desk.ledger.view_approval(pending.approval.id, by="ana").shown
    assert same(json.loads(shown.text or ""), shown.args)
    return Seen(shown.args, shown.digest)


def by_show(desk: Desk, pending: ApprovalPending) -> Seen:
    words = ["approvals", "show", pending.approval.id, "--by", "ana", "--url", desk.url]
    out = CliRunner().invoke(root, words, catch_exceptions=False).stdout
    lines = out.partition("\nargs\n")[2].partition("\n\n")[0]
    (digest,) = re.findall(r"^    indelible approvals approve \S+ --digest ([0-9a-f]+) ", out, re.MULTILINE)
    denies = re.findall(r"^    indelible approvals deny \S+ --digest ([0-9a-f]+) ", out, re.MULTILINE)
    assert denies == [digest]
    return Seen(json.loads(lines), digest)


def by_watch(desk: Desk, pending: ApprovalPending) -> Seen:
    with Following(desk.ledger, None, None) as following:
        terminal = _Terminal(desk.ledger, following, Where(url=desk.url, tenant="default", is_json=False), "ana")
        terminal._do(ShowPage(pending.approval.id))
    opened = terminal.screen.opened
    assert opened is not None
    assert opened.why_not is None
    return Seen(json.loads(opened.question[opened.question.index("\nargs") + 1]), opened.digest)


def by_slack(desk: Desk, pending: ApprovalPending) -> Seen:
    blocks = sight_of(desk.message(pending.approval)).blocks
    texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    fences = [unescape(text[4:-4]) for text in texts if text.startswith("```\n")]
    start = next(at for at, text in enumerate(fences) if text.startswith(("{", "(not shown")))
    votes = {json.loads(button["value"])["digest"] for button in buttons({"blocks": blocks}).values()}
    assert votes or f"Decide with: indelible approvals show {pending.approval.id}" in texts[-1]
    return Seen(first_json("".join(fences[start:])), votes.pop() if votes else None)


def by_mail(desk: Desk, pending: ApprovalPending) -> Seen:
    """Show it; nothing in a mail decides."""
    message = desk.message(pending.approval)
    text = first_json(plain_text(message).partition("arguments, as recorded:\n")[2])
    html = unescape(html_text(message).partition("<pre>")[2].partition("</pre>")[0])
    assert same(first_json(html), text)
    assert f"decide: indelible approvals show {pending.approval.id}" in plain_text(message)
    return Seen(text, None)


def by_webhook(desk: Desk, pending: ApprovalPending) -> Seen:
    data = json.loads(json.dumps(content_of(desk.message(pending.approval))))["data"]
    assert same(json.loads(data["text"]), data["args"])
    return Seen(data["args"], data["digest"])


def by_mcp(desk: Desk, pending: ApprovalPending) -> Seen:
    shown = pending.approval.shown(pending.effect, fits=lambda text: len(text) <= MOST_SHOWN)
    form = question(pending.approval, shown, (), decides=shown.digest is not None)
    told = form.partition("with exactly these arguments:\n\n")[2]
    return Seen(first_json(told) if told else None, shown.digest)


def by_pause(desk: Desk, pending: ApprovalPending) -> Seen:
    asked = json.loads(json.dumps(question_of(pending)))
    assert same(json.loads(asked["text"]), asked["args"])
    return Seen(asked["args"], asked["digest"])


SHOWS = [by_library, by_show, by_watch, by_slack, by_mail, by_webhook, by_mcp, by_pause]
WHOLE = {by_library, by_show, by_watch, by_mail, by_webhook, by_pause}
"""Places that have room for all that is generated here."""


def walk(desk: Desk, shows: Shows, asked: Asked) -> None:
    """Ask, edit, show, edit, vote and run; see that what is shown, recorded and run is the same."""
    call = ToolCall(tool="pay", args=asked.args, run_id=f"run-{uuid4().hex}")
    desk.entered.clear()
    pending = desk.pending(call)
    if asked.is_edited_before:
        desk.edit(pending.approval, asked.edited)
        pending = desk.pending(call)
    approval, effect = desk.read(pending.approval)
    assert effect.args_json is not None
    seen = shows(desk, pending)
    if seen.args is None:
        assert seen.digest is None, "what is not shown is not decided"
        assert shows not in WHOLE
    else:
        assert same(seen.args, json.loads(effect.args_json))
    if asked.is_edited_after:
        desk.edit(approval, dict.fromkeys(asked.edited, "again"))
        assert seen.digest is None or not desk.vote(approval, seen.digest)
        desk.pending(call)
        assert desk.entered == []
        return
    assert desk.vote(approval, seen.digest or approval.digest)
    assert desk.run(call) == "paid"
    assert desk.entered == [effect.args_json]


class CommandDesk(Desk):
    """Votes by the command line."""

    def vote(self, approval: Approval, digest: str) -> bool:
        words = ["approvals", "approve", approval.id, "--digest", digest, "--by", "ana", "--url", self.url]
        return CliRunner().invoke(root, words, catch_exceptions=False).exit_code == 0


@pytest.fixture
def desk(store_url: str) -> Iterator[Desk]:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        yield Desk(ledger, store_url)


FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("shows", SHOWS)
@FEW
@given(asked=questions())
def test_84_what_is_shown_is_what_is_recorded_and_run(desk: Desk, shows: Shows, asked: Asked) -> None:
    made = CommandDesk(desk.ledger, desk.url) if shows is by_show else desk
    walk(made, shows, asked)


class HttpDesk(Desk):
    """Asks, edits and votes at a server."""

    def __init__(self, ledger: Ledger, place: Place) -> None:
        super().__init__(ledger, place.served.url)
        self.place = place

    def edit(self, approval: Approval, args: dict[str, Any]) -> None:
        told = {"args": json.loads(encode(args, root="args")), "digest": approval.digest, "reason": "edited"}
        assert self.place.post(f"/v1/approvals/{approval.id}/edit", told, "bob").status_code == 200

    def vote(self, approval: Approval, digest: str) -> bool:
        told = {"decision": "approve", "digest": digest}
        answer = self.place.post(f"/v1/approvals/{approval.id}/decisions", told, "ana")
        assert answer.status_code in (201, 409)
        return answer.status_code == 201


def by_http(desk: Desk, pending: ApprovalPending) -> Seen:
    assert isinstance(desk, HttpDesk)
    view = desk.place.get(f"/v1/approvals/{pending.approval.id}", "ana").json()
    shown = pending.approval.shown(pending.effect)
    assert view["look_closely"] == shown.as_json()["look_closely"]
    return Seen(json.loads(view["args_json"]), view["approval"]["digest"])


@pytest.fixture
def served(store_url: str) -> Iterator[HttpDesk]:
    place = Place(store_url)
    try:
        with Ledger.open(place.served.url, token=place.tokens["agent"]) as ledger:
            yield HttpDesk(ledger, place)
    finally:
        place.close()


@pytest.mark.parametrize("shows", [by_http, by_pause])
@FEW
@given(asked=questions())
def test_84_what_a_server_shows_is_what_is_recorded_and_run(served: HttpDesk, shows: Shows, asked: Asked) -> None:
    walk(served, shows, asked)


@pytest.mark.parametrize("shows", [by_slack, by_mail, by_webhook])
def test_84_what_is_edited_while_a_message_is_made_is_shown_with_no_digest(desk: Desk, shows: Shows) -> None:
    """The approval and its effect are two reads, and an edit may come between them."""
    call = ToolCall(tool="pay", args={"to": "bob"}, run_id="run-1")
    pending = desk.pending(call)
    before, _ = desk.read(pending.approval)
    desk.edit(before, {"to": "mallory"})
    torn = replace(desk.message(before), approval=before)
    desk.message = lambda approval: torn  # type: ignore[method-assign]
    if shows is by_webhook:
        data = content_of(torn)["data"]
        assert (data["args"], data["digest"]) == (None, None)
    else:
        assert shows(desk, pending) == (None, None)


Denies = Callable[[HttpDesk, Approval, str | None], str]
"""Denies at one of the doors, maybe with a digest; returns the code of the refusal, or "" if it counts."""


def deny_in_program(desk: HttpDesk, approval: Approval, digest: str | None) -> str:
    return code_of(lambda ledger: ledger.deny(approval.id, by="ana", reason="no", digest=digest), desk)


def deny_in_a_loop(desk: HttpDesk, approval: Approval, digest: str | None) -> str:
    words: Any = {"by": "ana", "reason": "no", "digest": digest}
    return code_of(lambda ledger: asyncio.run(ledger.awaited.deny(approval.id, **words)), desk)


def code_of(deny: Callable[[Ledger], Any], desk: HttpDesk) -> str:
    with Ledger.open(desk.place.url, tenant="acme", seal=False) as ledger:
        try:
            deny(ledger)
        except VoteRefused as refused:
            return refused.code
    return ""


def deny_over_http(desk: HttpDesk, approval: Approval, digest: str | None) -> str:
    told = {"decision": "deny", "reason": "no"} | ({} if digest is None else {"digest": digest})
    answer = desk.place.post(f"/v1/approvals/{approval.id}/decisions", told, "ana")
    return "" if answer.status_code == 201 else str(answer.json()["code"])


def deny_by_command(desk: HttpDesk, approval: Approval, digest: str | None) -> str:
    named = [] if digest is None else ["--digest", digest]
    words = ["approvals", "deny", approval.id, "-m", "no", *named, "--by", "ana", "--tenant", "acme"]
    said = CliRunner().invoke(root, [*words, "--url", desk.place.url])
    return "" if said.exit_code == 0 else "digest"


DENIALS: tuple[Denies, ...] = (deny_in_program, deny_in_a_loop, deny_over_http, deny_by_command)


@pytest.mark.parametrize("deny", DENIALS)
@pytest.mark.parametrize("names", [True, False])
def test_84_a_denial_counts_without_a_digest_and_not_with_an_old_one(
    served: HttpDesk, deny: Denies, names: bool
) -> None:
    asked = served.pending(ToolCall(tool="pay", args={"to": "bob"}, run_id="run-1")).approval
    served.edit(asked, {"to": "mallory"})
    (now,) = served.ledger.approvals(status="pending")
    assert now.digest != asked.digest
    for wrong in (asked.digest, "0" * 64):
        assert deny(served, now, wrong) == "digest"
    (left,) = served.ledger.approvals(status="pending")
    assert left.votes == ()
    assert deny(served, now, now.digest if names else None) == ""
    assert [one.status for one in served.ledger.approvals()] == ["denied"]
