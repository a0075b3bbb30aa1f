"""`POST /v1/webhooks/{name}`: a signature lets a provider settle, and nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible.errors import Misconfigured
from indelible.server.routes.webhooks import MOST_BYTES
from indelible.server.webhook_file import load_webhooks
from tests.scenarios.test_webhooks import OTHER, SECRET, event, standard
from tests.server.places import Place, sqlite_place
from tests.server.test_settling import doubt, status

FILE = """
[webhooks.bank]
secret = [{ env = "NEW_SECRET" }, { env = "BANK_SECRET" }]
tenant = "acme"
succeeded = ["payment.paid"]
failed = ["payment.failed"]
value = "data.payment"

[webhooks.stripe]
scheme = "stripe"
secret = { env = "BANK_SECRET" }
"""
ENVIRONMENT = {"BANK_SECRET": SECRET, "NEW_SECRET": OTHER}


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "tools.toml"
    path.write_text(content)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = sqlite_place(tmp_path, webhooks=load_webhooks(written(tmp_path, FILE), ENVIRONMENT))
    yield found
    found.close()


def send(place: Place, message: tuple[dict[str, str], bytes], name: str = "bank", **more: str) -> httpx2.Response:
    headers, body = message
    answer = place.client.post(f"/v1/webhooks/{name}", content=body, headers={**headers, **more})
    place.described.check("POST", f"/v1/webhooks/{name}", answer)
    return answer


def events(place: Place) -> int:
    return len(place.get("/v1/events?run_id=hooked").json()["events"])


def test_a_signed_message_settles_an_effect_without_any_token(place: Place) -> None:
    effect = doubt(place, "hooked")
    answer = send(place, standard(event(effect["id"], payment={"id": 7}), secret=OTHER))
    assert (answer.status_code, answer.json()["result"], answer.json()["effect_id"]) == (200, "settled", effect["id"])
    assert place.get(f"/v1/effects/{effect['id']}").json()["effect"]["outcome"]["value"] == {"id": 7}
    again = send(place, standard(event(effect["id"], payment={"id": 7}), secret=OTHER), **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["result"]) == (200, "replayed")


def test_a_wrong_signature_is_401_and_nothing_is_written(place: Place) -> None:
    effect = doubt(place, "hooked")
    before = events(place)
    headers, body = standard(event(effect["id"]))
    for message in [({}, body), (headers, body + b" "), standard(event(effect["id"]), at=1)]:
        assert send(place, message).status_code == 401
        assert send(place, message, Authorization=f"Bearer {place.tokens['admin']}").status_code == 401
    assert send(place, (headers, body), "stripe").status_code == 401
    assert send(place, (headers, body), "other").status_code == 404
    assert (events(place), status(place, effect)) == (before, "in_doubt")


def test_while_the_effect_runs_the_provider_is_told_to_come_again(place: Place) -> None:
    claim = place.begin(run_id="hooked").json()
    answer = send(place, standard(event(claim["effect"]["id"])))
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, "still-running")
    assert status(place, claim["effect"]) == "processing"


def test_another_outcome_is_told_as_a_conflict_and_changes_nothing(place: Place) -> None:
    effect = doubt(place, "hooked")
    settlement = {"outcome": {"status": "failed", "error": "no"}, "evidence": "looked"}
    place.post(f"/v1/effects/{effect['id']}/settle", settlement, "ana")
    answer = send(place, standard(event(effect["id"])))
    assert (answer.status_code, answer.json()["result"]) == (200, "conflict")
    assert status(place, effect) == "failed"


def test_a_message_settles_effects_of_its_own_tenant_alone(place: Place) -> None:
    claim = place.begin("stranger", run_id="theirs").json()
    answer = send(place, standard(event(claim["effect"]["id"])))
    assert (answer.status_code, answer.json()["result"]) == (200, "unknown_effect")


def test_a_message_that_is_too_large_is_not_read(place: Place) -> None:
    assert send(place, standard(b'"' + b"x" * MOST_BYTES + b'"')).status_code == 413
    assert send(place, standard(b"no json")).status_code == 400


TABLE = '[webhooks.bank]\nsecret = { env = "BANK_SECRET" }\nsucceeded = ["a"]\n'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "webhooks = 5",
        "[other]",
        "[webhooks]\nbank = 5",
        '[webhooks."no name"]\nsecret = { env = "BANK_SECRET" }\nsucceeded = ["a"]',
        '[webhooks.bank]\nsucceeded = ["a"]',
        f'[webhooks.bank]\nsecret = "{SECRET}"\nsucceeded = ["a"]',
        '[webhooks.bank]\nsecret = { env = "NOT_SET" }\nsucceeded = ["a"]',
        '[webhooks.bank]\nsecret = { env = "BANK_SECRET" }',
        f"{TABLE}unknown = 1",
        f'{TABLE}scheme = "guess"',
        f"{TABLE}tenant = ''",
        f"{TABLE}effect = 5",
        f"{TABLE}value = 5",
        f"{TABLE}failed = 'a'",
        f"{TABLE}tolerance_s = 'long'",
        f"{TABLE}tolerance_s = 0",
        f"{TABLE}outcome = 'json:loads'",
        '[webhooks.bank]\nsecret = { env = "BANK_SECRET" }\noutcome = "json:nothing"',
    ],
)
def test_a_file_that_is_wrong_is_refused_when_the_server_starts(tmp_path: Path, content: str) -> None:
    with pytest.raises(Misconfigured):
        load_webhooks(written(tmp_path, content), ENVIRONMENT)


def test_a_function_of_yours_says_what_a_message_means(tmp_path: Path) -> None:
    content = '[webhooks.bank]\nsecret = { env = "BANK_SECRET" }\noutcome = "indelible.webhooks:stripe_event"'
    assert load_webhooks(written(tmp_path, content), ENVIRONMENT)["bank"].tenant == "default"
    assert load_webhooks(written(tmp_path, '[tools.a]\nurl = "https://x/y"'), {}) == {}


def test_a_process_takes_webhooks_from_the_file_of_its_tools(tmp_path: Path) -> None:
    """The command itself, with the secret in its environment."""
    import os
    import subprocess
    import sys

    from indelible import Ledger
    from tests.scenarios.test_webhooks import left
    from tests.waiting import eventually

    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        effect = left(ledger)
    path = written(tmp_path, FILE.replace('tenant = "acme"', ""))
    words = [sys.executable, "-m", "indelible", "serve", "--port", "0", "--tools", str(path), "--url", url]
    env = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = server.stdout.readline().partition(" at ")[2].partition(";")[0]
        try:
            headers, body = standard(event(effect))

            def sent() -> Any:
                try:
                    return httpx2.post(f"{base}/v1/webhooks/bank", content=body, headers=headers, trust_env=False)
                except httpx2.ConnectError:
                    return None

            answer = eventually(sent)
            assert (answer.status_code, json.loads(answer.content)["result"]) == (200, "settled")
        finally:
            server.terminate()
    with Ledger.open(url) as ledger:
        found = ledger.get_effect(effect.id)
        assert found is not None
        assert found.status == "succeeded"
