"""The outside world of the agent: a CRM, a bank and a mail server, whose books are one file that is only added to."""

import json
import os
from pathlib import Path
from typing import Any

LEADS = ["ada@example.com", "ben@example.com", "cyn@example.com"]


class World:
    """Does what it is asked to, each time it is asked to: it knows nothing of the ledger."""

    def __init__(self, folder: Path) -> None:
        self._books = folder / "world.jsonl"

    def leads(self) -> list[str]:
        """Is the CRM."""
        self._book("list", what="leads")
        return LEADS

    def enrich(self, lead: str) -> dict[str, Any]:
        """Is whoever sells what is known of a lead."""
        self._book("enrichment", lead=lead)
        return {"lead": lead, "company": f"{lead.split('@')[0].title()} Ltd", "employees": 10 * len(lead)}

    def pay(self, invoice: str, cents: int, key: str) -> dict[str, Any]:
        """Is the bank; the money is gone when this returns."""
        return self._book("payment", id=f"pay_{invoice}", invoice=invoice, cents=cents, key=key)

    def send(self, to: str, text: str) -> dict[str, Any]:
        """Is the mail server."""
        return self._book("mail", to=to, text=text)

    def books(self, kind: str) -> list[dict[str, Any]]:
        """Gives what happened, as anybody can look it up who is let to."""
        if not self._books.exists():
            return []
        entries = [json.loads(line) for line in self._books.read_text().splitlines()]
        return [entry for entry in entries if entry["kind"] == kind]

    def _book(self, kind: str, **entry: Any) -> dict[str, Any]:
        with self._books.open("a") as books:
            books.write(json.dumps({"kind": kind, **entry}) + "\n")
            books.flush()
            os.fsync(books.fileno())
        return entry
