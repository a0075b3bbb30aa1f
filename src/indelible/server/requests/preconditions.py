"""ETags: a version in quotes, by which a client says which state it has seen."""

from __future__ import annotations

from typing import TypeVar

from fastapi import HTTPException


def etag(version: int | str) -> str:
    """Gives the tag of a version."""
    return f'"{version}"'


def is_among(version: int | str, header: str | None) -> bool:
    """Does a header name this version?"""
    named = [] if header is None else [one.strip().removeprefix("W/") for one in header.split(",")]
    return etag(version) in named or "*" in named


Version = TypeVar("Version", int, str)


def seen_version(header: str | None, version: Version, name: str) -> Version | None:
    """Gives the version that a write is for, to be decided with it; None when the caller does not mind which.

    Refuses with 412 right away what names another version than the one that is there.
    """
    if header is None or header.strip() == "*":
        return None
    if not is_among(version, header):
        raise outdated(f"{name} is at version {version} now, not {header[:100]}; look at it again")
    return version


def outdated(why: str) -> HTTPException:
    """Gives the refusal of what was decided on another version than the one that is there."""
    return HTTPException(412, why)
