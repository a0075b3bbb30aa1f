"""Where a webhook may go: addresses are read strictly, looked up once, judged, and then held to.

An address that comes from outside can point into the operator's own network: by a private number, by a number in an
odd spelling, by a name that resolves to one, or by a name that resolves to another one the second time. So a name is
looked up once, every number it gives is judged, and the connection goes to those numbers and nowhere else.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from indelible.errors import BadCall

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]
"""Gives the numbers of a name; raises `OSError` when there are none."""

MOST_LETTERS = 2048
DEFAULT_PORTS = {"https": 443, "http": 80}

# IANA's special-purpose registries, multicast, and the reserved rest: nothing there is a receiver on the internet.
_SPECIAL_V4 = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; one cloud's metadata is here
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; most clouds' metadata is here
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
# Of IPv6 only 2000::/3 is given out at all; the rest holds loopback, mapped and compatible IPv4, NAT64, private, local
# and multicast numbers. These parts of 2000::/3 are special again.
_GIVEN_OUT_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = [
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 number
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
]
_CARRYING = [IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
# Where clouds hand out credentials to whoever asks. No allow-list opens these.
_METADATA = frozenset(
    ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[!-\"$-~]*|\?[!-\"$-~]*)?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class Forbidden(BadCall):
    """A webhook must not go there; the message says why, and names the host alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """Is an address, taken apart. Printing it shows no path, for that may hold a secret."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)

    @property
    def host_header(self) -> str:
        """Is how the receiver is named to itself."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}"


def read_url(url: str, *, http: bool = False, ports: Iterable[int] | None = None) -> Target:
    """Takes an address apart; raises `Forbidden` for one that two programs could read in two ways.

    Allowed are https (and http, where that was chosen), a host of plain letters or a number in its usual spelling, and
    a port that is on the list. Not allowed are a user's name, a fragment, escapes in the host, and trailing dots.
    """
    found = _URL.fullmatch(url) if len(url) <= MOST_LETTERS else None
    if found is None:
        raise Forbidden(
            "the address is no plain https address: write https://host/path in ASCII, without a user's name, a "
            "fragment or escapes in the host"
        )
    scheme, host, port_text, path = found.groups()
    if scheme == "http" and not http:
        raise Forbidden(f"{host}: only https is allowed, unless http was chosen for this channel")
    port = int(port_text or DEFAULT_PORTS[scheme])
    listed = {DEFAULT_PORTS[scheme]} if ports is None else set(ports)
    if port not in listed:
        raise Forbidden(f"{host}: port {port} is not allowed; those that are: {sorted(listed)}")
    path = path or "/"
    return Target(scheme, _read_host(host), port, path if path.startswith("/") else f"/{path}")


def _read_host(host: str) -> str:
    if host.startswith("["):
        return str(_number(host[1:-1]))
    name = host.lower()
    labels = name.split(".")
    if labels[-1].isdigit() or re.fullmatch("0x[0-9a-f]*", labels[-1]):
        return str(_number(name))  # a name never ends in a number, so it is a number, and then in its usual spelling
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise Forbidden(f"{host}: no host's name looks like this; write it in ASCII, without a dot at the end")
    return name


def _number(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise Forbidden(f"{text}: an odd spelling of a number; write it in the usual one") from None


def why_forbidden(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Says why nothing is sent to a number; None when it may be."""
    if address in _METADATA or _carried(address) in _METADATA:
        return "clouds hand out credentials there"
    if any(address.version == network.version and address in network for network in allowed):
        return None
    if isinstance(address, IPv4Address):
        is_special = any(address in network for network in _SPECIAL_V4)
        return "it is a private, local or reserved number" if is_special else None
    if address not in _GIVEN_OUT_V6 or any(address in network for network in _SPECIAL_V6):
        return "it is a private, local, reserved or translated number"
    return None if _carried(address) is None else "it carries an IPv4 number"


def _carried(address: Address) -> IPv4Address | None:
    """Gives the IPv4 number inside an IPv6 one: mapped, compatible, translated (NAT64), 6to4 or ISATAP."""
    if isinstance(address, IPv4Address):
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    is_isatap = int(address) >> 32 & 0xFDFFFFFF == 0x00005EFE
    is_last = is_isatap or any(address in network for network in _CARRYING)
    return IPv4Address(int(address) & 0xFFFFFFFF) if is_last else None


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Gives the networks of an allow-list."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text))
        except ValueError as problem:
            raise BadCall(f"allow={text!r}: {problem}; write a network such as 10.0.0.0/8") from None
    return tuple(found)


def resolve_by_system(host: str, port: int) -> list[str]:
    """Asks the system for a name's numbers."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


def pinned(target: Target, allowed: Sequence[Network] = (), resolve: Resolve = resolve_by_system) -> list[Address]:
    """Looks a host up, once, and gives its numbers; raises `Forbidden` when any of them must not be sent to.

    One bad number among good ones is enough: whoever mixes them tries to have it picked.
    """
    try:
        numbers = [ip_address(target.host)]
    except ValueError:
        numbers = [_number(text) for text in dict.fromkeys(resolve(target.host, target.port))]
    if not numbers:
        raise OSError(f"{target.host} has no number")
    for number in numbers:
        why = why_forbidden(number, allowed)
        if why is not None:
            raise Forbidden(f"{target.host} is {number}, and nothing is sent there: {why}. An allow-list can permit it")
    return numbers
