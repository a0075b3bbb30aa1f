"""The dashboard: one built page for every address that people open, and the files it is made of.

It is served to anybody, for there is nothing in it: what it shows, it asks for with the session of whoever looks.
"""

from __future__ import annotations

import html
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

dashboard = APIRouter(include_in_schema=False)
PAGES = ("", "inbox", "overview", "runs", "effects", "events", "journal", "tools", "settings")
"""Are the first parts of the addresses that the page knows; what is behind them is the page's own matter."""
_FILES = {
    "index.html": "text/html; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "assets/app.js": "text/javascript; charset=utf-8",
    "assets/vendor.js": "text/javascript; charset=utf-8",
    "assets/rolldown-runtime.js": "text/javascript; charset=utf-8",
    "assets/index.css": "text/css; charset=utf-8",
}
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
)
"""Lets the page use what came with it, and nothing else."""
IfNoneMatch = Annotated[str | None, Header()]
_APPROVAL = re.compile(r"apr_[0-9a-f]{1,64}", re.ASCII)


@cache
def _content(name: str) -> tuple[bytes, str]:
    """Gives a file of the page and what it is known again by."""
    content = files("indelible.server").joinpath("page", name).read_bytes()
    return content, f'"{sha256(content).hexdigest()[:32]}"'


def _answer(content: bytes, tag: str, kind: str, known: str | None) -> Response:
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    if known == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


async def _page(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """Gives the page; it learns from its base where it lives."""
    content, _ = _content("index.html")
    base = html.escape(request.scope.get("root_path", "").rstrip("/") + "/", quote=True)
    placed = content.replace(b'<base href="/" />', f'<base href="{base}" />'.encode(), 1)
    return _answer(placed, f'"{sha256(placed).hexdigest()[:32]}"', _FILES["index.html"], if_none_match)


async def _file(path: str, if_none_match: IfNoneMatch = None) -> Response:
    """Gives a file of the page; only those that it was built with."""
    name = f"assets/{path}"
    if name not in _FILES:
        raise HTTPException(404, "Not Found")
    return _answer(*_content(name), _FILES[name], if_none_match)


async def _icon(if_none_match: IfNoneMatch = None) -> Response:
    return _answer(*_content("icon.svg"), _FILES["icon.svg"], if_none_match)


@dashboard.get("/approvals/{approval_id}")
async def _asked(request: Request, approval_id: str) -> Response:
    """Leads from the address that notifications name to where it is decided."""
    if _APPROVAL.fullmatch(approval_id) is None:
        raise HTTPException(404, "Not Found")
    return RedirectResponse(f"{request.scope.get('root_path', '')}/inbox?approval={approval_id}", 303)


for _name in PAGES:
    dashboard.get(f"/{_name}")(_page)
for _name in PAGES[1:]:
    dashboard.get(f"/{_name}/{{rest:path}}")(_page)
dashboard.get("/assets/{path}")(_file)
dashboard.get("/icon.svg")(_icon)
