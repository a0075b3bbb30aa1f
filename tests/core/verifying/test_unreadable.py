"""What cannot be read is refused where it is read, also if something before it should have refused it already."""

from __future__ import annotations

import pytest

from indelible.core.verifying.approval_steps import telling_of
from indelible.core.verifying.bodies import EffectBody
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.sheet_bodies import policy_version_in, verdict_in
from tests.core.effects.claiming import claim_on, opening
from tests.core.making import NOON, REF, Shelf, allows


@pytest.mark.parametrize("value", [b"{", b"\xff", b'{"$date":"2026-02-31"}'])
def test_a_policy_that_cannot_be_read_is_caught(value: bytes) -> None:
    for read in (verdict_in, policy_version_in):
        with pytest.raises(Caught):
            read(value)


def test_an_event_whose_time_is_none_is_caught() -> None:
    shelf = Shelf()
    claim_on(shelf, opening(verdict=allows()))
    ((event, *_),) = (events for events in shelf.events.values() if events)
    text = event.body.decode()
    values = dict.fromkeys(EffectBody._fields, "1") | {"at": "2026-02-31T00:00:00Z", "log": "x/y", "run": REF.scope}
    with pytest.raises(Caught):
        telling_of(text, EffectBody(**values))
    assert telling_of(text, EffectBody(**values | {"at": NOON.isoformat()})).at == NOON
