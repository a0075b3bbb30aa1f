"""Ready probes: what a provider says settles an effect, and what it does not say leaves it in doubt."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from indelible import Effect, Failed, Ledger, MayHaveHappened, NothingHappened, Succeeded, ToolCall
from indelible.errors import BadCall
from indelible.probes import NOT_THERE, get_by_key, stripe_outcome, stripe_search

AT_ONCE = timedelta(0)


class Provider:
    """A provider on a port of its own: it answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                provider.asked.append((parts.path, parse_qs(parts.query), dict(self.headers)))
                status, content = provider.answers.pop(0) if provider.answers else (404, None)
                if status == 0:
                    self.close_connection = True
                    return
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                """Says nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.close()


@pytest.fixture
def left() -> Iterator[Effect]:
    """An effect that is in doubt."""
    with Ledger.open(":memory:") as ledger:
        yield _left_in(ledger)


def _left_in(ledger: Ledger) -> Effect:
    def lose(effect: Any) -> None:
        raise MayHaveHappened("cut")

    with suppress(MayHaveHappened):
        ledger.run(ToolCall(tool="charge", args={"amount": 5}, run_id="order/1"), lose, side_effect="payment")
    return ledger.effects(status="in_doubt")[0]


def paid(content: Any) -> Any:
    if not content:
        return NOT_THERE
    return {"paid": Succeeded({"id": content["id"]}), "declined": Failed("declined")}.get(content["status"])


# By key


def test_a_provider_is_asked_by_key_with_headers_and_what_it_says_is_the_outcome(
    provider: Provider, left: Effect
) -> None:
    provider.answers = [(200, {"id": 7, "status": "paid"}), (200, {"id": 8, "status": "declined"})]
    probe = get_by_key(f"{provider.url}/p/{{key}}?run={{run_id}}", found=paid, headers={"X-Key": "k"})
    assert probe(left) == Succeeded({"id": 7})
    assert probe(left) == Failed("declined")
    path, query, headers = provider.asked[0]
    assert (path, query["run"], headers["X-Key"]) == (f"/p/{left.key}", ["order/1"], "k")


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"id": 7, "status": "pending"}),
        (200, b"no json"),
        (200, b'"' + b"x" * 5_000_000 + b'"'),
        (0, None),
        (302, None),
        (401, {"id": 7, "status": "paid"}),
        (403, None),
        (409, None),
        (429, None),
        (500, {"id": 7, "status": "paid"}),
    ],
)
def test_any_other_answer_and_none_at_all_leave_the_effect_in_doubt(
    provider: Provider, left: Effect, answer: Any
) -> None:
    provider.answers = [answer]
    probe = get_by_key(f"{provider.url}/p/{{key}}", found=paid, absent="nothing_happened", settle_after=AT_ONCE)
    assert probe(left) is None
    assert len(provider.asked) == 1


def test_a_provider_that_is_not_there_or_too_slow_leaves_the_effect_in_doubt(left: Effect) -> None:
    def break_off(address: str, headers: Any) -> tuple[int, bytes]:
        raise http.client.IncompleteRead(b"")

    assert get_by_key("http://127.0.0.1:9/{key}", found=paid)(left) is None
    assert get_by_key("http://127.0.0.1:9/{key}", found=paid, opener=break_off)(left) is None
    with httpx2.Client() as client:
        assert get_by_key("http://127.0.0.1:9/{key}", found=paid, client=client)(left) is None


@pytest.mark.parametrize("answer", [(404, None), (200, [])])
def test_what_is_not_there_means_nothing_unless_you_say_so_and_late_enough(
    provider: Provider, left: Effect, answer: Any
) -> None:
    def ask(**words: Any) -> Any:
        provider.answers = [answer]
        return get_by_key(f"{provider.url}/{{key}}", found=paid, **words)(left)

    assert ask() is None
    assert ask(settle_after=AT_ONCE) is None
    assert ask(absent="nothing_happened") is None
    assert ask(absent="nothing_happened", settle_after=timedelta(hours=1)) is None
    with pytest.raises(NothingHappened):
        ask(absent="nothing_happened", settle_after=AT_ONCE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: get_by_key("https://x/{nothing}", found=paid),
        lambda: get_by_key("https://x/{key.__class__}", found=paid),
        lambda: get_by_key("ftp://x/{key}", found=paid),
        lambda: get_by_key("https://x/{key}", found=paid, absent="gone"),  # type: ignore[arg-type]
        lambda: get_by_key("https://x/{key}", found=paid, settle_after=-timedelta(1)),
        lambda: get_by_key("https://x/{key}", found=paid, clock_error=-timedelta(1)),
        lambda: get_by_key("https://x/{key}", found=paid, client=httpx2.Client(), opener=lambda a, h: (200, b"")),
        lambda: stripe_search("refunds", api_key="k"),
        lambda: stripe_search("customers", api_key="k", by="list"),
        lambda: stripe_search(api_key="k", by="guess"),  # type: ignore[arg-type]
        lambda: stripe_search(api_key="k", metadata="a']:'b"),
    ],
)
def test_a_probe_that_cannot_work_is_refused_when_it_is_made(make: Callable[[], Any]) -> None:
    with pytest.raises(BadCall):
        make()


def test_a_probe_settles_the_effect_of_a_tool(provider: Provider) -> None:
    provider.answers = [(200, {"id": 7, "status": "paid"})]
    probe = get_by_key(f"{provider.url}/{{key}}", found=paid)
    with Ledger.open(":memory:", reconcile=probe) as ledger:
        effect = _left_in(ledger)
        ledger.reconcile()
        settled = ledger.get_effect(effect.id)
        assert settled is not None
        assert settled.outcome == Succeeded({"id": 7})


# Stripe


def intent(effect: Effect, status: str, number: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {"indelible_key": effect.key}
    return {"id": f"pi_{number}", "object": "payment_intent", "status": status, "metadata": metadata, **more}


def page(*data: Any, more: bool = False) -> tuple[int, Any]:
    return 200, {"object": "list", "data": list(data), "has_more": more, "next_page": "p2" if more else None}


def test_stripe_is_searched_by_the_key_in_the_metadata(provider: Provider, left: Effect) -> None:
    provider.answers = [page(intent(left, "succeeded", amount=5, currency="eur"))]
    probe = stripe_search(api_key="sk_1", base_url=provider.url)
    assert probe(left) == Succeeded({"id": "pi_1", "status": "succeeded", "amount": 5, "currency": "eur"})
    path, query, headers = provider.asked[0]
    assert path == "/v1/payment_intents/search"
    assert query["query"] == [f"metadata['indelible_key']:'{left.key}'"]
    assert headers["Authorization"] == "Bearer sk_1"


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        (["canceled"], "failed"),
        (["requires_payment_method"], None),
        (["processing"], None),
        (["canceled", "succeeded"], "succeeded"),
        (["succeeded", "succeeded"], "succeeded"),
        (["canceled", "processing"], None),
        (["canceled", "canceled"], "failed"),
    ],
)
def test_one_success_is_a_success_and_all_have_to_have_failed_to_fail(
    provider: Provider, left: Effect, statuses: list[str], outcome: str | None
) -> None:
    provider.answers = [page(*(intent(left, status, number) for number, status in enumerate(statuses)))]
    found = stripe_search(api_key=lambda: "sk_1", base_url=provider.url)(left)
    assert {Succeeded: "succeeded", Failed: "failed", type(None): None}[type(found)] == outcome


def test_an_object_with_another_key_is_not_ours(provider: Provider, left: Effect) -> None:
    other = intent(left, "succeeded") | {"metadata": {"indelible_key": "other"}}
    provider.answers = [page(other, {"id": "pi_2", "status": "succeeded", "metadata": None})]
    assert stripe_search(api_key="k", base_url=provider.url)(left) is None


def test_a_search_that_finds_nothing_leaves_doubt_for_the_index_lags(provider: Provider, left: Effect) -> None:
    provider.answers = [page(), page(), page()]
    words: Any = {"api_key": "k", "base_url": provider.url}
    assert stripe_search(**words)(left) is None
    assert stripe_search(**words, absent="nothing_happened")(left) is None
    with pytest.raises(NothingHappened):
        stripe_search(**words, absent="nothing_happened", settle_after=AT_ONCE)(left)


@pytest.mark.parametrize(
    "answer", [(404, None), (401, {}), (200, []), (200, {"data": 5}), (200, {"data": ["x"]}), (0, None)]
)
def test_an_error_of_stripes_leaves_doubt(provider: Provider, left: Effect, answer: Any) -> None:
    provider.answers = [answer]
    words: Any = {"absent": "nothing_happened", "settle_after": AT_ONCE}
    assert stripe_search(api_key="k", base_url=provider.url, **words)(left) is None


@pytest.mark.parametrize(("by", "turned"), [("search", ("page", "p2")), ("list", ("starting_after", "pi_1"))])
def test_all_pages_are_read(provider: Provider, left: Effect, by: Any, turned: tuple[str, str]) -> None:
    other = {"id": "pi_1", "status": "succeeded", "metadata": {}}
    provider.answers = [page(other, more=True), page(intent(left, "succeeded", 2))]
    found = stripe_search(api_key="k", base_url=provider.url, by=by, value=lambda one: one["id"])(left)
    assert found == Succeeded("pi_2")
    assert provider.asked[1][1][turned[0]] == [turned[1]]
    assert ("created[gte]" in provider.asked[0][1]) == (by == "list")


def test_more_pages_than_are_read_leave_doubt(provider: Provider, left: Effect) -> None:
    other = {"id": "pi_1", "status": "succeeded", "metadata": {}}
    provider.answers = [page(other, more=True)] * 50
    words: Any = {"absent": "nothing_happened", "settle_after": AT_ONCE, "by": "list"}
    assert stripe_search("refunds", api_key="k", base_url=provider.url, **words)(left) is None
    assert len(provider.asked) < 50


def test_an_outcome_of_your_own_is_used(provider: Provider, left: Effect) -> None:
    provider.answers = [page(intent(left, "requires_payment_method"))]
    probe = stripe_search(api_key="k", base_url=provider.url, outcome=lambda one: Failed(one["status"]))
    assert probe(left) == Failed("requires_payment_method")


def test_a_charge_that_failed_says_why() -> None:
    failed = stripe_outcome({"id": "ch_1", "object": "charge", "status": "failed", "failure_message": "declined"})
    assert isinstance(failed, Failed)
    assert "declined" in failed.error


def test_a_charge_that_failed_within_a_payment_intent_may_still_be_paid() -> None:
    assert stripe_outcome({"id": "ch_1", "object": "charge", "status": "failed", "payment_intent": "pi_1"}) is None
