"""The fixtures for tests of other programs: they kill real processes, and they find what is not done once."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from indelible import Ledger, migrate
from indelible.errors import BadCall
from indelible.testing.crashing import POINTS, NotThere, Point, crash_at
from indelible.testing.once import Outside, effect_once
from tests.docs.pages import DOCS, blocks

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
BILLING = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from indelible.integrations.pydantic_ai import LedgerCapability


def says(messages, about):
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("charge", {"order": "o1"})])


def agent(ledger, outside):
    def charge(order: str) -> str:
        outside.happens(f"charge {order}")
        return "charged"

    return Agent(FunctionModel(says), tools=[charge], capabilities=[LedgerCapability(ledger)])
"""


@pytest.fixture
def ledger(sqlite_url: str, tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, run="order-1", keys=tmp_path / "keys") as opened:
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    (tmp_path / "outside").mkdir()
    return Outside(tmp_path / "outside")


@pytest.mark.parametrize("at", POINTS)
def test_a_guarded_call_happens_once_wherever_the_process_is_killed(
    store_url: str, outside: Outside, at: Point
) -> None:
    migrate(store_url)
    with Ledger.open(store_url, run="order-1", seal=False) as ledger:

        @ledger.tool(side_effect="payment")
        def refund(order: str) -> str:
            outside.happens(f"refund {order}")
            return "refunded"

        effect_once(outside, lambda: refund("1"), "refund 1", at=at)
        (effect,) = ledger.effects()
    assert outside.times("refund 1") == (0 if at == "after_claim" else 1)
    assert effect.status == ("in_doubt" if at in ("after_claim", "after_handler") else "succeeded")


def test_coroutines_are_killed_as_well(ledger: Ledger, outside: Outside) -> None:
    @ledger.awaited.tool
    async def refund(order: str) -> str:
        outside.happens(f"refund {order}")
        return "refunded"

    effect_once(outside, lambda: refund("1"), "refund 1")


def test_a_run_that_the_dead_drove_is_resumed_at_once(store_url: str, outside: Outside) -> None:
    migrate(store_url)
    with Ledger.open(store_url, run="order-1", seal=False) as ledger:
        refund = ledger.tool("refund")(lambda: outside.happens("refund"))

        def work() -> None:
            with ledger.start_run("order-1", agent="billing", intent="refund"):
                refund()

        crash_at("after_record", work)
        with ledger.resume_run("order-1"):
            refund()
    assert outside.times("refund") == 1


def test_what_is_done_twice_is_found(ledger: Ledger, outside: Outside) -> None:
    """A tool that says it may be repeated is repeated: then the provider has to know our key."""

    @ledger.tool(on_crash="retry")
    def refund(order: str) -> str:
        outside.happens(f"refund {order}")
        return "refunded"

    story = r"happened 2 times and not once \(killed at after_handler: 1; two workers: 2; resumed: 2\)"
    with pytest.raises(AssertionError, match=story):
        effect_once(outside, lambda: refund("1"), "refund 1")


def test_what_is_never_done_is_found(ledger: Ledger, outside: Outside) -> None:
    refund = ledger.tool("refund")(lambda: "I only say so")
    with pytest.raises(AssertionError, match="happened 0 times"):
        effect_once(outside, refund, "refund", at="after_record")


def test_an_error_of_a_second_worker_is_no_answer(ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    refund = ledger.tool("refund")(lambda: outside.happens("refund"))

    def work() -> None:
        if outside.times("refund"):
            raise RuntimeError("the state is gone")
        refund()

    with pytest.raises(AssertionError, match=r"(?s)a second worker raised:.*the state is gone"):
        effect_once(outside, work, "refund")


def test_a_body_that_never_comes_there_fails_and_says_what_it_did(ledger: Ledger) -> None:
    refund = ledger.tool("refund")(lambda: "refunded")
    with pytest.raises(NotThere, match="no call came to after_handler; the body returned"):
        crash_at("after_handler", refund, tool="charge")
    with pytest.raises(NotThere, match=r"(?s)the body raised:.*ZeroDivisionError"):
        crash_at("after_handler", lambda: 1 / 0)
    with pytest.raises(BadCall, match="choose one of before_claim"):
        crash_at("sometime", refund)  # type: ignore[arg-type]


def test_the_tool_that_is_meant_is_the_one(ledger: Ledger, outside: Outside) -> None:
    first, second = (ledger.tool(name)(lambda name=name: outside.happens(name)) for name in ("first", "second"))
    crash_at("before_claim", lambda: [first(), second()], tool="second")
    assert (outside.times("first"), outside.times("second")) == (1, 0)


def test_the_page_is_a_test_file_that_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/testing.md, each file as it stands there; the agent is ours, as it would be yours."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take seconds to load, and are not meant here
    for block in blocks(DOCS / "testing.md"):
        assert block.title is not None
        (pytester.path / block.title).write_text(block.text)
    (pytester.path / "billing.py").write_text(BILLING)
    # In a process of its own: what pytest loads for it within this one would be loaded twice afterwards.
    done = pytester.runpytest_subprocess("-p", "pytest_indelible", "-p", "no:cacheprovider", "-q")
    done.assert_outcomes(passed=6)


def test_it_loads_nothing_until_it_is_used() -> None:
    """Every pytest of everybody who has the package installed loads it."""
    loaded = "import sys, pytest_indelible; print([name for name in sys.modules if re.match('indelible', name)])"
    said = subprocess.check_output([sys.executable, "-c", f"import re; {loaded}"], text=True)
    assert said == "[]\n"


def test_the_package_brings_it_and_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_indelible": "pytest_indelible"}
    assert "src/pytest_indelible.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_every_fixture_is_on_the_page() -> None:
    made = re.findall(r"@pytest.fixture\ndef (\w+)", (ROOT / "src" / "pytest_indelible.py").read_text())
    assert re.findall(r"^\| `(\w+)` \|", (DOCS / "testing.md").read_text(), re.MULTILINE) == made
