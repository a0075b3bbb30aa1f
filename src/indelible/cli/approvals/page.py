"""Everything about one approval on a page: what would run, who has to agree, what is unusual, what to do next."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from indelible import Approval, ApprovalView, Ledger
from indelible.cli.approvals.words import (
    asker,
    deciders,
    escalation_words,
    needs_words,
    quorum,
    standing,
    still_needed,
    time_left,
    vote_words,
)
from indelible.cli.behind import store_behind
from indelible.cli.effects.page import Entry, altered_lines, history_json, read_history
from indelible.cli.opening import Where
from indelible.cli.options import user_name
from indelible.cli.show import (
    age,
    field_lines,
    one_line_json,
    recorded_json,
    timestamp,
    visible,
    wrapped,
)
from indelible.core.approvals.approval import digest_with
from indelible.core.approvals.rendering import Shown
from indelible.core.approvals.shown import approval_shown, differences_shown
from indelible.core.approvals.stuck import Stuck
from indelible.core.values.canonical import decode, encode
from indelible.core.values.differences import MISSING, Difference, differences
from indelible.core.values.visible import visible_json
from indelible.errors import VoteRefused

SHOWN_DIGITS = 16
"""Is how much of a digest the printed commands have; `approve` asks for 12 digits or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Is what somebody is shown of an approval, at one moment of the store's clock.

    `is_bound` says whether the digest is really that of the arguments shown. `newest` is the effect's question now.
    """

    view: ApprovalView
    history: list[Entry]
    is_bound: bool
    newest: str | None
    now: datetime

    @property
    def approval(self) -> Approval:
        """Is the question."""
        return self.view.approval

    @property
    def shown(self) -> Shown:
        """Is what it asks about, as every place shows it."""
        return self.view.shown

    @property
    def is_decidable(self) -> bool:
        """Can somebody decide it now, on what is shown?"""
        is_asked = self.shown.digest is not None and not self.approval.is_overdue(self.now)
        return is_asked and self.is_bound and self.approval.id == self.newest


def read_page(ledger: Ledger, approval: Approval, by: str | None) -> Page:
    """Reads everything about an approval; that `by` looked goes on the record while there is something to decide."""
    view = _viewed(ledger, approval, by)
    return Page(
        view=view,
        history=read_history(ledger, view.effect),
        is_bound=_is_bound(ledger, view, encode(view.args, root="args")),
        newest=view.effect.approval_id,
        now=store_behind(ledger).look([view.effect.ref]).now,
    )


def _viewed(ledger: Ledger, approval: Approval, by: str | None) -> ApprovalView:
    if by is not None and approval.is_open:
        try:
            return ledger.view_approval(approval, by=by)
        except VoteRefused:  # it was asked anew meanwhile, so there is nothing to decide about this one any more
            pass
    return ledger.view_approval(approval.id)


def _is_bound(ledger: Ledger, view: ApprovalView, shown: bytes) -> bool:
    """Is the digest that of what is shown? Where values are encrypted, it is that of the recorded form."""
    approval = view.approval
    if digest_with(approval, shown) == approval.digest:
        return True
    found = store_behind(ledger).payloads(approval.ref.tenant, approval.run_id, [approval.args_seq])
    recorded = next((payload for payload in found if payload.field == "args"), None)
    if recorded is None or digest_with(approval, recorded.value) != approval.digest:
        return False
    opened = ledger._opened_payload(view.effect, recorded)
    return opened is not None and opened.value == shown


# For programs


def page_json(page: Page) -> dict[str, Any]:
    """Gives the page for programs."""
    return {
        "approval": approval_shown(page.approval, page.view.stuck),
        **page.shown.as_json(),
        "is_bound": page.is_bound,
        "is_decidable": page.is_decidable,
        "newest": page.newest,
        "changed": differences_shown(page.view.changed),
        "edited": differences_shown(edited(page)),
        "unusual": differences_shown(page.view.unusual),
        "elsewhere": [one.shown() for one in page.view.elsewhere],
        "events": history_json(page.history),
    }


# For people


def page_lines(page: Page, place: Where, by: str) -> Iterator[str]:
    """Return the page for people, with nothing cut; on a terminal, a line that goes on is marked in the margin."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    yield from question_lines(page) if columns is None else wrapped(question_lines(page), columns, margin="")
    yield from record_lines(page)
    yield from next_steps(page, place, by)
    yield from warnings(page)


def question_lines(page: Page) -> Iterator[str]:
    """Gives what somebody has to have seen before they approve."""
    approval = page.approval
    yield f"{approval.id}  {approval.tool}  {standing(approval, page.now)}"
    yield from field_lines(_record(page))
    yield from _elsewhere(page)
    yield "\nargs"
    yield textwrap.indent(page.shown.text or "", "  ")
    yield from _closely(page)
    yield from _compared("changed since the last question", page.view.changed, approval.replaces)
    yield from _compared(f"edited by {visible(approval.edited_by or '')}", edited(page), None)
    yield from _compared("unlike the last approved call of this tool", page.view.unusual, None)


def record_lines(page: Page) -> Iterator[str]:
    """Gives what has come of it so far."""
    yield from _votes(page.approval)
    yield from _events(page.history)


def warnings(page: Page) -> Iterator[str]:
    """Says what on the page is not what was recorded; nothing may be decided on such a page."""
    if not page.is_bound:
        yield "\nALTERED: the digest is not that of these arguments. Approve nothing, and run: indelible verify"
    yield from altered_lines(page.history)


def _record(page: Page) -> list[tuple[str, str | None]]:
    approval, question = page.approval, page.approval.question
    escalations = list(escalation_words(approval))
    return [
        ("asked by", asker(approval)),
        ("run", visible(approval.run_id)),
        ("side effect", approval.side_effect),
        ("effect", f"{approval.effect_id} ({page.view.effect.status})"),
        ("rule", visible(question.rule)),
        ("why", _why(page.history)),
        ("policy", approval.policy or "none: no policy judged this call"),
        ("schema", approval.schema or None),
        ("asked", f"{timestamp(approval.asked_at)} ({age(approval.asked_at, page.now)} ago)"),
        ("expires", f"{timestamp(approval.expires_at)} ({time_left(approval, page.now)})"),
        ("needs", f"{needs_words(approval)}; approved: {quorum(approval)}"),
        ("may decide", deciders(approval)),
        *_stuck(page.view.stuck),
        ("then", "; ".join(escalations) or None),
        ("may edit", None if question.may_edit else "no"),
        ("sole approver", "yes: may confirm their own edit" if question.is_sole_approver else None),
        ("told", ", ".join(map(visible, question.notify)) or None),
        ("replaces", approval.replaces),
        ("grant", approval.grant),
        ("digest", approval.digest),
    ]


def _stuck(stuck: Stuck | None) -> list[tuple[str, str | None]]:
    """Return why no person can give it any more, and each way out."""
    if stuck is None:
        return []
    ways: list[tuple[str, str | None]] = [("way out", visible(way)) for way in stuck.ways]
    return [("stuck", f"no person can give it any more: {visible(stuck.why)}"), *ways]


def _why(history: Iterable[Entry]) -> str | None:
    """Gives what the policy said to people, when it last asked."""
    said = [
        recorded_json(payload.value)
        for entry in history
        if entry.event.type == "approval_requested"
        for payload in entry.payloads
        if payload.field == "policy"
    ]
    why = said[-1].get("why") if said and isinstance(said[-1], dict) else None
    return visible(why) if isinstance(why, str) and why else None


def _elsewhere(page: Page) -> Iterator[str]:
    if page.view.elsewhere:
        yield "\ncareful"
        yield from (f"  {one}" for one in page.view.elsewhere)


def _closely(page: Page) -> Iterator[str]:
    if page.shown.look_closely:
        yield "\nlook closely"
        yield from (f"  {visible(path)}: {why}" for path, why in page.shown.look_closely)


def edited(page: Page) -> list[Difference] | None:
    """Gives what an approver changed in what the agent asked for; None when nobody did."""
    if page.approval.edited_by is None:
        return None
    asked = [
        payload.value
        for entry in page.history
        if entry.event.type == "approval_requested" and entry.event.seq < page.approval.args_seq
        for payload in entry.payloads
        if payload.field == "args"
    ]
    return list(differences(decode(asked[-1]), page.view.args)) if asked else None


def _compared(title: str, found: Sequence[Difference] | None, other: str | None) -> Iterator[str]:
    if found is None:
        return
    yield f"\n{title}{'' if other is None else f' ({other})'}"
    yield from (difference_line(one) for one in found)
    if not found:
        yield "  nothing: it is the same"


def difference_line(one: Difference) -> str:
    """Shows one field that differs."""
    return f"  {visible(one.path)}: {_side(one.before)} → {_side(one.after)}"


def _side(value: Any) -> str:
    return repr(value) if value is MISSING else visible_json(encode(value).decode())


def _votes(approval: Approval) -> Iterator[str]:
    yield "\nvotes"
    yield from (f"  {vote_words(vote)}" for vote in approval.votes)
    if not approval.votes:
        yield "  none yet" if approval.is_open else "  none"


def _events(history: Sequence[Entry]) -> Iterator[str]:
    yield "\nevents"
    width = max((len(entry.event.type) for entry in history), default=0)
    for entry in history:
        content = entry.event.read()
        actor = f"{visible(content['actor']['id'])} ({content['actor']['kind']})"
        reasons = [one_line_json(payload.value) for payload in entry.payloads if payload.field == "reason"]
        said = f": {reasons[0]}" if reasons else ""
        at = timestamp(datetime.fromisoformat(content["at"]))
        yield f"  {content['seq']:>4}  {at}  {content['type'].ljust(width)}  {actor}{said}"


def next_steps(page: Page, place: Where, by: str) -> Iterator[str]:
    """Says what a person can do, as commands to copy."""
    approval = page.approval
    if page.newest is not None and approval.id != page.newest:
        yield "\nnext"
        yield "  This question is over; the call was asked about anew:"
        yield f"    {place.command(f'approvals show {page.newest}')}"
    elif page.is_decidable:
        yield from _deciding(approval, place, by)
    elif approval.is_overdue(page.now) or approval.status in ("expired", "stale"):
        yield "\nnext"
        yield "  Nothing can be decided any more. When the call is made again, it asks anew."
    elif approval.status == "approved":
        yield "\nnext"
        yield "  It may run: whoever waits for it goes on, else the next call of it does. To take your approval back:"
        yield f"    {place.command(f'approvals revoke {approval.id}{by_words(by)}')}"


def _deciding(approval: Approval, place: Where, by: str) -> Iterator[str]:
    digest = approval.digest[:SHOWN_DIGITS]
    key = " --key FILE" if approval.question.needs_signature else ""
    yield "\nnext"
    yield f"  {still_needed(approval)}. If it is right, exactly as shown above:"
    yield f"    {place.command(f'approvals approve {approval.id} --digest {digest}{key}{by_words(by)}')}"
    yield "  If not:"
    yield f"    {place.command(f'approvals deny {approval.id} --digest {digest} -m REASON{key}{by_words(by)}')}"
    if approval.question.may_edit:
        edit = f"approvals edit {approval.id} --digest {digest} --args JSON{by_words(by)}"
        yield "  With other arguments; another person has to approve them then:"
        yield f"    {place.command(edit)}"


def by_words(by: str) -> str:
    """Gives the words that name who does it, where that is not who is logged in."""
    return "" if by == user_name() else f" --by {shlex.quote(by)}"
