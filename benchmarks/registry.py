"""Names every contestant, and imports one only in the process that runs it."""

from __future__ import annotations

import importlib

from benchmarks.approvable import Approvable
from benchmarks.contestant import Contestant

CONTESTANTS = {
    "raw_postgres": "raw_postgres:RawOne",
    "raw_postgres_lane": "raw_postgres:RawLane",
    "raw_sqlite": "raw_sqlite:RawOne",
    "raw_sqlite_writer": "raw_sqlite:RawWriter",
    "indelible": "ours:IndelibleOne",
    "indelible_many": "ours:IndelibleMany",
    "indelible_many_no_wakeups": "ours:IndelibleManyNoWakeups",
    "indelible_many_unaudited": "unaudited:ManyUnaudited",
    "indelible_many_sealed_elsewhere": "audited:ManySealedElsewhere",
    "indelible_many_sealing": "audited:ManySealing",
    "indelible_many_signed": "audited:ManySigned",
    "indelible_many_signed_sealing": "audited:ManySignedSealing",
    "indelible_sealing": "audited:OneSealing",
    "indelible_paying": "audited:OnePaying",
    "indelible_awaiting_elsewhere": "audited:OneAwaitingElsewhere",
    "indelible_policed": "ours_approving:IndeliblePoliced",
    "agent_ledger": "peers.agent_ledger_peer:AgentLedgerOne",
    "agent_ledger_many": "peers.agent_ledger_peer:AgentLedger",
    "agent_ledger_tuned": "peers.agent_ledger_peer:AgentLedgerTunedOne",
    "agent_ledger_tuned_many": "peers.agent_ledger_peer:AgentLedgerTuned",
    "dbos": "peers.dbos_peer:DbosOne",
    "dbos_many": "peers.dbos_peer:DbosMany",
    "dbos_tuned": "peers.dbos_peer:DbosTunedOne",
    "provedex": "peers.provedex_peer:ProvedexOne",
    "provedex_many": "peers.provedex_peer:ProvedexMany",
}

APPROVABLE = {
    "raw": "raw_approving:RawApproving",
    "indelible": "ours_approving:IndelibleApproving",
    "agent_ledger": "peers.agent_ledger_approving:AgentLedgerApproving",
    "agent_ledger_tuned": "peers.agent_ledger_approving:AgentLedgerTunedApproving",
    "dbos": "peers.dbos_approving:DbosApproving",
}


def contestant(name: str) -> Contestant:
    """Returns a contestant that is not open yet; raises ImportError when its package is missing."""
    module, _, kind = CONTESTANTS[name].partition(":")
    made: Contestant = getattr(importlib.import_module(f"benchmarks.{module}"), kind)()
    return made


def approvable(name: str) -> Approvable:
    """Returns a contestant whose calls can wait for a person; raises ImportError when its package is missing."""
    module, _, kind = APPROVABLE[name].partition(":")
    made: Approvable = getattr(importlib.import_module(f"benchmarks.{module}"), kind)()
    return made
