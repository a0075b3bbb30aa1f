"""Channels in a file, in YAML or JSON, for the command line and the worker. Secrets are named there, never written.

link: https://ledger.example.com
channels:
  ops:
    kind: webhook
    url: https://hooks.example.com/approvals
    secret: env:OPS_WEBHOOK_SECRET
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible.errors import BadCall
from indelible.notify.channels import Channel, Channels
from indelible.notify.email import EmailChannel
from indelible.notify.hidden import Secret, secret_of
from indelible.notify.slack import SlackChannel
from indelible.notify.webhook import WebhookChannel
from indelible.policy_files import read_file

_SECRETS = frozenset({"secret", "key", "token", "signing_secret", "password"})
_KINDS: dict[str, Callable[..., Channel]] = {
    "webhook": WebhookChannel,
    "slack": SlackChannel,
    "email": EmailChannel,
}
# What only programs and tests have a use for.
_NOT_IN_FILES = frozenset({"name", "resolve", "clock"})
_WORDS: dict[str, tuple[type, ...]] = {
    "allow": (list,),
    "api": (str,),
    "ca_file": (str,),
    "channel": (str,),
    "host": (str,),
    "http": (bool,),
    "key": (str, list),
    "password": (str,),
    "people": (dict,),
    "port": (int,),
    "ports": (list,),
    "secret": (str, list),
    "security": (str,),
    "sender": (str,),
    "signing_secret": (str,),
    "team": (str,),
    "timeout": (int,),
    "to": (str, list),
    "token": (str,),
    "url": (str,),
    "username": (str,),
}
_SAID: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "a text",
}


def load_channels(path: str | Path) -> Channels:
    """Reads the channels in a file; raises `BadCall` that names what is wrong with it, and never shows a secret."""
    file = read_file(path)
    content = file.content
    try:
        if not isinstance(content, Mapping) or not isinstance(content.get("channels"), Mapping):
            raise BadCall("it begins with channels:, and then come their names")
        _only(content, {"link", "channels"}, "the file")
        link = content.get("link")
        if link is not None and not isinstance(link, str):
            raise BadCall("link: give an address")
        made = [_channel(name, said, file.path.parent) for name, said in content["channels"].items()]
        if not made:
            raise BadCall("channels: name at least one")
        return Channels(made, link=link)
    except BadCall as problem:
        raise BadCall(f"{file.path}: {problem}") from None


def _channel(name: Any, content: Any, folder: Path) -> Channel:
    """Makes one channel from what the file says of it."""
    if not isinstance(content, Mapping):
        raise BadCall(f"{name}: say its kind and where it goes")
    kind = content.get("kind")
    if kind not in _KINDS:
        raise BadCall(f"{name}: kind is one of {', '.join(_KINDS)}")
    make = _KINDS[kind]
    words = set(inspect.signature(make).parameters) - _NOT_IN_FILES
    _only(content, words | {"kind"}, str(name))
    settings = {word: _setting(name, word, value, folder) for word, value in content.items() if word != "kind"}
    try:
        return make(name, **settings)
    except TypeError:
        needed = [word for word, given in inspect.signature(make).parameters.items() if given.default is given.empty]
        missing = ", ".join(word for word in needed if word not in settings and word != "name")
        raise BadCall(f"{name}: it lacks {missing}") from None
    except BadCall as problem:
        raise BadCall(f"{name}: {problem}") from None


def _setting(name: Any, word: str, value: Any, folder: Path) -> Any:
    """Gives a setting as a channel takes it; what is of the wrong kind is not shown, for it may be a secret."""
    kinds = _WORDS[word]
    if type(value) not in kinds:
        raise BadCall(f"{name}: {word} is {' or '.join(_SAID[kind] for kind in kinds)}")
    if word in _SECRETS:
        if isinstance(value, list):
            return [secret_of(one, folder) for one in value]
        return secret_of(value, folder)
    if word == "url" and value.startswith(("env:", "file:")):
        return Secret.at(value, folder)
    if word == "timeout":
        return timedelta(seconds=value)
    return folder / value if word == "ca_file" else value


def _only(content: Mapping[Any, Any], words: set[str], where: str) -> None:
    unknown = [str(word) for word in content if word not in words]
    if unknown:
        raise BadCall(f"{where}: unknown: {', '.join(unknown)}; known are {', '.join(sorted(words))}")
