"""A program's own function is a channel like any other, and secrets are read where they are kept and never shown."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from indelible import notify
from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.errors import BadCall, KeyUnusable
from indelible.notify.channels import Channels, NotSent
from indelible.notify.hidden import Secret, secret_of, secrets_of
from indelible.notify.hooks import HookChannel
from tests.notify.making import approved, message


def test_a_blocking_hook_gets_the_approval_and_the_effect() -> None:
    seen: list[tuple[Approval, Effect]] = []
    made = message()
    assert HookChannel(lambda approval, effect: seen.append((approval, effect))).send(made) == {}
    assert seen == [(made.approval, made.effect)]


def test_a_coroutine_function_is_a_hook_too() -> None:
    seen: list[str] = []

    async def hook(approval: Approval, effect: Effect) -> None:
        await asyncio.sleep(0)
        seen.append(approval.id)

    HookChannel(hook).send(message())
    assert seen == ["apr_1"]


def test_what_a_hook_raises_is_a_failure_to_be_tried_again() -> None:
    def hook(approval: Approval, effect: Effect) -> None:
        raise RuntimeError("no " * 500)

    with pytest.raises(NotSent, match=r"RuntimeError: no no") as problem:
        HookChannel(hook).send(message())
    assert len(str(problem.value)) <= 300


def test_how_it_ended_is_none_of_a_hooks_business() -> None:
    seen: list[str] = []
    assert "skipped" in HookChannel(lambda approval, effect: seen.append("called")).send(approved())
    assert seen == []


def test_a_hook_is_a_function() -> None:
    with pytest.raises(BadCall, match="function"):
        HookChannel("print")  # type: ignore[arg-type]


# ── channels ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_channels_have_names_of_their_own() -> None:
    one, other = (HookChannel(print, name=name) for name in ("one", "other"))  # type: ignore[arg-type]
    channels = Channels([one, other], link="https://ledger.example/")
    assert (list(channels), channels.link) == ([one, other], "https://ledger.example")
    assert channels.named("other") is other
    with pytest.raises(BadCall, match="there are: one, other"):
        channels.named("third")
    with pytest.raises(BadCall, match="two channels"):
        Channels([one, one])
    for bad in ("", "Ops", "a.b", "a:b", "-a", "a" * 65, "ö"):
        with pytest.raises(BadCall, match="small letters"):
            Channels([HookChannel(print, name=bad)])  # type: ignore[arg-type]


@pytest.mark.parametrize("link", ["ledger.example", "javascript:alert(1)", "https://a b", "https://x|y", "https://<x>"])
def test_a_link_is_a_plain_address(link: str) -> None:
    with pytest.raises(BadCall, match="link"):
        Channels([], link=link)


def test_every_public_name_is_there_and_a_hook_loads_neither_mail_nor_slack() -> None:
    assert all(getattr(notify, name) for name in notify.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Pigeon'"):
        notify.Pigeon  # noqa: B018
    program = "import sys, indelible.notify.outbox, indelible.notify.hooks\nprint({'smtplib', 'ssl'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_is_read_from_the_environment_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secret_of("env:A_SECRET")
    with pytest.raises(KeyUnusable, match="env:A_SECRET is not set"):
        secret.reveal()
    monkeypatch.setenv("A_SECRET", "first")
    assert secret.reveal() == "first"
    monkeypatch.setenv("A_SECRET", "second")
    assert secret.reveal() == "second"


def test_a_secret_is_read_from_a_file_that_nobody_else_can_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    secret = secret_of("file:secret", tmp_path)
    with pytest.raises(KeyUnusable, match="not set"):
        secret.reveal()
    path.write_text("hidden\n")
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="chmod 600") as problem:
        secret.reveal()
    assert "hidden" not in str(problem.value)
    path.chmod(0o600)
    assert secret.reveal() == "hidden"
    path.write_text("hid\x00den")
    with pytest.raises(KeyUnusable, match="characters"):
        secret.reveal()


def test_a_secret_is_never_written_down_where_it_is_named() -> None:
    for text in ("hidden", "env:", "vault:x", ""):
        with pytest.raises(BadCall, match="env:NAME") as problem:
            secret_of(text)
        assert "hidden" not in str(problem.value)
    with pytest.raises(BadCall, match="env:NAME"):
        secrets_of([5])  # type: ignore[list-item]


def test_a_secret_that_the_program_has_is_wrapped_and_not_shown() -> None:
    secret = Secret("hidden")
    assert (secret.reveal(), secret_of(secret)) == ("hidden", secret)
    assert "hidden" not in f"{secret} {secret!r} {[secret]}"
