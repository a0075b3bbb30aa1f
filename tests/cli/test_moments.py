"""Moments and spans are written in one way for every command, and what nobody understands is refused by all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from indelible.cli.moments import moment_ahead, moment_before, span, span_or_moment
from tests.cli.conftest import Cli


def test_spans_and_moments_are_read() -> None:
    assert [span(text, "--fresh") for text in ("30s", "15m", "2w")] == [
        timedelta(seconds=30),
        timedelta(minutes=15),
        timedelta(weeks=2),
    ]
    assert span_or_moment("90d", "--before") == timedelta(days=90)
    assert moment_before("2030-01-31", "--since") == datetime(2030, 1, 31, tzinfo=UTC)
    assert moment_before("2030-01-31T18:00+02:00", "--since") == datetime(2030, 1, 31, 16, tzinfo=UTC)
    assert moment_before("1h", "--since") < datetime.now(UTC) < moment_ahead("1h")


@pytest.mark.parametrize("text", ["soon", "90", "-1d", "1y", "", "999999w", "2030-13-01"])
def test_what_nobody_understands_is_refused(text: str) -> None:
    for read in (moment_ahead, moment_before, span_or_moment):
        with pytest.raises(click.UsageError, match="give a span such as 30m"):
            read(text, "--when")


def test_every_command_reads_them_before_it_opens_a_ledger(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> None:
    policy = tmp_path_factory.mktemp("policy") / "p.json"
    policy.write_text("{}")
    for words in (
        ("prune", "--before", "soon"),
        ("policy", "test", str(policy), "--since", "soon"),
        ("export", "csv", "--out", "a", "--since", "soon"),
        ("export", "csv", "--out", "a", "--until", "soon"),
        ("verify", "--fresh", "soon"),
        ("worker", "--retain", "soon"),
        ("approvals", "delegate", "--to", "bob", "--until", "soon"),
    ):
        said = cli(*words, code=2).err
        assert f"{words[-2]} soon: give a span such as 30m" in said, words
