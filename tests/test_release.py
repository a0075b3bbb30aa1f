"""What is published: a wheel that works alone, the same bytes each time, and a signed word on where it comes from."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from release.__main__ import build, missing
from release.provenance import Unproven, main, sign, statement, verify

ROOT = Path(__file__).parents[1]
UV = ROOT / ".tools" / "bin" / "uv"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (built,) = (file for file in build(tmp_path_factory.mktemp("dist"), epoch=1_800_000_000) if file.suffix == ".whl")
    return built


def test_the_wheel_has_all_it_needs_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    assert missing(wheel) == []
    again = build(tmp_path, epoch=1_800_000_000)
    assert wheel.read_bytes() in [file.read_bytes() for file in again]
    names = subprocess.check_output([sys.executable, "-m", "zipfile", "-l", wheel], text=True)
    assert not re.search(r"node_modules|__pycache__|/tests/|\.db\b", names)


def test_installed_alone_it_shows_the_demo_and_serves_the_dashboard(wheel: Path, tmp_path: Path) -> None:
    """In an environment that has nothing else; packages are the locked ones, from the cache if they are there."""
    place = tmp_path / "env"
    run_uv("venv", "--python", sys.executable, place)
    python, command = place / "bin" / "python", place / "bin" / "indelible"
    run_uv("pip", "install", "--python", python, "-c", ROOT / "requirements.lock", wheel)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "INDELIBLE_KEYS": str(tmp_path / "keys")}
    demo = subprocess.run(
        [command, "demo", "--json"], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    run_uv("pip", "install", "--python", python, "-c", ROOT / "requirements.lock", f"{wheel}[server]")
    serve = subprocess.Popen(
        [command, "serve", "--demo", "--port", "0"], cwd=tmp_path, env=clean, stdout=subprocess.PIPE, text=True
    )
    try:
        assert serve.stdout is not None
        address = next(found[0] for line in serve.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with urllib.request.urlopen(f"{address}/inbox") as answer:
            assert b"assets/app.js" in answer.read()
        with urllib.request.urlopen(f"{address}/assets/app.js") as answer:
            assert answer.status == 200
    finally:
        serve.terminate()
        serve.communicate()


def run_uv(*words: Any) -> None:
    """Without the network if the cache has it all, as after `./run test`; else with it, as pip is set up here."""
    line = [UV, words[0], "--quiet", *words[1:]] if words[0] == "venv" else [UV, *words[:2], "--quiet", *words[2:]]
    if subprocess.run([*line, "--offline"], capture_output=True, check=False).returncode:
        subprocess.run(["bash", "-c", _AS_RUN_DOES, "uv", *map(str, line)], cwd=ROOT, check=True)


# The indexes that pip uses here, as ./run hands them to uv.
_AS_RUN_DOES = """
python=python3; uv_options=()
eval "$(sed -n '/^follow_pip_settings/,/^}$/p' run)"; follow_pip_settings; exec "$@"
"""


def test_provenance_is_about_these_files_and_by_this_key(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"built")
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    envelope = sign(statement([file], commit="c0ffee", python="3.11.7"), key)
    told = verify(envelope, key.public_key(), [file])
    assert told["subject"][0]["name"] == "a.whl"
    with pytest.raises(Unproven, match="no signature of the key you trust"):
        verify(envelope, other.public_key(), [file])
    with pytest.raises(Unproven, match="nowhere"):
        verify(envelope, key.public_key(), [])
    forged = envelope | {"payload": base64.b64encode(json.dumps(told | {"subject": []}).encode()).decode()}
    with pytest.raises(Unproven, match="no signature"):
        verify(forged, key.public_key(), [])
    file.write_bytes(b"changed")
    with pytest.raises(Unproven, match=r"a\.whl: stated"):
        verify(envelope, key.public_key(), [file])


def test_keys_are_for_their_owner_and_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "key.pem")
    assert main(["keygen", path]) == 0
    assert len(base64.b64decode(capsys.readouterr().out)) == 32
    assert Path(path).stat().st_mode & 0o077 == 0
    assert main(["keygen", path]) == 1
    assert main(["sing", path]) == 2
