"""What the tests of commands share with those of the other commands."""

from tests.cli.conftest import cli, ledger_url

__all__ = ["cli", "ledger_url"]
