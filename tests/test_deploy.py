"""What is in deploy/ can be read by what it is for, and names no option, command or extra that is not there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from indelible.cli.root import COMMANDS, root

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def unit() -> dict[str, list[tuple[str, str]]]:
    """Reads the unit as systemd does: a name may come again."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in (DEPLOY / "indelible.service").read_text().splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            lines = sections.setdefault(match[1], [])
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            lines.append((name, value))
    return sections


def dockerfile() -> list[tuple[str, str]]:
    """Reads the instructions, with their continuations."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def commands() -> list[list[str]]:
    """Gives every command line of ours that is named in deploy/ or on its page."""
    started = dict(unit()["Service"])
    told = [shlex.split(started[name])[1:] for name in ("ExecStartPre", "ExecStart")]
    told += [json.loads(value) for name, value in dockerfile() if name == "CMD"]
    services = compose()["services"]
    told += [list(service["command"]) for service in services.values() if "command" in service]
    page = (ROOT / "docs" / "deploy.md").read_text()
    told += [shlex.split(line, comments=True)[1:] for line in re.findall(r"^\$ (indelible .*)$", page, re.MULTILINE)]
    return told


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words))
def test_every_command_and_option_that_is_named_is_there(words: list[str]) -> None:
    """The same as `indelible COMMAND --help` shows."""
    context = click.Context(root)
    command: click.Command | None = root
    path = []
    while words and isinstance(command, click.Group):
        path.append(words.pop(0))
        command = command.get_command(context, path[-1])
        assert command is not None, path
    assert command is not None
    assert path[0] in COMMANDS
    known = {name for each in command.params for name in each.opts}
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert named <= known, named - known


def test_the_unit_has_what_a_unit_needs_and_is_closed() -> None:
    found = unit()
    service = dict(found["Service"])
    assert set(found) == {"Unit", "Service", "Install"}
    assert service["User"] == "indelible"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelTunables"):
        assert service[name] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert not [value for _, value in found["Service"] if "password" in value.lower()]
    drain = float(re.findall(r"--drain (\S+)", service["ExecStart"])[0])
    assert int(service["TimeoutStopSec"]) > drain + 10


def test_the_image_is_without_root_and_asks_whether_it_lives() -> None:
    steps = dockerfile()
    names = [name for name, _ in steps]
    assert {"FROM", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD", "VOLUME", "STOPSIGNAL"} <= set(names)
    users = [value for name, value in steps if name == "USER"]
    assert users[-1].isdecimal()
    assert int(users[-1]) > 0
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))
    (health,) = (value for name, value in steps if name == "HEALTHCHECK")
    assert "/livez" in health
    compile(json.loads(health.partition("CMD ")[2])[2], "healthcheck", "exec")
    assert json.loads(next(value for name, value in steps if name == "ENTRYPOINT")) == ["indelible"]
    extras = re.findall(r"/source\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text())[0].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= set(known)
    sources = [word for name, value in steps if name == "COPY" and "--from" not in value for word in value.split()[:-1]]
    assert len(sources) > 2
    assert all((ROOT / source).exists() for source in sources)


def test_two_servers_of_the_compose_file_share_a_database_and_keys_and_write_nowhere_else() -> None:
    services = compose()["services"]
    servers = {name: each for name, each in services.items() if name.startswith("server-")}
    assert len(servers) == 2
    for server in servers.values():
        assert server["read_only"] is True
        assert server["cap_drop"] == ["ALL"]
        assert server["volumes"] == ["keys:/var/lib/indelible"]
        assert server["environment"]["INDELIBLE_URL"].startswith("postgresql://")
        assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert len({str(server["ports"]) for server in servers.values()}) == 2
    assert services["database"]["image"].startswith("postgres:")
    assert (DEPLOY / servers["server-1"]["build"]["dockerfile"].partition("/")[2]).exists()
    assert set(compose()["volumes"]) == {"database", "keys"}
