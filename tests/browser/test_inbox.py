"""What the inbox says around a decision: that it is of what is shown, who has looked, and what goes together."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import APIResponse, Page, Route, expect

from indelible import AwaitingApproval, ToolCall
from tests.browser.stories import Story, on_one_store, open_newest
from tests.browser.test_deciding import press_twice


def swap(page: Page, **words: Any) -> None:
    """Makes the server, or something on the way, show other things than are asked about."""

    def changed(route: Route) -> None:
        answer = route.fetch()
        view = answer.json()
        route.fulfill(response=answer, json={**view, **words})

    page.route("**/v1/approvals/apr_*", changed)


@on_one_store
def test_nothing_is_approved_whose_digest_is_not_of_what_is_shown(story: Story) -> None:
    """Neither other arguments under the true digest, nor a text that others would read otherwise."""
    asked = story.ask("stripe.refund", amount=4200)
    page = story.review("ana", "approver")
    expect(page.get_by_text("computed here: the same")).to_be_visible()
    for text in ('{"amount":1}', '{"amount":4200.0}'):
        swap(page, args={"amount": 1}, args_json=text)
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("The digest is not of what is shown here")
        expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        page.keyboard.press("a")
        page.keyboard.press("a")
    assert story.asked_about(asked).votes == ()
    page.unroute_all()
    page.reload()
    press_twice(page)
    expect(page.get_by_role("article").locator("header").get_by_text("approved", exact=True)).to_be_visible()


@on_one_store
def test_what_was_decided_stays_in_view_also_when_the_list_is_faster_than_the_answer(story: Story) -> None:
    for tool in ("first", "second", "third"):
        story.ask(tool, run_id=f"order-{tool}", n=1)
    page = story.review("ana", "approver")
    expect(page.get_by_role("heading", name="third")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/decisions", lambda route: held.append((route, route.fetch())))
    press_twice(page)
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(2)
    ((route, answer),) = held
    route.fulfill(response=answer)
    expect(page.get_by_text("Approved: second may run, once.")).to_be_visible()
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    page.wait_for_timeout(1500)  # no key counts for a second
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="first")).to_be_visible()


@on_one_store
def test_a_long_number_is_shown_to_its_last_digit_wherever_it_stands(story: Story) -> None:
    story.ask("stripe.refund", amount=1)
    story.ask("stripe.refund", amount=2**53 + 1)
    page = story.review("ana", "approver")
    exact = "9007199254740993"
    expect(page.get_by_role("region", name="Exact arguments")).to_contain_text(exact)
    expect(page.get_by_role("cell", name=exact)).to_be_visible()
    page.get_by_text("Canonical bytes, as they are hashed").click()
    expect(page.get_by_label("Canonical bytes of the arguments")).to_have_text(f'{{"amount":{{"$int":"{exact}"}}}}')


def test_whoever_looks_is_named_to_the_others_while_they_look(story: Story) -> None:
    asked = story.ask("stripe.refund", amount=4200)
    ana = story.review("ana", "approver")
    expect(ana.get_by_text("Looked at by")).to_be_visible()
    olga = story.sign_in("olga", "auditor")
    reported: list[str] = []
    olga.on("request", lambda request: reported.append(request.url) if request.url.endswith("/views") else None)
    olga.goto(f"{story.home}inbox")
    open_newest(olga)
    expect(olga.get_by_role("article")).to_contain_text("ana")
    bob = story.review("bob", "approver")
    expect(bob.get_by_role("article")).to_contain_text("ana")
    story.ledger.seal()
    expect(ana.get_by_role("article")).to_contain_text("bob")
    looks = [event.read()["actor"]["id"] for event in story.ledger.events("order-1") if event.type == "approval_viewed"]
    assert looks == ["ana", "bob"], "each once, and nobody who may not decide"
    assert reported == [], "and of these the page does not even say so"
    assert story.asked_about(asked).votes == ()


@on_one_store
def test_alike_questions_are_approved_together_and_payments_never(story: Story) -> None:
    for number in range(3):
        call = ToolCall(tool="email.send", args={"to": f"p{number}@example.com"}, run_id="news")
        assert isinstance(story.ledger.begin(call, approval="required", side_effect="notification"), AwaitingApproval)
    page = story.review("ana", "approver")
    page.get_by_text("2 more questions of the same tool, by the same rule").click()
    expect(page.get_by_text('{"to":"p0@example.com"}')).to_be_visible()
    page.get_by_role("button", name="Approve this and 2 more").click()
    assert {one.status for one in story.ledger.approvals()} == {"pending"}, "one press decides nothing"
    page.get_by_role("button", name="Press again to approve all 3").click()
    expect(page.get_by_role("link", name="email.send")).to_have_count(0)
    assert {one.status for one in story.ledger.approvals()} == {"approved"}
    for amount in (1, 2):
        story.ask("stripe.refund", amount=amount)
    page.goto(f"{story.home}inbox")
    open_newest(page)
    expect(page.get_by_role("heading", name="stripe.refund")).to_be_visible()
    expect(page.get_by_text("of the same tool, by the same rule")).to_have_count(0)


@on_one_store
def test_84_the_page_shows_what_is_recorded_and_names_what_to_look_at_closely(story: Story) -> None:
    """A vote names the digest of what was shown, a denial too."""
    asked = story.ask("stripe.refund", to="p\u0430ypal\u202e", amount=7)
    page = story.review("ana", "approver")
    shown = page.get_by_role("region", name="Exact arguments")
    expect(shown).to_contain_text("RLO")
    closely = page.get_by_role("list", name="Look closely")
    expect(closely).to_contain_text("args.to: mixes Cyrillic and Latin letters in one word: U+0430")
    expect(closely).to_contain_text("args.to: holds what cannot be seen: U+202E RIGHT-TO-LEFT OVERRIDE")
    votes: list[Any] = []
    page.route("**/decisions", lambda route: (votes.append(route.request.post_data_json), route.continue_()))
    page.get_by_role("button", name="Deny").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("no")
    page.get_by_role("dialog").get_by_role("button", name="Deny").click()
    expect(page.get_by_role("article").locator("header").get_by_text("denied", exact=True)).to_be_visible()
    assert [(vote["decision"], vote["digest"]) for vote in votes] == [("deny", story.asked_about(asked).digest)]
