"""What a channel is, what it is given to send, and how it says that something did not go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, overload

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.deliveries import kind_of
from indelible.core.approvals.elsewhere import Elsewhere
from indelible.core.effects.effect import Effect
from indelible.errors import BadCall, IndelibleError

# Letters that mean nothing in a header, in an id, or to whoever signs "id.timestamp.body".
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
ASKING = frozenset({"requested", "escalated", "edited", "reopened"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Is one thing to tell about an approval. `id` stays the same however often it has to be sent.

    `about` says what: requested, escalated-n, edited-n, reopened-n, or how it ended. `effect` has the arguments as
    they are recorded. `earlier` holds what this channel remembered of the messages that asked before, by what they
    were about. `link` is where somebody can look at the approval; following it decides nothing. `elsewhere` lists the
    same call in other runs and under other keys.
    """

    id: str
    about: str
    approval: Approval
    effect: Effect
    earlier: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    link: str | None = None
    elsewhere: Sequence[Elsewhere] = ()

    @property
    def kind(self) -> str:
        """Is what it is about, without a number."""
        return kind_of(self.about)

    @property
    def asks(self) -> bool:
        """Does it ask somebody to decide? Else it tells how that ended."""
        return self.kind in ASKING


class Channel(Protocol):
    """Is a way to tell people.

    `send` returns when the message went, with what the channel wants to remember of it: JSON, at most a few hundred
    bytes, no secrets. It raises `NotSent` when the message did not go, and `GiveUp` when it never will. It may be
    called again for a message that went, with the same id: after a crash nobody knows. It is called by one thread at a
    time, never inside a run.
    """

    @property
    def name(self) -> str: ...

    def send(self, message: Message) -> Mapping[str, Any]: ...


class NotSent(Exception):
    """The message did not go; it is tried again, `after` this time if the receiver said so.

    What it says is kept with the delivery, so it must hold no secret.
    """

    def __init__(self, why: str, *, after: timedelta | None = None) -> None:
        super().__init__(why)
        self.after = after


class GiveUp(NotSent):
    """The message will not go, however often it is tried; a person has to see to it."""


class Channels(Sequence[Channel]):
    """Are the channels of a ledger, each with a name of its own, and where people can look at approvals."""

    def __init__(self, channels: Iterable[Channel], *, link: str | None = None) -> None:
        self._channels = tuple(channels)
        self.link = None if link is None else checked_link(link)
        check_names(self._channels)

    @overload
    def __getitem__(self, at: int) -> Channel: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Channel]: ...

    def __getitem__(self, at: int | slice) -> Channel | Sequence[Channel]:
        return self._channels[at]

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels)

    def __repr__(self) -> str:
        return f"Channels({', '.join(channel.name for channel in self._channels)})"

    def named(self, name: str) -> Channel:
        """Gives the channel with this name."""
        for channel in self._channels:
            if channel.name == name:
                return channel
        there_are = ", ".join(channel.name for channel in self._channels) or "none"
        raise BadCall(f"no channel is called {name!r}; there are: {there_are}")


def problem_with(channel: Channel) -> str | None:
    """Return what keeps a channel from sending, such as a missing secret or library; None if nothing is known."""
    check: Callable[[], None] | None = getattr(channel, "check", None)
    try:
        if check is not None:
            check()
    except IndelibleError as problem:
        return str(problem)
    return None


def check_name(name: object) -> str:
    """Gives a channel's name; raises `BadCall` unless it is small letters, digits, - and _."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadCall(f"channel {name!r}: a name is 1 to 64 small letters, digits, - and _, as in ops-slack")
    return name


def check_names(channels: Sequence[Channel]) -> None:
    """Raises `BadCall` unless each channel has a name of its own."""
    names = [check_name(channel.name) for channel in channels]
    for name in names:
        if names.count(name) > 1:
            raise BadCall(f"two channels are called {name!r}; give each a name of its own")


def checked_link(link: str) -> str:
    """Gives an address for people to follow; raises `BadCall` unless it is a plain http(s) one."""
    if not re.fullmatch(r"https?://[!#$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+", link):
        raise BadCall(f"link={link!r}: give an address such as https://ledger.example.com")
    return link.rstrip("/")
