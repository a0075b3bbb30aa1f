"""The cases that every integration passes, whatever the framework: played natively and behind the ledger, and counted.

Each gives, for both sides, a cell: `1` when what was allowed happened once and nothing else, `refused` when it did not
happen because it was not allowed, and otherwise how often it happened.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from indelible import Ledger
from indelible.testing.adapters.host import Host, HostFailed, hosting
from indelible.testing.adapters.place import StoreKind, empty_place, kind_of
from indelible.testing.adapters.rig import Act, Standing
from indelible.testing.adapters.scene import Asked, Scene, Side

ONE = (Asked(call_id="c1", order="o1"),)
THREE = tuple(Asked(call_id=f"c{n}", order=f"o{n}", amount=n) for n in (1, 2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Is one case of one integration on one kind of store: what happened natively, and behind the ledger."""

    adapter: str
    case: str
    store: StoreKind
    native: str
    ledger: str

    @property
    def is_kept(self) -> bool:
        """Does the ledger's side read as it must?"""
        return self.ledger in ("1", "refused")


class Stage:
    """Plays acts of one case on one side, and knows what was done outside."""

    def __init__(self, host: Host, scene: Scene) -> None:
        self.host = host
        self.scene = scene
        for folder in (scene.state, Path(scene.folder, "deeds")):
            folder.mkdir()

    @property
    def is_native(self) -> bool:
        """Is there no ledger on this side?"""
        return self.scene.side == "native"

    def play(self, act: Act, **changes: object) -> Standing:
        """Plays an act in a process of its own."""
        return self.host.play(act, replace(self.scene, **changes))  # type: ignore[arg-type]

    def expect(self, standing: Standing, *states: str) -> None:
        """Raises unless an act behind the ledger ended so: what never got as far as the tool proves nothing."""
        if not self.is_native and standing.state not in states:
            raise HostFailed(f"the act should have ended {' or '.join(states)}, and is {standing}")

    def decide(self, allowed: Mapping[str, bool]) -> None:
        """Lets a person answer: natively when the state is resumed, else at the ledger, now."""
        self.scene = replace(self.scene, allowed=allowed)
        if self.is_native:
            return
        with Ledger.open(self.scene.place.url, seal=False) as ledger:
            for approval in ledger.approvals(status="pending"):
                effect = ledger.get_effect(approval.effect_id)
                assert effect is not None, "an approval is about an effect"
                if allowed[str(effect.call_id)]:
                    ledger.approve(approval, digest=approval.digest, by="ana")
                else:
                    ledger.deny(approval, by="ana", reason="no")

    def done(self, order: str, amount: int | None = None) -> int:
        """Counts how often an order was charged."""
        wanted = f"{order} *" if amount is None else f"{order} {amount} *"
        return len(list(Path(self.scene.folder, "deeds").glob(wanted)))

    @contextmanager
    def state_put_back(self) -> Iterator[None]:
        """Puts the framework's saved state back as it was: a copy, a restored backup, a second worker's view."""
        copy = Path(self.scene.folder, "copy")
        shutil.copytree(self.scene.state, copy)
        yield
        shutil.rmtree(self.scene.state)
        copy.rename(self.scene.state)


def crash_after_effect(stage: Stage) -> str:
    """A process dies right after the deed, and the run is resumed."""
    stage.expect(stage.play("begin"), "paused")
    stage.decide({"c1": True})
    killed = stage.play("resume", crash_at="after_handler", lease_s=0.3)
    assert killed.state == "killed", killed
    # It may have happened, and that is for a person to find out: a framework that cannot pause here stops.
    stage.expect(stage.play("resume"), "paused", "refused")
    return str(stage.done("o1"))


def resume_twice(stage: Stage) -> str:
    """The same saved state is resumed three times."""
    stage.expect(stage.play("begin"), "paused")
    stage.decide({"c1": True})
    for _ in range(2):
        with stage.state_put_back():
            stage.expect(stage.play("resume"), "done")
    stage.expect(stage.play("resume"), "done")
    return str(stage.done("o1"))


def two_workers(stage: Stage) -> str:
    """Two processes resume the same saved state at the same time."""
    stage.expect(stage.play("begin"), "paused")
    stage.decide({"c1": True})
    scene = replace(stage.scene, waits_for_another=True)
    for pid in [stage.host.start("resume", scene) for _ in range(2)]:
        stage.expect(stage.host.end(pid, scene), "done")
    return str(stage.done("o1"))


def tampered_state(stage: Stage) -> str:
    """The arguments in the saved state are others than those that were approved."""
    stage.expect(stage.play("begin"), "paused")
    stage.decide({"c1": True})
    stage.play("tamper", calls=(replace(ONE[0], amount=5000),))
    stage.expect(stage.play("resume"), "refused", "paused")
    return f"{stage.done('o1', 5000)} with other arguments" if stage.done("o1", 5000) else "refused"


def one_denied(stage: Stage) -> str:
    """Of three calls at once, two are approved and one is denied."""
    stage.expect(stage.play("begin", calls=THREE), "paused")
    stage.decide({"c1": True, "c2": False, "c3": True})
    stage.expect(stage.play("resume", calls=THREE), "done")
    counts = [stage.done(call.order) for call in THREE]
    return "1" if counts == [1, 0, 1] else " ".join(map(str, counts))


def store_down(stage: Stage) -> str:
    """The ledger's store is broken while the agent is at work; a framework on its own has no such store."""
    if stage.is_native:
        return "-"
    stage.expect(stage.play("begin", asks=False, is_store_broken=True), "refused")
    return str(stage.done("o1") or "refused")


def decided_elsewhere(stage: Stage) -> str:
    """Asked in one process, which is killed; decided in the terminal; resumed in another process."""
    stage.expect(stage.play("begin", crash_at="after_pause"), "paused")
    stage.scene = replace(stage.scene, allowed={"c1": True})
    if not stage.is_native:
        _approve_in_the_terminal(stage.scene)
    stage.expect(stage.play("resume"), "done")
    return str(stage.done("o1"))


def _approve_in_the_terminal(scene: Scene) -> None:
    with Ledger.open(scene.place.url, seal=False) as ledger:
        (approval,) = ledger.approvals(status="pending")
    words = ["approvals", "approve", approval.id, "--digest", approval.digest, "--by", "ana"]
    environment = {**os.environ, "INDELIBLE_URL": scene.place.url}
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "indelible.cli", *words], env=environment, check=True, stdout=subprocess.DEVNULL
    )


Case = Callable[[Stage], str]
CASES: Mapping[str, Case] = {
    case.__name__: case
    for case in (
        crash_after_effect,
        resume_twice,
        two_workers,
        tampered_state,
        one_denied,
        store_down,
        decided_elsewhere,
    )
}


def rows_of(adapter: str, cases: Sequence[str] = tuple(CASES), server: str | None = None) -> Iterator[Row]:
    """Plays cases with one framework, natively and behind the ledger, and gives what happened."""
    store = kind_of(server)
    with hosting(adapter) as host:
        for case in cases:
            cells = {side: played(host, case, side, server) for side in ("native", "ledger")}
            yield Row(adapter=adapter, case=case, store=store, **cells)


def played(host: Host, case: str, side: Side, server: str | None = None) -> str:
    """Plays one case on one side, with a folder and a store that are gone afterwards: a file, or one on a server."""
    with (
        tempfile.TemporaryDirectory(prefix="indelible-case-") as folder,
        empty_place(folder, server if side == "ledger" else None) as place,
    ):
        return CASES[case](Stage(host, Scene(folder=folder, place=place, side=side, calls=ONE)))
