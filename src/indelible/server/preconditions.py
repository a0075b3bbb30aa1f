"""ETags: a version in quotes, by which a client says which state it has seen."""

from __future__ import annotations

from fastapi import HTTPException


def etag(version: int | str) -> str:
    """Gives the tag of a version."""
    return f'"{version}"'


def is_among(version: int | str, header: str | None) -> bool:
    """Does a header name this version?"""
    named = [] if header is None else [one.strip().removeprefix("W/") for one in header.split(",")]
    return etag(version) in named or "*" in named


def check_if_match(header: str | None, version: int | str, name: str) -> None:
    """Refuses with 412 what was decided on another version than the one that is there."""
    if header is not None and not is_among(version, header):
        raise HTTPException(412, f"{name} is at version {version} now, not {header[:100]}; look at it again")
