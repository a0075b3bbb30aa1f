"""A process that has loaded a framework and forks one process for each act: real ones, which can be killed.

Frameworks take seconds to import, and a case takes five processes. The host does nothing else, so nothing of it is in
the way of the children: no thread, no open store.

    python -m indelible.testing.adapters.host ADAPTER     # acts come as lines of JSON, and so do answers
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from indelible.errors import IndelibleError
from indelible.testing.adapters.rig import Act, Rig, Standing, play, rig_of, standing_of
from indelible.testing.adapters.scene import Scene


class Host:
    """Talks to the process that plays the acts."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, act: Act, scene: Scene) -> int:
        """Starts an act in a process of its own, and gives that process's id."""
        return int(self._said({"act": act, "scene": scene.told()})["pid"])

    def end(self, pid: int, scene: Scene) -> Standing:
        """Waits for an act's process to end, and gives how the act ended."""
        status: int = self._said({"wait": pid})["status"]
        told = _told(scene, pid)
        if not told.exists():
            if not os.WIFSIGNALED(status):
                raise HostFailed(f"an act ended with {os.waitstatus_to_exitcode(status)} and told nothing; see above")
            return Standing(state="killed")
        return standing_of(json.loads(told.read_text()))

    def play(self, act: Act, scene: Scene) -> Standing:
        """Plays an act to its end."""
        return self.end(self.start(act, scene), scene)

    def _said(self, content: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(content) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise HostFailed("the process that plays the acts has ended; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


class HostFailed(IndelibleError):
    """The process that plays the acts did not do its part; this is no finding about the framework."""


@contextmanager
def hosting(adapter: str) -> Iterator[Host]:
    """Gives a process that has loaded a framework, and ends it."""
    command = [sys.executable, "-m", "indelible.testing.adapters.host", adapter]
    # In a group of its own: Ctrl-C is for whoever waits here, and ends the host and its acts together, without a word.
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            yield Host(process)  # leaving closes its input, by which it ends
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _told(scene: Scene, pid: int) -> Path:
    return Path(scene.folder, f"told-{pid}.json")


def main(adapter: str) -> None:
    """Plays the acts that come in, each in a process of its own."""
    logging.getLogger("indelible.journal").setLevel(logging.ERROR)  # a key that is thrown away is no news
    rig = rig_of(adapter)
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            answer = {"status": os.waitpid(asked["wait"], 0)[1]}
        else:
            answer = {"pid": _forked(rig, asked["act"], Scene.read(asked["scene"]))}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _forked(rig: Rig, act: Act, scene: Scene) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(2, 1)  # what an act prints is not what the host answers
        play(rig, act, scene, _told(scene, os.getpid()))
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)  # what the host had open is the host's to close


if __name__ == "__main__":
    main(sys.argv[1])
