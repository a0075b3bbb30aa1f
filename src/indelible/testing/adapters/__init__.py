"""The conformance kit of integrations: the same cases for every framework, natively and behind the ledger.

A framework brings one file with a `Rig`: an agent with a scripted model, one tool, a way to begin, a way to resume. The
cases drive it by real processes, kill some of them, and count what was done outside.
"""
