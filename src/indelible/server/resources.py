"""The resources for agents, people and auditors in any language."""

from __future__ import annotations

from fastapi import FastAPI

from indelible.server.routes.approvals import approvals
from indelible.server.routes.compare import comparing
from indelible.server.routes.effects import add_hot_pair, effects
from indelible.server.routes.erasures import erasures
from indelible.server.routes.events import events
from indelible.server.routes.exports import exports
from indelible.server.routes.journal import journal
from indelible.server.routes.oidc import oidc
from indelible.server.routes.passkeys import passkeys
from indelible.server.routes.people import people
from indelible.server.routes.policy import policy
from indelible.server.routes.search import search
from indelible.server.routes.sessions import signing_in
from indelible.server.routes.stats import stats
from indelible.server.routes.stop import stops
from indelible.server.routes.tools import tools
from indelible.server.routes.webhooks import webhooks
from indelible.server.signin.page import signin, ways


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
        webhooks,
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
