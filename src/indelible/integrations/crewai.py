"""CrewAI: tools behind the ledger, in the place where the crew runs them.

    gate = LedgerTools(ledger, run="order-123")
    agent = Agent(role="billing", …, tools=gate.tools([charge]))
    try:
        crew.kickoff()
    except ToolExecutionFailedError as stopped:              # a person has to decide; the process may end
        print(stopped.record.failure.details["show"])
    …
    crew.kickoff()                                           # again, here or elsewhere: what was done replays

With `llm=gate.model(llm)`, each turn of the model is an event of the run.

A crew begins anew when it is kicked off again, and its tools get no id of a call. So within a run, the same tool with
the same arguments is the same call, unless `call_id` names calls.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure, ToolFailurePolicy
from pydantic import PrivateAttr, TypeAdapter

from indelible import AsyncLedger, Ledger, MayHaveHappened, RunningEffect, ToolCall
from indelible.errors import (
    ApprovalEndedUnused,
    ApprovalPending,
    BadCall,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    StillRunning,
)
from indelible.integrations.crewai_turns import recording
from indelible.integrations.model_turns import MODEL_INVOKED
from indelible.integrations.results import ToolError, as_json
from indelible.integrations.telling import error_in
from indelible.integrations.terms import (
    SAID_TO_THE_MODEL,
    Named,
    OnError,
    Terms,
    asked_again,
    checked_on_error,
    hash_of,
    question_of,
)

CallId = Callable[[str, Mapping[str, Any]], str]
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class LedgerTools:
    """Lets each tool call of a crew run at most once and with permission, however often it is kicked off, and wherever.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all. Calls belong
    to the run that `run` names. `call_id` names a call by its tool and arguments. A tool that raises is told to the
    model, as the crew does it; `on_error` "raise" stops the crew.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | Callable[[], str],
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        call_id: CallId | None = None,
        on_error: OnError = "tell",
        **usual: Any,
    ) -> None:
        self._ledger = ledger.blocking
        self._run = run
        self._terms = Terms(terms, usual)
        self._call_id = call_id
        self._on_error = checked_on_error(on_error)

    def tools(self, tools: Iterable[BaseTool]) -> list[BaseTool]:
        """Gives the tools behind the ledger."""
        return [LedgerTool.around(tool, self) for tool in tools]

    def model(self, llm: BaseLLM) -> BaseLLM:
        """Gives a model each of whose turns is an event of the run; it is durable before the crew goes on."""
        return recording(llm, lambda turn: self._ledger.record(self._run_id(), f"crewai.{MODEL_INVOKED}", turn))

    def _run_id(self) -> str:
        return self._run if isinstance(self._run, str) else self._run()

    def enter(self, tool: BaseTool, words: Mapping[str, Any]) -> Any:
        """Lets a call in. What goes wrong is given, not raised: what is raised, the crew tries again, and goes on."""
        try:
            entry = _Entry(tool, words)
            call = self._terms.call(self._named(entry))
        except Exception as problem:  # arguments that are no JSON, or a run or an id that cannot be named
            return _stop(problem)
        return self._walked(entry, call)

    def _walked(self, entry: _Entry, call: ToolCall) -> Any:
        """Runs a tool call, replays it, stops the crew, or tells the model why not."""
        words = self._terms.at_once(call.tool)
        while True:
            try:
                return entry.given(self._ledger.run(call, entry.enter, **words))
            except ApprovalPending as pending:
                return _stop(pending, question_of(pending.approval))
            except (ApprovalEndedUnused, StillRunning) as refusal:
                if not asked_again(refusal, words):
                    return _stop(refusal)
            except EffectFailed as failed:
                return self._told(entry, error_in(failed))
            except SAID_TO_THE_MODEL as refused:
                return str(refused)
            except (EffectInDoubt, MayHaveHappened) as doubt:
                return _stop(doubt, {"type": "indelible.in_doubt"})
            except IndelibleError as refusal:
                return _stop(refusal)
            except Exception as error:
                return self._told(entry, f"{type(error).__qualname__}: {error}")

    def _named(self, entry: _Entry) -> Named:
        return Named(
            tool=entry.tool.name,
            args=entry.args,
            run_id=self._run_id(),
            call_id=None if self._call_id is None else self._call_id(entry.tool.name, entry.args),
            schema=_schema_of(entry.tool),
        )

    def _told(self, entry: _Entry, why: str) -> Any:
        """Gives what became of a tool that failed: a word to the model, or a stop."""
        if self._on_error == "raise":
            return ToolFailure(message=why, code=ToolError.__name__)
        return f"{entry.tool.name} failed: {why}"


class LedgerTool(BaseTool):
    """Is a tool behind the ledger; the crew's own memory of results, which would answer before the ledger, is off."""

    _inner: BaseTool = PrivateAttr()
    _gate: LedgerTools = PrivateAttr()

    @classmethod
    def around(cls, tool: BaseTool, gate: LedgerTools) -> LedgerTool:
        """Gives a tool that looks like this one to the crew and to the model."""
        if isinstance(tool, LedgerTool):
            raise BadCall(f"{tool.name} is behind a ledger already")
        guarded = cls(
            name=tool.name,
            description=tool.description,
            env_vars=tool.env_vars,
            args_schema=tool.args_schema,
            result_schema=tool.result_schema,
            result_as_answer=tool.result_as_answer,
            max_usage_count=tool.max_usage_count,
            cache_function=never,
            tool_failure_policy=ToolFailurePolicy.RAISE,
        )
        guarded._inner, guarded._gate = tool, gate
        return guarded

    def _run(self, **words: Any) -> Any:
        return self._gate.enter(self._inner, words)

    async def _arun(self, **words: Any) -> Any:
        return await asyncio.to_thread(self._run, **words)

    def format_output_for_agent(self, raw_result: Any) -> str:
        """Gives the text that the model reads: what the tool makes of its results, and refusals as they are."""
        if isinstance(raw_result, str | ToolFailure):
            return raw_result if isinstance(raw_result, str) else raw_result.as_agent_message()
        return str(self._inner.format_output_for_agent(raw_result))


class _Entry:
    """Is one call on its way: what the tool gave stays at hand, so that only a repeat gets it from the record."""

    def __init__(self, tool: BaseTool, words: Mapping[str, Any]) -> None:
        self.tool = tool
        self.args: dict[str, Any] = _ANYTHING.dump_python(dict(words), mode="json")
        self._live: list[Any] = []

    def enter(self, effect: RunningEffect) -> Any:
        """Enters the tool with the recorded arguments, as the tool's schema reads them."""
        schema = self.tool.args_schema
        args = schema.model_validate(effect.args).model_dump() if schema.model_fields else effect.args
        result = self.tool._run(**args)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        if isinstance(result, ToolFailure):
            raise ToolError(result.as_agent_message())
        self._live.append(result)
        return as_json(result)

    def given(self, recorded: Any) -> Any:
        """Gives what the tool gave, now or as it was recorded; with a schema, in its type."""
        if self._live:
            return self._live[0]
        schema = self.tool.result_schema
        try:
            return recorded if schema is None else schema.model_validate(recorded)
        except ValueError:
            return recorded  # a person settled it by hand, with a value of their own


def never(_args: Any = None, _result: Any = None) -> bool:
    """Lets the crew keep no result in memory."""
    return False


def _stop(refusal: Exception, details: Mapping[str, Any] | None = None) -> ToolFailure:
    """Gives what makes the crew stop, by the tool's policy, with what the ledger said."""
    return ToolFailure(message=str(refusal), code=type(refusal).__name__, details=dict(details or {}))


def _schema_of(tool: BaseTool) -> str:
    return hash_of([tool.name, tool.description, tool.args_schema.model_json_schema()])
