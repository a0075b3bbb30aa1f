"""The page about HTTP says what is so: its commands run, in their order, against a server that they start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.waiting import free_port

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
# What each block prints, in its order.
EXPECTED = [
    [r"applied 0001", r'"status":"ready"'],
    [r'"status":"processing"', r'"fence":1', r"^201$"],
    [r'"status":"succeeded","attempt":1\}\n200\n.*"status":"succeeded","attempt":1\}\n200$'],
    [
        r"(?i)^idempotent-replayed: true",
        r'"outcome":\{"status":"succeeded","value":\{"charge":"ch_1"\}\}',
        r'"replayed":true',
    ],
    [r'"differing":\{"amount":\{"recorded":900,"given":901\}\}'],
    [r"^202$"],
    [r'"args":\{"amount":5,"charge":"ch_1"\}', r'"code":"digest".*\n409$', r'"status":"approved".*\n201$'],
    [r'"status":"succeeded","attempt":1\}\n200$'],
    [r"^200$", r'"dry_run":true,"settled":0', r'"dry_run":false,"settled":1', r'"settled":0,"already_settled":1'],
    [r'"tool_call_started"(.*\n)+.*"tool_call_finished"(.*\n)+.*"approval_requested"', r"^id: 5$"],
    [r'^"verdict":"verified"$'],
    [r'"tool":"stripe.refund"\n"tool":"stripe.charge"', r'"group":"stripe.charge","count":1', r"(?i)verified"],
    [],
]


def blocks() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_commands_run(tmp_path: Path) -> None:
    port = free_port()
    script = "set -eu -o pipefail; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    script += "".join(f"{block}\necho '=== end of block'\n" for block in blocks()).replace("8787", str(port))
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "INDELIBLE_KEYS": str(tmp_path / "keys")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, **own, "INDELIBLE_URL": f"sqlite:///{tmp_path / 'ledger.db'}", "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    printed = done.stdout.split("=== end of block\n")[:-1]
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(printed) == len(EXPECTED)
    for text, patterns in zip(printed, EXPECTED, strict=True):
        for pattern in patterns:
            assert re.search(pattern, text, re.MULTILINE), f"{pattern} is not in:\n{text}"
