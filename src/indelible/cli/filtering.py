"""`--filter`: the one filter grammar on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from indelible.cli.show import visible
from indelible.core.filtering.filters import Query, Resource
from indelible.core.filtering.reading import parse

F = TypeVar("F", bound=Callable[..., Any])


def filter_option(resource: Resource, example: str) -> Callable[[F], F]:
    """Gives a command --filter, which it gets as a `Query`; what cannot be read is named by its place."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Query:
        return parse(value or "", resource)

    return click.option("--filter", "query", metavar="FILTER", callback=read, help=f"Only what fits, as in: {example}")


def said(chosen: dict[str, Any], query: Query) -> str:
    """Says what was filtered by."""
    words = {name: name.removesuffix("_id").replace("_", " ") for name in chosen}
    named = [f"{words[name]} {visible(str(value))}" for name, value in chosen.items()]
    return ", ".join([*named, *([visible(str(query))] if query.terms else [])]) or "none"


def with_query(chosen: dict[str, Any], query: Query) -> dict[str, Any]:
    """Gives what was filtered by, for programs."""
    return {**chosen, "q": str(query)} if query.terms else chosen
