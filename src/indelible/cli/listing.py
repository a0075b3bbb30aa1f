"""Lists, a page at a time: what was filtered, how many are shown, and how to go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from indelible.cli.filtering import said, with_query
from indelible.cli.opening import Where
from indelible.cli.show import count, say_json, table, visible
from indelible.core.filtering.filters import Query
from indelible.engine.finding import Found

T = TypeVar("T")

NO_QUERY = Query("events")  # lets everything pass
Columns = Sequence[str]
Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """Is a page of a list, and what was asked for: options that nobody gave are None."""

    noun: str
    found: Found[T, str]
    chosen: Mapping[str, Any]
    query: Query = NO_QUERY
    address: str

    @property
    def filters(self) -> dict[str, Any]:
        """Is what was filtered by, besides the query."""
        return {name: value for name, value in self.chosen.items() if value is not None}

    @property
    def is_whole(self) -> bool:
        """Was nothing filtered?"""
        return not self.filters and not self.query.terms


def say_page_json(listed: Listed[T], place: Where, content: Callable[[T], dict[str, Any]], members: str) -> None:
    """Prints a page for programs; `next` is what --before takes for the next one."""
    things = [content(one) for one in listed.found.things]
    say_json(
        {
            "store": listed.address,
            "tenant": place.tenant,
            "filter": with_query(listed.filters, listed.query),
            "shown": len(things),
            "has_more": listed.found.next is not None,
            "next": listed.found.next,
            members: things,
        }
    )


def say_page(listed: Listed[T], place: Where, columns: Columns, row: Callable[[T], Row], if_none: str = "") -> None:
    """Prints a page for people; where there is nothing at all, it says how one comes into being."""
    shown, following = listed.found.things, listed.found.next
    if shown:
        table(columns, [row(one) for one in shown])
        print()
    elif if_none:
        print(if_none + "\n")
    total = _how_many(len(shown), listed.noun, is_all=following is None)
    filtered = said(listed.filters, listed.query)
    print(f"Shown: {total}. Filter: {filtered}. Tenant: {visible(place.tenant)}. Ledger: {visible(listed.address)}.")
    if following is not None:
        print(f"There are more. Add: --before {visible(following)}")


def _how_many(number: int, noun: str, *, is_all: bool) -> str:
    if not is_all or not number:
        return count(number, noun)
    return f"the only {noun}" if number == 1 else f"all {count(number, noun)}"


def say_all(noun: str, columns: Columns, rows: Sequence[Row], place: Where, if_none: str = "") -> None:
    """Prints a list that is short by its nature, as of the tokens that were given."""
    if rows:
        table(columns, rows)
        print()
    elif if_none:
        print(if_none + "\n")
    print(f"Shown: {_how_many(len(rows), noun, is_all=True)}. Tenant: {visible(place.tenant)}.")
