"""A webhook goes to the receiver that was meant and nowhere else: not into the own network, however that is written."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from indelible.errors import BadCall
from indelible.notify.channels import GiveUp, NotSent
from indelible.notify.hidden import Secret
from indelible.notify.ssrf import Forbidden, networks, pinned, read_url, resolve_by_system, why_forbidden
from indelible.notify.webhook import WebhookChannel
from tests.notify.making import message
from tests.notify.receivers import Receiver, receiving

SECRET = Secret("whsec_" + "MTIz" * 10)

# Each leads into the own network, or to a place that two programs could read in two ways.
ODD_SPELLINGS = [
    "https://2130706433/",  # 127.0.0.1 as one number
    "https://017700000001/",
    "https://0x7f000001/",
    "https://0X7F000001/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0177.0.0.1/",
    "https://0x7f.0.0.1/",
    "https://127.0.0.01/",
    "https://127.0.0.0x1/",
    "https://0/",
    "https://00000000/",
    "https://127.0.0.1./",
    "https://3232235777/",  # 192.168.1.1
    "https://169.254.43518/",  # 169.254.169.254
    "https://0251.0376.0251.0376/",
    "https://0xa9fea9fe/",
    "https://1.2.3.4.5/",
    "https://256.256.256.256/",
    "https://localhost./",
    "https://example.com./",
    "https://example..com/",
    "https://-example.com/",
    "https://example-.com/",
    "https://ex_ample.com/",
    "https://user@example.com/",
    "https://user:word@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1#@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https://127.0.0.1\\.example.com/",
    "https://①②⑦.⓪.⓪.①/",  # digits in circles
    "https://127。0。0。1/",  # another full stop
    "https://１２７.0.0.1/",  # wide digits
    "https://ⓛocalhost/",
    "https://lоcalhost/",  # a Cyrillic o
    "https://exämple.com/",  # not as it is looked up
    "https://example.com%00.evil.example/",
    "https://127.0.0.1%2f@example.com/",
    "https://%31%32%37.0.0.1/",
    "https://exa mple.com/",
    "https://example.com\t/",
    "https://example.com\n.evil.example/",
    " https://example.com/",
    "https://example.com/\r\nHost: evil.example",
    "https://example.com/ü",
    "https:///path",
    "https://",
    "https:example.com",
    "//example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_",
    "ftp://example.com/",
    "javascript:alert(1)",
    "http://example.com/",  # http was not chosen
    "HTTPS://example.com/",
    "https://example.com:22/",
    "https://example.com:6379/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:443443/",
    "https://example.com:/",
    "https://example.com:443:443/",
    "https://[::1/",
    "https://::1/",
    "https://[fe80::1%25eth0]/",
    "https://[::1]:80:443/",
    "https://[v1.fe80::a]/",
    "https://[1.2.3.4]x/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 127 + "example/",
    "https://example.com/" + "a" * 2048,
]
FORBIDDEN_NUMBERS = [
    "https://127.0.0.1/",
    "https://127.255.255.254/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/v2/credentials",
    "https://100.64.0.1/",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://192.0.0.192/",
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://198.18.0.1/",
    "https://198.51.100.7/",
    "https://203.0.113.9/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[2600::5efe:10.0.0.1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[fd12:3456:789a::1]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[5f00::1]/",
    "https://[4000::1]/",
]


def test_there_are_more_than_sixty_forms() -> None:
    assert len(set(ODD_SPELLINGS)) + len(set(FORBIDDEN_NUMBERS)) > 110


@pytest.mark.parametrize("url", ODD_SPELLINGS)
def test_an_odd_spelling_is_refused_before_anything_is_looked_up(url: str) -> None:
    with pytest.raises(Forbidden):
        read_url(url)
    with pytest.raises(BadCall):
        WebhookChannel("ops", url, secret=SECRET)


@pytest.mark.parametrize("url", FORBIDDEN_NUMBERS)
def test_a_number_in_the_own_network_is_refused(url: str) -> None:
    with pytest.raises(Forbidden):
        pinned(read_url(url))


@pytest.mark.parametrize("url", FORBIDDEN_NUMBERS)
def test_a_name_that_resolves_to_such_a_number_is_refused(url: str) -> None:
    number = read_url(url).host
    with pytest.raises(Forbidden):
        pinned(read_url("https://receiver.example/"), resolve=lambda host, port: [number])


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://hooks.example.com", "hooks.example.com", 443, "/"),
        ("https://Hooks.Example.COM/a/b?c=d&e=%2F", "hooks.example.com", 443, "/a/b?c=d&e=%2F"),
        ("https://hooks.example.com?x=1", "hooks.example.com", 443, "/?x=1"),
        ("https://xn--exmple-cua.com/", "xn--exmple-cua.com", 443, "/"),
        ("https://93.184.216.34/", "93.184.216.34", 443, "/"),
        ("https://[2606:2800:220:1:248:1893:25C8:1946]/", "2606:2800:220:1:248:1893:25c8:1946", 443, "/"),
        ("https://receiver/", "receiver", 443, "/"),
    ],
)
def test_a_plain_address_is_read_as_it_is_written(url: str, host: str, port: int, path: str) -> None:
    found = read_url(url)
    assert (found.host, found.port, found.path) == (host, port, path)


def test_ports_and_http_are_allowed_by_choice() -> None:
    assert read_url("http://example.com:8080/", http=True, ports=[8080]).host_header == "example.com:8080"
    assert read_url("http://example.com/", http=True).port == 80
    assert read_url("https://[2606:4700::1111]:8443/", ports=[8443]).host_header == "[2606:4700::1111]:8443"


@pytest.mark.parametrize("number", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001:80e::200e"])
def test_a_number_of_the_internet_is_allowed(number: str) -> None:
    assert why_forbidden(ip_address(number)) is None


def test_one_bad_number_among_good_ones_is_enough_to_refuse() -> None:
    target = read_url("https://receiver.example/")
    with pytest.raises(Forbidden, match=r"10\.0\.0\.7"):
        pinned(target, resolve=lambda host, port: ["8.8.8.8", "10.0.0.7"])


def test_an_allow_list_opens_a_network_and_nothing_beside_it() -> None:
    allowed = networks(["10.1.0.0/16", "fd00::/8"])
    assert why_forbidden(ip_address("10.1.2.3"), allowed) is None
    assert why_forbidden(ip_address("10.2.0.1"), allowed) is not None
    assert why_forbidden(ip_address("fd00::7"), allowed) is None
    assert why_forbidden(ip_address("::ffff:10.1.2.3"), allowed) is not None  # in another dress


@pytest.mark.parametrize(
    "number", ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"]
)
def test_no_allow_list_opens_the_place_where_clouds_hand_out_credentials(number: str) -> None:
    assert why_forbidden(ip_address(number), networks(["0.0.0.0/0", "::/0"])) is not None


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(BadCall, match=r"10\.0\.0\.0/8"):
        networks(["10.0.0.1/8"])


class Rebinding:
    """Is a name server that gives a good number first and the machine itself from then on."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_judged() -> None:
    with receiving() as good, receiving() as bad:
        resolve = Rebinding("127.0.0.1", "127.0.0.2")
        channel = WebhookChannel(
            "ops",
            f"http://receiver.example:{good.port}/",
            secret=SECRET,
            http=True,
            ports=[good.port],
            allow=["127.0.0.1/32"],
            resolve=resolve,
        )
        assert channel.send(message()) == {"status": 200}
        assert resolve.asked == 1
        assert [post.headers["host"] for post in good.posts] == [f"receiver.example:{good.port}"]
        with pytest.raises(GiveUp, match=r"127\.0\.0\.2"):
            channel.send(message())
        assert resolve.asked == 2
        assert len(good.posts) == 1
        assert bad.posts == []


def test_nothing_is_connected_when_a_number_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **words: object) -> socket.socket:
        raise AssertionError("it connected")

    monkeypatch.setattr(socket, "create_connection", never)
    channel = WebhookChannel("ops", "https://receiver.example/", secret=SECRET, resolve=lambda host, port: ["10.0.0.1"])
    with pytest.raises(GiveUp, match=r"10\.0\.0\.1"):
        channel.send(message())


def test_a_redirect_into_the_own_network_is_not_followed() -> None:
    with receiving() as inside:
        outside = Receiver(behave=lambda post, line: (307, {"Location": inside.url}, b""))
        with receiving(outside):
            channel = WebhookChannel(
                "ops", outside.url, secret=SECRET, http=True, ports=[outside.port], allow=["127.0.0.1/32"]
            )
            with pytest.raises(NotSent, match="redirects are not followed"):
                channel.send(message())
        assert inside.posts == []


def test_the_system_resolves_names() -> None:
    assert set(resolve_by_system("localhost", 443)) <= {"127.0.0.1", "::1"}


def test_a_name_without_numbers_is_no_address() -> None:
    with pytest.raises(OSError, match="no number"):
        pinned(read_url("https://receiver.example/"), resolve=lambda host, port: [])
