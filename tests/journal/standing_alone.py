"""Asks the verifier that travels with a bundle, in a process that has nothing else of ours."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from indelible.journal.exports.standalone import standalone_verifier

_ASKED = """
import json, runpy, sys
class Blind:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("indelible", "rfc8785"):
            raise ImportError(f"there is no {name} here")
sys.meta_path.insert(0, Blind())
verify = runpy.run_path(sys.argv[1])["verify"]
for line in sys.stdin:
    path, keys, after = json.loads(line)
    print(verify(path, keys, after=after).verdict, flush=True)
"""


@cache
def _process() -> subprocess.Popen[str]:
    with tempfile.NamedTemporaryFile(suffix=".py", delete=False) as file:
        file.write(standalone_verifier())
    words = [sys.executable, "-I", "-c", _ASKED, file.name]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def standalone(path: Path, keys: list[str], after: list[str] | None = None) -> str:
    """Return the verdict of the verifier that travels with a bundle."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([str(path), keys, after or []]) + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()
