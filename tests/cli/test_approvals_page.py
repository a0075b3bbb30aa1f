"""docs/approvals.md: every snippet on the page runs, in the order in which it stands there."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from indelible import Approval, Ledger, ToolCall
from indelible.core.approvals.approval import Refusal
from indelible.errors import ApprovalPending
from tests.cli.conftest import Cli

PAGE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text(encoding="utf-8")
CODE = Path(__file__).parents[2] / "src" / "indelible"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
URL = "sqlite:///agent.db"


class Reader:
    """Does what the page says, as somebody who follows it from top to bottom."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._names: dict[str, Any] = {"__name__": "page"}
        self._charges = iter(range(100, 200))
        self.printed: list[str] = []

    def follow(self, kind: str, text: str) -> None:
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "approvals.md", "exec"), self._names)
            self.printed += out.getvalue().splitlines()
        elif kind == "yaml":
            Path(text.split()[1]).write_text(text, encoding="utf-8")
        else:
            assert kind == "console"
            for line in text.splitlines():
                self.type(line.removeprefix("$ indelible "))

    def type(self, line: str) -> None:
        """Runs a command; the ids in it stand for what the ledger has."""
        words = shlex.split(line, comments=True)
        if "apr_01a1…" in words:
            approval = self._question(words)
            words = [{"apr_01a1…": approval.id, "5f3c9a2b7d10e4c6": approval.digest[:16]}.get(w, w) for w in words]
        for group in ("delegations", "grants"):
            if group in words and "end" in words:
                (found,) = self._cli("approvals", group, "--json", "--url", URL).json[group]
                words = [found["id"] if word.endswith("_01a1…") else word for word in words]
        said = self._cli(*words, "--url", URL)
        assert "warning:" not in said.out + said.err
        if words[0] == "policy":  # the reader's own ledger would look again within half a second
            self._names["ledger"]._engine.judging.forget()

    def _question(self, words: list[str]) -> Approval:
        """Gives the approval that a line is about: the one that waits, else a new one of the kind the line needs."""
        with Ledger.open(URL, run="order-130") as ledger:
            # Who edited a question cannot approve it.
            pending = [one for one in ledger.approvals(status="pending", tool="refund") if not one.editors]
            if "--key" in words:
                return self._signed_question(ledger)
            if not pending or "edit" in words:
                charge = re.search(r'"charge": "(\w+)"', " ".join(words))
                call = self._names["refund"].bind(charge[1] if charge else f"ch_{next(self._charges)}", 4200)
                pending = [ledger.begin(call, approval="required").approval]  # type: ignore[union-attr]
            if "revoke" in words:
                ledger.approve(pending[0], digest=pending[0].digest, by="ana")
            return pending[0]

    def _signed_question(self, ledger: Ledger) -> Approval:
        public = self._cli("approvals", "key", "ana.pem").out.strip()
        rule = {"name": "signed", "match": {"tool": "t"}, "then": "ask", "approvals": {"signed": True}}
        policy = {"people": {"ana": {"key": public}}, "rules": [rule]}
        with Ledger.open(URL, policy=policy) as agent, pytest.raises(ApprovalPending) as refused:
            agent.run(ToolCall(tool="t", args={}, run_id="r"), lambda effect: None, wait=False)
        return refused.value.approval


def test_the_page_can_be_followed_from_top_to_bottom(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    reader = Reader(cli)
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```") // 2 > 10
    try:
        for kind, text in blocks:
            reader.follow(kind, text)
    finally:
        reader._names["ledger"].close()
    assert reader.printed == [
        "{'refunded': 4200}",
        "{",
        '  "amount": 100,',
        '  "charge": "ch_2"',
        "}",
        "[Difference(path='args.amount', before=4200, after=100), "
        "Difference(path='args.charge', before='ch_1', after='ch_2')]",
        "{'refunded': 100}",
        "pending",
        "[Difference(path='args.amount', before=4200, after=9900)]",
        "self_approval",
        "10000",
        "{'refunded': 50}",
        "[{'refunded': 5}, {'refunded': 5}, {'refunded': 5}]",
    ]


def test_every_way_a_vote_is_refused_is_on_the_page() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (CODE / "core").rglob("*.py")]
    codes = {code for source in sources for code in re.findall(r'\bRefusal\(\s*"(\w+)"', source)}
    codes.add("sign_in_again")  # of people whom a provider let in: core.people.standing
    sentence = re.search(r"`VoteRefused.code` is one of (.*?)\. ", PAGE, re.DOTALL)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) == codes
    assert Refusal("digest", "why").code in codes


def test_every_status_is_on_the_page() -> None:
    from indelible.core.approvals.approval import APPROVAL_STATUSES

    table = PAGE.partition("| status | means |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) != ()
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(APPROVAL_STATUSES)
