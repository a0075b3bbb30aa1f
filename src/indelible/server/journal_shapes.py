"""What is sent and what is answered about the journal."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from indelible.server.shapes import Sent


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


class Demanded(Sent):
    """Says against what to verify: without a key that came another way, the answer is never `verified`."""

    keys: Annotated[list[str], Field(max_length=16, default_factory=list)]
    after: Annotated[list[str], Field(max_length=16, default_factory=list)]
    witnesses: Annotated[list[str], Field(max_length=16, default_factory=list)]
    quorum: Annotated[int, Field(ge=1, le=16)] | None = None
    fresh_within_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    deep: bool = False
    semantics: bool = True
