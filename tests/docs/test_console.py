"""Every command on every page runs, in its order, and answers what the page says."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import click
import pytest

from indelible.cli.root import root
from tests.docs.following import EXCUSED, Reader, excused
from tests.docs.pages import ROOT, Typed, blocks, named, pages, typed
from tests.docs.stage import Stage
from tests.docs.stages import STAGES
from tests.docs.terminal import ENDLESS, Terminal

# Where a page's own test follows it, together with the programs on it.
FOLLOWED_BY = {
    "docs/how-to/langgraph-slack.md": "tests/docs/test_story.py",
    "docs/approvals.md": "tests/cli/test_approvals_page.py",
    "docs/reference/bundle.md": "tests/journal/test_69_vectors.py",
    "docs/migrate/locus.md": "tests/compat/test_locus.py",
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
}


def commands(page: Path) -> list[str]:
    return [one.command for block in blocks(page) if block.kind == "console" for one in typed(block)]


@pytest.mark.parametrize("name", STAGES)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = ROOT / name
    with ExitStack() as closing:
        stage = Stage(
            page=page,
            terminal=Terminal(folder=tmp_path),
            closing=closing,
            postgres=lambda: str(request.getfixturevalue("postgres_url")),
        )
        STAGES[name](stage)
        text = page.read_text(encoding="utf-8")
        assert [made_up for made_up in (*stage.instead, *stage.codes) if made_up not in text] == []
        Reader(
            terminal=stage.terminal, meant=stage.meant, codes=stage.codes, says=stage.says, printed=stage.told
        ).follow(page)


@pytest.mark.parametrize(
    ("command", "answer", "fault"),
    [
        ("indelible version", (), None),
        ("indelible version", ("indelible …",), None),
        ("indelible version", ("indelible ninety",), "it answers something else"),
        ("indelible version --colour", (), "it ends with 2"),
        ("indelible effects list", (), "Shown: 0 effects"),
        ("cat not-there.txt", (), "it ends with 1"),
        ("indelible journal status", (), "it does not say"),
        ("indelible effects show eff_01a1…", (), "nothing printed so far can be copied"),
    ],
)
def test_what_is_not_as_the_page_says_is_noticed(
    reader: Reader, command: str, answer: tuple[str, ...], fault: str | None
) -> None:
    one = Typed(line=7, command=command, answer=answer)
    if fault is None:
        reader.type(one, where="page")
    else:
        with pytest.raises(AssertionError, match=fault):
            reader.type(one, where="page")


def test_what_goes_to_a_file_is_there_for_the_next_command(reader: Reader) -> None:
    reader.type(Typed(line=7, command="indelible effects list > listed.txt", answer=()), where="page")
    reader.type(Typed(line=8, command="cat listed.txt | grep -c Tenant", answer=("1",)), where="page")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Sits before an empty ledger."""
    terminal = Terminal(folder=tmp_path_factory.mktemp("empty"))
    terminal.run("indelible migrate")
    return Reader(terminal=terminal, says={"journal status": "a million events"})


def test_no_page_with_commands_is_left_out() -> None:
    told = {named(page) for page in pages() if commands(page)}
    assert told == set(STAGES) | set(FOLLOWED_BY), "a page with commands needs a stage: tests/docs/stages.py"
    for page, test in FOLLOWED_BY.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), (page, test)


def test_commands_stand_where_they_are_typed() -> None:
    """Nobody types what stands in a block of another kind. docs/http.md is a script, and has a test of its own."""
    elsewhere = [
        f"{named(page)}: {line}"
        for page in pages()
        for block in blocks(page)
        for line in block.text.splitlines()
        if re.match(r" *(\$ )?indelible [a-z]", line)
        if block.kind != "console" and (named(page), block.kind) != ("docs/http.md", "bash")
    ]
    assert elsewhere == []


@pytest.mark.parametrize(("name", "port"), ENDLESS.items())
def test_servers_listen_where_the_pages_say(name: tuple[str, ...], port: int) -> None:
    command: click.Command = root
    for word in name:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(root), word) or command
    assert [option.default for option in command.params if option.name == "port"] == ([port] if port else [])


def test_nothing_is_excused_that_is_on_no_page() -> None:
    told = [command for page in pages() for command in commands(page)]
    assert [beginning for beginning in EXCUSED if not any(one.startswith(beginning) for one in told)] == []
    assert sum(excused(command) is None for command in told) > 100
    tests = [path for why in EXCUSED.values() for path in re.findall(r"tests/\S+\.py", why)]
    assert [path for path in tests if not (ROOT / path).exists()] == []
