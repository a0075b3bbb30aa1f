"""The `indelible` command."""

from __future__ import annotations

import os
import sys

NEEDS_CLICK = "indelible: this command needs click; run: pip install 'indelible[cli]'"


def main(argv: list[str] | None = None) -> int:
    """Runs one command and gives its exit code: 0 done, 1 the ledger says no, 2 wrong usage or cannot tell."""
    arguments = sys.argv[1:] if argv is None else argv
    if "hook" in arguments:
        from indelible.cli.blocking import blocking
        from indelible_command import is_hook

        if is_hook(arguments):
            return blocking(lambda: _run(arguments))
    _open_closed_streams()
    return _run(arguments)


def _open_closed_streams() -> None:
    """Let a command that was started with a closed stream run as with one that leads nowhere.

    Its exit code is what it finds, and no file of the ledger gets the number of a standard stream.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115  it stays open until the end, as the others do
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _run(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character gets its number
    try:
        import click  # noqa: F401
    except ModuleNotFoundError:
        return _without_click(arguments)
    from indelible.cli.root import root

    return root.run(arguments)


def _without_click(arguments: list[str]) -> int:
    """Serves what a first look needs, so that a bare `pip install indelible` can show itself."""
    if arguments in (["version"], ["--version"]):
        from indelible.cli.version import say_version

        return say_version(is_json=False)
    if arguments in (["demo"], ["demo", "--json"]):
        return _demo(is_json="--json" in arguments)
    sys.stderr.write(NEEDS_CLICK + "\n")
    return 2


def _demo(*, is_json: bool) -> int:
    """Shows the demo; Ctrl-C and a reader who goes end it as the root command lets them end."""
    from indelible.cli.demo.story import show_demo
    from indelible.cli.ending import is_reader_gone

    try:
        code = show_demo(is_json=is_json)
        sys.stdout.flush()
    except BrokenPipeError:
        if not is_reader_gone():
            raise
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\nindelible: interrupted\n")
        return 2
    return code
