"""The resources for agents, people and auditors in any language."""

from __future__ import annotations

from fastapi import FastAPI

from indelible.server.approvals import approvals
from indelible.server.comparing import comparing
from indelible.server.effects import add_hot_pair, effects
from indelible.server.erasures import erasures
from indelible.server.events import events
from indelible.server.exports import exports
from indelible.server.journal import journal
from indelible.server.oidc_routes import oidc
from indelible.server.passkeys import passkeys
from indelible.server.people_routes import people
from indelible.server.policy import policy
from indelible.server.searching import search
from indelible.server.signin import signin, ways
from indelible.server.signing_in import signing_in
from indelible.server.stats import stats
from indelible.server.stop import stops
from indelible.server.tools import tools


def add_resources(app: FastAPI) -> None:
    """Adds them; the hot pair first, for it is asked for most."""
    add_hot_pair(app)
    for router in (
        effects,
        approvals,
        policy,
        events,
        stats,
        exports,
        search,
        journal,
        tools,
        stops,
        erasures,
        comparing,
        signing_in,
        ways,
        passkeys,
        people,
        signin,
        oidc,
    ):
        app.include_router(router)
