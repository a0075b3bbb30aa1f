"""Promises of core.approvals.elsewhere: the same call in another run or under another key, newest first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible.core.approvals.elsewhere import MOST_SHOWN, Elsewhere, digests_of, elsewhere_of
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import digest_of
from indelible.core.ports import Outline
from tests.core.making import effect as made

AT = datetime(2030, 1, 2, tzinfo=UTC)


def outline(effect: Effect, id_: str, **changes: Any) -> Outline:
    told = Outline._make(getattr(effect, name) for name in Outline._fields)
    return told._replace(**{"id": id_, "created_at": AT, **changes})


def test_the_same_call_is_told_and_itself_and_others_are_not() -> None:
    effect = made()
    others = [
        outline(effect, "eff_old", created_at=AT - timedelta(hours=1)),
        outline(effect, "eff_new", run_id="r9", status="succeeded"),
        outline(effect, effect.id),
        outline(effect, "eff_other", digest="00" * 32),
    ]
    found = elsewhere_of(effect, others)
    assert [one.effect_id for one in found] == ["eff_new", "eff_old"]
    assert found[0].shown() == {
        "effect_id": "eff_new",
        "run_id": "r9",
        "status": "succeeded",
        "at": "2030-01-02T00:00:00.000000Z",
    }
    assert len(elsewhere_of(effect, [outline(effect, f"eff_{n}") for n in range(20)])) == MOST_SHOWN


def test_what_an_edit_made_of_it_is_looked_for_too() -> None:
    effect = replace(made(), args_json=b'{"amount":7}')
    edited = digest_of(effect.tenant, effect.tool, b'{"amount":7}', None)
    assert digests_of(effect) == (effect.digest, edited)
    assert digests_of(replace(effect, args_json=None)) == (effect.digest,)
    assert digests_of(replace(effect, digest=edited)) == (edited,)


@pytest.mark.parametrize("status", ["succeeded", "requires_approval", "in_doubt", "denied"])
def test_people_read_where_it_is_and_how_it_stands(status: Any) -> None:
    said = str(Elsewhere("eff_1", "run-9", status, AT))
    assert "eff_1" in said
    assert "run-9" in said
