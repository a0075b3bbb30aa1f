"""Sends what is due on one channel: takes a message, sends it, and writes down what became of it, one at a time.

Whoever takes a message has it for a minute. Of two who take the same one, the store lets one. A sender that dies
between sending and writing that down leaves the message to be sent again, with the same id, for nobody can know.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any

from indelible.core.approvals.deliveries import Delivery, delivery_sheet, read_delivery, why_no_news
from indelible.core.approvals.sheets import approval_ref, read_approval
from indelible.core.commands import Keep, Kept
from indelible.core.effects.effect import SYSTEM
from indelible.core.paging import read_sheet
from indelible.core.ports import Store
from indelible.core.sheets import SheetFilter
from indelible.core.values.canonical import encode
from indelible.engine.elsewhere import read_elsewhere
from indelible.engine.engine import Engine
from indelible.errors import BadCall, IndelibleError, StoreError
from indelible.notify.channels import Channel, GiveUp, Message, NotSent
from indelible.notify.patrol import where

SENDING_PATIENCE = timedelta(seconds=30)
_PAGE = 20
_MOST_STUCK = 4
_MOST_RECEIPT = 2000
_SPREAD = 0.25
_STORE_PAUSE = 0.5
_log = logging.getLogger("indelible.notify")

Tenants = Callable[[], Sequence[str]]
"""Gives the tenants to work for."""


class Sender:
    """Sends the messages of some tenants on one channel."""

    def __init__(
        self,
        engine: Engine,
        tenants: Tenants,
        channel: Channel,
        *,
        link: str | None = None,
        patience: timedelta = SENDING_PATIENCE,
        may_pause: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        """`may_pause` waits a little and says whether there is time for another try, while the store is away."""
        self._engine = engine
        self._tenants = tenants
        self._channel = channel
        self._link = link
        self._patience = patience.total_seconds()
        self.may_pause = may_pause
        self._stuck: list[threading.Thread] = []

    def go(self) -> bool:
        """Sends what is due now; says whether there was anything that was ours to send."""
        store = self._engine.store
        has_sent = False
        for tenant in self._tenants():
            now = store_time(store)
            selected = SheetFilter(kind="delivery", topic=self._channel.name, due_by=now, limit=_PAGE)
            for sheet in store.sheets(tenant, selected):
                if sheet.body is not None and not self._is_stuck():
                    has_sent |= self._see_to(tenant, read_delivery(sheet))
        return has_sent

    def _is_stuck(self) -> bool:
        """Does the channel hang, so that more threads in there would not help?"""
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        return len(self._stuck) >= _MOST_STUCK

    def _see_to(self, tenant: str, delivery: Delivery) -> bool:
        """Takes a message, if nobody else has, and sends it; says whether it was ours."""
        now = store_time(self._engine.store)
        if delivery.is_worn_out:
            return self._keep(tenant, delivery.failed("no sender ever said what became of it", now, is_final=True))
        taken = delivery.taken(now, self._engine.mint.token())
        if not self._keep(tenant, taken):
            return False
        after = self._sent(tenant, taken)
        if after.status != "sent":
            _log.warning("channel %s: %s did not go: %s", taken.channel, taken.id, after.error)
        self._keep_surely(tenant, after)
        return True

    def _sent(self, tenant: str, taken: Delivery) -> Delivery:
        """Sends a message; gives the delivery as it is from then on."""
        try:
            message, now = message_for(self._engine.store, tenant, taken, self._link)
            why_not = why_no_news(taken.about, message.approval, now)
            return taken.sent({"skipped": why_not} if why_not else _recordable(self._in_time(message)))
        except NotSent as problem:
            return self._failed(tenant, taken, str(problem), after=problem.after, is_final=isinstance(problem, GiveUp))
        except IndelibleError as problem:  # a secret is missing, the store is away, values cannot be opened here
            return self._failed(tenant, taken, f"{type(problem).__name__}: {problem}")
        except Exception as problem:
            return self._failed(tenant, taken, f"{type(problem).__name__} {where(problem)}")

    def _failed(
        self, tenant: str, taken: Delivery, why: str, *, after: timedelta | None = None, is_final: bool = False
    ) -> Delivery:
        spread = random.uniform(0, _SPREAD)  # noqa: S311  # nobody gains by guessing it
        assert taken.due_at is not None
        try:
            now = store_time(self._engine.store)
        except StoreError:
            now = taken.due_at  # it is away; then nothing can be sent soon either
        return taken.failed(why[:500], now, is_final=is_final, after=after, spread=spread)

    def _in_time(self, message: Message) -> Mapping[str, Any]:
        """Calls the channel in a thread of its own, so that one which hangs holds nobody up for ever."""
        outcome: Future[Mapping[str, Any]] = Future()

        def body() -> None:
            try:
                outcome.set_result(self._channel.send(message))
            except Exception as error:
                outcome.set_exception(error)
            except BaseException as error:  # it ends no thread of ours, or nobody is told any more
                outcome.set_exception(NotSent(f"{type(error).__name__} {where(error)}"))

        thread = threading.Thread(target=body, name=f"indelible-{self._channel.name}", daemon=True)
        thread.start()
        try:
            return outcome.result(self._patience)
        except TimeoutError:
            if outcome.done():  # the channel's own
                raise
            self._stuck.append(thread)
            raise NotSent(f"the channel did not return within {self._patience:g} s") from None

    def _keep(self, tenant: str, delivery: Delivery) -> bool:
        """Writes a delivery down; says whether it is ours, and nobody else changed it meanwhile."""
        stamp = self._engine.mint.stamp(SYSTEM)
        answer = self._engine.write_alone(Keep(tenant=tenant, stamp=stamp, sheet=delivery_sheet(delivery)))
        return isinstance(answer, Kept)

    def _keep_surely(self, tenant: str, delivery: Delivery) -> None:
        """Writes down what became of a message, as soon as the store lets it: what went is not to go again."""
        while True:
            try:
                if not self._keep(tenant, delivery):
                    _log.warning("%s took too long: somebody else took it over and may send it too", delivery.id)
                return
            except StoreError:
                if not self.may_pause(_STORE_PAUSE):
                    _log.warning("%s: the store is away; it may be sent again, with the same id", delivery.id)
                    return


def store_time(store: Store) -> datetime:
    """Gives the time by the store's clock, which is the same for all who send."""
    return store.look([]).now


def message_for(store: Store, tenant: str, delivery: Delivery, link: str | None) -> tuple[Message, datetime]:
    """Gives what is to be sent, as it stands now; raises `GiveUp` when what it is about is no longer there."""
    found = read_sheet(store, tenant, approval_ref(delivery.approval_id))
    if found is None or found.body is None:
        raise GiveUp("what was asked is erased")
    approval = read_approval(found)
    seen = store.look([approval.ref])
    effect = seen.effects[0]
    if effect is None or effect.are_args_erased:
        raise GiveUp("the arguments are erased")
    message = Message(
        id=delivery.id,
        about=delivery.about,
        approval=approval,
        effect=effect,
        earlier={about: receipt for about, receipt in receipts(store, tenant, delivery).items() if receipt},
        link=None if link is None else f"{link}/approvals/{approval.id}",
        elsewhere=read_elsewhere(store, tenant, [effect])[effect.id] if approval.status == "pending" else (),
    )
    return message, seen.now


def receipts(store: Store, tenant: str, delivery: Delivery) -> dict[str, Mapping[str, Any]]:
    """Gives what the channel remembered of the other messages it sent about an approval."""
    return {
        other.about: other.receipt
        for other in deliveries_about(store, tenant, delivery.approval_id, delivery.channel)
        if other.status == "sent" and other.id != delivery.id
    }


def deliveries_about(store: Store, tenant: str, approval_id: str, channel: str | None = None) -> list[Delivery]:
    """Lists the messages about an approval: their ids begin with its id and a colon, and a semicolon comes next."""
    selected = SheetFilter(
        kind="delivery", topic=channel, after=f"{approval_id}:", before=f"{approval_id};", limit=1000
    )
    return [read_delivery(sheet) for sheet in store.sheets(tenant, selected) if sheet.body is not None]


def _recordable(receipt: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a receipt that can be kept; one that cannot be is forgotten, for the message has gone."""
    try:
        encode(dict(receipt), root="receipt", max_bytes=_MOST_RECEIPT)
    except (BadCall, TypeError, ValueError):
        _log.warning("a channel gave a receipt that cannot be kept: small JSON objects can")
        return {}
    return receipt
