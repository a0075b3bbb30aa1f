"""The cases of the suite about lists of sheets: what is on them, which of them, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.sheets import approval_sheet, read_approval
from indelible.core.commands import AwaitingApproval, Command, Decided, Illegal, Kept, Recorded
from indelible.core.events import commitment
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ERASED, erased_facts
from indelible.core.sheets import Sheet, SheetFilter
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands, asking, message
from indelible.testing.journal_conformance import recording
from indelible.testing.suite import Suite, apply_one, ask_about


class SheetListsConformance(Suite):
    """Holds a store to what its lists of sheets promise."""

    def test_sheets_must_give_none_as_the_body_of_one_that_was_erased(self) -> None:
        """Only of the one whose newest state is erased; and nothing can be decided on it any more."""
        make = Commands(self.tenant())
        with self.opened() as store:
            asked, other = ask_about(store, make, "effect"), ask_about(store, make, "other")
            apply_one(store, make.show(asked.approval))
            erase(store, make, ((asked.effect.opened_seq, "approval"),))
            first, second = store.sheets(make.tenant, SheetFilter(kind="approval", after=""))
            bodies = {first.id: first.body, second.id: second.body}
            assert bodies == {asked.approval.id: None, other.approval.id: approval_sheet(other.approval).body}
            assert isinstance(apply_one(store, make.approve(asked.approval)), Illegal)
            voted = apply_one(store, make.approve(other.approval))
            assert isinstance(voted, Decided)
            erase(store, make, ((other.effect.opened_seq, "approval"),))
            (sheet,) = store.sheets(make.tenant, SheetFilter(kind="approval", status="approved"))
            assert read_approval(sheet) == voted.approval

    def test_sheets_must_not_give_the_body_of_one_that_is_not_what_its_event_commits_to(self) -> None:
        """Neither in a list nor to whoever decides: an approval that somebody wrote into the tables allows nothing."""
        make = Commands(self.tenant())
        with self.opened() as store:
            asked, other = ask_about(store, make, "effect"), ask_about(store, make, "other")
            forged = approval_sheet(replace(asked.approval, status="approved")).body
            assert forged is not None
            self.tamper(make.tenant, asked.effect.run_id, asked.effect.opened_seq, "approval", forged)
            found = store.sheets(make.tenant, SheetFilter(kind="approval"))
            bodies = {sheet.id: sheet.body for sheet in found}
            assert bodies == {asked.approval.id: None, other.approval.id: approval_sheet(other.approval).body}
            assert isinstance(apply_one(store, make.approve(asked.approval)), Illegal)
            assert isinstance(apply_one(store, make.ask("effect", verdict=asking())), AwaitingApproval)
            genuine = approval_sheet(asked.approval).body
            assert genuine is not None
            self.tamper(make.tenant, asked.effect.run_id, asked.effect.opened_seq, "approval", genuine)
            assert {sheet.body for sheet in store.sheets(make.tenant, SheetFilter(kind="approval"))} >= {genuine}

    def test_sheets_are_what_the_events_they_name_commit_to(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            asked = ask_about(store, make, "effect", asking(notify=("chat",)))
            acts: list[Callable[[Approval], Command]] = [make.approve, make.take_back, make.deny]
            for number, act in enumerate(acts):
                answer = apply_one(store, act(asked.approval))
                assert isinstance(answer, Decided)
                (sheet,) = store.sheets(make.tenant, SheetFilter(kind="approval"))
                assert (sheet.run_id, sheet.seq, sheet.version) == ("run-1", number + 1, number + 2)
                event = store.events(make.tenant, "run-1", number, 1)[0]
                payloads = {payload.field: payload for payload in store.payloads(make.tenant, "run-1", [event.seq])}
                assert payloads["approval"].value == sheet.body == approval_sheet(answer.approval).body
                told = commitment(payloads["approval"].salt, "approval", sheet.body or b"")
                assert event.read()["commits"]["approval"] == told
            for message_sheet in store.sheets(make.tenant, SheetFilter(kind="delivery")):
                assert (message_sheet.run_id, message_sheet.seq) == (None, None)
                assert message_sheet.body is not None

    def test_sheets_lists_the_newest_first_or_the_oldest_with_after(self) -> None:
        make, clock = Commands(self.tenant()), FakeClock()
        with self.opened(clock) as store:
            made = {}
            for n in range(8):
                sheet = message(f"m-{n}", status=f"s-{n % 2}", topic=f"t-{n % 3}")
                made[n] = replace(sheet, due_at=None if n < 2 else clock.now() + LEASE * (9 - n))
            for wanted in (made.values(), [replace(message("m-3"), kind="budget")]):
                store.apply(make.tenant, [make.keep(sheet) for sheet in wanted], [None] * len(wanted))

            def listed(**words: Any) -> list[int]:
                found = store.sheets(make.tenant, SheetFilter(kind="delivery", **words))
                assert found == [made[int(sheet.id[2:])] for sheet in found]
                return [int(sheet.id[2:]) for sheet in found]

            assert listed() == [7, 6, 5, 4, 3, 2, 1, 0]
            assert listed(limit=3) == [7, 6, 5]
            assert listed(after="m-2") == [3, 4, 5, 6, 7]
            assert listed(after="", limit=2) == [0, 1]
            assert listed(before="m-3") == [2, 1, 0]
            assert listed(after="m-2", before="m-6") == [3, 4, 5]
            assert listed(status="s-1") == [7, 5, 3, 1]
            assert listed(status="s-1", before="m-5", limit=1) == [3]
            assert listed(status="s-1", after="m-1") == [3, 5, 7]
            assert listed(topic="t-0") == [6, 3, 0]
            assert listed(topic="t-0", status="s-0", after="") == [0, 6]
            assert listed(id="m-4") == [4]
            assert listed(id="m-4", status="s-1") == listed(id="m-9") == listed(id="m") == []
            assert listed(status="s") == listed(topic="T-0") == listed(topic="") == []

    def test_sheets_lists_what_is_due_by_a_moment_the_most_urgent_first(self) -> None:
        """Also when it is due at that very moment; what is due at the same moment comes in the order of ids."""
        make, clock = Commands(self.tenant()), FakeClock()
        soon, later = clock.now() + LEASE, clock.now() + LEASE * 2
        with self.opened(clock) as store:
            dues = {"a": later, "b": soon, "c": None, "d": soon, "e": later + LEASE}
            for name, due_at in dues.items():
                apply_one(store, make.keep(replace(message(name), due_at=due_at)))

            def due(**words: Any) -> str:
                found = store.sheets(make.tenant, SheetFilter(kind="delivery", **words))
                return "".join(sheet.id for sheet in found)

            assert due(due_by=later) == "bda"
            assert due(due_by=later, limit=1) == "b"
            assert due(due_by=later, after="b") == "d"
            assert due(due_by=later, status="due", topic="chat", before="d") == "ba"
            assert due(due_by=soon - timedelta(microseconds=1)) == ""
            assert due(due_by=later, id="d") == "d"
            (urgent,) = store.sheets(make.tenant, SheetFilter(kind="delivery", due_by=soon, limit=1))
            apply_one(store, make.keep(urgent.after(status="sent", body=b"{}")))
            assert due(due_by=later) == "da"

    def test_sheets_lists_by_the_time_they_keep_the_newest_first(self) -> None:
        """Whatever their ids are; of two of the same moment the higher id comes first, and none without a time."""
        make, clock = Commands(self.tenant()), FakeClock()
        moments = {"m": 0, "a": 3, "z": 1, "k": 1, "b": 2}
        with self.opened(clock) as store:
            for name, later in moments.items():
                sheet = message(name, status="s-1" if name in "az" else "s-2", topic=f"t-{later}")
                apply_one(store, make.keep(replace(sheet, created_at=clock.now() + LEASE * later)))
            apply_one(store, make.keep(message("timeless")))

            def listed(**words: Any) -> str:
                found = store.sheets(make.tenant, SheetFilter(kind="delivery", is_by_time=True, **words))
                assert [sheet.created_at for sheet in found] == [clock.now() + LEASE * moments[s.id] for s in found]
                return "".join(sheet.id for sheet in found)

            assert listed() == "abzkm"
            assert listed(limit=2) == "ab"
            assert listed(before="b", before_time=clock.now() + LEASE * 2) == "zkm"
            assert listed(before="z", before_time=clock.now() + LEASE, limit=1) == "k"
            assert listed(status="s-1") == "az"
            assert listed(status="s-2", before="b", before_time=clock.now() + LEASE * 2) == "km"
            assert listed(topic="t-1", status="s-2") == "k"
            (first,) = store.sheets(make.tenant, SheetFilter(kind="delivery", is_by_time=True, limit=1))
            apply_one(store, make.keep(first.after(status="s-3", body=b"{}")))
            assert (listed(status="s-1"), listed(status="s-3"), listed()) == ("z", "a", "abzkm")

    def test_sheets_keep_names_of_any_letters_and_bodies_of_any_size(self) -> None:
        clock = FakeClock()
        for name in ("ürün 🎁", "a|b/c", "'; --", "line\nbreak\ttab", '"quoted"', "\\", "%_", "e\u0301", "x" * 500):
            make = Commands(f"{name[:480]}{os.urandom(4).hex()}", run_id=name)
            body = b'"' + b"x" * 200_000 + b'"'
            aside = Sheet(kind="delivery", id=name, status=name, topic=name, due_at=clock.now(), body=body)
            told = Sheet(kind="note", id=name, status=name, topic=name, due_at=clock.now(), body=body)
            with self.opened(clock) as store:
                apply_one(store, make.keep(aside))
                apply_one(store, recording(make, sheet=told))
                for sheet in (aside, told.told_by(name, 0)):
                    ways: list[dict[str, Any]] = [{"id": name}, {"status": name}, {"topic": name}, {}]
                    for words in [*ways, {"due_by": clock.now()}]:
                        assert store.sheets(make.tenant, SheetFilter(kind=sheet.kind, **words)) == [sheet]

    def test_sheets_of_tenants_do_not_see_each_other(self) -> None:
        one, other = Commands(self.tenant()), Commands(self.tenant())
        with self.opened() as store:
            apply_one(store, one.keep(message("same")))
            assert isinstance(apply_one(store, other.keep(message("same"))), Kept)
            changed = message("same").after(status="sent", body=b"{}")
            assert isinstance(apply_one(store, other.keep(changed)), Kept)
            assert store.sheets(one.tenant, SheetFilter(kind="delivery")) == [message("same")]
            assert store.sheets(self.tenant(), SheetFilter(kind="delivery")) == []


def erase(store: Store, make: Commands, erased: tuple[tuple[int, str], ...]) -> None:
    """Erases payloads of the run."""
    facts = erased_facts("request", erased)
    assert isinstance(apply_one(store, recording(make, event_type=ERASED, facts=facts, erased=erased)), Recorded)
