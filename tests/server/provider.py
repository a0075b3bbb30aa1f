"""A provider of identities for tests: OpenID Connect as it is, or bent in one place."""

from __future__ import annotations

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.server.serving import Served

CLIENT, SECRET = "ledger", "a secret of the client's"


class FakeProvider:
    """Vouches for whoever `claims` says, without asking."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.claims: dict[str, Any] = {"sub": "u1", "email": "ana@example.com", "email_verified": True}
        self.about: dict[str, Any] = {}
        self.bent: dict[str, Any] = {}
        self.signing: tuple[Any, str, str | None] = (self.rsa, "RS256", "rsa-1")
        self._codes: dict[str, dict[str, str]] = {}
        self.served = Served(self)
        self.url = self.served.url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        body = (await receive()).get("body", b"")
        answer = getattr(self, scope["path"].rpartition("/")[2].replace("-", "_"))
        status, headers, content = answer(_flat(scope["query_string"].decode()), _flat(body.decode()), scope)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode()), *headers]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": raw})

    def openid_configuration(self, query: Any, form: Any, scope: Any) -> Any:
        about = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }
        return 200, [], {**about, **self.about}

    def jwks(self, query: Any, form: Any, scope: Any) -> Any:
        first = json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())) | {"kid": "rsa-1", "use": "sig"}
        second = json.loads(ECAlgorithm.to_jwk(self.ec.public_key())) | {"kid": "ec-1"}
        return 200, [], {"keys": [first, second]}

    def authorize(self, query: dict[str, str], form: Any, scope: Any) -> Any:
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        back = {"code": code, "state": query["state"], **self.bent.get("back", {})}
        return 302, [(b"location", f"{query['redirect_uri']}?{urlencode(back)}".encode())], b""

    def token(self, query: Any, form: dict[str, str], scope: Any) -> Any:
        asked = self._codes.pop(form["code"], None)
        said = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")[2]
        digest = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        is_good = (
            asked is not None
            and b64decode(said).decode() == f"{CLIENT}:{SECRET}"
            and digest == asked["code_challenge"]
            and form["redirect_uri"] == asked["redirect_uri"]
        )
        if asked is None or not is_good:
            return 400, [], {"error": "invalid_grant"}
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": asked["nonce"], **self.claims}
        told = {name: value for name, value in {**usual, **self.bent.get("token", {})}.items() if value is not None}
        key, algorithm, kid = self.signing
        head = {"kid": kid} if kid else {}
        if self.bent.keys() & {"token", "head"}:
            token = _signed({"alg": algorithm, **head, **self.bent.get("head", {})}, told, key, algorithm)
        else:
            token = jwt.encode(told, key, algorithm=algorithm, headers=head)
        return 200, [], {"access_token": "x", "token_type": "Bearer", "id_token": token}


DEEP, LONG = "much nested", "a number of many digits"
"""Texts that stand for what Python writes to no JSON."""


def _signed(head: dict[str, Any], claims: dict[str, Any], key: Any, algorithm: str) -> str:
    """Sign what PyJWT would refuse to sign."""
    parts = [urlsafe_b64encode(_raw(part)).rstrip(b"=") for part in (head, claims)]
    signature = jwt.get_algorithm_by_name(algorithm).sign(b".".join(parts), key)
    return b".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def _raw(part: dict[str, Any]) -> bytes:
    text = json.dumps(part).encode()
    text = text.replace(json.dumps(DEEP).encode(), b"[" * 100_000 + b"]" * 100_000)
    return text.replace(json.dumps(LONG).encode(), b"9" * 10_000)


def _flat(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


async def _live(receive: Any, send: Any) -> None:
    while True:
        word = (await receive())["type"].rpartition(".")[2]
        await send({"type": f"lifespan.{word}.complete"})
        if word == "shutdown":
            return
