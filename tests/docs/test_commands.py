"""Every command of ours that a page names is there, with every option it is given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from indelible.cli.root import root
from tests.docs.pages import blocks, named, pages


def commands() -> Iterator[tuple[str, str]]:
    """Gives each page and line that begins with `indelible`, as it is typed or as it stands in a text."""
    for page in pages():
        for block in blocks(page):
            lines = block.text.replace("\\\n", " ").splitlines()
            for line in lines if block.kind in {"console", "bash", "sh"} else ():
                if found := re.search(r"(?:^|\$ |exec )(indelible .+)", line):
                    yield named(page), found[1]
        for inline in re.finditer(r"`(indelible [a-z][^`\n|]*)`", page.read_text(encoding="utf-8")):
            yield named(page), inline[1]


def words(line: str) -> list[str]:
    """The words of the first command of a line, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    found = []
    for word in lexer:
        if set(word) <= set("|&;<>()"):
            break
        found.append(word)
    return found


def wrong(line: str) -> str | None:
    """What is not there of a command line; of several commands named in one breath the first is looked up."""
    rest = words(line)[1:]
    context = click.Context(root)
    command: click.Command = root
    while rest and isinstance(command, click.Group):
        if (inner := command.get_command(context, rest[0].rstrip(",.:"))) is None:
            break
        command, rest = inner, rest[1:]
    if command is root or (isinstance(command, click.Group) and rest and re.match(r"[a-z]", rest[0])):
        return f"no such command: {line}"
    own = rest[: rest.index("--")] if "--" in rest else rest
    known = {name for each in (*command.params, *root.params) for name in (*each.opts, *each.secondary_opts)}
    asked = {word.partition("=")[0] for word in own if re.match(r"--?[a-zA-Z]", word)}
    return f"no such option: {asked - known - {'--help'}} in {line}" if asked - known - {"--help"} else None


def test_every_command_and_option_that_a_page_names_is_there() -> None:
    told = set(commands())
    assert len(told) > 150
    assert sorted(f"{page}: {fault}" for page, line in told if (fault := wrong(line))) == []


def test_what_is_not_there_is_noticed() -> None:
    assert wrong("indelible effects invent") == "no such command: indelible effects invent"
    assert wrong("indelible frobnicate") is not None
    assert wrong("indelible effects list --colour red") is not None
    assert wrong("indelible effects list --filter 'a > b' > out.txt  # yes") is None
