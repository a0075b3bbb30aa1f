"""The cases of the suite about forgetting: one for each MUST of `indelible.core.privacy.forgetting.ForgettingStore`."""

from __future__ import annotations

from datetime import timedelta

from indelible.core.commands import Record, Recorded, RefusedByPolicy
from indelible.core.effects.effect import ERASED_DIGEST
from indelible.core.policy.verdicts import Verdict
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ERASED, HOLD_LIFTED, HOLD_PLACED, erased_facts, hold_facts
from indelible.core.sheets import SheetFilter
from indelible.core.values.canonical import encode
from indelible.journal.keys.redaction_key import RedactionKey
from indelible.testing.commands import Commands, message
from indelible.testing.suite import Suite, apply_one, take_claim

_FAR = timedelta(days=1)
_REFUSED = Verdict(decision="refuse", rule="never", policy="policy-1", why="no")


class ForgettingConformance(Suite):
    """Holds a store to what it owes whoever erases."""

    def test_of_subject_must_list_every_event_whose_subject_has_not_been_erased(self) -> None:
        """Other subjects, other tenants and other fields with the same value are not meant."""
        tenant, other = self.tenant(), self.tenant()
        make = Commands(tenant)
        ada, bob = encode("ada" * 10), encode("bob" * 10)
        with self.opened() as store:
            for number, subject in enumerate((ada, bob, ada, None)):
                take_claim(store, make, f"effect {number}", subject_json=subject)
            take_claim(store, Commands(other), "effect", subject_json=ada)
            apply_one(store, make.finish(take_claim(store, make, "same value"), detail=ada))
            assert store.forgetting.of_subject(tenant, ada) == [("run-1", 0), ("run-1", 2)]
            _erase(store, make, ((0, "subject"),))
            assert store.forgetting.of_subject(tenant, ada) == [("run-1", 2)]
            assert store.forgetting.of_subject(tenant, encode("eve")) == []

    def test_prunable_must_list_ended_effects_in_the_order_of_their_ids(self) -> None:
        """Page by page, and without those that have nothing left to erase."""
        make = Commands(self.tenant())
        with self.opened() as store:
            ended = []
            for number in range(5):
                claim = take_claim(store, make, f"effect {number}", effect_id=f"eff_{9 - number}")
                apply_one(store, make.finish(claim), claim.effect)
                ended.append(claim.effect)
            before = ended[-1].created_at + _FAR
            listed = store.forgetting.prunable(make.tenant, before, "", 3)
            listed += store.forgetting.prunable(make.tenant, before, listed[-1].effect_id, 3)
            assert listed == sorted((effect.id, "run-1", effect.opened_seq) for effect in ended)
            assert store.forgetting.prunable(make.tenant, before - 2 * _FAR, "", 3) == []
            gone = ended[0]
            _erase(store, make, ((gone.opened_seq, "args"), (gone.opened_seq, "key"), (gone.opened_seq + 1, "result")))
            assert gone.id not in [found.effect_id for found in store.forgetting.prunable(make.tenant, before, "", 9)]

    def test_prunable_must_not_list_one_that_has_not_ended(self) -> None:
        """Whether it waits, runs or is in doubt."""
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "in doubt")
            apply_one(store, make.relinquish(claim, "in_doubt"), claim.effect)
            apply_one(store, make.relinquish(take_claim(store, make, "ready")))
            take_claim(store, make, "processing")
            apply_one(store, make.ask("asks"))
            assert store.forgetting.prunable(make.tenant, claim.effect.created_at + _FAR, "", 9) == []

    def test_refusals_must_be_listed_in_the_order_of_runs_and_numbers(self) -> None:
        """Page by page, and without those whose payloads are gone, that are of effects, or of other tenants."""
        tenant, other = self.tenant(), self.tenant()
        runs = [Commands(tenant, run_id) for run_id in ("run-b", "run-a")]
        with self.opened() as store:
            for make in (*runs, Commands(other)):
                for number in range(3):
                    refusal = make.open(f"drop {number}", run_id=make.run_id, verdict=_REFUSED)
                    assert isinstance(apply_one(store, refusal), RefusedByPolicy)
                take_claim(store, make, f"effect of {make.run_id}", run_id=make.run_id)
            places = [("run-a", 0), ("run-a", 1), ("run-a", 2), ("run-b", 0), ("run-b", 1), ("run-b", 2)]
            listed = store.forgetting.refusals(tenant, ("", -1), 4)
            listed += store.forgetting.refusals(tenant, (listed[-1].run_id, listed[-1].seq), 4)
            assert [(event.run_id, event.seq) for event in listed] == places
            _erase(store, runs[1], ((1, "args"), (1, "policy"), (2, "args")))
            left = [(event.run_id, event.seq) for event in store.forgetting.refusals(tenant, ("run-a", 0), 9)]
            assert left == places[2:]

    def test_drop_must_leave_alone_what_has_changed_since(self) -> None:
        """It says how many went, and the same sheets of other tenants stay."""
        make, other = Commands(self.tenant()), Commands(self.tenant())
        with self.opened() as store:
            for one in (make, other):
                for name in ("a", "b", "c"):
                    apply_one(store, one.keep(message(name)))
            read = store.sheets(make.tenant, SheetFilter(kind="delivery"))
            changed = next(sheet for sheet in read if sheet.id == "b").after(status="sent", body=b"{}")
            apply_one(store, make.keep(changed))
            assert store.forgetting.drop(make.tenant, read) == 2
            assert store.forgetting.drop(make.tenant, read) == 0
            assert store.sheets(make.tenant, SheetFilter(kind="delivery")) == [changed]
            assert len(store.sheets(other.tenant, SheetFilter(kind="delivery"))) == 3
            assert store.forgetting.drop(make.tenant, []) == 0

    def test_holds_must_list_every_event_that_placed_or_lifted_a_hold(self) -> None:
        """Each run's in their order, and no other event."""
        make, other = Commands(self.tenant()), Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "effect")
            for kind, hold in ((HOLD_PLACED, "hold_1"), (HOLD_PLACED, "hold_2"), (HOLD_LIFTED, "hold_1")):
                _record(store, make, kind, hold_facts(hold, None))
            _record(store, other, HOLD_PLACED, hold_facts("hold_3", None))
            found = [
                (event.seq, event.type, event.read()["facts"]["hold"]) for event in store.forgetting.holds(make.tenant)
            ]
            assert found == [(1, HOLD_PLACED, "hold_1"), (2, HOLD_PLACED, "hold_2"), (3, HOLD_LIFTED, "hold_1")]

    def test_keep_redaction_check_must_give_the_one_that_is_kept_whoever_was_first(self) -> None:
        """A second key never takes the place of the first."""
        with self.opened() as store, self.opened() as another:
            RedactionKey(store, None)()
            kept = store.forgetting.redaction_check()
            assert kept is not None
            assert another.forgetting.keep_redaction_check("00" * 32) == kept
            assert another.forgetting.redaction_check() == kept

    def test_erasing_arguments_takes_the_digest_with_them(self) -> None:
        """A hash of them could be tried out; other effects keep theirs."""
        make = Commands(self.tenant())
        with self.opened() as store:
            one, other = take_claim(store, make, "one").effect, take_claim(store, make, "other").effect
            _erase(store, make, ((one.opened_seq, "args"), (other.opened_seq, "key")))
            first, second = store.look([one.ref, other.ref]).effects
            assert first is not None
            assert second is not None
            assert (first.digest, first.args_json) == (ERASED_DIGEST, None)
            assert (second.digest, second.args_json) == (other.digest, other.args_json)

    def test_clearing_away_leaves_everything_else_as_it_was(self) -> None:
        """Whether the files are rewritten or not."""
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "effect")
            for rewrite in (None, False, True):
                assert all(store.forgetting.clear_away(rewrite)) is True
                assert store.look([claim.effect.ref]).effects[0] is not None
            apply_one(store, make.finish(claim), claim.effect)
            assert len(store.events(make.tenant, "run-1", -1, 9)) == 2


def _record(
    store: Store, make: Commands, event_type: str, facts: bytes, erased: tuple[tuple[int, str], ...] = ()
) -> None:
    command = Record(
        tenant=make.tenant,
        run_id=make.run_id,
        stamp=make.stamp(),
        event_type=event_type,
        facts=facts,
        committed={"reason": b'"asked"'},
        erased=erased,
    )
    assert isinstance(apply_one(store, command), Recorded)


def _erase(store: Store, make: Commands, erased: tuple[tuple[int, str], ...]) -> None:
    _record(store, make, ERASED, erased_facts("request", erased), erased)
