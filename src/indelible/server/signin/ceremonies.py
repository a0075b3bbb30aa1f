"""What passkeys answer, checked: registering one, and signing in by one. The package `webauthn` reads signatures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import webauthn
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, parse_client_data_json
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from indelible.core.people.person import Passkey, Person, passkey_id

_SHOWN_AS = "Indelible"


class NotAnswered(Exception):
    """A passkey's answer is not good; `why` is one word for the record."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Here:
    """Is where we are asked: passkeys are made for one host, and answer to its own pages only."""

    host: str
    origin: str

    @property
    def expected(self) -> dict[str, Any]:
        """Is what every answer has to agree with, in the words of `webauthn`; its owner has to have been there."""
        return {"expected_rp_id": self.host, "expected_origin": self.origin, "require_user_verification": True}


def asked_to_register(person: Person, challenge: bytes, here: Here) -> dict[str, Any]:
    """Gives what a browser needs to make a passkey: one that the authenticator keeps, and that wants its owner."""
    options = webauthn.generate_registration_options(
        rp_id=here.host,
        rp_name=_SHOWN_AS,
        user_id=person.id.encode(),
        user_name=person.name,
        challenge=challenge,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[
            PublicKeyCredentialDescriptor(id=base64url_to_bytes(one.credential_id)) for one in person.passkeys
        ],
    )
    return _as_json(options)


def asked_to_sign_in(challenge: bytes, here: Here) -> dict[str, Any]:
    """Gives what a browser needs to let its owner choose a passkey; it names nobody."""
    options = webauthn.generate_authentication_options(
        rp_id=here.host, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED
    )
    return _as_json(options)


def _as_json(options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(webauthn.options_to_json(options))
    return found


def challenge_in(answer: dict[str, Any]) -> bytes:
    """Gives the challenge that an answer is to; raises `NotAnswered` when it cannot be read."""
    try:
        return parse_client_data_json(base64url_to_bytes(answer["response"]["clientDataJSON"])).challenge
    except Exception as problem:  # hostile bytes: whatever their parser trips over, they are no answer
        raise NotAnswered("unreadable") from problem


def registered(answer: dict[str, Any], name: str, challenge: bytes, here: Here) -> Passkey:
    """Gives the passkey that a browser made; raises `NotAnswered` when it was not made for this."""
    try:
        found = webauthn.verify_registration_response(credential=answer, expected_challenge=challenge, **here.expected)
    except Exception as problem:  # as above
        raise NotAnswered(_why(answer, here)) from problem
    return Passkey(
        credential_id=bytes_to_base64url(found.credential_id),
        name=name,
        public_key=bytes_to_base64url(found.credential_public_key),
        sign_count=found.sign_count,
        created_at=datetime.now(UTC),
    )


def person_in(answer: dict[str, Any]) -> str:
    """Gives the id of the person whom an answer says it is from; whether it is, only its signature tells."""
    try:
        return base64url_to_bytes(answer["response"]["userHandle"]).decode("ascii")
    except Exception as problem:  # as above
        raise NotAnswered("unreadable") from problem


def signed(answer: dict[str, Any], person: Person, challenge: bytes, here: Here) -> tuple[str, int]:
    """Gives the passkey of a person that signed the challenge, and its count; raises `NotAnswered` when none did.

    Whether the count may be is decided in the transaction that keeps it.
    """
    passkey = person.passkey(passkey_id(str(answer.get("id"))))
    if passkey is None:
        raise NotAnswered("passkey")
    try:
        found = webauthn.verify_authentication_response(
            credential=answer,
            expected_challenge=challenge,
            credential_public_key=base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=0,
            **here.expected,
        )
    except Exception as problem:  # as above
        raise NotAnswered(_why(answer, here)) from problem
    return passkey.credential_id, found.new_sign_count


def _why(answer: dict[str, Any], here: Here) -> str:
    """Says in one word what is wrong, as far as the page's own words tell."""
    try:
        said = parse_client_data_json(base64url_to_bytes(answer["response"]["clientDataJSON"]))
    except Exception:  # as above
        return "unreadable"
    return "signature" if said.origin == here.origin else "origin"
