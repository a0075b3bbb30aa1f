"""The public face changes on purpose only: names, and the tree of exceptions."""

from __future__ import annotations

import inspect
import re

import indelible
from indelible import errors
from indelible.runs.active import ActiveRun
from indelible.runs.active_aio import AsyncActiveRun

PUBLIC = {
    "ActiveRun",
    "Actor",
    "Approval",
    "ApprovalView",
    "AsyncLedger",
    "AwaitingApproval",
    "Begun",
    "Canceled",
    "CheckpointRule",
    "Claim",
    "Claimed",
    "Denied",
    "Effect",
    "Elsewhere",
    "Event",
    "Failed",
    "GrantTerms",
    "Idempotent",
    "InDoubt",
    "InFlight",
    "IndelibleError",
    "Ledger",
    "MayHaveHappened",
    "MayRun",
    "NothingHappened",
    "Options",
    "Outcome",
    "Policy",
    "Redacted",
    "Refused",
    "Replayed",
    "ReplayedFailure",
    "Resource",
    "Retry",
    "Run",
    "RunningEffect",
    "Succeeded",
    "ToolCall",
    "connect",
    "connect_async",
    "current_effect",
    "current_run",
    "instrument",
    "migrate",
    "rule",
    "verify",
}
# The verbs of both ledgers; each has them all.
VERBS = {
    "open", "close", "blocking", "awaited", "address", "tenant", "journal_name", "in_run",
    "tool", "run", "ask", "begin", "commit", "heartbeat", "settle", "settle_all", "retry",
    "cancel", "approve", "deny", "revoke_approval", "edit_approval", "get_approval", "view_approval", "approvals",
    "delegate", "end_delegation", "delegations", "grants", "end_grant", "apply_policy", "policy", "reconcile",
    "stop", "go", "stopped", "elsewhere",
    "get_effect", "find_by_key", "key_of", "recorded_args", "effects", "compensations", "events",
    "seal", "tree_head", "receipt", "export", "continue_journal", "rotate_keys", "revoke_key",
    "erase", "prune", "hold", "lift_hold", "holds",
    "start_run", "resume_run", "fork_run", "record", "record_all", "checkpoint", "end_run", "get_run", "runs",
    "run_story", "follow_run", "checkpoints", "verify_run", "diff_runs", "export_packet", "import_packet",
    "take_back_run", "compensate",
}  # fmt: skip
# The verbs of a run that is driven; the blocking one and the awaited one have them all.
RUN_VERBS = {
    "id", "run", "fence", "is_over", "context", "check", "record", "record_all", "artifact", "checkpoint", "delegate",
    "finish_delegation", "model_turn", "complete", "fail", "cancel", "hand_off", "release",
    "call", "bind", "executor",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert sorted(indelible.__all__) == sorted(PUBLIC)
    assert all(hasattr(indelible, name) for name in PUBLIC)


def test_the_public_names_are_sorted() -> None:
    assert indelible.__all__ == sorted(indelible.__all__)


def test_both_ledgers_have_the_same_verbs() -> None:
    for ledger in (indelible.Ledger, indelible.AsyncLedger):
        found = {name for name in dir(ledger) if not name.startswith("_")} | {"tenant"}
        assert found == VERBS, ledger.__name__


def test_the_same_verb_takes_the_same_words_in_both_ledgers() -> None:
    for verb in VERBS - {"blocking", "awaited", "address", "tenant", "journal_name"}:
        blocking = inspect.signature(getattr(indelible.Ledger, verb))
        awaited = inspect.signature(getattr(indelible.AsyncLedger, verb))
        assert blocking.parameters == awaited.parameters, verb


def test_a_run_has_the_same_verbs_for_threads_and_for_tasks() -> None:
    """Beside them the blocking one has what the ledger itself asks of it."""
    blocking, awaited = (
        {name for name in dir(kind) if not name.startswith("_")} for kind in (ActiveRun, AsyncActiveRun)
    )
    given_by_instances = {"fence", "context"}
    assert awaited == RUN_VERBS
    assert (blocking | given_by_instances) - RUN_VERBS == {"abandon", "around", "beat"}


def test_every_exception_a_run_refuses_with_can_be_caught_as_one() -> None:
    for kind in (errors.RunDriven, errors.RunLost, errors.RunOver, errors.ReviewRequired):
        assert issubclass(kind, errors.RunRefused)


def test_the_tree_of_exceptions_in_the_docstring_is_the_real_one() -> None:
    """Every line of the drawing names a class whose parent is the line it hangs from; no class is missing."""
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        found = re.match(r"^    ((?:[│ ]   )*)(?:[├└]── )?(\w+)(?:  +\S.*)?$", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + ("──" in line)
        path = [*path[:depth], found[2]]
        drawn[found[2]] = path[-2] if depth else None
    defined = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
    }
    raised_by_handlers = {"NothingHappened", "MayHaveHappened", "Refused", "AmbiguousRequest"}
    assert set(drawn) == set(defined) - raised_by_handlers
    for name, parent in drawn.items():
        assert defined[name].__bases__[0].__name__ == (parent or "Exception"), name
    for name in raised_by_handlers:
        assert f"`{name}`" in errors.__doc__
        assert defined[name].__bases__ == (Exception,), "a handler's word is no error of the ledger"


def test_every_exception_says_what_it_means() -> None:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, BaseException)]
    assert len(kinds) > 20
    for kind in kinds:
        assert kind.__doc__, kind


def test_a_caller_can_catch_refusals_and_bad_calls_by_their_builtin_kind() -> None:
    assert issubclass(errors.BadCall, ValueError)
    assert issubclass(errors.UnknownEffect, LookupError)
