"""What a Slack message about an approval looks like. Pure: a message in, blocks out.

Whatever comes from a call stands in code fences, escaped, so that it can neither format nor mention nor link anything.
Arguments that do not fit are not shown, and then nobody can approve them there: people approve what they were shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from indelible.core.approvals.rendering import show_command
from indelible.core.values.visible import escaped_json, mark_of
from indelible.notify import wording
from indelible.notify.channels import Message

APPROVE = "indelible_approve"
DENY = "indelible_deny"
REASON_BLOCK, REASON_INPUT = "reason", "text"
MOST_SECTIONS = 10
_MOST_LETTERS = 2900  # of the 3000 a section may have, with room for its fences
_MOST_HEADER = 150
_DIGEST_BEGINS = 16
MOST_REASON = 500

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """Is what Slack shows, and whether that is everything somebody has to see."""

    blocks: list[Block]
    text: str
    is_whole: bool


def sight_of(message: Message) -> Sight:
    """Gives the blocks for a message: a question with its buttons, or how it ended."""
    return _question(message) if message.asks else _ending(message)


def _question(message: Message) -> Sight:
    shown = wording.shown(message, fits=lambda text: fenced(_json_in_fence(text))[1])
    blocks = [_header(message), *_facts(message), *fenced(_json_in_fence(shown.plain))[0]]
    if shown.digest is None:
        blocks.append(_plain(shown.where))
    else:
        blocks.append(_buttons(message.approval.id, shown.digest))
    return Sight([*blocks, _elsewhere(message)], escaped(wording.headline(message)), shown.text is not None)


def _json_in_fence(text: str) -> str:
    """Return JSON that ends no fence, and says the same."""
    return text.replace("`", escaped_json("`"))


def _ending(message: Message) -> Sight:
    told, _ = fenced(wording.ending(message), most=1)
    text = escaped(wording.headline(message))
    return Sight([_header(message), *told, *_facts(message), _elsewhere(message)], text, is_whole=True)


def fenced(text: str, most: int = MOST_SECTIONS) -> tuple[list[Block], bool]:
    """Gives sections that show a text in code fences, and whether they show all of it."""
    parts = _parts([escaped(c) for c in text.replace("`", mark_of("`"))])
    shown = parts[:most]
    if len(parts) > most:
        shown[-1] += f"\n… cut here: {len(text)} letters are too many"
    return [_section(f"```\n{part}\n```") for part in shown], len(parts) <= most


def _parts(letters: list[str]) -> list[str]:
    """Divides letters into parts that fit into a section each, at the end of a line if there is one."""
    parts: list[str] = []
    start = 0
    while start < len(letters) or not parts:
        size, end = 0, start
        while end < len(letters) and size + len(letters[end]) <= _MOST_LETTERS:
            size += len(letters[end])
            end += 1
        if end < len(letters):
            breaks = [at for at in range(start, end) if letters[at] == "\n"]
            end = breaks[-1] + 1 if breaks else end
        parts.append("".join(letters[start:end]).removesuffix("\n"))
        start = end
    return parts


def escaped(text: str) -> str:
    """Writes the three characters that mean something to Slack as it wants them."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def button_value(approval_id: str, digest: str, decision: str) -> str:
    """Gives what a button says when it is pressed: which approval, exactly what was shown, and the answer."""
    return json.dumps({"id": approval_id, "digest": digest, "decision": decision})


def reason_view(tool: str, carried: str) -> dict[str, Any]:
    """Gives the window that asks for the reason of a denial; `carried` comes back with it."""
    return {
        "type": "modal",
        "callback_id": DENY,
        "private_metadata": carried,
        "title": {"type": "plain_text", "text": "Deny"},
        "submit": {"type": "plain_text", "text": "Deny"},
        "close": {"type": "plain_text", "text": "Back"},
        "blocks": [
            _plain(f"Deny {tool}. Why?"[:2000]),
            {
                "type": "input",
                "block_id": REASON_BLOCK,
                "label": {"type": "plain_text", "text": "Reason"},
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON_INPUT,
                    "multiline": True,
                    "max_length": MOST_REASON,
                },
            },
        ],
    }


def _header(message: Message) -> Block:
    text = "".join(mark_of(c) if c in "&<>" else c for c in wording.headline(message))  # it is no place for escapes
    cut = text if len(text) <= _MOST_HEADER else text[: _MOST_HEADER - 1] + "…"
    return {"type": "header", "text": {"type": "plain_text", "text": cut, "emoji": False}}


def _facts(message: Message) -> list[Block]:
    found = [(name, value) for name, value in wording.facts(message) if name != "digest"]
    found.append(("digest", message.approval.digest[:_DIGEST_BEGINS] + "…"))
    width = max(len(name) for name, _ in found)
    return fenced("\n".join(f"{name.ljust(width)}  {value}" for name, value in found))[0]


def _buttons(approval_id: str, digest: str) -> Block:
    confirm = {
        "title": {"type": "plain_text", "text": "Approve?"},
        "text": {
            "type": "plain_text",
            "text": f"It then runs with exactly the arguments shown: digest {digest[:_DIGEST_BEGINS]}…",
        },
        "confirm": {"type": "plain_text", "text": "Approve"},
        "deny": {"type": "plain_text", "text": "Back"},
    }
    approve = _button("Approve", "primary", APPROVE, button_value(approval_id, digest, "approve"))
    deny = _button("Deny", "danger", DENY, button_value(approval_id, digest, "deny"))
    return {"type": "actions", "elements": [{**approve, "confirm": confirm}, deny]}


def _button(text: str, style: str, action: str, value: str) -> Block:
    label = {"type": "plain_text", "text": text}
    return {"type": "button", "text": label, "style": style, "action_id": action, "value": value}


def _elsewhere(message: Message) -> Block:
    text = f"`{show_command(message.approval)}`"
    if message.link is not None:
        text += f" or <{message.link}|look at it>"
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _plain(text: str) -> Block:
    return {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}
