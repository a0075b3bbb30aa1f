"""Every way in which CrewAI runs code is tried: it meets the ledger, or is named, and refused in strict mode.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import pytest
from crewai import LLM, Agent, Crew, Flow, Process, Task
from crewai import llm as llm_module
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.crew_agent_executor import CrewAgentExecutor
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.crew_events import CrewKickoffStartedEvent
from crewai.flow.flow import start
from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook
from crewai.lite_agent import LiteAgent
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.mcp import MCPServerStdio
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import BaseTool, tool
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.memory_tools import RememberTool
from crewai.tools.structured_tool import CrewStructuredTool, ToolUsageLimitExceededError
from crewai.tools.tool_failure import ToolExecutionFailedError
from pydantic import AfterValidator, BaseModel, Field

from indelible import Ledger, Policy, instrument, migrate, rule
from indelible.core.policy.policy import Asked
from indelible.errors import BadCall
from indelible.integrations.crewai import LedgerTools
from indelible.integrations.ways import WAYS, module_of
from indelible.testing.adapters.crewai import ScriptedLLM, called
from tests.frameworks.conftest import OTHERS, decide
from tests.integrations.forking import Forks, forking

STRICT: dict[str, Any] = {"strict": True, "allow": [*OTHERS, "bill_it"]}
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "crewai.md"
DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def charge(amount: int) -> str:
    """Charges."""
    DONE.append("charged")
    return "charged"


class Charging(BaseTool):
    """Charges; a flow can declare it."""

    name: str = "charge"
    description: str = "Charges."

    def _run(self, amount: int) -> str:
        DONE.append("charged")
        return "charged"


CHARGE = called("charge", "c1", amount=5)


class TextLLM(ScriptedLLM):
    """Calls tools by text, as models do that know no function calls."""

    def supports_function_calling(self) -> bool:
        return False


def agent_of(*turns: Any, llm: Any = None, role: str = "billing", **words: Any) -> Agent:
    model = llm or ScriptedLLM(model="scripted", turns=[*turns, "done"])
    return Agent(role=role, goal="charge", backstory="b", llm=model, max_retry_limit=0, **words)


def task_of(agent: Any, **words: Any) -> Task:
    return Task(description="charge", expected_output="done", agent=agent, **words)


def crew_of(agent: Any, *, task: Any = None, **words: Any) -> Crew:
    return Crew(agents=[agent], tasks=[task or task_of(agent)], **words)


def crew_kicked_off() -> None:
    crew_of(agent_of([CHARGE], tools=[charge])).kickoff()
    asyncio.run(crew_of(agent_of([CHARGE], tools=[charge])).akickoff())


def by_text() -> None:
    turns = ['Thought: now\nAction: charge\nAction Input: {"amount": 5}', "Thought: I know\nFinal Answer: done"]
    crew_of(agent_of(llm=TextLLM(model="scripted", turns=turns), tools=[charge])).kickoff()


def of_tasks() -> None:
    agent = agent_of([CHARGE])
    crew_of(agent, task=task_of(agent, tools=[charge])).kickoff()


def of_mcp_servers() -> None:
    paid = Path("paid")
    server = MCPServerStdio(command=sys.executable, args=["-m", "tests.frameworks.crewai_bank", str(paid.absolute())])
    server = server.model_copy(update={"env": {"PYTHONPATH": str(Path(__file__).parents[2])}})
    agent = agent_of(mcps=[server])
    (found,) = agent.get_mcp_tools([server])
    crew_of(agent_of([called(found.name, "c1", amount=5)], tools=[found])).kickoff()
    DONE[:] = paid.read_text().split()


def alone() -> None:
    agent_of([CHARGE], tools=[charge]).kickoff("charge")


def delegated() -> Crew:
    work = called("delegate_work_to_coworker", "d1", task="charge", context="now", coworker="till")
    lead, till = agent_of([work], role="lead", allow_delegation=True), agent_of([CHARGE], role="till", tools=[charge])
    return Crew(agents=[lead, till], tasks=[task_of(lead)])


def hierarchical() -> None:
    work = called("delegate_work_to_coworker", "d1", task="charge", context="now", coworker="till")
    till = agent_of([CHARGE], role="till", tools=[charge])
    manager = agent_of([work], role="manager", allow_delegation=True)
    Crew(
        agents=[till],
        tasks=[Task(description="charge", expected_output="done")],
        process=Process.hierarchical,
        manager_agent=manager,
    ).kickoff()


def declared(do: dict[str, Any]) -> None:
    told = {"schema": "crewai.flow/v1", "name": "billing", "methods": {"charge": {"do": do, "start": True}}}
    Flow.from_declaration(contents=told).kickoff()


class Working(Flow[Any]):
    """Has a method that strict mode allows here: what its crew does is guarded."""

    @start()
    def bill_it(self) -> str:
        return str(crew_of(agent_of([CHARGE], tools=[charge])).kickoff())


def by_the_program() -> None:
    charge.run(amount=5)
    asyncio.run(Charging().arun(amount=5))


def crews_inside_tools() -> None:
    @tool
    def bill(order: str) -> str:
        """Bills."""
        return str(crew_of(agent_of([CHARGE], tools=[charge])).kickoff().raw)

    crew_of(agent_of([called("bill", "b1", order="o1")], tools=[bill])).kickoff()


def saving() -> None:
    note = called("save_to_memory", "m1", contents=["owes 5"])
    remember = RememberTool.model_construct(name="Save to memory", description="Saves.", memory=_Notes())
    crew_of(agent_of([note], tools=[remember])).kickoff()


class _Notes:
    def remember(self, content: str) -> Any:
        DONE.append(content)
        return type("Saved", (), {"scope": "/", "importance": 1.0})()


class Billing(Flow[Any]):
    @start()
    def charge_it(self) -> str:
        DONE.append("charged")
        return "charged"


def script() -> None:
    declared({"call": "script", "code": f"from {__name__} import DONE\nDONE.append('charged')\nreturn 1"})


@contextmanager
def provider() -> Iterator[str]:
    """A provider that runs a tool of its own before it answers."""

    class Asked(BaseHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            """Says nothing."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            DONE.extend(one["type"] for one in asked.get("tools", ()) if one["type"] != "function")
            part = {"type": "output_text", "text": "done", "annotations": []}
            said = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
            told = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed",
                    "output": [said], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def hosted(**words: Any) -> None:
    with provider() as url:
        said = words or {"builtin_tools": ["web_search"]}
        llm = OpenAICompletion(model="gpt-4.1", api="responses", api_key="none", base_url=url, **said)
        crew_of(agent_of(llm=llm)).kickoff()


class Handing(ScriptedLLM):
    """Runs the functions that it is given, as CrewAI's own models do."""

    def call(self, messages: Any, *words: Any, **more: Any) -> Any:
        return self._handle_tool_execution("pay", {}, more["available_functions"])


def functions_given() -> None:
    Handing(model="scripted", turns=[]).call("go", available_functions={"pay": lambda: DONE.append("paid") or "paid"})


class Foreign(BaseAgent):
    """Is an agent of another framework."""

    function_calling_llm: Any = None
    step_callback: Any = None
    last_messages: Any = ()

    def execute_task(self, task: Any, context: Any = None, tools: Any = None) -> str:
        DONE.append("charged")
        return "done"

    async def aexecute_task(self, task: Any, context: Any = None, tools: Any = None) -> str:
        return self.execute_task(task)

    def create_agent_executor(self, tools: Any = None) -> None:
        """Needs none."""

    def get_delegation_tools(self, agents: Any) -> list[Any]:
        return []

    def get_mcp_tools(self, mcps: Any) -> list[Any]:
        return []

    def get_platform_tools(self, apps: Any) -> list[Any]:
        return []


def remote() -> None:
    agent = agent_of()
    object.__setattr__(agent, "a2a", {"endpoint": "http://127.0.0.1:1"})
    with suppress(ModuleNotFoundError):  # what speaks to them is not installed here
        agent.kickoff("charge")


def paying(*_: Any) -> Any:
    DONE.append("charged")
    return (True, "done")


def paid(*_: Any) -> None:
    DONE.append("charged")


def with_callback() -> None:
    crew_of(agent_of(), task_callback=paid).kickoff()


def with_guardrail() -> None:
    agent = agent_of()

    crew_of(agent, task=task_of(agent, guardrail=lambda output: paying(output))).kickoff()


def with_hook() -> None:
    register_before_tool_call_hook(paid)
    try:
        crew_of(agent_of([CHARGE], tools=[charge])).kickoff()
    finally:
        unregister_before_tool_call_hook(paid)


def with_listener() -> None:
    with crewai_event_bus.scoped_handlers():

        @crewai_event_bus.on(CrewKickoffStartedEvent)
        def pays(source: Any, event: Any) -> None:
            DONE.append("charged")

        crew_of(agent_of()).kickoff()


def by_lite_agent() -> None:
    turns = ['Thought: now\nAction: charge\nAction Input: {"amount": 5}', "Thought: I know\nFinal Answer: done"]
    LiteAgent(role="r", goal="g", backstory="b", llm=TextLLM(model="scripted", turns=turns), tools=[charge]).kickoff(
        "go"
    )


def structured() -> None:
    charge.to_structured_tool().invoke({"amount": 5})


def conditional() -> None:
    agent = agent_of("done", "done")
    tasks = [task_of(agent), ConditionalTask(condition=paying, description="d", expected_output="e", agent=agent)]
    Crew(agents=[agent], tasks=tasks).kickoff()


def written() -> None:
    agent = agent_of()
    crew_of(agent, task=task_of(agent, output_file="paid.txt")).kickoff()
    DONE.append("charged")


TRIED: dict[str, Callable[[], Any]] = {
    "tools of agents": crew_kicked_off,
    "tools that a model calls by text": by_text,
    "tools of tasks": of_tasks,
    "tools of MCP servers": of_mcp_servers,
    "tools of agents kicked off alone": alone,
    "tools of coworkers who are delegated to": lambda: delegated().kickoff(),
    "tools of a hierarchical crew": hierarchical,
    "tools of crews inside flows": lambda: Working().kickoff(),
    "tools that flows declare": lambda: declared(
        {"call": "tool", "ref": f"{__name__}:Charging", "with": {"amount": 5}}
    ),
    "tools that the program runs itself": by_the_program,
    "crews inside tools": crews_inside_tools,
    "tools of a LiteAgent": by_lite_agent,
    "structured tools": structured,
    "saving to memory": saving,
    "methods of flows": lambda: Billing().kickoff(),
    "scripts of flows": script,
    "hosted tools": hosted,
    "functions given to a model": functions_given,
    "agents of other frameworks": lambda: crew_of(Foreign(role="f", goal="g", backstory="b")).kickoff(),
    "remote agents": remote,
    "callbacks": with_callback,
    "guardrails": with_guardrail,
    "conditions of tasks": conditional,
    "output files": written,
    "hooks": with_hook,
    "event listeners": with_listener,
}
GUARDED = [way.name for way in WAYS["CrewAI"] if way.is_guarded]
UNGUARDED = [way.name for way in WAYS["CrewAI"] if not way.is_guarded]


def test_88_every_way_is_tried_and_on_the_page() -> None:
    assert {way.name for way in WAYS["CrewAI"]} == set(TRIED)
    rows = (
        PAGE.read_text().partition("| how code runs | the ledger |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    )
    says = {True: "guarded", False: "named, and refused in strict mode"}
    assert rows == [f"| {way.name} | {says[way.is_guarded]} |" for way in WAYS["CrewAI"]]


@pytest.mark.parametrize("way", GUARDED)
def test_88_what_counts_as_guarded_meets_the_ledger(ledger: Ledger, way: str) -> None:
    with instrument(ledger, **STRICT) as report, ledger.in_run("order-1"):
        assert "CrewAI" in report.wrapped
        TRIED[way]()
        effects = ledger.effects()
        assert effects, f"{way} met no ledger"
        assert {effect.status for effect in effects} == {"succeeded"}
        once = len(DONE)
        assert once == 1
        TRIED[way]()
        assert len(DONE) == once, "run twice, done once"
    assert report.seen_unguarded == ()


STRUCTURED = {
    "converted": lambda: charge.to_structured_tool(),
    "of a function": lambda: CrewStructuredTool.from_function(charge.func, name="charge", description="Charges."),
}


@pytest.mark.parametrize("of", STRUCTURED)
@pytest.mark.parametrize("is_awaited", [False, True])
def test_88_a_structured_tool_asks_whenever_and_however_it_was_made(ledger: Ledger, of: str, is_awaited: bool) -> None:
    made = STRUCTURED[of]()

    def runs() -> Any:
        return asyncio.run(made.ainvoke({"amount": 5})) if is_awaited else made.invoke({"amount": 5})

    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        with pytest.raises(ToolExecutionFailedError):
            runs()
        decide(ledger)
        assert (runs(), DONE) == ("charged", ["charged"])
    assert (runs(), DONE) == ("charged", ["charged", "charged"]), "plain again"


@pytest.mark.parametrize(("said", "reads"), [({}, 5), ({"amount": 7}, 700), ('{"amount": 7}', 700)])
def test_38_a_structured_tool_reads_its_arguments_once(ledger: Ledger, said: Any, reads: int) -> None:
    class InCents(BaseModel):
        amount: Annotated[int, AfterValidator(lambda euros: euros * 100)] = 5

    got: list[int] = []

    def pay(amount: int = 1) -> str:
        got.append(amount)
        return "paid"

    made = CrewStructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=InCents)
    with instrument(ledger), ledger.in_run("order-1"):
        made.invoke(said)
    assert ([effect.args for effect in ledger.effects()], got) == ([{"amount": reads}], [reads])


class Bank(BaseTool):
    """Charges, and has another method."""

    name: str = "bank"
    description: str = "Charges."

    def _run(self, order: str, amount: int = 1, dry_run: bool = False) -> str:
        DONE.append(f"{'dry' if dry_run else 'charged'} {order} {amount}")
        return "charged"

    def refund(self, order: str, amount: int = 1) -> str:
        """Refunds."""
        DONE.append(f"refunded {order} {amount}")
        return "refunded"


class Small(BaseModel):
    order: str
    amount: int = Field(1, le=100)


async def send(order: str) -> str:
    """Sends."""
    DONE.append(f"sent {order}")
    return "sent"


class Receipt(BaseModel):
    order: str


def receive(order: str) -> Receipt:
    """Writes a receipt."""
    DONE.append(f"received {order}")
    return Receipt(order=order)


def bank_of(method: str, **words: Any) -> CrewStructuredTool:
    return CrewStructuredTool.from_function(getattr(Bank(), method), description="Charges.", **words)


def small() -> CrewStructuredTool:
    return bank_of("_run", name="small_charge", args_schema=Small)


def with_schema_of_its_own() -> CrewStructuredTool:
    made = Bank().to_structured_tool()
    made.args_schema = Small
    return made


def entered_twice(made: CrewStructuredTool) -> Any:
    return [made.invoke({"order": order}) for order in ("1", "2")]


ORDER = {"order": "1", "amount": 5}
MADE: dict[str, tuple[Callable[[], CrewStructuredTool], Callable[[CrewStructuredTool], Any], str | None]] = {
    "another method": (lambda: bank_of("refund"), lambda made: made.invoke(ORDER), "refund"),
    "run": (lambda: bank_of("run", name="till", args_schema=Small), lambda made: made.invoke(ORDER), None),
    "a name and schema": (small, lambda made: made.invoke(ORDER), "small_charge"),
    "arguments that its schema refuses": (small, lambda made: made.invoke({**ORDER, "amount": 500}), None),
    "another schema": (with_schema_of_its_own, lambda made: made.invoke({**ORDER, "amount": 500}), None),
    "words": (small, lambda made: made.invoke(ORDER, dry_run=True), "small_charge"),
    "words awaited": (small, lambda made: asyncio.run(made.ainvoke(ORDER, dry_run=True)), "small_charge"),
    "words that are said": (small, lambda made: made.invoke(ORDER, amount=7), None),
    "no schema": (
        lambda: CrewStructuredTool(name="plain", description="d", func=Bank()._run),
        lambda made: made.invoke({**ORDER, "dry_run": True}),
        "plain",
    ),
    "its old entrance": (
        lambda: CrewStructuredTool(name="plain", description="d", func=Bank()._run),
        lambda made: made._run("1", dry_run=True),
        "plain",
    ),
    "its old entrance with a schema": (small, lambda made: made._run("1", amount=5), "small_charge"),
    "no JSON": (small, lambda made: made.invoke("{no"), None),
    "nothing": (small, lambda made: made.invoke(None), None),
    "a limit": (lambda: bank_of("_run", name="once", max_usage_count=1), entered_twice, "once"),
    "a coroutine": (
        lambda: CrewStructuredTool.from_function(send),
        lambda made: made.invoke({"order": "1"}),
        "send",
    ),
    "a coroutine awaited": (
        lambda: CrewStructuredTool.from_function(send),
        lambda made: asyncio.run(made.ainvoke({"order": "1"})),
        "send",
    ),
    "a result with a schema": (
        lambda: CrewStructuredTool.from_function(receive),
        lambda made: made.invoke({"order": "1"}),
        "receive",
    ),
}


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("is_made_before", [True, False])
def test_88_a_structured_tool_does_under_the_ledger_what_it_does_without(
    ledger: Ledger, what: str, is_made_before: bool
) -> None:
    make, enter, named = MADE[what]

    def ends(made: CrewStructuredTool) -> Any:
        DONE.clear()
        try:
            ended = enter(made)
        except Exception as problem:
            ended = type(problem)
        return (ended, list(DONE), made.current_usage_count)

    plain, made = ends(make()), make()
    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        assert ends(made if is_made_before else make()) == plain
    if named is not None:
        assert [effect.tool for effect in ledger.effects()] == [named]
    assert len(ledger.effects()) == len(plain[1]), "each deed is on the record"


@pytest.mark.parametrize("is_made_before", [True, False])
def test_88_the_limit_of_a_tool_holds_for_all_that_is_made_of_it(ledger: Ledger, is_made_before: bool) -> None:
    def ends(tool: BaseTool) -> Any:
        DONE.clear()
        ended = []
        for order in ("1", "2", "3"):
            try:
                ended.append(tool.to_structured_tool().invoke({"order": order}))
            except ToolUsageLimitExceededError as limit:
                ended.append(type(limit))
        ended.append(type(tool.run(order="4")))
        return (ended, list(DONE), tool.current_usage_count)

    plain, tool = ends(Bank(max_usage_count=1)), Bank(max_usage_count=1)
    with instrument(ledger), ledger.in_run("order-1"):
        assert ends(tool if is_made_before else Bank(max_usage_count=1)) == plain


@pytest.mark.parametrize("model", [TextLLM, ScriptedLLM])
def test_88_the_limit_of_a_tool_holds_in_an_agent(ledger: Ledger, model: Any) -> None:
    def ends(tool: BaseTool) -> Any:
        DONE.clear()
        said = [f'Thought: now\nAction: bank\nAction Input: {{"order": "{order}"}}' for order in ("1", "2")]
        calls = said if model is TextLLM else [called("bank", f"c{order}", order=order) for order in ("1", "2")]
        llm = model(model="scripted", turns=[*calls, "Thought: I know\nFinal Answer: done"])
        with suppress(ToolExecutionFailedError):  # under the ledger, the crew stops there if the model calls by text
            crew_of(agent_of(llm=llm, tools=[tool])).kickoff()
        return (list(DONE), tool.current_usage_count)

    plain = ends(Bank(max_usage_count=1))
    with instrument(ledger), ledger.in_run("order-1"):
        assert ends(Bank(max_usage_count=1)) == plain


def test_88_the_words_of_a_structured_tool_are_approved_and_kept_by_an_edit(ledger: Ledger) -> None:
    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        with pytest.raises(ToolExecutionFailedError):
            small().invoke(ORDER, dry_run=True)
        (asked,) = ledger.approvals(status="pending")
        (effect,) = ledger.effects()
        assert effect.args == {**ORDER, "dry_run": True}
        edited = ledger.edit_approval(asked, {**effect.args, "amount": 6}, digest=asked.digest, by="ana")
        ledger.approve(edited, digest=edited.digest, by="bob")
        small().invoke(ORDER, dry_run=True)
    assert DONE == ["dry 1 6"]


def test_88_a_tool_of_an_mcp_server_with_another_schema_is_refused(ledger: Ledger) -> None:
    """CrewAI's client would send its call again; what stands for that tool here is the tool itself."""
    native = MCPNativeTool(lambda: None, "pay", {"description": "Pays.", "args_schema": Small}, "till")
    made = CrewStructuredTool.from_function(native._run, name="pay", description="Pays.", args_schema=Small)
    with instrument(ledger), ledger.in_run("order-1"), pytest.raises(BadCall):
        made.invoke(ORDER)


def test_88_a_lite_agent_that_was_made_before_waits(ledger: Ledger) -> None:
    turns = ['Thought: now\nAction: charge\nAction Input: {"amount": 5}', "Thought: I know\nFinal Answer: done"]
    llm = TextLLM(model="scripted", turns=turns)
    agent = LiteAgent(role="r", goal="g", backstory="b", llm=llm, tools=[charge])
    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        with suppress(ToolExecutionFailedError):
            agent.kickoff("go")
        assert len(ledger.approvals(status="pending")) == 1
    assert DONE == []


def kept_structured() -> Callable[[], Any]:
    made = charge.to_structured_tool()
    return lambda: made.invoke({"amount": 5})


def kept_lite_agent() -> Callable[[], Any]:
    turns = ['Thought: now\nAction: charge\nAction Input: {"amount": 5}', "Thought: I know\nFinal Answer: done"]
    agent = LiteAgent(role="r", goal="g", backstory="b", llm=TextLLM(model="scripted", turns=turns), tools=[charge])
    return lambda: agent.kickoff("go")


def kept_method() -> Callable[[], Any]:
    run = Charging().run
    return lambda: run(amount=5)


def kept_method_awaited() -> Callable[[], Any]:
    run = Charging().arun
    return lambda: asyncio.run(run(amount=5))


@pytest.mark.parametrize("kept", [kept_structured, kept_lite_agent, kept_method, kept_method_awaited])
def test_88_what_was_made_under_one_instrument_asks_under_the_next(
    ledger: Ledger, tmp_path: Path, kept: Callable[[], Callable[[], Any]]
) -> None:
    with instrument(ledger), ledger.in_run("order-1"):
        made = kept()
    with (
        Ledger.open(f"sqlite:///{tmp_path}/next.db") as other,
        instrument(other, approval="required"),
        other.in_run("order-1"),
    ):
        with suppress(ToolExecutionFailedError):
            made()
        assert [asked.tool for asked in other.approvals(status="pending")] == ["charge"]
    assert (DONE, ledger.effects()) == ([], [])


class Overridden(Bank):
    """Has a `run` of its own, which does the deed."""

    def run(self, order: str) -> str:
        return self.refund(order)


def handed(function: Any) -> Any:
    class Hands(ScriptedLLM):
        def call(self, messages: Any, *words: Any, **more: Any) -> Any:
            return self._handle_tool_execution("pay", {"order": "1"}, more["available_functions"])

    return Hands(model="scripted", turns=[]).call("go", available_functions={"pay": function})


GIVEN: dict[str, Callable[[], Any]] = {
    "what a tool does": lambda: Bank()._run,
    "another method": lambda: Bank().refund,
    "run of its own": lambda: Overridden().run,
    "part of run": lambda: functools.partial(Bank().run),
}


@pytest.mark.parametrize("given", [*GIVEN, "run of before"])
def test_88_a_method_of_a_tool_that_is_given_to_a_model_is_named_unless_it_asks(ledger: Ledger, given: str) -> None:
    before = Bank().run
    made = GIVEN.get(given, lambda: before)
    with instrument(ledger, **STRICT), ledger.in_run("order-1"), pytest.raises(BadCall):
        handed(made())
    assert (DONE, ledger.effects()) == ([], [])
    with instrument(ledger) as report, ledger.in_run("order-1"):
        handed(made())
        assert report.seen_unguarded == ("CrewAI: pay (functions given to a model)",)


@pytest.mark.parametrize("by", ["instrument", "hand"])
def test_88_run_of_a_tool_that_is_given_to_a_model_asks(ledger: Ledger, by: str) -> None:
    (own,) = LedgerTools(ledger, run="order-1").tools([Bank()])
    run = own.run
    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        handed(Bank().run if by == "instrument" else run)
    assert [effect.tool for effect in ledger.effects()] == ["bank"]


def lite(monkeypatch: pytest.MonkeyPatch, name: str) -> LLM:
    """Return a model of LiteLLM that calls this function."""
    called_ = SimpleNamespace(id="c1", type="function", function=SimpleNamespace(name=name, arguments='{"order": "1"}'))
    message = SimpleNamespace(content=None, tool_calls=[called_])
    answer = SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="tool_calls")], id="r1")

    async def awaited(**_: Any) -> Any:
        return answer

    fake = SimpleNamespace(
        completion=lambda **_: answer,
        acompletion=awaited,
        drop_params=True,
        callbacks=[],
        success_callback=[],
        _async_success_callback=[],
    )
    monkeypatch.setattr(llm_module, "_ensure_litellm", lambda: True)
    monkeypatch.setattr(llm_module, "litellm", fake)
    for absent in ("get_supported_openai_params", "supports_response_schema"):
        monkeypatch.setattr(llm_module, absent, None)
    for kind in ("Choices", "LiteLLMDelta", "Message", "ModelResponseBase"):
        monkeypatch.setattr(llm_module, kind, type(None))
    return LLM(model="litellm_proxy/m", is_litellm=True, base_url="http://127.0.0.1:9", api_key="none")


@pytest.mark.parametrize("is_awaited", [False, True])
def test_88_a_function_that_is_given_to_a_model_of_litellm_is_named(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, is_awaited: bool
) -> None:
    def pay(order: str) -> str:
        DONE.append(f"paid {order}")
        return "paid"

    model = lite(monkeypatch, "pay")

    def asks(function: Any) -> Any:
        words = {"available_functions": {"pay": function}}
        return asyncio.run(model.acall("go", **words)) if is_awaited else model.call("go", **words)

    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        with pytest.raises(BadCall):
            asks(pay)
        assert (DONE, ledger.effects()) == ([], [])
        assert asks(Bank().run) == "charged"
        assert [effect.tool for effect in ledger.effects()] == ["bank"]
    DONE.clear()
    with instrument(ledger) as report, ledger.in_run("order-1"):
        assert (asks(pay), DONE) == ("paid", ["paid 1"])
        assert report.seen_unguarded == ("CrewAI: pay (functions given to a model)",)


class Steps(Flow[Any]):
    """Has a method that somebody else calls."""

    @start()
    def pay(self, output: Any = None) -> str:
        """Pays."""
        DONE.append("paid")
        return "paid"


@tool
def pays_back(output: Any) -> str:
    """Pays."""
    DONE.append("paid")
    return "paid"


CALLED_BACK: dict[str, Callable[[], Any]] = {
    "a tool's function": lambda: pays_back.func,
    "what a tool does": lambda: pays_back._run,
    "a method of a flow": lambda: Steps().pay,
}


@pytest.mark.parametrize("what", CALLED_BACK)
def test_88_a_method_of_crewai_over_a_function_of_the_program_is_named(ledger: Ledger, what: str) -> None:
    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        with pytest.raises(BadCall, match="callbacks"):
            crew_of(agent_of(), step_callback=CALLED_BACK[what]()).kickoff()
        crew_of(agent_of(), step_callback=pays_back.run).kickoff()
    assert DONE == []


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("by", ["execute_sync", "execute_async", "aexecute_sync", "replay"])
def test_88_what_a_task_runs_is_named_however_it_is_executed(ledger: Ledger, by: str, is_strict: bool) -> None:
    agent = agent_of("done", "done")
    words: dict[str, Any] = {"callback": paid, "guardrail": lambda output: (True, "done"), "output_file": "paid.txt"}
    task = task_of(agent, **words)
    crew = Crew(agents=[agent], tasks=[task], memory=False)
    if by == "replay":
        crew.kickoff()
        DONE.clear()
    run: dict[str, Callable[[], Any]] = {
        "execute_sync": lambda: task.execute_sync(),
        "execute_async": lambda: task.execute_async().result(),
        "aexecute_sync": lambda: asyncio.run(task.aexecute_sync()),
        "replay": lambda: crew.replay(str(task.id)),
    }
    refused = pytest.raises(BadCall) if is_strict else nullcontext()
    with instrument(ledger, strict=is_strict, allow=OTHERS) as report, ledger.in_run("order-1"), refused:
        run[by]()
    if is_strict:
        assert DONE == []
    else:
        seen = " ".join(report.seen_unguarded)
        assert all(way in seen for way in ("(callbacks)", "(guardrails)", "(output files)"))


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_what_is_not_guarded_is_refused_in_strict_mode(
    ledger: Ledger, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREWAI_ALLOW_FLOW_SCRIPT_EXECUTION", "1")
    refused = pytest.raises(BadCall, match="strict mode refuses")
    with instrument(ledger, **STRICT), ledger.in_run("order-1"), refused:
        TRIED[way]()
    assert DONE == []


@pytest.mark.parametrize("way", UNGUARDED)
def test_88_what_is_not_guarded_is_named(ledger: Ledger, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_ALLOW_FLOW_SCRIPT_EXECUTION", "1")
    with instrument(ledger) as report, ledger.in_run("order-1"):
        (found,) = [one for one in report.findings if one.framework == "CrewAI"]
        assert way in found.unguarded
        TRIED[way]()
        assert any(f"({way})" in one for one in report.seen_unguarded)
        assert f"✗ ran without the ledger: {report.seen_unguarded[0]}" in repr(report)


@pytest.mark.parametrize(
    "words",
    [
        {"additional_params": {"tools": [{"type": "web_search"}]}},
        {"additional_params": {"extra_body": {"tools": [{"type": "web_search"}]}}},
        {"tools": [{"type": "web_search"}]},
    ],
)
def test_88_tools_of_a_provider_are_refused_however_they_are_configured(ledger: Ledger, words: dict[str, Any]) -> None:
    with (
        instrument(ledger, strict=True, allow=OTHERS),
        ledger.in_run("order-1"),
        pytest.raises(BadCall, match="hosted"),
    ):
        hosted(**words)


def test_88_what_is_allowed_by_name_runs_in_strict_mode(ledger: Ledger) -> None:
    with instrument(ledger, strict=True, allow=[*OTHERS, "charge_it"]) as report, ledger.in_run("order-1"):
        Billing().kickoff()
        assert (DONE, report.seen_unguarded) == (["charged"], ())
        with pytest.raises(BadCall, match="strict mode refuses"):
            with_callback()


@pytest.mark.parametrize("way", [delegated, lambda: crew_of(agent_of([CHARGE], tools=[charge]))])
def test_85_a_crew_stops_while_a_person_has_to_decide_also_when_a_coworker_asks(
    ledger: Ledger, way: Callable[[], Crew]
) -> None:
    """CrewAI tells the failure of a coworker as a text: the crew would go on, and say that it is done."""
    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        crew = way()
        for _ in range(2):
            with pytest.raises(ToolExecutionFailedError) as stopped:
                crew.kickoff()
            assert stopped.value.record.failure.code == "ApprovalPending"
        decide(ledger)
        assert crew.kickoff().raw == "done"
    assert DONE == ["charged"]


def test_a_program_hears_of_a_call_that_waits_by_an_exception(ledger: Ledger) -> None:
    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        with pytest.raises(ToolExecutionFailedError) as stopped:
            charge.run(amount=5)
        assert stopped.value.record.failure.details["type"] == "indelible.approval"
        decide(ledger)
        assert charge.run(5) == "charged"


def by_a_crew(ledger: Ledger, inside: Callable[[], Any]) -> None:
    @tool
    def bill(order: str) -> str:
        """Bills."""
        return str(inside())

    crew_of(agent_of([called("bill", "b1", order="o1")], tools=[bill])).kickoff()


def by_the_same_name(ledger: Ledger, inside: Callable[[], Any]) -> None:
    """A model of the tool inside may use the same name, too."""

    @tool("charge")
    def around(amount: int) -> str:
        """Charges more."""
        return str(inside())

    around.run(amount=1)


def by_a_handler(ledger: Ledger, inside: Callable[[], Any]) -> None:
    ledger.tool(side_effect="read")(inside)()


@pytest.mark.parametrize("by", [by_a_crew, by_the_same_name, by_a_handler])
@pytest.mark.parametrize("enters", ["run", "arun"])
def test_88_a_tool_that_runs_inside_of_another_call_asks_for_itself(
    tmp_path: Path, by: Callable[[Ledger, Callable[[], Any]], None], enters: str
) -> None:
    @rule("much", tool="charge")
    def much(asked: Asked) -> str:
        return "ask" if asked.args["amount"] > 1 else "allow"

    @tool("charge")
    async def pays_slowly(amount: int) -> str:
        """Charges."""
        DONE.append("charged")
        return "charged"

    def inside() -> str:
        with suppress(ToolExecutionFailedError):
            return str(charge.run(amount=5) if enters == "run" else asyncio.run(pays_slowly.arun(amount=5)))
        return "waits"

    with (
        Ledger.open(f"sqlite:///{tmp_path}/asking.db", policy=Policy.of(much)) as ledger,
        instrument(ledger),
        ledger.in_run("order-1"),
    ):
        by(ledger, inside)
        (asked,) = ledger.approvals(status="pending")
        assert (asked.tool, DONE) == ("charge", [])


def test_an_agent_that_has_the_adapter_is_guarded_once_and_undone_it_is_plain(ledger: Ledger) -> None:
    own = LedgerTools(ledger, run="own").tools([charge])
    with instrument(ledger):
        crew_of(agent_of([CHARGE], tools=own)).kickoff()
    assert [effect.run_id for effect in ledger.effects()] == ["own"]
    crew_of(agent_of([CHARGE], tools=[charge])).kickoff()
    assert len(ledger.effects()) == 1
    assert DONE == ["charged", "charged"]


# CrewAI's own questions to people


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking("tests.frameworks.crewai_asking") as forks:
        yield forks


class Passes:
    """Plays passes, and tells how each ended."""

    def __init__(self, forks: Forks, folder: Path, **words: Any) -> None:
        self._forks = forks
        self._into = folder / "end.json"
        self._words = {**words, "into": str(self._into)}

    def __call__(self, *answers: str) -> Any:
        assert self._forks.play("asking", answers=answers, **self._words)
        return json.loads(self._into.read_text())


ANSWERS = {"crew": (["again", "", ""], "the bill"), "flow": (["go ahead", "yes"], "go ahead, yes")}


@pytest.mark.parametrize("kind", ANSWERS)
def test_85_without_a_ledger_each_question_is_asked_once(
    kind: str, forks: Forks, sqlite_url: str, tmp_path: Path
) -> None:
    migrate(sqlite_url)
    answers, said = ANSWERS[kind]
    native = Passes(forks, tmp_path, url=sqlite_url, kind=kind, how="none")(*answers)
    assert native == {"end": said, "read": answers, "done": ["charged"]}


@pytest.mark.parametrize("how", ["hand", "instrument"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_85_crewais_own_questions_are_asked_as_often_as_without_the_ledger(
    kind: str, how: str, forks: Forks, store_url: str, tmp_path: Path
) -> None:
    answers, said = ANSWERS[kind]
    migrate(store_url)
    play = Passes(forks, tmp_path, url=store_url, kind=kind, how=how)
    before = play(*answers)
    left = answers[len(before["read"]) :]
    waiting = play(*left)
    assert before["end"] == waiting["end"] == "ApprovalPending"
    with Ledger.open(store_url, seal=False) as ledger:
        decide(ledger)
    after = play(*left)
    assert after["end"] == said
    assert before["read"] + waiting["read"] + after["read"] == answers, "each question once, each answer its own"
    assert before["done"] + waiting["done"] + after["done"] == ["charged"]


def test_85_a_question_that_was_not_answered_is_asked_again(ledger: Ledger) -> None:
    """A provider may pause the flow and answer later; what it raises is what the flow sees."""

    class Later:
        answers: ClassVar[list[str]] = []

        def request_input(self, message: str, flow: Any, metadata: Any = None) -> str:
            if not self.answers:
                raise ConnectionError("no one is there")
            return self.answers.pop()

    people = LedgerTools(ledger, run="order-1").people(asks=Later())
    flow = Billing()
    for _ in range(2):
        with pytest.raises(ConnectionError):
            people.request_input("Send it?", flow)
    Later.answers.append("yes")
    assert [people.request_input("Send it?", flow) for _ in range(2)] == ["yes", "yes"]
    with instrument(ledger), ledger.in_run("order-1"):
        assert people.request_input("Send it?", flow) == "yes"


def test_the_deprecated_executor_tells_the_model_instead_of_stopping(ledger: Ledger) -> None:
    """Were this to change, the page would say too little."""
    tools = LedgerTools(ledger, run="order-1", approval="required").tools([charge])
    assert crew_of(agent_of([CHARGE], tools=tools, executor_class=CrewAgentExecutor)).kickoff().raw == "done"
    assert DONE == []


@pytest.mark.parametrize(
    "words",
    [
        {"additional_params": {"tools": [{"type": "code_interpreter"}]}},
        {"additional_params": {"extra_body": {"tools": [{"type": "code_interpreter"}]}}},
        {"api": "completions", "additional_params": {"extra_body": {"web_search_options": {}}}},
    ],
)
def test_88_hosted_tools_are_found_at_any_depth(ledger: Ledger, words: dict[str, Any]) -> None:
    with provider() as url, instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        given = {"model": "gpt-4.1", "api": "responses", "api_key": "none", "base_url": url, **words}
        with pytest.raises(BadCall, match="hosted tools"):
            crew_of(agent_of(llm=OpenAICompletion(**given))).kickoff()
    assert DONE == []


@pytest.mark.parametrize(
    "of", [lambda tool: tool._run, lambda tool: tool.run, lambda tool: tool.to_structured_tool().invoke]
)
def test_88_a_method_of_crewai_s_that_stands_around_a_function_of_the_program_s_is_the_program_s(of: Any) -> None:
    assert module_of(of(charge)) == __name__
