"""`indelible stop`, `go`, and what doctor and `migrate --row-security` say."""

from __future__ import annotations

import psycopg
import pytest

from indelible import Ledger
from indelible.errors import Stopped
from tests.cli.conftest import Cli, call


def test_stop_stops_and_go_lets_go(cli: Cli, ledger_url: str) -> None:
    assert "Nothing was stopped." in cli("go").out
    said = cli("stop", "--reason", "wrong \x1b[1maccounts", "--by", "ana").out
    assert said.startswith("Stopped by ana at ")
    assert "\x1b" not in said
    assert "until: indelible go" in said
    with Ledger.open(ledger_url, seal=False) as ledger, pytest.raises(Stopped):
        ledger.run(call("pay"), lambda effect: 1)
    checks = {check["name"]: check for check in cli("doctor", "--json", code=None).json["checks"]}
    assert (checks["stop"]["verdict"], "by ana" in checks["stop"]["says"]) == ("warn", True)
    assert checks["stop"]["fix"].endswith("go")
    assert cli("stop", "--reason", "again", "--json").json["by"] == "ana", "it is stopped already"
    assert cli("go", "--by", "bob", "--json").json["is_stopped"] is False
    assert "stop" not in {check["name"] for check in cli("doctor", "--json", code=None).json["checks"]}
    with Ledger.open(ledger_url, seal=False) as ledger:
        assert ledger.run(call("pay"), lambda effect: 1) == 1


def test_whoever_stops_says_why(cli: Cli, ledger_url: str) -> None:
    assert "--reason" in cli("stop", code=2).err
    assert "say why" in cli("stop", "--reason", "", code=2).err


def test_row_security_is_built_when_it_is_asked_for(cli: Cli, postgres_url: str) -> None:
    cli("migrate", "--url", postgres_url, "--row-security")
    with psycopg.connect(postgres_url) as connection:
        secured = connection.execute(
            "SELECT count(*) FROM pg_policies WHERE policyname = 'indelible_tenant'"
        ).fetchone()
    assert secured is not None
    assert secured[0] >= 9


def test_a_file_has_no_rows_to_secure_from_its_reader(cli: Cli, sqlite_url: str) -> None:
    assert "PostgreSQL" in cli("migrate", "--url", sqlite_url, "--row-security", code=2).err
