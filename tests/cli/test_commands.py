"""The command as a whole: light to start, honest exit codes, errors that name the next step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.cli.opening import usual_tenant, without_password
from indelible.core.people.credentials import Token
from tests.cli.conftest import Cli, call
from tests.stores.database import open_file

READING = [
    ["effects", "list"],
    ["effects", "show", "eff_1"],
    ["effects", "settle", "eff_1", "--as", "succeeded", "--evidence", "x"],
    ["effects", "retry", "eff_1"],
    ["effects", "cancel", "eff_1"],
    ["events", "r"],
    ["approvals", "list"],
    ["approvals", "show", "apr_1"],
    ["approvals", "approve", "apr_1", "--digest", "0" * 12],
    ["approvals", "deny", "apr_1", "-m", "x"],
    ["approvals", "revoke", "apr_1"],
    ["approvals", "edit", "apr_1", "--digest", "0" * 12, "--args", "{}"],
    ["approvals", "watch"],
    ["approvals", "delegate", "--to", "bob", "--until", "8h"],
    ["approvals", "delegations"],
    ["approvals", "delegations", "list"],
    ["approvals", "delegations", "end", "dlg_1"],
    ["approvals", "grants"],
    ["approvals", "grants", "list"],
    ["approvals", "grants", "end", "grt_1"],
]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_version(cli: Cli) -> None:
    assert cli("version").out == f"indelible {indelible.__version__}\n" == cli("--version").out
    assert cli("version", "--json").json == {"version": indelible.__version__}


def test_help_names_every_command_in_a_whole_line(cli: Cli) -> None:
    said = cli("--help").out
    assert "demo" in said
    assert "..." not in said.partition("Commands:")[2]
    for group in ("effects", "approvals", "runs", "mcp"):
        assert "..." not in cli(group, "--help").out.partition("Commands:")[2]
    assert cli().out == said


def test_a_group_alone_and_a_command_that_is_none_name_what_there_is(cli: Cli) -> None:
    assert "hold is followed by a command: add, list, remove" in cli("hold", code=2).err
    assert "Did you mean 'effects'?" in cli("effcts", code=2).err
    assert "Did you mean" not in cli("zzz", code=2).err


def test_words_that_are_no_numbers_are_said_to_be_none(cli: Cli) -> None:
    assert "'--limit': 'abc' is not a whole number" in cli("effects", "list", "--limit", "abc", code=2).err


def test_the_entry_point_stays_a_function_after_use(cli: Cli) -> None:
    cli("version")
    from indelible.cli import main

    assert main(["version"]) == 0


def test_starting_loads_no_store_and_no_table_library() -> None:
    code = """if True:
        import sys
        from indelible.cli import main
        main(["version"])
        print(sorted({"apsw", "psycopg", "rich", "indelible.stores.sqlite"} & set(sys.modules)))"""
    assert python(code).stdout.splitlines()[-1] == "[]"


def test_whoever_forgot_to_name_a_ledger_is_told_of_those_in_the_folder(cli: Cli, tmp_path: Path) -> None:
    Ledger.open(f"sqlite:///{tmp_path}/my agent.db").close()
    (tmp_path / "notes.db").write_text("no database")
    said = cli("effects", "list", code=2).err
    assert said.endswith("ledger.db: there is one here: --url 'sqlite:///my agent.db'\n")
    assert cli("effects", "list", "--url", "sqlite:///my agent.db").out


@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words[:3]))
def test_a_ledger_that_is_not_there_is_not_made(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    said = cli(*words, code=2)
    assert "there is no ledger at sqlite:///.indelible/ledger.db" in said.err
    assert "Ledger.open()" in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []
    assert cli(*words, "--json", code=2).error["type"] == "Misconfigured"


def test_a_memory_ledger_cannot_be_seen_from_outside(cli: Cli) -> None:
    assert "lives in the program that opened it" in cli("effects", "list", "--url", ":memory:", code=2).err


@pytest.mark.parametrize("words", [["effects", "list"], ["migrate"], ["doctor"]])
def test_somebody_elses_database_is_not_touched(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "shop.db"
    connection = open_file(path)
    connection.execute("CREATE TABLE orders (id)")
    connection.close()
    before = path.read_bytes()
    said = cli(*words, "--url", f"sqlite:///{path}", code=None)
    assert said.code != 0
    assert "no Indelible ledger" in said.out + said.err
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_database_is_told_without_a_traceback(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello, this is not a database at all\n" * 100)
    said = cli("effects", "list", "--url", "notes.txt", code=2)
    assert "is not a sound SQLite database" in said.err


def test_a_ledger_whose_files_cannot_be_used_is_told_without_a_traceback(cli: Cli, tmp_path: Path) -> None:
    Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}").close()
    (tmp_path / "ledger.db-lock").unlink()
    (tmp_path / "ledger.db-lock").mkdir()
    for words in (["effects", "list"], ["events", "r"]):
        assert "ledger.db-lock" in cli(*words, "--url", "ledger.db", code=2).err
    assert "ledger.db-lock" in cli("doctor", "--url", "ledger.db", code=1).out


def test_a_store_that_is_none(cli: Cli) -> None:
    assert "mysql:// is no store" in cli("effects", "list", "--url", "mysql://x", code=2).err


def test_a_server_that_is_away_is_named_and_its_password_is_not(cli: Cli) -> None:
    url = "postgresql://ana:s3cret@127.0.0.1:1/db"
    for words in (["effects", "list"], ["events", "r"], ["migrate"]):
        said = cli(*words, "--url", url, code=2)
        assert "127.0.0.1" in said.err
        assert "s3cret" not in said.err
    assert cli("effects", "list", "--url", url, "--json", code=2).error["type"] == "StoreUnavailable"


def test_a_server_without_a_schema_is_told_to_migrate(cli: Cli, postgres_url: str) -> None:
    assert "run: indelible migrate" in cli("effects", "list", "--url", postgres_url, code=2).err


@pytest.mark.parametrize("words", ["migrate", "serve", "worker", "keys rotate", "journal continue", "people list"])
def test_what_is_done_at_the_database_is_not_done_through_a_server(
    cli: Cli, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_TOKEN", str(Token("acme", "key_1", "secret")))
    assert (
        "is a server, and this is done at its database"
        in cli(*words.split(), "--url", "http://localhost:1", code=2).err
    )


def test_at_a_server_the_token_says_whose_ledger_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_TOKEN", f"{Token('acme', 'key_1', 'secret')}\n")
    assert [usual_tenant(url) for url in ("https://ledger.example", "sqlite:///x.db")] == ["acme", "default"]
    monkeypatch.setenv("INDELIBLE_TOKEN", "nonsense")
    assert usual_tenant("https://ledger.example") == "default", "the server says what is wrong with it"


def test_migrate_says_what_it_did(cli: Cli, store_url: str) -> None:
    first = cli("migrate", "--url", store_url).out
    assert "applied 0001_effects" in first
    assert "up to date" in cli("migrate", "--url", store_url).out
    assert cli("migrate", "--url", store_url, "--json").json["applied"] == []


@pytest.mark.parametrize("words", [["nope"], ["effects", "nope"], ["effects", "list", "--limit", "0"], ["events"]])
def test_wrong_usage_is_two_lines_and_exit_code_2(cli: Cli, words: list[str]) -> None:
    said = cli(*words, code=2)
    assert len(said.err.splitlines()) == 2
    assert "--help" in said.err.splitlines()[1]
    assert cli(*words, "--json", code=2).error["type"] == "Usage"


def test_options_hold_before_and_after_the_command(cli: Cli, sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, tenant="acme") as ledger:
        ledger.run(call("t"), lambda effect: None)
    for words in (
        ["--url", sqlite_url, "--tenant", "acme", "--json", "effects", "list"],
        ["effects", "list", "--url", sqlite_url, "--tenant", "acme", "--json"],
        ["--url", "nope", "effects", "list", "--url", sqlite_url, "--tenant", "acme", "--json"],
    ):
        assert cli(*words).json["shown"] == 1


def test_an_argument_that_is_no_text_is_told(cli: Cli, sqlite_url: str) -> None:
    Ledger.open(sqlite_url).close()
    said = subprocess.run(
        [
            sys.executable.encode(),
            b"-m",
            b"indelible.cli",
            b"effects",
            b"show",
            b"\xff\xfe",
            b"--url",
            sqlite_url.encode(),
        ],
        capture_output=True,
        check=False,
    )
    assert said.returncode == 2
    assert b"Traceback" not in said.stderr


def test_a_pipe_that_closes_early_is_no_error_message(cli: Cli, sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        for number in range(300):
            ledger.run(call("t", n=number), lambda effect: None)
    command = f"{sys.executable} -m indelible.cli effects list --limit 300 --json --url {sqlite_url}"
    piped = f"{{ {command}; echo $? >&2; }} | head -1"
    said = subprocess.run(["/bin/sh", "-c", piped], capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr) == ("{\n", "2\n"), "1 would be a verdict, as of `verify`"


def test_a_terminal_that_cannot_show_a_character_still_gets_everything(cli: Cli, sqlite_url: str) -> None:
    Ledger.open(sqlite_url).close()
    said = subprocess.run(
        [sys.executable, "-m", "indelible.cli", "doctor", "--url", sqlite_url],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert said.returncode == 0
    assert b"Traceback" not in said.stderr


WITHOUT = """if True:
    import sys
    {blocked}
    from indelible.cli import main
    sys.exit(main(sys.argv[1:]))"""
NO_CLICK = WITHOUT.format(blocked="sys.modules['click'] = sys.modules['rich'] = None")
NO_PSYCOPG = WITHOUT.format(blocked="sys.modules['psycopg'] = None")
NO_HTTP = WITHOUT.format(blocked="sys.modules['httpx2'] = None")


def test_the_package_itself_is_the_command_too() -> None:
    said = subprocess.run([sys.executable, "-m", "indelible", "version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"indelible {indelible.__version__}\n"


def test_without_click_one_line_says_how_to_get_it() -> None:
    said = python(NO_CLICK, "effects", "list")
    assert said.returncode == 2
    assert said.stderr == "indelible: this command needs click; run: pip install 'indelible[cli]'\n"


def test_without_click_version_and_demo_work() -> None:
    assert python(NO_CLICK, "version").stdout == f"indelible {indelible.__version__}\n"
    said = python(NO_CLICK, "demo", "--json")
    assert said.returncode == 0
    assert json.loads(said.stdout)["ok"] is True


def test_without_psycopg_one_line_says_how_to_get_it() -> None:
    said = python(NO_PSYCOPG, "effects", "list", "--url", "postgresql://x/y")
    assert said.returncode == 2
    assert "pip install 'indelible[postgres]'" in said.stderr
    assert len(said.stderr.splitlines()) == 1
    said = python(NO_PSYCOPG, "doctor", "--url", "postgresql://x/y")
    assert said.returncode == 1
    assert "→ pip install 'indelible[postgres]'" in said.stdout


def test_without_an_http_client_one_line_says_how_to_get_it() -> None:
    said = python(NO_HTTP, "effects", "list", "--url", "https://ledger.example")
    assert said.returncode == 2
    assert "pip install 'indelible[http]'" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ana:s3cret@host:5432/db", "postgresql://ana:…@host:5432/db"),
        ("postgresql://ana:s3@cret@host/db", "postgresql://ana:…@host/db"),
        ("postgresql://:s3cret@host/db", "postgresql://:…@host/db"),
        ("postgresql://host/db?user=ana&password=s3cret&x=1", "postgresql://host/db?user=ana&password=…&x=1"),
        ("postgresql://ana@host:5432/db", "postgresql://ana@host:5432/db"),
        ("sqlite:///a@b:c.db", "sqlite:///a@b:c.db"),
    ],
)
def test_no_password_is_printed(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)], ids=str)
def test_a_closed_stream_does_not_change_what_a_command_finds(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """`verify` of a sound ledger ended with 1, which says that the record was changed."""
    url, keys = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "keys"
    environment = {**os.environ, "INDELIBLE_KEYS": str(keys)}
    with Ledger.open(url, keys=keys) as ledger:
        ledger.run(ToolCall(tool="t", run_id="r"), lambda effect: 1)
    command = [sys.executable, "-m", "indelible"]
    key = subprocess.run(
        [*command, "keys", "export-public", "--url", url], env=environment, capture_output=True, text=True
    )
    program = f"import os, sys; [os.close(each) for each in {closed}]; os.execv(sys.argv[1], sys.argv[1:])"
    verify = [*command, "verify", "--url", url, "--key", key.stdout.strip()]
    ended = subprocess.run([sys.executable, "-c", program, *verify], env=environment, timeout=120)
    assert ended.returncode == 0
