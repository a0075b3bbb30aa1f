"""`indelible channels`: where approvals are told, what went, what did not, and the buttons in Slack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from indelible import Actor, Ledger
from indelible.cli.approvals.finding import find_approval
from indelible.cli.listing import Listed, say_page, say_page_json
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, limit_option, listen_option
from indelible.cli.show import age, count, say_json, table, visible
from indelible.core.approvals.deliveries import DELIVERY_STATUSES, Delivery, delivery_ref, delivery_sheet, read_delivery
from indelible.core.commands import Keep, Outrun
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import instant_or_none
from indelible.core.paging import read_sheet
from indelible.core.sheets import SheetFilter
from indelible.engine.finding import Found
from indelible.errors import BadCall
from indelible.notify.channels import Channel, Channels, NotSent, problem_with
from indelible.notify.config import load_channels
from indelible.notify.sending import deliveries_about, store_time
from indelible.notify.trial import trial_message

_PAGE = 500
_MOST_LISTED = 10_000

channels_file = click.option(
    "--channels",
    "path",
    envvar="INDELIBLE_CHANNELS",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file that names the channels.  [default: $INDELIBLE_CHANNELS]",
)


@click.group(cls=InOrder)
def channels() -> None:
    """Look after the channels by which people hear of approvals."""


@channels.command(name="list")
@channels_file
@about_ledger
def list_channels(path: Path) -> int:
    """List the channels of a file, and what is wrong with them."""
    found = load_channels(path)
    listed = [
        (channel.name, _kind(channel), str(getattr(channel, "place", "")), problem_with(channel)) for channel in found
    ]
    if where().is_json:
        names = ("name", "kind", "place", "problem")
        say_json({"link": found.link, "channels": [dict(zip(names, row, strict=True)) for row in listed]})
    else:
        rows = [(name, kind, place, problem or "ready") for name, kind, place, problem in listed]
        table(("name", "kind", "goes to", "is"), rows)
    return 1 if any(problem for *_, problem in listed) else 0


def _kind(channel: Channel) -> str:
    return type(channel).__name__.removesuffix("Channel").lower()


@channels.command()
@click.argument("name")
@channels_file
@about_ledger
def test(name: str, path: Path) -> int:
    """Send a message by a channel, to see that it arrives.

    It tells of an approval that is none: nothing in it can be decided.
    """
    found = load_channels(path)
    channel = found.named(name)
    try:
        receipt = channel.send(trial_message(name, datetime.now(UTC), found.link))
    except NotSent as problem:
        raise BadCall(f"{name}: it did not go: {problem}") from None
    if where().is_json:
        say_json({"channel": name, "sent": True, "receipt": dict(receipt)})
    else:
        print(f"{visible(name)}: sent. Look whether it arrived.")
    return 0


@channels.command()
@click.option("--status", type=click.Choice(DELIVERY_STATUSES), help="Only those that are so.")
@click.option("--channel", help="Only those of this channel.")
@click.option("--approval", metavar="ID", help="Only those about this approval.")
@click.option("--before", metavar="ID", help="Only messages older than this one: the next page.")
@limit_option
@about_ledger
def deliveries(status: str | None, channel: str | None, approval: str | None, before: str | None, limit: int) -> None:
    """List messages, newest first, and what became of them."""
    place = where()
    with open_to_read(place) as ledger:
        store = ledger._engine.store
        about = None if approval is None else find_approval(ledger, approval).id
        chosen = {"status": status, "channel": channel, "approval": about, "before": before}
        listed = Listed(noun="message", found=_sent(ledger, chosen, limit), chosen=chosen, address=ledger.address)
        now = store_time(store)
    if place.is_json:
        say_page_json(listed, place, _as_json, "deliveries")
        return
    say_page(listed, place, ("id", "status", "attempts", "due", "problem"), lambda one: _row(one, now))
    if any(delivery.status == "dead" for delivery in listed.found.things):
        print(f"Send the dead ones again: {place.command('channels redeliver --all-dead')}")


def _sent(ledger: Ledger, chosen: Mapping[str, str | None], limit: int) -> Found[Delivery, str]:
    """Gives a page of messages, one more than is shown being read to see whether there are more."""
    store, about = ledger._engine.store, chosen["approval"]
    if about is not None:
        listed = deliveries_about(store, ledger.tenant, about, chosen["channel"])
        return Found([one for one in listed if chosen["status"] in (None, one.status)][:limit], None)
    selected = SheetFilter(
        kind="delivery", status=chosen["status"], topic=chosen["channel"], before=chosen["before"], limit=limit + 1
    )
    sheets = store.sheets(ledger.tenant, selected)
    found = [read_delivery(sheet) for sheet in sheets[:limit] if sheet.body is not None]
    return Found(found, sheets[limit - 1].id if len(sheets) > limit else None)


def _row(delivery: Delivery, now: datetime) -> tuple[str, ...]:
    due = "" if delivery.due_at is None else "now" if delivery.due_at <= now else f"in {age(now, delivery.due_at)}"
    told = delivery.error or str(delivery.receipt.get("skipped") or "")
    return delivery.id, delivery.status, str(delivery.attempts), due, told


def _as_json(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "status": delivery.status,
        "channel": delivery.channel,
        "about": delivery.about,
        "approval_id": delivery.approval_id,
        "attempts": delivery.attempts,
        "due_at": instant_or_none(delivery.due_at),
        "error": delivery.error,
        "receipt": dict(delivery.receipt),
    }


@channels.command()
@click.argument("delivery_id", metavar="[ID]", required=False)
@click.option("--all-dead", is_flag=True, help="All that were given up.")
@click.option("--channel", help="With --all-dead: only those of this channel.")
@about_ledger
def redeliver(delivery_id: str | None, all_dead: bool, channel: str | None) -> int:
    """Let messages be sent again, with the same ids.

    A process that has their channel sends them: a ledger, or `indelible worker --channels FILE`.
    """
    if (delivery_id is None) == (not all_dead) or (channel is not None and not all_dead):
        raise click.UsageError("name a message, or say --all-dead and perhaps --channel")
    place = where()
    with open_existing(place) as ledger:
        found = _dead(ledger, channel) if delivery_id is None else [_found(ledger, delivery_id)]
        renewed = [delivery.id for delivery in found if _renew(ledger, delivery)]
    if place.is_json:
        say_json({"tenant": place.tenant, "due": renewed})
    else:
        print(f"{count(len(renewed), 'message')} to be sent again.")
    return 0


def _dead(ledger: Ledger, channel: str | None) -> list[Delivery]:
    """Lists all dead messages, page by page."""
    found: list[Delivery] = []
    before: str | None = None
    while len(found) < _MOST_LISTED:
        selected = SheetFilter(kind="delivery", status="dead", topic=channel, before=before, limit=_PAGE)
        page = ledger._engine.store.sheets(ledger.tenant, selected)
        found += [read_delivery(sheet) for sheet in page if sheet.body is not None]
        if len(page) < _PAGE:
            break
        before = page[-1].id
    return found


def _found(ledger: Ledger, delivery_id: str) -> Delivery:
    sheet = read_sheet(ledger._engine.store, ledger.tenant, delivery_ref(delivery_id))
    if sheet is None or sheet.body is None:
        raise BadCall(f"no message has the id {delivery_id}; see: indelible channels deliveries")
    return read_delivery(sheet)


def _renew(ledger: Ledger, delivery: Delivery) -> bool:
    """Lets a message be sent again, unless somebody is at it just now."""
    engine = ledger._engine
    now = store_time(engine.store)
    if delivery.status == "sending" and not delivery.is_free(now):
        raise BadCall(f"{delivery.id} is being sent; see what comes of it first")
    sheet = delivery_sheet(delivery.again(now))
    answer = engine.write_alone(Keep(tenant=ledger.tenant, stamp=engine.mint.stamp(SYSTEM), sheet=sheet))
    return not isinstance(answer, Outrun)


@channels.command(name="slack-listen")
@click.option("--channel", "name", help="The Slack channel of the file; needed when it has more than one.")
@listen_option(8788)
@channels_file
@about_ledger
def slack_listen(name: str | None, host: str, port: int, path: Path) -> int:
    """Let people decide by the buttons in Slack.

    Slack posts each pressed button to the app's Request URL; let that lead to this address, through a proxy that
    speaks https. Only people listed in the file may decide, and only what they were shown. Ends on SIGTERM or Ctrl-C.
    """
    from indelible.cli.ending import until_stopped
    from indelible.notify.slack_interactions import interactions_of
    from indelible.notify.slack_server import SlackServer

    channel = _slack_of(load_channels(path), name)
    channel.check()
    place = where()
    with open_existing(place) as ledger, until_stopped() as stopped:
        interactions = interactions_of(channel, _decider(ledger), _posted_by(ledger, channel.name))
        with SlackServer((host, port), interactions) as server:
            threading.Thread(target=server.serve_forever, name="indelible-slack", daemon=True).start()
            click.echo(f"listening for buttons of {channel.name} at {server.url}; stop with Ctrl-C", err=True)
            stopped.wait()
            server.shutdown()
    return 0


def _slack_of(found: Channels, name: str | None) -> Any:
    from indelible.notify.slack import SlackChannel

    listed = [channel for channel in found if isinstance(channel, SlackChannel) and name in (None, channel.name)]
    if len(listed) != 1:
        raise BadCall("name one Slack channel of the file with --channel")
    return listed[0]


def _decider(ledger: Ledger) -> Callable[..., object]:
    def decide(approval_id: str, digest: str, is_approval: bool, by: Actor, reason: str) -> object:
        if is_approval:
            return ledger.approve(approval_id, digest=digest, by=by, reason=reason)
        return ledger.deny(approval_id, digest=digest, by=by, reason=reason)

    return decide


def _posted_by(ledger: Ledger, channel: str) -> Callable[[str, str, str], bool]:
    def was_posted(approval_id: str, slack_channel: str, ts: str) -> bool:
        listed = deliveries_about(ledger._engine.store, ledger.tenant, approval_id, channel)
        places = [(one.receipt.get("channel"), one.receipt.get("ts")) for one in listed]
        return (slack_channel, ts) in places

    return was_posted
