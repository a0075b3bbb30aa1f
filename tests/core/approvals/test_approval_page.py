"""What the reference page says of approvals is what the code computes."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.approvals.approval import approval_digest, vote_message
from indelible.core.approvals.grants import pinned_digest
from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from tests.core.verifying.test_permissions import STORY

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
ARGS = b'{"amount":1000,"currency":"eur"}'
UNTIL = datetime(2030, 1, 3, 12, tzinfo=UTC)


def digest(schema: str = "", policy: str = "") -> str:
    words = {"approval": "apr_1", "tenant": "default", "run_id": "order-123", "tool": "stripe.charge"}
    return approval_digest(**words, schema=schema, args_json=ARGS, policy=policy, expires_at=UNTIL)


def test_digests_and_signatures_are_those_of_the_reference_page() -> None:
    secret = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)
    vectors = [
        digest(),
        digest("ab" * 32, "cd" * 32),
        pinned_digest("default", "stripe.charge", None, ARGS),
        pinned_digest("default", "stripe.charge", ("amount",), ARGS),
        secret.public_key().public_bytes_raw().hex(),
        *(b64encode(secret.sign(vote_message(digest(), is_yes))).decode() for is_yes in (True, False)),
    ]
    assert [vector for vector in vectors if f"`{vector}`" not in PAGE] == []


def test_the_page_names_every_member_of_a_sheet() -> None:
    section = PAGE.partition("## Approvals: what exactly is allowed?")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (approval|its .*?|each .*?|grant|delegation) \| (.*) \|$", section, re.M))
    approval = STORY.value(STORY.index("approval_received"), "approval")
    grant = STORY.value(STORY.index("approval_received", run="run-2"), "grant")
    delegation = STORY.value(STORY.index("delegation_given", run="indelible:approvals"), "delegation")
    for row, members in (
        ("approval", approval),
        ("its `question`", approval["question"]),
        ("each of its `votes`", approval["votes"][0]),
        ("grant", grant),
        ("delegation", delegation),
    ):
        outside = re.sub(r"\([^)]*\)", "", rows[row])
        assert re.findall(r"`([a-z_]+)`", outside) == sorted(members), row


def test_the_page_names_what_is_recorded_of_permissions() -> None:
    section = PAGE.partition("### What is recorded of permissions")[2].partition("\n#")[0]
    told = dict(re.findall(r"^\| `([a-z_]+)` \| [^|]* \| [^|]* \| (.*) \|$", section, re.M))
    assert told.keys() == {"type", *FACTS_OF_SHEETS, "policy_checked", "sign_in_refused"}
    assert all(f"`{kind}`" in told[type_] for type_, kind in FACTS_OF_SHEETS.items())
