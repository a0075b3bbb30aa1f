"""Stores, by agent-ledger's names: each is a ledger of ours."""

from indelible.compat.agent_ledger.stores.base import EffectStore, LedgerStore, TxT
from indelible.compat.agent_ledger.stores.memory import MemoryStore

__all__ = ["EffectStore", "LedgerStore", "MemoryStore", "TxT"]
