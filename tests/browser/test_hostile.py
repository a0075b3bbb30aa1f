"""Texts from outside are texts: whatever an agent, a person or a server writes into any field, nothing of it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from urllib.parse import quote

import pytest
from playwright.sync_api import Error, Page, Route, expect

from indelible import Effect, ToolCall
from indelible.errors import BadCall
from indelible.server.signin.credentials import Credentials
from tests.browser.corpus import ATTACKS, HIDDEN
from tests.browser.hostile import ASKS, RUN, fill, tool_of, type_of
from tests.browser.stories import Story
from tests.browser.walking import await_rest, go

TALL = {"width": 1400, "height": 10_000}
"""Lets lists, of which only what is on screen is there, show every line."""

# Notes whatever runs or is refused by the page's policy, before anything of the page is there.
LOOKOUT = """
globalThis.found = [];
globalThis.hit = () => { found.push('a text ran'); };
addEventListener('securitypolicyviolation', (event) => found.push(`refused: ${event.violatedDirective}`));
"""
# Finds what no page of ours is made of; attacks that the policy stops are found too.
FOREIGN = """() => [
  ...document.querySelectorAll('iframe, object, embed, frame, math, marquee, template, slot, base ~ base, style'),
  ...[...document.querySelectorAll('script')].filter((one) => !/\\/assets\\/[a-z]+\\.js$/.test(one.src)),
  ...[...document.querySelectorAll('*')].filter((one) => [...one.attributes].some((given) =>
    /^on/i.test(given.name) || /^(href|src|action|xlink:href|formaction)$/i.test(given.name)
      && !/^(https?:\\/\\/localhost[:/]|\\/|\\.\\/|#|$)/.test(given.value))),
].map((one) => one.outerHTML.slice(0, 200))"""


def shown(text: str) -> str:
    """Gives a text as it has to stand on the page."""
    return HIDDEN.get(text, text.replace("\x01", "U+0001"))


def escaped(text: str) -> str:
    """Gives a text as it has to stand among arguments and results."""
    return shown(text).replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


def expect_all(page: Page, texts: Sequence[str]) -> None:
    """Waits until each of these texts stands on the page, as itself or as in JSON."""
    wanted = [[shown(text), escaped(text)] for text in texts]
    missing = """(all) => {
        const text = document.body.textContent
        return all.filter((ways) => !ways.some((way) => text.includes(way)))
    }"""
    try:
        page.wait_for_function(f"(all) => ({missing})(all).length === 0", arg=wanted, polling=100)
    except Error:
        raise AssertionError(f"{page.url} does not show {page.evaluate(missing, wanted)[:5]}") from None


def read_through(page: Page, name: str) -> str:
    """Scrolls through a region, and gives all that was on screen meanwhile."""
    region = page.get_by_role("region", name=name)
    read, before = "", -1
    while (at := region.evaluate("(pane) => pane.scrollTop")) != before:
        before = at
        read += str(region.text_content())
        region.evaluate("""async (pane) => {
            pane.scrollTop += pane.clientHeight * 0.9
            for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame)
        }""")
    return read


def expect_quiet(page: Page) -> None:
    """Fails when anything on the page came from a text."""
    assert page.evaluate("found") == []
    assert page.evaluate(FOREIGN) == []


def opened(story: Story, lying: Callable[[Route], None] | None = None) -> Page:
    """Gives a signed-in page with the lookout on it."""
    page = story.sign_in("root", "admin", viewport=TALL)
    page.add_init_script(LOOKOUT)
    page.on("dialog", lambda dialog: story.watch.troubles.append(f"a dialog: {dialog.message}"))
    if lying is not None:
        page.route(re.compile("/v1/(?!events/stream)"), lying)
    page.goto(story.home + "settings")
    expect(page.get_by_role("heading", name="Settings", exact=True)).to_be_visible()
    return page


@pytest.fixture
def hostile(story: Story) -> Iterator[tuple[Story, Effect]]:
    """A story in which every field holds what would run, or hides something."""
    settled = fill(story.ledger, story.people, Credentials(story.house.store, story.tenant), [*ATTACKS, *HIDDEN])
    yield story, settled
    assert [url for url in story.watch.asked if "/canary" in url] == []


def visits(settled: Effect, approval_id: str) -> dict[str, Sequence[str]]:
    """Lists the pages, and which texts each of them has to show; the first three tell whether a store keeps texts."""
    everything = [*ATTACKS, *HIDDEN]
    return {
        f"inbox?approval={approval_id}": everything,
        f"runs/{RUN}?tab=timeline": everything,
        "settings": everything,
        "inbox?tab=denied": (),
        "runs": everything,
        **{f"runs/{RUN}?tab={tab}": everything for tab in ("events", "artifacts")},
        **{f"runs/{RUN}?tab={tab}": () for tab in ("effects", "checkpoints", "approvals", "packet", "integrity")},
        f"runs/{ASKS}": (),
        "effects": (),
        f"effects/{settled.id}": everything,
        "events": (),
        "journal": (),
        "overview": [text for number, text in enumerate(everything) if number % 3],  # those who denied something
        "tools": (),  # its list is long, and read by itself
    }


def test_whatever_stands_in_any_field_is_shown_and_nothing_of_it_runs(hostile: tuple[Story, Effect]) -> None:
    story, settled = hostile
    page = opened(story)
    (newest, *_) = story.ledger.approvals(status="pending")
    of_store = None if story.house.store_url.startswith("sqlite") else 3
    for path, texts in islice(visits(settled, newest.id).items(), of_store):
        go(page, path)
        expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
        expect_all(page, texts)
        await_rest(page)
        expect_quiet(page)
        if path == "tools":
            page.get_by_text("All of it, as JSON").click()
            read = read_through(page, "Policy in force")
            assert [text for text in [*ATTACKS, *HIDDEN] if escaped(text) not in read] == []
            expect_quiet(page)


def in_portions(texts: Sequence[str], most: int) -> Iterator[str]:
    """Joins texts to longer ones, none of which is longer than `most` letters."""
    portion = ""
    for text in texts:
        if len(portion) + len(text) >= most:
            yield portion
            portion = ""
        portion = f"{portion} {text}".strip()
    yield portion


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)  # nothing of it depends on the store
def test_whatever_stands_in_an_address_or_is_typed_runs_no_more(story: Story) -> None:
    page = opened(story)
    typed = list(in_portions([*ATTACKS, *HIDDEN], 1500))
    for path in ("runs?q=", "effects?q=", "events?q="):
        for text in typed:
            go(page, path + quote(text, safe=""))
            expect(page.get_by_role("textbox", name="Filter")).to_have_value(text)
            nothing = page.get_by_text(re.compile("Take something out|Nothing like that|Nothing happened"))
            expect(page.get_by_role("alert").or_(nothing).first).to_be_visible()  # mostly why it is no filter
            expect_quiet(page)
    for text in in_portions(ATTACKS[:12], 400):
        for path in ("runs/", "effects/", "inbox?approval=", "inbox?tab=", "runs?status=", "overview?since=", "tools#"):
            go(page, path + quote(text, safe=""))
            expect_quiet(page)
        page.goto(story.home + path + quote(text, safe=""))  # and as somebody would who was sent the address
        expect(page.get_by_role("main")).not_to_be_empty()
        expect_quiet(page)
    for text in typed:
        page.get_by_role("button", name="Find or go to").click()
        page.get_by_role("combobox").fill(text)
        expect(page.get_by_text("Nothing has such a name.")).to_be_visible()
        expect_quiet(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("combobox")).to_be_hidden()


NAMED = re.compile(r'"(?:tool\.|acme\.t)(\d{3})"')
"""Finds names of tools and types of events, which the ledger keeps plain."""


def lie(route: Route) -> None:
    """Answers what the server answered, with attacks for the names and statuses that no ledger would have."""
    answer = route.fetch()
    body = NAMED.sub(lambda found: json.dumps(ATTACKS[int(found[1])]), answer.text())
    route.fulfill(response=answer, body=body.replace('"status":"requires_approval"', '"status":"constructor"'))


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)
def test_a_server_that_lies_runs_nothing_either(story: Story) -> None:
    for number, text in enumerate(ATTACKS):
        with pytest.raises(BadCall, match="tool name"):
            ToolCall(tool=f"<{text}>", args={}, run_id=RUN)
        story.ask(tool_of(number), run_id=RUN)
    run = story.ledger.start_run(RUN, agent="a")
    run.record_all([{"event_type": type_of(number)} for number in range(len(ATTACKS))])
    story.ledger.seal()
    story.watch.may_trip = True  # the page finds that the record is not what was signed, and says so
    page = opened(story, lie)
    for path in ("inbox", "effects", "events", "journal", "overview", f"runs/{RUN}", f"runs/{RUN}?tab=events", "tools"):
        go(page, path)
        expect_all(page, ATTACKS if path not in ("journal", "overview", "tools") else ())
        await_rest(page)
        expect_quiet(page)
    assert story.watch.troubles == []


PLANTED = {
    "inner HTML": "document.body.innerHTML = '<img src=/nothing onerror=hit()>'",
    "an attribute": "document.body.append(Object.assign(document.createElement('img'), {src: '/nothing'}));"
    "document.images[0].setAttribute('onerror', 'hit()')",
    "an address": "document.body.append(Object.assign(document.createElement('a'), {href: 'javascript:hit()'}));"
    "[...document.links].at(-1).click()",
    "a frame": "document.body.append(document.createElement('iframe'))",
    "a parser": "document.body.append(document.createRange().createContextualFragment('<svg onload=hit()>'))",
}


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)
def test_the_lookout_sees_what_is_planted(story: Story) -> None:
    page = opened(story)
    for planted in PLANTED.values():
        expect_quiet(page)
        page.evaluate(f"setTimeout(() => {{ {planted} }})")
        page.wait_for_function("() => globalThis.found.length > 0 || document.querySelector('iframe') !== null")
        with pytest.raises(AssertionError):
            expect_quiet(page)
        page.reload()
    assert len(story.watch.troubles) >= len(PLANTED) - 1  # the browser complains of all but the frame, which is empty
    story.watch.may_trip = True
