"""The caller's passkeys: make another, list them, remove one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from indelible.core.people.person import Passkey, Person, not_signed_in
from indelible.core.ports import Store
from indelible.engine.running import in_own_thread
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.routes.sessions import here, signed_in_person
from indelible.server.shapes.people import CeremonyAsked, OnePasskey, PasskeyMade, PasskeysShown, passkey_shown
from indelible.server.signin.ceremonies import Here, NotAnswered, asked_to_register, challenge_in, registered
from indelible.server.signin.challenges import Challenges
from indelible.server.signin.people import People

passkeys = resources("people")
PasskeyId = Annotated[str, Path(min_length=1, max_length=100)]


def _purpose(person: Person) -> str:
    """Says whose new passkey may answer: nobody registers theirs with a challenge for somebody else."""
    return f"passkey {person.id}"


@passkeys.get("/v1/passkeys", response_model=PasskeysShown)
async def list_passkeys(asked: Asking = asking("read")) -> Response:
    """List the caller's passkeys."""
    mine = signed_in_person(asked)
    return answer({"passkeys": [passkey_shown(one) for one in mine.person.passkeys]})


@passkeys.post("/v1/passkeys/options", response_model=CeremonyAsked)
async def ask_new_passkey(request: Request, asked: Asking = asking("read")) -> Response:
    """Ask for what a browser needs to make a passkey."""
    person = signed_in_person(asked).person
    challenges = Challenges(asked.ledgers.store, asked.caller.tenant)
    challenge = await in_own_thread(challenges.ask, _purpose(person))
    return answer({"options": asked_to_register(person, challenge, here(request))})


@passkeys.post("/v1/passkeys", status_code=201, response_model=OnePasskey)
async def add_passkey(body: PasskeyMade, request: Request, asked: Asking = asking("read")) -> Response:
    """Add a passkey that a browser made."""
    person = signed_in_person(asked).person
    store, tenant = asked.ledgers.store, asked.caller.tenant
    people = People(store, tenant)
    try:
        made = await in_own_thread(_checked, store, tenant, person, body, here(request))
    except NotAnswered as refused:
        await in_own_thread(people.tell_refused, person.id, f"new passkey: {refused.why}")
        raise not_signed_in() from refused
    await in_own_thread(lambda: people.add_passkey(person.id, made, by=asked.actor))
    return answer({"passkey": passkey_shown(made)}, 201)


def _checked(store: Store, tenant: str, person: Person, body: PasskeyMade, place: Here) -> Passkey:
    challenge = challenge_in(body.credential)
    if not Challenges(store, tenant).take(challenge, _purpose(person)):
        raise NotAnswered("challenge")
    return registered(body.credential, body.name, challenge, place)


@passkeys.post("/v1/passkeys/{passkey_id}/remove", response_model=PasskeysShown)
async def remove_passkey(passkey_id: PasskeyId, asked: Asking = asking("read")) -> Response:
    """Remove one of the caller's passkeys: nobody signs in by it any more."""
    mine = signed_in_person(asked)
    people = People(asked.ledgers.store, asked.caller.tenant)
    person = await in_own_thread(lambda: people.remove_passkey(mine.person.id, passkey_id, by=asked.actor))
    return answer({"passkeys": [passkey_shown(one) for one in person.passkeys]})
