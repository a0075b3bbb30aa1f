"""Runs what pages run in Node: the verifiers are written in TypeScript, and judged where no browser is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest


def in_node(program: str, *words: str, given: Any) -> Any:
    """Run a program, which reads `given` as JSON from its input, and return what it prints as JSON."""
    node = shutil.which("node")
    if node is None:
        assert os.environ.get("INDELIBLE_BROWSER") != "required", "pages are judged by Node"
        pytest.skip("pages are judged by Node, and there is none")
    command = [node, "-e", program, *words]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
