"""docs/how-to/auditor.md: whoever follows it has evidence that verifies, and an auditor who follows it believes it."""

from __future__ import annotations

from pathlib import Path

from indelible import Ledger, ToolCall
from tests.docs.following import Reader
from tests.docs.pages import DOCS, Typed, blocks, typed


def test_the_way_to_an_auditor_is_true(tmp_path: Path) -> None:
    folder, keys = tmp_path / "here", tmp_path / "keys"
    folder.mkdir()
    with Ledger.open(f"sqlite:///{folder}/.indelible/ledger.db", keys=keys) as ledger:
        ledger.run(ToolCall(run_id="order-123", tool="charge", args={"cents": 4200}), handler=lambda effect: "ch_1")
        ledger.seal()
    reader = Reader(folder=folder, keys=keys)
    for block in blocks(DOCS / "how-to" / "auditor.md"):
        for one in typed(block):
            reader.type(Typed(line=one.line, command=as_of_now(one.command, reader), answer=()), where="auditor.md")
    (withheld,) = (said for said in reader.printed if said.startswith("without-args.zip"))
    assert "withheld" in withheld
    assert sum(said.startswith("VERIFIED") for said in reader.printed) == 2
    assert "order-123" in (folder / "order-123.html").read_text(encoding="utf-8")


def as_of_now(command: str, reader: Reader) -> str:
    """The page's month is one that holds what happened now, and its key the one that was printed first."""
    command = command.replace("2030-01-01", "2020-01-01").replace("2030-02-01", "2100-01-01")
    return command.replace("ledger-…+…", reader.printed[0].strip()) if reader.printed else command
