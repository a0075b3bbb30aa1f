"""What is sent and what is answered about the journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from indelible.core.verifying.findings import Ground, Kind, Verdict
from indelible.server.shapes.effects import Sent


class SignerShown(BaseModel):
    """Names a key that signed."""

    name: str
    key_id: str


class HeadShown(BaseModel):
    """Is a signed head: `note` is the text that was signed, with its signatures."""

    origin: str
    size: int
    root: str
    signatures: list[SignerShown]
    note: str


class HeadList(BaseModel):
    """Lists heads, the largest first; pass `next` as `before` for the next page."""

    heads: list[HeadShown]
    next: int | None


class InclusionShown(BaseModel):
    """Is the way from an event to a signed head; `receipt` is all of it as one file."""

    run_id: str
    seq: int
    index: int
    size: int
    root: str
    entry: str
    proof: list[str]
    receipt: str


class ConsistencyShown(BaseModel):
    """Is the proof that the journal of `new` entries begins with that of `old` ones."""

    old: int
    new: int
    proof: list[str]


class KeyShown(BaseModel):
    """Is a public key of the journal: `valid_up_to` is the largest head that counts, for one that was revoked."""

    vkey: str
    status: str
    valid_up_to: int | None


class KeyList(BaseModel):
    """Lists the keys that the journal itself tells of, in their order."""

    origin: str
    keys: list[KeyShown]


class FlawShown(BaseModel):
    """Is the first thing that does not hold, and where it is."""

    what: str
    index: int | None
    run: str | None
    seq: int | None
    expected: str | None
    found: str | None


class VerifiedHead(BaseModel):
    """Is the head that everything was checked against; null where none could be read."""

    origin: str | None
    size: int | None
    root: str | None
    signed_by: str | None


class PayloadsCounted(BaseModel):
    """Counts values: those that are there, and why the others are not."""

    present: int
    erased: int
    withheld: int
    missing: int


class Counted(BaseModel):
    """Counts what was checked."""

    events: int
    runs: int
    older_heads: int
    signatures: int
    approvals: int
    vote_signatures: int
    payloads: PayloadsCounted | None


class TailShown(BaseModel):
    """Counts what the ledger has beyond the newest signed head. No verdict covers it."""

    events: int
    is_authenticated: bool


class VerificationShown(BaseModel):
    """Is what the verifier found: `attacks` says of each whether it is ruled out, by the `grounds` that were given."""

    verdict: Verdict
    why: str
    source: str
    kind: Kind | None
    first_bad: FlawShown | None
    head: VerifiedHead
    newest_event_at: str | None
    witnesses: dict[str, int]
    counts: Counted
    tail: TailShown | None
    grounds: list[Ground]
    attacks: dict[str, Literal["ruled out", "not ruled out"]]
    rotations: list[str]
    continuations: list[str]
    remarks: list[str]


class Demanded(Sent):
    """Says against what to verify: without a key that came another way, the answer is never `verified`."""

    keys: Annotated[list[str], Field(max_length=16, default_factory=list)]
    after: Annotated[list[str], Field(max_length=16, default_factory=list)]
    witnesses: Annotated[list[str], Field(max_length=16, default_factory=list)]
    quorum: Annotated[int, Field(ge=1, le=16)] | None = None
    fresh_within_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    deep: bool = False
    semantics: bool = True
    up_to_head: bool = False
