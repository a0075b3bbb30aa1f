"""Fault 52, by every door: no call runs on the vote of the person it is made for, however it is asked for and voted on.

The policy lets Ana and Cleo decide. What Ana's vote does not let run, Cleo's does.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import mcp_types as types
import pytest
from click.testing import CliRunner
from mcp.client import Client
from mcp.server import Server

from indelible import Actor, Approval, AwaitingApproval, Claimed, GrantTerms, Ledger, ToolCall
from indelible.cli.root import root
from indelible.compat import agent_ledger, zehrava
from indelible.errors import VoteRefused
from indelible.integrations.mcp import ledger_proxy
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import GatewayTool
from tests.server.office import House, Office, invited

SOON = datetime.now(UTC) + timedelta(hours=1)
POLICY: dict[str, Any] = {
    "people": {"ana": {}, "bob": {}, "cleo": {}},
    "rules": [{"name": "wires", "match": {"tool": "wire*"}, "then": "ask", "approvals": {"people": ["ana", "cleo"]}}],
    "open_approvals": {"run": 1000},
}
_NUMBERS = itertools.count()


class World:
    """A ledger, and a server beside it, with Ana's session, her tokens, and agents that act for her and for Dora."""

    def __init__(self, url: str) -> None:
        self.url = url
        tool = GatewayTool(name="wire.served", words={"side_effect": "payment"}, function=lambda **args: "sent")
        self.house = House(url, seal=False, gateway=Gateway({tool.name: tool}))
        self.office = Office(self.house, "default")
        self.ledgers = [
            Ledger.open(url, seal=False, actor=actor, principal=principal)
            for actor, principal in (("robot", "ana"), ("ana", None), ("robot-d", "dora"))
        ]
        self.for_ana, self.herself, self.for_dora = self.ledgers
        self.for_ana.apply_policy(POLICY, by="root")
        self.page, _ = invited(self.office)
        self.token = self.office.token("ana", "approver")
        self.agent = self.office.token("robot-h", "agent", principal="ana")
        self.remote = Ledger.open(self.house.served.url, token=_bare(self.agent))
        self.ledgers.append(self.remote)

    def close(self) -> None:
        for ledger in reversed(self.ledgers):
            ledger.close()
        self.house.close()

    def post(self, path: str, headers: dict[str, str], body: Any) -> httpx2.Response:
        return httpx2.post(f"{self.office.url}{path}", headers=headers, json=body, trust_env=False)


Attempt = Callable[[], Approval | None]
"""Makes the call once more: returns its question, or None if it ran."""


def call(number: int) -> ToolCall:
    return ToolCall(tool="wire", args={"to": "x", "number": number}, run_id=f"r{number}")


def begun(ledger: Ledger, number: int) -> Approval | None:
    answer = ledger.begin(call(number))
    if isinstance(answer, Claimed):
        return None
    assert isinstance(answer, AwaitingApproval), answer
    return answer.approval


def by_library(world: World, number: int) -> Attempt:
    return lambda: begun(world.for_ana, number)


def by_herself(world: World, number: int) -> Attempt:
    return lambda: begun(world.herself, number)


def by_remote(world: World, number: int) -> Attempt:
    return lambda: begun(world.remote, number)


def by_http(world: World, number: int) -> Attempt:
    told = {"tool": "wire", "args": {"to": "x", "number": number}, "run_id": f"r{number}"}
    return lambda: _asked(world, world.post("/v1/effects", world.agent, told))


def by_server(world: World, number: int) -> Attempt:
    told = {"args": {"to": "x", "number": number}, "run_id": f"r{number}", "wait_s": 0}
    return lambda: _asked(world, world.post("/v1/tools/wire.served/calls", world.agent, told))


def _asked(world: World, answer: httpx2.Response) -> Approval | None:
    if answer.status_code in (200, 201):
        return None
    assert answer.status_code == 202, answer.text
    return world.for_ana.get_approval(answer.json()["approval"]["id"])


def by_mcp(world: World, number: int) -> Attempt:
    args, bank = {"to": "x", "number": number}, Bank("wire")
    return lambda: None if called_by_mcp(world.for_ana, bank, f"r{number}", args) else _open_in(world, f"r{number}")


def by_zehrava(world: World, number: int) -> Attempt:
    gate = zehrava.Gate(world.house.served.url, _bare(world.agent))

    def attempt() -> Approval | None:
        said = gate.propose(destination="wire", policy="wires", payload={"number": number}, run_id=f"r{number}")
        with suppress(zehrava.GateError):
            gate.execute(intent_id=said["intentId"])
            return None
        return _open_in(world, f"r{number}")

    return attempt


def _open_in(world: World, run_id: str) -> Approval:
    (asked,) = [one for one in world.for_ana.approvals(status="pending") if one.for_run == run_id]
    return asked


def _bare(headers: dict[str, str]) -> str:
    return headers["Authorization"].removeprefix("Bearer ")


class Bank:
    """An MCP server with one tool, which counts how often it was entered."""

    def __init__(self, tool: str) -> None:
        self.paid = 0
        self._tool = types.Tool(name=tool, description="Pays.", input_schema={"type": "object"})
        self.server: Server[Any] = Server("bank", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._tool])

    async def _call(self, ctx: Any, params: Any) -> types.CallToolResult:
        self.paid += 1
        return types.CallToolResult(content=[types.TextContent(text="sent")])


def called_by_mcp(
    ledger: Ledger, bank: Bank, run_id: str, args: dict[str, Any], mode: str = "legacy", **words: Any
) -> bool:
    """Call the bank's tool through a proxy; say whether it was entered."""

    async def approves(ctx: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async def call_it() -> None:
        async with (
            Client(bank.server) as below,
            Client(
                ledger_proxy(ledger, below, run=run_id, side_effect="payment", dedupe="args", **words),
                mode=mode,
                elicitation_callback=approves if "approver" in words else None,
                input_required_max_rounds=2,
            ) as client,
        ):
            await client.call_tool(bank._tool.name, args)

    asyncio.run(call_it())
    return bank.paid > 0


def after_dora(world: World, number: int) -> Attempt:
    """Dora's agent asked for it, so Ana may vote; then Ana's agent makes the same call."""
    asked = [begun(world.for_dora, number)]
    return lambda: asked.pop() if asked else begun(world.for_ana, number)


ASKING = (by_library, by_herself, by_remote, by_http, by_server, by_mcp, by_zehrava, after_dora)


def vote_by_name(world: World, asked: Approval) -> None:
    world.for_dora.approve(asked, digest=asked.digest, by="ana")


def vote_by_another_spelling(world: World, asked: Approval) -> None:
    world.for_dora.approve(asked, digest=asked.digest, by="ＡＮＡ ")


def vote_by_passkey(world: World, asked: Approval) -> None:
    world.for_dora.approve(asked, digest=asked.digest, by=Actor("ana", "person", "passkey"))


def vote_by_slack(world: World, asked: Approval) -> None:
    world.for_dora.approve(asked, digest=asked.digest, by=Actor("ana", "person", "api_key"), reason="in Slack")


def vote_in_a_loop(world: World, asked: Approval) -> None:
    asyncio.run(world.for_dora.awaited.approve(asked, digest=asked.digest, by="ana"))


def vote_over_http(world: World, asked: Approval) -> None:
    told = {"decision": "approve", "digest": asked.digest}
    assert world.post(f"/v1/approvals/{asked.id}/decisions", world.token, told).status_code in (201, 403)


def vote_on_the_page(world: World, asked: Approval) -> None:
    told = {"decision": "approve", "digest": asked.digest}
    assert world.page.post(f"/v1/approvals/{asked.id}/decisions", told).status_code in (201, 403)


def vote_by_command(world: World, asked: Approval) -> None:
    _command(asked, {"INDELIBLE_URL": world.url, "INDELIBLE_TOKEN": ""}, "--by", "ana")


def vote_by_command_at_the_server(world: World, asked: Approval) -> None:
    _command(asked, {"INDELIBLE_URL": world.house.served.url, "INDELIBLE_TOKEN": _bare(world.token)})


def _command(asked: Approval, environment: dict[str, str], *more: str) -> None:
    words = ["approvals", "approve", asked.id, "--digest", asked.digest, *more]
    said = CliRunner().invoke(root, words, env=environment)
    assert said.exit_code in (0, 1), said.output


def vote_by_agent_ledger(world: World, asked: Approval) -> None:
    store = agent_ledger.LedgerStore(world.for_dora)
    face = agent_ledger.EffectLedger(agent_ledger.EffectLedgerOptions(store=store))
    effect = world.for_dora.get_effect(asked.effect_id)
    assert effect is not None
    with suppress(agent_ledger.EffectLedgerInvariantError):
        asyncio.run(face.approve(effect.ref.key, by="ana", digest=asked.digest))


def vote_by_zehrava(world: World, asked: Approval) -> None:
    with suppress(zehrava.GateError), zehrava.Gate(world.house.served.url, _bare(world.token)) as gate:
        gate.approve(intent_id=asked.id)


def vote_in_mcp_client(world: World, asked: Approval) -> None:
    _elicited(world, asked, "2026-07-28")


def vote_in_older_mcp_client(world: World, asked: Approval) -> None:
    _elicited(world, asked, "legacy")


def _elicited(world: World, asked: Approval, mode: str) -> None:
    """Ana's agent makes the same call by MCP, and Ana approves it in the form of its client."""
    bank, args = Bank(asked.tool), dict(world.for_ana.view_approval(asked).args)
    assert not called_by_mcp(world.for_ana, bank, asked.for_run, args, mode, approver="ana"), "it ran on her own vote"


def vote_by_a_delegate(world: World, asked: Approval) -> None:
    """Bob decides in Ana's name, and in no other."""
    given = world.for_dora.delegate("bob", until=SOON, by="ana")
    try:
        world.for_dora.approve(asked, digest=asked.digest, by="bob")
    finally:
        world.for_dora.end_delegation(given.id, by="ana", reason="back")


def vote_for_another(world: World, asked: Approval) -> None:
    """Ana decides in Cleo's name."""
    given = world.for_dora.delegate("ana", until=SOON, by="cleo")
    try:
        world.for_dora.approve(asked, digest=asked.digest, by="ana")
    finally:
        world.for_dora.end_delegation(given.id, by="cleo", reason="back")


def grant(world: World, asked: Approval) -> None:
    """Ana lets Dora's agent make such calls for a while; Ana's own calls are none of them."""
    other = begun(world.for_dora, next(_NUMBERS))
    if other is not None:  # else an earlier grant covers it
        terms = GrantTerms(count=100, until=SOON)
        world.for_dora.approve(other, digest=other.digest, by="ana", grant=terms)


def edit_and_delegate(world: World, asked: Approval) -> None:
    """Ana edits nothing of weight, and a delegate of hers approves it."""
    given = world.for_dora.delegate("bob", until=SOON, by="ana")
    try:
        args = {**world.for_dora.view_approval(asked).args, "note": "of no weight"}
        edited = world.for_dora.edit_approval(asked, args, digest=asked.digest, by="ana")
        world.for_dora.approve(edited, digest=edited.digest, by="bob")
    finally:
        world.for_dora.end_delegation(given.id, by="ana", reason="back")


VOTES = (
    *(vote_by_name, vote_by_another_spelling, vote_by_passkey, vote_by_slack, vote_in_a_loop, vote_over_http),
    *(vote_on_the_page, vote_by_command, vote_by_command_at_the_server, vote_by_agent_ledger),
    *(vote_by_zehrava, vote_in_mcp_client, vote_in_older_mcp_client),
    *(vote_by_a_delegate, vote_for_another, edit_and_delegate, grant),
)


@pytest.fixture
def world(store_url: str) -> Iterator[World]:
    found = World(store_url)
    yield found
    found.close()


@pytest.mark.parametrize("vote", VOTES)
def test_52_no_call_runs_on_the_vote_of_the_person_it_is_made_for(world: World, vote: Any) -> None:
    for ask in ASKING:
        attempt = ask(world, next(_NUMBERS))
        asked = attempt()
        if asked is None:
            assert (ask, vote) == (after_dora, grant), "a grant covers Dora's call"
            continue
        with suppress(VoteRefused):
            vote(world, asked)
        again = attempt()
        assert again is not None, f"{ask.__name__}: it ran on her own vote"
        assert [one.by for one in again.votes] == [], ask.__name__
        world.for_dora.approve(again, digest=again.digest, by="cleo")
        assert attempt() is None, f"{ask.__name__}: another person's vote lets it run"


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_52_another_persons_vote_in_an_mcp_client_counts_for_the_same_call(world: World, mode: str) -> None:
    number = next(_NUMBERS)
    asked, bank = begun(world.for_ana, number), Bank("wire")
    assert asked is not None
    args = {"to": "x", "number": number}
    assert called_by_mcp(world.for_ana, bank, asked.for_run, args, mode, approver="cleo")
    (done,) = world.for_ana.effects(run_id=asked.for_run)
    assert (done.id, done.status) == (asked.effect_id, "succeeded")


def test_52_another_persons_vote_by_zehrava_counts(world: World) -> None:
    attempt = by_zehrava(world, next(_NUMBERS))
    asked = attempt()
    assert asked is not None
    cleo = world.office.token("cleo", "approver")
    with zehrava.Gate(world.house.served.url, _bare(cleo)) as gate:
        assert gate.approve(intent_id=asked.id)["status"] == "approved"
    assert attempt() is None
