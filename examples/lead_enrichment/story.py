"""An agent is killed while it pays, and another process goes on: one payment, one mail, nothing lost.

python examples/lead_enrichment/story.py [FOLDER]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from world import World

from indelible import Ledger, Succeeded

HERE = Path(__file__).parent
RUN = "leads-november"


def heading(text: str) -> None:
    """Begins a chapter."""
    print(f"\n{text}", flush=True)


class Story:
    """Starts the agent, kills it, and is the person who approves and looks into the books."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder)
        self.url = f"sqlite:///{folder / 'ledger.db'}"

    def tell(self) -> bool:
        """Tells it from beginning to end, and says whether it ended well."""
        heading("1. An agent enriches leads, and has to ask before it pays.")
        self.start_agent()
        heading("2. Ada sees exactly what would run, and approves it.")
        self.approve()
        heading("3. A second process pays, and is killed in the middle.")
        self.start_agent("--dies-paying")
        heading("4. A third one does not guess.")
        self.start_agent()
        heading("5. Ada looks into the bank's books, and says what became of the payment.")
        self.settle()
        heading("6. A fourth process does the rest.")
        self.start_agent()
        heading("7. What came of it.")
        return self.count()

    def start_agent(self, *words: str) -> None:
        """Runs the agent in a process of its own; one that has paid and hangs is killed."""
        command = [sys.executable, str(HERE / "agent.py"), str(self.folder), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(f"   agent {process.pid}: {line.rstrip()}", flush=True)
                if "the money is gone" in line:
                    process.kill()
        if process.returncode < 0:
            print(f"   agent {process.pid}: killed by signal {-process.returncode}", flush=True)
        elif process.returncode:
            raise SystemExit(f"the agent ended with {process.returncode}")

    def ledger(self) -> Ledger:
        """Opens the ledger, as anybody can who works beside the agent."""
        return Ledger.open(self.url, keys=self.folder / "keys")

    def approve(self) -> None:
        """Is a person at the approvals."""
        with self.ledger() as ledger:
            (approval,) = ledger.approvals(status="pending", run_id=RUN)
            view = ledger.view_approval(approval, by="ada")
            print(f"   ada sees {approval.tool} with {view.args}, and says yes")
            ledger.approve(approval, digest=approval.digest, by="ada", reason="within budget")

    def settle(self) -> None:
        """Is a person who looks the payment up where it was made."""
        with self.ledger() as ledger:
            (effect,) = ledger.effects(status="in_doubt", run_id=RUN)
            (booked,) = [entry for entry in self.world.books("payment") if entry["key"] == effect.key]
            print(f"   the bank has {booked['id']} over {booked['cents']} cents, under the key of {effect.id}")
            value = {name: booked[name] for name in ("id", "invoice", "cents", "key")}
            ledger.settle(effect, Succeeded(value), by="ada", evidence=f"bank statement: {booked['id']}")

    def count(self) -> bool:
        """Counts what happened outside, and has the record verified by the command that auditors use."""
        counts = {kind: len(self.world.books(kind)) for kind in ("list", "enrichment", "payment", "mail")}
        print("   in the books of the world: " + ", ".join(f"{count} × {kind}" for kind, count in counts.items()))
        with self.ledger() as ledger:
            run, report = ledger.get_run(RUN), ledger.verify_run(RUN)
            receipts: list[str] = []
            ledger.run_story(RUN, each=lambda event: receipts.append(event.type) if event.is_progress else None)
        assert run is not None
        print(f"   the run is {run.status}, with {len(receipts)} receipts and {len(report.seals)} checkpoints")
        is_green = self.verify()
        has_happened_once = counts == {"list": 1, "enrichment": 3, "payment": 1, "mail": 1}
        return has_happened_once and run.status == "completed" and report.is_valid and is_green

    def verify(self) -> bool:
        """Runs `indelible verify` with the key that an auditor would have got another way."""
        exported = self.indelible("keys", "export-public")
        key = self.folder / "auditors.key"
        key.write_text(exported.stdout)
        verified = self.indelible("verify", "--key", str(key))
        print("   $ indelible verify --key auditors.key")
        print("".join(f"     {line}\n" for line in verified.stdout.splitlines() if line), end="")
        return verified.returncode == 0

    def indelible(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command of Indelible on the story's ledger."""
        command = [sys.executable, "-m", "indelible.cli", *words, "--url", self.url]
        environment = {**os.environ, "INDELIBLE_KEYS": str(self.folder / "keys")}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def main() -> int:
    """Tells the story in the folder that was named, or in one that is removed afterwards."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True)  # a story is told once in a place
        return 0 if Story(folder).tell() else 1
    with tempfile.TemporaryDirectory(prefix="lead-enrichment-") as place:
        return 0 if Story(Path(place)).tell() else 1


if __name__ == "__main__":
    sys.exit(main())
