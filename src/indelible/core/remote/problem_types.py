"""Every type of problem that is told over HTTP: its status, what it means, and what to do next. Pure.

This is the one table: problems are made from it, the server's page for each type shows it, and the reference prints it.
A type never changes its name or its meaning; a new one gets a line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemType:
    """Says what a problem is, to whoever gets one."""

    status: int
    title: str
    means: str
    next_step: str
    also: tuple[int, ...] = ()
    """Are further statuses that it comes with, where the same thing is wrong in another place."""

    @property
    def statuses(self) -> tuple[int, ...]:
        """Are all statuses that it comes with, the usual one first."""
        return (self.status, *self.also)


_WRONG: Mapping[str, ProblemType] = {
    "bad-call": ProblemType(
        400,
        "The request is wrong",
        "A part of the request cannot be understood or cannot be. Nothing was recorded.",
        "Correct what `detail` names (with 422, `problems` lists every member that is wrong), and send it again.",
        also=(422,),
    ),
    "not-recordable": ProblemType(
        422,
        "A value has no lossless recorded form",
        "The record keeps values exactly, and JSON cannot say this one exactly: `path` names where it sits.",
        "Send it as text, as a smaller whole number, or leave it out.",
    ),
    "unfit-arguments": ProblemType(
        422,
        "No call can have these arguments",
        "They hold the mark of a redacted value, or lack what says which call it is: `detail` names it. Nothing was "
        "recorded.",
        "Send the value itself in the place of the mark, and all key fields.",
    ),
    "too-large": ProblemType(
        413,
        "A payload is over a limit",
        "The body, a value or a list is larger or deeper than is allowed: `limit` and `size` say by how much.",
        "Send less at once; keep large things elsewhere and record their address and hash.",
    ),
    "no-run": ProblemType(
        422,
        "A call with effects is in no run",
        "Without a run or a `scope`, a repeat of this call could not be told from a new call. Nothing was recorded.",
        "Send `run_id`, and name the business thing, such as `order-123`: a random id makes every retry a new call.",
    ),
    "bad-filter": ProblemType(
        400,
        "A filter cannot be read",
        "What was sent as `q` is no filter of this resource: `column`, counted from 1, and `length` say what of it.",
        "Correct that part as `detail` says; docs/filters.md lists the words of each resource.",
    ),
    "bad-policy": ProblemType(
        422,
        "A policy cannot be used",
        "The rules that were sent do not fit together; the policy in force is what it was.",
        "Correct what `problems` lists; `POST /v1/policy/evaluate` tries a policy out.",
    ),
    "bad-settlements": ProblemType(
        422,
        "Some rows cannot be settled",
        "A row is wrong, or its effect is unknown, running, or settled otherwise. Nothing was settled.",
        "Correct the rows that `problems` lists by their numbers, or send `skip_bad: true` to settle the others.",
    ),
    "unknown-effect": ProblemType(
        404,
        "No effect has this id or key",
        "This tenant has no such effect. What other tenants have is not told.",
        "Look for it with `GET /v1/effects`; ids are written out in full.",
    ),
    "unknown-approval": ProblemType(
        404,
        "No approval has this id",
        "This tenant has no such approval.",
        "Look for it with `GET /v1/approvals`.",
    ),
    "unknown-permission": ProblemType(
        404,
        "No grant or delegation has this id",
        "This tenant has no such grant or delegation.",
        "Look for it with `GET /v1/grants` or `GET /v1/delegations`.",
    ),
    "unknown-credential": ProblemType(
        404,
        "No token, person, passkey or session has this id",
        "This tenant has no such token or person, or the person no such passkey or session.",
        "Look for it with `GET /v1/api-keys`, `/v1/people`, `/v1/passkeys` or `/v1/sessions`.",
    ),
    "unknown-export": ProblemType(
        404,
        "The server has no such export",
        "It was removed, its time is over, or it is another server's: each keeps its own, until it stops.",
        "Look at `GET /v1/exports`, or order it again.",
    ),
    "unknown-run": ProblemType(
        404,
        "No run has this name",
        "This tenant has no such run, or the run has no such event.",
        "Look for it with `GET /v1/runs`, or begin it with `POST /v1/runs`.",
    ),
    "unknown-checkpoint": ProblemType(
        404,
        "The run has no such checkpoint or event",
        "The run is there; what it is asked for in the run is not.",
        "Look for it with `GET /v1/runs/{run_id}/checkpoints`.",
    ),
    "not-authenticated": ProblemType(
        401,
        "The server does not know the credential, or it has ended",
        "The token is missing, malformed, unknown, expired or revoked; which of these is not told.",
        "Send `Authorization: Bearer …`. An administrator makes a token with `indelible apikeys create`.",
    ),
    "not-permitted": ProblemType(
        403,
        "The credential is known and is not for this",
        "Who asks is known, and the credential's scope does not reach so far.",
        "Use a credential with a scope that `detail` names.",
    ),
}

_REFUSED: Mapping[str, ProblemType] = {
    "not-run": ProblemType(
        409,
        "The ledger will not do this now",
        "How things stand does not allow it. The tool was not entered by this call.",
        "Do what `detail` says.",
    ),
    "key-reused": ProblemType(
        409,
        "The key belongs to an effect with other content",
        "The same key came with other arguments before, and nothing was run now. `effect_id`, `effect_status` and "
        "`outcome` tell of the recorded call, `differing` lists the arguments that differ (`recorded`, `given`). With "
        "422 it is the `Idempotency-Key` of another request.",
        "For another call, change `key`, `scope` or `call_id`. For the same call, use `outcome`, or send the recorded "
        "arguments.",
        also=(422,),
    ),
    "repeat-refused": ProblemType(
        409,
        "The same call succeeded in an earlier turn",
        "The tool was called with the same arguments in an earlier turn and succeeded. It was not run again.",
        "Use the recorded result, `outcome`. To repeat on purpose, send another `scope`.",
    ),
    "resource-busy": ProblemType(
        409,
        "Another call on the same resource is open",
        "The tool demands one open call per resource, and another call holds this one.",
        "Call again when the other call has ended. If it is in doubt, settle it first.",
    ),
    "still-running": ProblemType(
        409,
        "Another caller is at it",
        "The same call, or the same request under its `Idempotency-Key`, is being carried out and is not finished.",
        "Ask again in a moment, or wait with `GET /v1/effects/{effect_id}?wait=30`. Do not do it yourself.",
    ),
    "about-approval": ProblemType(
        409,
        "An approval keeps it from running",
        "A person's answer is missing or is not one that counts; `approval_id` names the question.",
        "Look at `GET /v1/approvals/{approval_id}`.",
    ),
    "approval-pending": ProblemType(
        409,
        "A person has to decide first",
        "The question is open and nobody has answered it yet.",
        "Wait for the decision, then make the same call again.",
    ),
    "approval-ended-unused": ProblemType(
        409,
        "The approval ended before it could be used",
        "The question that this call waited for is over.",
        "Make the call again: that asks anew.",
    ),
    "approval-expired": ProblemType(
        409,
        "Nobody decided in time",
        "The question was open until its end, and nobody answered.",
        "Make the call again: that asks anew.",
    ),
    "approval-stale": ProblemType(
        409,
        "What would run is no longer what was asked about",
        "The arguments, the tool or the rules changed since the question was put, so the answer does not hold.",
        "Make the call again: that asks anew.",
    ),
    "vote-refused": ProblemType(
        409,
        "This decision does not count",
        "`code` says why in one word: as when it names another digest, or is about one's own request.",
        "Look at the approval again and decide on what is shown there, or, with 403, leave it to somebody else.",
        also=(403,),
    ),
    "policy-refused": ProblemType(
        403,
        "A rule of the policy does not let this call run",
        "The rules of the tenant refuse it; `detail` names the rule.",
        "Do not repeat it. Whoever keeps the policy can change the rule.",
    ),
    "budget-exceeded": ProblemType(
        429,
        "A budget does not have what this call takes",
        "A limit in the policy on number or amount is used up; `detail` names it.",
        "Wait until its period ends, or have the budget raised.",
    ),
    "too-many-pending": ProblemType(
        429,
        "Too many calls that a person was asked about are unfinished",
        "The policy says how many such calls of a run or a tenant there may be; people are asked about no other one.",
        "Decide or settle some of them, then make the same call again.",
    ),
    "stopped": ProblemType(
        409,
        "All effects of the tenant are stopped",
        "Somebody pulled the brake: no tool is entered, whoever asks. What was under way may finish.",
        "Wait. An administrator ends the stop with `POST /v1/stop/end` or `indelible go`. After a set-back, both are "
        "refused: restore a newer backup, or run `indelible journal continue`.",
    ),
    "tool-unavailable": ProblemType(
        503,
        "The tool could not be reached, and nothing happened",
        "The server runs this tool and got no connection to it.",
        "Call again later; it is the same call.",
    ),
    "effect-denied": ProblemType(
        409,
        "A person refused this effect",
        "Somebody who was asked said no.",
        "Do not repeat it; the reason is with the effect.",
    ),
    "effect-canceled": ProblemType(
        409,
        "This effect was withdrawn before it ran",
        "It did not happen and will not.",
        "If it is wanted after all, make it another call: under another key or in another run.",
    ),
    "effect-in-doubt": ProblemType(
        409,
        "The effect may have happened",
        "An attempt ended without a word, so nobody knows whether the deed was done. It is not done again by itself.",
        "Look where the deed would show, then `POST /v1/effects/{effect_id}/settle`, or `…/retry` if it did not.",
    ),
    "effect-compensated": ProblemType(
        409,
        "The call succeeded and was compensated since",
        "The effect happened and `compensation_id` undid it, or is at it. It was not run again.",
        "Do not take it for done. To do it again on purpose, send another `scope`.",
    ),
    "effect-erased": ProblemType(
        410,
        "It was recorded and then erased",
        "The effect happened; its values were erased on purpose and cannot be given any more.",
        "Do without the value; do not do the deed again.",
    ),
    "effect-failed": ProblemType(
        409,
        "The recorded outcome of this effect is a failure",
        "It was tried, and failed for good.",
        "`POST /v1/effects/{effect_id}/retry` allows another attempt.",
    ),
    "on-hold": ProblemType(
        409,
        "A legal hold keeps this from being erased",
        "Somebody ordered that it be kept.",
        "Have the hold ended first.",
    ),
    "illegal-move": ProblemType(
        409,
        "The status does not allow this operation",
        "It has moved on, or is not that far yet; `detail` says how it stands.",
        "Look at it again, then decide what is left to do.",
    ),
    "lease-lost": ProblemType(
        409,
        "The claim is no longer the caller's",
        "The lease ended before the outcome came, or the attempt is somebody else's. What came late is kept.",
        "Stop working on it. Look at the effect; if it is in doubt, it can be settled.",
    ),
    "result-not-recorded": ProblemType(
        409,
        "The result could not be recorded",
        "The deed was done, and its result has no recorded form; the effect is in doubt.",
        "Settle it with a result that can be recorded.",
    ),
    "run-refused": ProblemType(
        409,
        "The run does not allow this now",
        "`code` says why in one word.",
        "Look at `GET /v1/runs/{run_id}` and do what `detail` says.",
    ),
    "run-driven": ProblemType(
        409,
        "Another process drives this run",
        "A run has one driver at a time, and its lease has not ended.",
        "Leave it to that one, or resume the run when the lease has ended.",
    ),
    "run-lost": ProblemType(
        409,
        "This process drives the run no longer",
        "The token is not the newest: somebody else took the run over.",
        "Stop working on it.",
    ),
    "run-over": ProblemType(
        409,
        "The run has ended",
        "Nothing is added to a run that is completed, failed or canceled.",
        "Begin another run, or fork this one.",
    ),
    "run-handed-over": ProblemType(
        409,
        "Another ledger goes on with the run",
        "The run was handed over by a packet, so nothing of it runs here. `detail` names the other ledger.",
        "Work on it there. If it was never imported there, a person takes it back: `POST /v1/runs/{run_id}/take-back`.",
    ),
    "review-required": ProblemType(
        409,
        "Somebody has to look at the run first",
        "Its newest checkpoint does not verify, or an effect is in doubt: to go on would be a guess.",
        "Look at the run; `detail` names what to do before it is resumed.",
    ),
}

_OURS: Mapping[str, ProblemType] = {
    "indelible-error": ProblemType(
        500,
        "Something is wrong on the server",
        "This should not happen.",
        "Report it, with what the server's log says.",
    ),
    "journal-error": ProblemType(
        503,
        "The record cannot be sealed, read or shown",
        "The journal is the problem, not the request.",
        "Whoever runs the server: `indelible doctor`, then `indelible verify`.",
    ),
    "signer-refused": ProblemType(
        503,
        "The database does not continue what was signed before",
        "It was rolled back or changed; nothing was signed.",
        "Whoever runs the server: `indelible verify` says where; restore a newer backup.",
    ),
    "key-unusable": ProblemType(
        503,
        "A signing key cannot be used",
        "It is missing, can be read by others, is locked or damaged.",
        "Whoever runs the server: `indelible keys list` and `indelible doctor`.",
    ),
    "not-sealed": ProblemType(
        503,
        "No signed head covered the event in time",
        "The event is durable, and the ledger was told to wait for a signature.",
        "Ask again in a moment; what was recorded is recorded.",
    ),
    "bad-note": ProblemType(
        503,
        "A note, key, head or receipt is not what it should be",
        "Something that is signed cannot be read.",
        "Whoever runs the server: `indelible verify`.",
    ),
    "store-error": ProblemType(
        503,
        "The store is the problem, not the call",
        "The database did not do what it should; the server's log says more.",
        "Ask again later.",
    ),
    "store-unavailable": ProblemType(
        503,
        "The store cannot be reached or written",
        "Nothing was claimed.",
        "Ask again in a moment: the same request, with the same keys and tokens.",
    ),
    "asked-too-often": ProblemType(
        429,
        "The server is asked more than this caller may",
        "Too many requests came in a second, or are under way at once. Nothing was done.",
        "Ask again after `Retry-After` seconds: the same request, with the same keys and tokens.",
    ),
    "overloaded": ProblemType(
        503,
        "Too many calls wait already",
        "The server, or the queue of its store, has as much to do as it takes. Nothing was done.",
        "Ask again after `Retry-After` seconds: the same request, with the same keys and tokens.",
    ),
    "outcome-unknown": ProblemType(
        503,
        "It may or may not have been carried out",
        "The database's answer was lost. With 409: a request with this `Idempotency-Key` was begun and never answered.",
        "Look whether it was carried out. An effect is safe to begin and to commit again with the same token.",
        also=(409,),
    ),
    "schema-outdated": ProblemType(
        503,
        "The store's schema is older or newer than the server",
        "The server and the database do not fit together.",
        "Whoever runs the server: `indelible migrate`.",
    ),
    "state-not-read": ProblemType(
        503,
        "The store did not read what decides the call",
        "Nothing was run. The store has a fault.",
        "Report it, with the message.",
    ),
    "record-forged": ProblemType(
        503,
        "A row was not written by a holder of the ledger's keys",
        "A program without the keys changed what decides the call, or put an old row back. Nothing was run.",
        "For the operator of the server: run `indelible verify`, and restore the rows that it names.",
    ),
    "misconfigured": ProblemType(
        503,
        "The store's address or one of its settings cannot be used",
        "The server is set up wrongly. With 421, a client came to a server of another ledger or of another protocol.",
        "Whoever runs the server: `indelible doctor`.",
        also=(421,),
    ),
}

_HTTP: Mapping[str, ProblemType] = {
    "not-found": ProblemType(
        404,
        "Nothing is at this address",
        "There is no such resource, or none yet.",
        "See the reference at `/docs`.",
    ),
    "method-not-allowed": ProblemType(
        405,
        "This address does not know the method",
        "The resource is there and takes other methods: `Allow` names them.",
        "Use one of those.",
    ),
    "precondition-failed": ProblemType(
        412,
        "It is no longer what `If-Match` names",
        "Somebody changed it since you looked.",
        "Look at it again, then send the request with the new `ETag`.",
    ),
    "unsupported-media-type": ProblemType(
        415,
        "The body is not JSON",
        "Bodies are read as JSON and as nothing else.",
        "Send `Content-Type: application/json`.",
    ),
    "misdirected": ProblemType(
        421,
        "This host is not served here",
        "The request names a host that the server was not told to answer for.",
        "Whoever runs the server: `indelible serve --allowed-host NAME`.",
    ),
    "answer-not-kept": ProblemType(
        409,
        "The request was carried out, and its answer was too large to be kept",
        "The request came with an `Idempotency-Key` and was answered before; it is not carried out again.",
        "Look at what it changed.",
    ),
}

PROBLEM_TYPES: Mapping[str, ProblemType] = {**_WRONG, **_REFUSED, **_OURS, **_HTTP}
"""Holds all types by their names."""
PROBLEMS = "/problems/"
"""Is where the names of problems live; each page says what to do about one."""
_OF_STATUS = {
    400: "bad-call",
    401: "not-authenticated",
    403: "not-permitted",
    404: "not-found",
    405: "method-not-allowed",
    409: "not-run",
    412: "precondition-failed",
    413: "too-large",
    415: "unsupported-media-type",
    421: "misdirected",
}


def type_of_status(status: int) -> str:
    """Names the type of what HTTP itself refuses with a status."""
    return _OF_STATUS.get(status, "bad-call" if status < 500 else "indelible-error")


def types_with_status(status: int) -> list[str]:
    """Names the types that come with a status, for the description of answers."""
    return [name for name, told in PROBLEM_TYPES.items() if status in told.statuses]
