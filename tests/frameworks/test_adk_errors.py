"""What ADK's own tools make results of: errors of functions and REST APIs, lost answers, and secrets in the state."""

from __future__ import annotations

import functools
import inspect
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_tool import GoogleTool
from google.adk.tools.mcp_tool.mcp_tool import McpTool
from google.adk.tools.openapi_tool.openapi_spec_parser import rest_api_tool
from google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset import OpenAPIToolset
from google.adk.tools.openapi_tool.openapi_spec_parser.tool_auth_handler import ToolContextCredentialStore
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from mcp.types import Tool as MCPTool

from indelible import Ledger, MayHaveHappened, NothingHappened, Refused
from indelible.integrations.adk import ToolError
from indelible.testing.adapters.adk import called
from tests.frameworks.test_adk import SAYS_DONE, Played

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def status_of(ledger: Ledger) -> list[str]:
    return [one.status for one in ledger.effects()]


# Functions


RAISED = [
    (ConnectionResetError("answer lost"), {}, "in_doubt"),
    (MayHaveHappened("answer lost"), {}, "in_doubt"),
    (Refused("card declined"), {}, "failed"),
    (KeyError("no such card"), {"failed_on": KeyError}, "failed"),
    (ConnectionResetError("answer lost"), {"side_effect": "write"}, "failed"),
    (NothingHappened("never sent"), {}, "ready"),
]


class Wrapping(GoogleTool):
    """Is a program's own kind of Google's tool."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return await super().run_async(args=args, tool_context=tool_context)


def paying(error: Exception) -> Any:
    def pay(amount: int) -> dict[str, Any]:
        """Pays."""
        done.append(f"paid {amount}")
        raise error

    return pay


@pytest.mark.parametrize("kind", [GoogleTool, Wrapping])
@pytest.mark.parametrize(("error", "declared", "status"), RAISED)
def test_37_what_the_function_of_a_google_tool_raises_is_no_success(
    ledger: Ledger, kind: Any, error: Exception, declared: Any, status: str
) -> None:
    terms = {"pay": {"side_effect": "payment", **declared}}
    tools = [kind(paying(type(error)(*error.args)))]
    heard = Played(ledger, called("pay", "c1", amount=5), tools=tools, run="r", terms=terms).begin()
    assert (status_of(ledger), done) == ([status], ["paid 5"])
    if status == "failed":
        assert heard == [{"status": "ERROR", "error_details": str(error)}], "as without the ledger"


def test_37_a_generator_of_a_google_tool_that_raises_is_no_success(ledger: Ledger) -> None:
    def pay(amount: int) -> Iterator[str]:
        """Pays."""
        done.append(f"paid {amount}")
        yield "paying"
        raise ConnectionResetError("answer lost")

    Played(ledger, called("pay", "c1", amount=5), tools=[GoogleTool(pay)], run="r", side_effect="payment").begin()
    assert (status_of(ledger), done) == (["in_doubt"], ["paid 5"])


def test_37_a_google_tool_without_credentials_has_done_nothing(ledger: Ledger) -> None:
    class NoCredentials:
        async def get_valid_credentials(self, context: Any) -> Any:
            raise ValueError("no credentials")

    tool = GoogleTool(paying(ValueError("unreached")))
    tool._credentials_manager = NoCredentials()
    (heard,) = Played(ledger, called("pay", "c1", amount=5), tools=[tool], run="r", side_effect="payment").begin()
    assert "no credentials" in str(heard)
    assert (status_of(ledger), done) == (["ready"], [])


def test_37_a_class_of_the_program_s_own_may_make_a_result_of_what_its_function_raises(ledger: Ledger) -> None:
    class Cautious(FunctionTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            try:
                return await super().run_async(args=args, tool_context=tool_context)
            except KeyError:
                return {"paid": 0}

    tools = [Cautious(paying(KeyError("card")))]
    heard = Played(ledger, called("pay", "c1", amount=5), tools=tools, run="r", side_effect="payment").begin()
    assert (status_of(ledger), heard) == (["succeeded"], [{"paid": 0}])


def test_37_an_error_that_the_program_s_own_function_returns_is_a_result(ledger: Ledger) -> None:
    def pay(amount: int) -> dict[str, str]:
        """Pays."""
        return {"status": "ERROR", "error": "declined"}

    played = Played(ledger, called("pay", "c1", amount=5), tools=[GoogleTool(pay)], run="r", side_effect="payment")
    assert played.begin() == [{"status": "ERROR", "error": "declined"}]
    assert status_of(ledger) == ["succeeded"]


PUBLISH = """
def publish_message(message: str) -> dict:
    "Publishes, as ADK's tools for Pub/Sub, BigQuery and Spanner do: any error becomes a result."
    return {"status": "ERROR", "error_details": "answer lost"}
"""


@pytest.mark.parametrize(
    ("declared", "status"),
    [({}, "in_doubt"), ({"failed_on": ToolError}, "failed"), ({"side_effect": "read"}, "failed")],
)
def test_37_an_error_that_a_function_of_adk_s_makes_a_result_of_is_no_success(
    ledger: Ledger, declared: Any, status: str
) -> None:
    adks: dict[str, Any] = {"__name__": "google.adk.tools.pubsub.message_tool"}
    exec(PUBLISH, adks)
    call, terms = called("publish_message", "c1", message="hello"), {"side_effect": "payment", **declared}
    (heard,) = Played(ledger, call, tools=[GoogleTool(adks["publish_message"])], run="r", **terms).begin()
    assert status_of(ledger) == [status]
    if status == "failed":
        assert heard == {"status": "ERROR", "error_details": "answer lost"}, "as without the ledger"


def test_37_an_error_that_a_tool_of_the_program_s_own_returns_is_a_result(ledger: Ledger) -> None:
    class Own(BaseTool):
        def _get_declaration(self) -> types.FunctionDeclaration:
            return types.FunctionDeclaration(name="pay", description="Pays.")

        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            return {"error": "declined"}

    tool = Own(name="pay", description="Pays.")
    assert Played(ledger, called("pay", "c1"), tools=[tool], run="r").begin() == [{"error": "declined"}]
    assert status_of(ledger) == ["succeeded"]


# REST APIs


class Bank(BaseHTTPRequestHandler):
    """Is a bank that answers as it is told to."""

    how = "answers"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/token":
            self._answer(200, {"access_token": "NEW-ACCESS-93", "refresh_token": "NEW-REFRESH-93", "expires_in": 3600})
            return
        done.append("paid")
        if self.how == "waits":
            time.sleep(2)
        if self.how != "dies":
            self._answer({"refuses": 402, "breaks": 500}.get(self.how, 200), {"paid": True})

    def _answer(self, status: int, said: Any) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def bank() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bank) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def toolset(url: str, **words: Any) -> OpenAPIToolset:
    body = {
        "content": {"application/json": {"schema": {"type": "object", "properties": {"amount": {"type": "integer"}}}}}
    }
    pay = {"operationId": "pay", "requestBody": body, "responses": {"200": {"description": "ok"}}}
    spec = {"openapi": "3.0.0", "info": {"title": "bank", "version": "1"}, "servers": [{"url": url}]}
    usual = {"httpx_client_factory": lambda: httpx.AsyncClient(timeout=1), "allow_private_network_access": True}
    return OpenAPIToolset(spec_dict={**spec, "paths": {"/pay": {"post": pay}}}, **(usual | words))


PAY = called("pay", "c1", amount=5)


@pytest.mark.parametrize(
    ("how", "declared", "status"),
    [
        ("waits", {}, "in_doubt"),
        ("waits", {"failed_on": (ToolError, httpx.TimeoutException)}, "in_doubt"),
        ("waits", {"side_effect": "write"}, "in_doubt"),
        ("dies", {"failed_on": (ToolError, httpx.HTTPError)}, "in_doubt"),
        ("waits", {"side_effect": "read"}, "failed"),
        ("refuses", {}, "in_doubt"),
        ("refuses", {"failed_on": ToolError}, "failed"),
        ("breaks", {"side_effect": "write"}, "failed"),
        ("answers", {}, "succeeded"),
    ],
)
def test_83_adk_s_rest_tools_record_no_success_that_no_one_confirmed(
    ledger: Ledger, bank: str, how: str, declared: Any, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bank, "how", how)
    terms = {"pay": {"side_effect": "payment", **declared}}
    (heard,) = Played(ledger, PAY, tools=[toolset(bank)], run="r", terms=terms).begin()
    assert (done, status_of(ledger)) == (["paid"], [status])
    if status == "failed":
        assert "execution failed" in heard["error"], "as without the ledger"


def test_83_a_request_that_adk_does_not_send_has_not_happened(ledger: Ledger, bank: str) -> None:
    tools = [toolset(bank, allow_private_network_access=False)]
    Played(ledger, PAY, tools=tools, run="r", side_effect="payment").begin()
    assert (done, status_of(ledger)) == ([], ["ready"])


def test_83_a_lost_answer_that_the_tool_s_own_function_hands_on_is_in_doubt(
    ledger: Ledger, bank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bank, "how", "waits")

    async def pay(amount: int, tool_context: ToolContext) -> Any:
        """Pays."""
        (inner,) = await toolset(bank).get_tools()
        return await inner.run_async(args={"amount": amount}, tool_context=tool_context)

    Played(ledger, PAY, tools=[pay], run="r", side_effect="payment").begin()
    assert (done, status_of(ledger)) == (["paid"], ["in_doubt"])


def test_83_a_request_that_is_not_sent_says_nothing_of_what_the_tool_did_before(ledger: Ledger, bank: str) -> None:
    """A function that had paid was "nothing happened", and was entered again."""

    async def pay(amount: int, tool_context: ToolContext) -> Any:
        """Pays, and tells a host that is not there."""
        words: dict[str, Any] = {"args": {"amount": amount}, "tool_context": tool_context}
        (paying,) = await toolset(bank).get_tools()
        await paying.run_async(**words)
        (telling,) = await toolset(bank, allow_private_network_access=False).get_tools()
        return await telling.run_async(**words)

    Played(ledger, PAY, tools=[pay], run="r", side_effect="payment").begin()
    assert done == ["paid"]
    assert status_of(ledger) != ["ready"]


def test_83_a_lost_answer_is_heard_also_where_a_tracer_stands_at_adk_s_client(
    ledger: Ledger, bank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = inspect.unwrap(rest_api_tool._request)  # a tracer that was there before the ledger

    @functools.wraps(plain)
    async def traced(**words: Any) -> Any:
        return await plain(**words)

    monkeypatch.setattr(rest_api_tool, "_request", traced)
    monkeypatch.setattr(Bank, "how", "waits")
    Played(ledger, PAY, tools=[toolset(bank)], run="r", side_effect="payment").begin()
    assert (done, status_of(ledger)) == (["paid"], ["in_doubt"])


# MCP servers


GRACEFUL = FeatureName._MCP_GRACEFUL_ERROR_HANDLING


class Lost:
    """Stands for the sessions of an MCP server that does what it is told, and whose answer is lost."""

    async def create_session(self, **_: Any) -> Lost:
        return self

    async def call_tool(self, *_: Any, **__: Any) -> Any:
        done.append("paid")
        raise ConnectionResetError("answer lost")

    def _begin_session_use(self, *_: Any, **__: Any) -> None: ...
    def _end_session_use(self, *_: Any, **__: Any) -> None: ...
    def _discard_session(self, *_: Any, **__: Any) -> None: ...
    def _get_session_context(self, *_: Any, **__: Any) -> None: ...


def mcp_tool() -> McpTool:
    described: Any = MCPTool(name="pay", inputSchema={"type": "object", "properties": {"amount": {"type": "integer"}}})
    return McpTool(mcp_tool=described, mcp_session_manager=Lost())  # type: ignore[arg-type]


async def handing_on(amount: int, tool_context: ToolContext) -> Any:
    """Pays."""
    return await mcp_tool().run_async(args={"amount": amount}, tool_context=tool_context)


async def refusing(amount: int, tool_context: ToolContext) -> Any:
    """Looks for the balance first."""
    with suppress(ConnectionResetError):
        await handing_on(amount, tool_context)
    raise Refused("no balance")


@pytest.mark.parametrize("kind", [FunctionTool, GoogleTool])
@pytest.mark.parametrize("is_graceful", [True, False])
@pytest.mark.parametrize(
    ("pay", "declared", "status"),
    [
        (handing_on, {}, "in_doubt"),
        (handing_on, {"failed_on": (ToolError, ConnectionResetError)}, "in_doubt"),
        (handing_on, {"side_effect": "write"}, "in_doubt"),
        (handing_on, {"side_effect": "read"}, "failed"),
        (refusing, {}, "failed"),
    ],
)
def test_83_a_lost_answer_of_an_mcp_server_that_a_function_hands_on_is_in_doubt(
    ledger: Ledger, kind: Any, is_graceful: bool, pay: Any, declared: Any, status: str
) -> None:
    """Where ADK makes a result of it, it was a success."""
    pays = functools.wraps(pay)(lambda amount, tool_context: pay(amount, tool_context))
    pays.__name__ = "pay"
    terms = {"pay": {"side_effect": "payment", **declared}}
    # What a function raises leaves the app, if it failed.
    with suppress(ConnectionResetError, Refused), temporary_feature_override(GRACEFUL, is_graceful):
        Played(ledger, PAY, tools=[kind(pays)], run="r", terms=terms).begin()
    assert (done, status_of(ledger)) == (["paid"], [status])


# What tools put into the session's state


SECRETS = ("NEW-ACCESS-93", "NEW-REFRESH-93", "OLD-ACCESS-93", "OLD-REFRESH-93", "CLIENT-SECRET-93", "PASSWORD-93")


def in_clear(ledger: Ledger) -> list[str]:
    """Return the secrets that the ledger's files hold."""
    kept = b"".join(one.read_bytes() for one in Path().glob("ledger.db*"))
    return [one for one in SECRETS if one.encode() in kept]


def test_95_credentials_that_adk_keeps_in_the_state_are_not_recorded(ledger: Ledger, bank: str) -> None:
    flow = OAuthFlowAuthorizationCode(authorizationUrl=f"{bank}/a", tokenUrl=f"{bank}/token", scopes={"pay": "pay"})
    scheme = OAuth2(flows=OAuthFlows(authorizationCode=flow))

    def credential(**words: Any) -> AuthCredential:
        inside = OAuth2Auth(client_id="c", client_secret="CLIENT-SECRET-93", **words)
        return AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=inside)

    old = credential(access_token="OLD-ACCESS-93", refresh_token="OLD-REFRESH-93", expires_at=1)
    store: Any = ToolContextCredentialStore(None)  # type: ignore[arg-type]
    key = store.get_credential_key(scheme, credential())
    tools = [toolset(bank, auth_scheme=scheme, auth_credential=credential())]
    played = Played(ledger, PAY, tools=tools, run="r", side_effect="payment")
    played.begin(state={key: old.model_dump(exclude_none=True)})
    assert status_of(ledger) == ["succeeded"]
    assert played.session().state[key]["oauth2"]["access_token"] == "NEW-ACCESS-93", "the session has it"
    assert in_clear(ledger) == []


def test_95_secrets_that_a_tool_puts_into_the_state_are_not_recorded_at_any_depth(ledger: Ledger) -> None:
    def login(user: str, tool_context: ToolContext) -> str:
        """Logs in."""
        done.append(user)
        tool_context.state["token"] = "NEW-ACCESS-93"
        tool_context.state["bank"] = {"accounts": [{"iban": "DE02", "password": "PASSWORD-93"}]}
        tool_context.state["user"] = user
        return "ok"

    turns = [[called("login", "c1", user="u")], SAYS_DONE]
    for session in ("one", "order-123"):
        played = Played(ledger, tools=[login], turns=turns, run="r", side_effect="write", dedupe="args")
        assert played.begin(session) == [{"result": "ok"}]
    assert done == ["u"]
    assert played.session().state == {"user": "u"}, "a replay gives back what is recorded"
    assert in_clear(ledger) == []


@pytest.mark.parametrize("redact", [(), ("token",)])
def test_95_what_is_redacted_on_the_record_stays_as_it_is_in_the_session(
    tmp_path: Path, redact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bearer = "Bearer abcdefghijklmnopqrstuvwxyz0123456789"

    def login(user: str, tool_context: ToolContext) -> dict[str, Any]:
        """Logs in."""
        done.append("login")
        tool_context.state["session"] = bearer
        return {"user": user}

    def charge(order: str, tool_context: ToolContext) -> dict[str, str]:
        """Charges."""
        done.append(tool_context.state["session"])
        return {"charged": order}

    turns = [[called("login", "c1", user="u")], [called("charge", "c2", order="o1")], SAYS_DONE]
    again = [[called("login", "c3", user="u")], SAYS_DONE]
    with Ledger.open(f"sqlite:///{tmp_path}/redacting.db", redact=list(redact)) as ledger:
        words: Any = {"tools": [login, charge], "run": "r", "dedupe": "args"}
        played = Played(ledger, turns=turns, **words)
        heard = played.begin()
        assert heard == [{"user": "u"}, {"charged": "o1"}]
        assert done == ["login", bearer]
        assert played.session().state == {"session": bearer}
        Played(ledger, turns=again, **words).once_more()
        assert done == ["login", bearer], "it is replayed"
        assert played.session().state == {"session": bearer}
        assert [one.status for one in ledger.effects()] == ["succeeded", "succeeded"]
