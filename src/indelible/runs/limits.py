"""Knows which runs limit their calls, whichever process started them."""

from __future__ import annotations

from indelible.core.effects.compensations import COMPENSATED_KIND
from indelible.core.effects.requests import Origin, Prepared
from indelible.core.paging import read_sheet
from indelible.core.policy.verdicts import UNREAD_LIMITS, Verdict
from indelible.core.ports import Store
from indelible.core.runs.limits import limit_on, origin_of
from indelible.core.runs.run import Run, limit_ref, read_run, run_ref
from indelible.core.sheets import SheetFilter

_MOST_REMEMBERED = 10_000


class RunLimits:
    """Looks up the limits of runs, where there are any; most ledgers have none, and then nobody looks."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self.are_any = False
        self.are_compensations = False
        self._known: dict[str, Run | None] = {}
        self._unread: set[str] = set()

    def refresh(self) -> None:
        """Looks whether any run has limits or compensations, and forgets what was known."""
        self.are_any = bool(self._store.sheets(self._tenant, SheetFilter(kind="limit", limit=1)))
        compensated = SheetFilter(kind=COMPENSATED_KIND, limit=1)
        self.are_compensations = bool(self._store.sheets(self._tenant, compensated))
        self._known, self._unread = {}, set()

    def verdict_on(self, prepared: Prepared) -> Verdict | None:
        """Gives the refusal of a call that its run does not let happen."""
        run = self._run(prepared.call.run)
        if run is not None:
            return limit_on(run, prepared.call.tool, prepared.handling.side_effect)
        return UNREAD_LIMITS if prepared.call.run in self._unread else None

    def are_known_of(self, run_id: str) -> bool:
        """Is it known what this run allows? Its limits do not change from its start on."""
        return self._run(run_id) is not None or run_id in self._unread

    def origins_of(self, prepared: Prepared) -> tuple[Origin, ...]:
        """Gives where the call may stand already: in the run its own was forked from, and in that one's, and so on."""
        origins: list[Origin] = []
        run = self._run(prepared.call.run)
        while run is not None and run.fork is not None:  # each was forked from one that was there before
            origin = origin_of(run, prepared.call, self._tenant, prepared.identity.args_json)
            if origin is None:
                break
            origins.append(origin)
            run = self._run(run.fork.run_id)
        return tuple(origins)

    def _run(self, run_id: str) -> Run | None:
        if run_id not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            found = read_sheet(self._store, self._tenant, run_ref(run_id))
            self._known[run_id] = None if found is None or found.body is None else read_run(found)
            if found is not None and found.body is None:
                self._note_unread(run_id)
        return self._known[run_id]

    def _note_unread(self, run_id: str) -> None:
        """Remembers that a run had limits which nobody can read any more: then it allows nothing."""
        if read_sheet(self._store, self._tenant, limit_ref(run_id)) is not None:
            self._unread.add(run_id)
