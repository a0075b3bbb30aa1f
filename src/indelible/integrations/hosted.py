"""What a model's provider runs by itself: tools that leave with a request, wherever its settings hide them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_TOOLS = ("tools", "_tools")
_SERVERS = "mcp_servers"
_OTHERS = (_SERVERS, "web_search_options", "search_parameters", "cached_content", "cachedContent")
# OpenRouter's: a preset is a stored request, and a plugin such as `web` runs there. Others have presets of voices.
_ROUTERS = frozenset({"preset", "plugins", "openrouter_preset", "openrouter_plugins"})
_STORED = "prompt"
_NOT_SETTINGS = frozenset({"messages", "responses", "input", "contents", "properties"})
_DECLARES = frozenset({"function", "input_schema", "toolSpec"})
_DECLARED = frozenset({"function_declarations", "functionDeclarations"})


def hosted_in(*settings: Any) -> list[str]:
    """Name what the provider would run for a request with these settings.

    It looks at any depth, as in `extra_body`, for tools that are none of the program, for servers, searches and
    plugins, and for stored prompts, presets and caches, which may hold tools. A key that is there counts, also with an
    empty object.

    Args:
        settings: Mappings, pydantic models, or lists of them. Tools stand under `tools`, or a key that ends so.
    """
    return list(dict.fromkeys(name for one in settings for name in _found_in(one, set())))


def hosted_tools(tools: Iterable[Any]) -> list[str]:
    """Name those of a list of tools that the provider would run."""
    return list(dict.fromkeys(name for one in tools for name in _names_of(one)))


def _found_in(part: Any, done: set[int]) -> Iterator[str]:
    if id(part) in done:
        return
    done.add(id(part))
    if isinstance(part, list | tuple):
        for one in part:
            yield from _found_in(one, done)
    for key, value in _items(part):
        if value is None:
            continue
        if key.endswith(_TOOLS) and isinstance(value, list | tuple):
            yield from hosted_tools(value)
        elif _ends_in(key, _SERVERS) and isinstance(value, list | tuple):
            yield from (f"mcp:{_server_in(dict(_items(one)))}" for one in value)
        elif key in _ROUTERS or _ends_in(key, *_OTHERS):
            yield key
        elif _ends_in(key, _STORED) and isinstance(value, Mapping) and "id" in value:
            yield f"prompt:{value['id']}"
        elif key not in _NOT_SETTINGS:
            yield from _found_in(value, done)


def _ends_in(key: str, *names: str) -> bool:
    """Say whether a key is one of these names, maybe after a provider's: Pydantic AI says `google_cached_content`."""
    return any(key == name or key.endswith(f"_{name}") for name in names)


def _items(part: Any) -> list[tuple[str, Any]]:
    """Return the fields of a mapping or of a pydantic model."""
    if isinstance(part, Mapping):
        return [(str(key), value) for key, value in part.items()]
    fields = getattr(type(part), "model_fields", None)
    return [] if fields is None else [(name, getattr(part, name, None)) for name in fields]


def _server_in(said: Mapping[str, Any]) -> str:
    names = ("server_label", "name", "server_url", "url", "connector_id")
    return next((str(said[name]) for name in names if said.get(name)), "server")


def _names_of(tool: Any) -> Iterator[str]:
    """Yield the names of what one entry of a list of tools stands for."""
    if isinstance(tool, str):
        yield tool
        return
    if hasattr(tool, "args_schema"):  # a tool of the program, which the model's adapter has yet to declare
        return
    said = {key: value for key, value in _items(tool) if value is not None}
    kind = said.get("type")
    if "server_label" in said or "server_url" in said or kind == "mcp":
        yield f"mcp:{_server_in(said)}"
    elif kind is not None:
        yield from () if kind in ("function", "custom") else [str(getattr(kind, "value", kind))]
    elif not _DECLARES.isdisjoint(said):
        return
    elif said:
        names = [key for key in said if key not in _DECLARED]
        yield from [str(said["name"])] if "name" in said else names
    elif not isinstance(tool, Mapping) and not callable(tool):
        yield type(tool).__name__
