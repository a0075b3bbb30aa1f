"""Asks a provider who somebody is: OpenID Connect's code flow with PKCE, and an ID token that is checked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hmac import compare_digest
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2

from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.people.vouching import USUAL_MAX_AGE, Allowed, ProviderRules, Secrets
from indelible.errors import Misconfigured, NotAuthenticated, StoreUnavailable
from indelible.server.signin.origins import LOOPBACK_NAMES

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""Are the signatures that are believed: none that a public key could be used to forge."""
_LEEWAY = 30
_PATIENCE = 10.0
_KNOWN_FOR = 3600.0
_ASKED_AGAIN_AFTER = 60.0
_LARGEST = 1024 * 1024
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(slots=True)
class _Known:
    """Is what the provider said of itself, and its keys, each with when."""

    about: dict[str, Any] = field(default_factory=dict)
    about_at: float = float("-inf")
    keys: list[dict[str, Any]] = field(default_factory=list)
    keys_at: float = float("-inf")


class Provider:
    """Vouches for people of one tenant, as far as the rules here let them in."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        *,
        secret: str | None = None,
        allowed: tuple[Allowed, ...] = (),
        max_age: timedelta = USUAL_MAX_AGE,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self.issuer = issuer
        self.client_id = client_id
        self.rules = ProviderRules(issuer=issuer, allowed=allowed, max_age=max_age)
        self.tenant = tenant
        self._secret = secret
        self._known = _Known()
        self._check_address(issuer, "--oidc-issuer")
        _jwt()

    @property
    def name(self) -> str:
        """Is what people know it by."""
        return urlsplit(self.issuer).netloc

    async def address(self, secrets: Secrets, callback: str) -> str:
        """Gives where a browser goes to have its person vouched for."""
        about = await self._about()
        words = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": callback,
            "scope": "openid email profile",
            "state": secrets.state,
            "nonce": secrets.nonce,
            "code_challenge": secrets.challenge,
            "code_challenge_method": "S256",
        }
        start = str(about["authorization_endpoint"])
        return f"{start}{'&' if '?' in start else '?'}{urlencode(words)}"

    async def claims(self, code: str, secrets: Secrets, callback: str) -> Mapping[str, Any]:
        """Gives what the provider says of whoever came back with this code; raises `NotAuthenticated` for nobody."""
        about = await self._about()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self.client_id,
            "code_verifier": secrets.verifier,
        }
        methods = about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        basic = None
        if self._secret is not None and "client_secret_basic" in methods:
            basic = (self.client_id, self._secret)
        elif self._secret is not None:
            form["client_secret"] = self._secret
        status, content = await self._ask("POST", about["token_endpoint"], data=form, auth=basic)
        token = content.get("id_token") if status == 200 else None
        if not isinstance(token, str):
            raise NotAuthenticated("the provider does not vouch for anybody with this code; begin again at /signin")
        return await self._checked(token, secrets)

    # The token

    async def _checked(self, token: str, secrets: Secrets) -> Mapping[str, Any]:
        jwt = _jwt()
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in ALGORITHMS:
                raise NotAuthenticated(
                    f"the provider's token is signed by {str(head.get('alg'))[:20]!r}, which is not believed"
                )
            key = jwt.PyJWK(await self._key(head.get("kid"), head["alg"]), algorithm=head["alg"])
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[head["alg"]],
                audience=self.client_id,
                issuer=self.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
            )
        # PyJWT also raises what Python raises for a claim of another type, as a time that is a list.
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise NotAuthenticated(f"the provider's token is not good: {problem}; begin again at /signin") from problem
        _check_is_for_us(claims, self.client_id, secrets)
        return claims

    async def _key(self, kid: str | None, algorithm: str) -> dict[str, Any]:
        """Gives the provider's key of this name; one that is not known may be new, and is asked for once a minute."""
        now = time.monotonic()
        for _ in range(2):
            fits = [one for one in self._known.keys if _fits(one, kid, algorithm)]
            if len(fits) == 1 and now - self._known.keys_at < _KNOWN_FOR:
                return fits[0]
            if now - self._known.keys_at < _ASKED_AGAIN_AFTER:
                break
            _, content = await self._ask("GET", (await self._about())["jwks_uri"])
            found = content.get("keys")
            self._known.keys = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
            self._known.keys_at = time.monotonic()
        raise NotAuthenticated("the provider's token is signed by a key that it does not show; begin again at /signin")

    # The provider

    async def _about(self) -> dict[str, Any]:
        """Gives what the provider says of itself; raises `StoreUnavailable` when it says nothing that can be used."""
        if time.monotonic() - self._known.about_at < _KNOWN_FOR:
            return self._known.about
        _, content = await self._ask("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if content.get("issuer") != self.issuer:
            raise _silent(self.name, "it calls itself by another name than --oidc-issuer")
        for name in _ENDPOINTS:
            if not isinstance(content.get(name), str):
                raise _silent(self.name, f"it does not say its {name}")
            self._check_address(content[name], name)
        self._known.about, self._known.about_at = content, time.monotonic()
        return content

    async def _ask(self, method: str, address: str, **words: Any) -> tuple[int, dict[str, Any]]:
        """Asks the provider; follows nobody elsewhere, waits for a while only, and reads no more than makes sense."""
        parts: list[bytes] = []
        try:
            async with (
                httpx2.AsyncClient(timeout=_PATIENCE, follow_redirects=False) as client,
                client.stream(method, address, **words) as response,
            ):
                async for part in response.aiter_bytes():
                    parts.append(part)
                    if sum(map(len, parts)) > _LARGEST:
                        raise _silent(self.name, "it says too much")
                content = httpx2.Response(200, content=b"".join(parts)).json()
        except (httpx2.HTTPError, ValueError) as problem:
            raise _silent(self.name, type(problem).__name__) from problem
        return response.status_code, content if isinstance(content, dict) else {}

    def _check_address(self, address: str, what: str) -> None:
        """Lets secrets go over TLS only, or within this machine."""
        parts = urlsplit(address)
        is_private = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES)
        if not is_private or not parts.hostname:
            raise Misconfigured(f"{what} {address}: an address with https is needed")


def _check_is_for_us(claims: Mapping[str, Any], client_id: str, secrets: Secrets) -> None:
    """Raises unless a token answers this very sign-in, and is for nobody else too."""
    others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    is_ours = claims.get("azp", None if others else client_id) == client_id
    if not is_ours or not compare_digest(str(claims["nonce"]).encode(errors="replace"), secrets.nonce.encode()):
        raise NotAuthenticated("the provider's token is for another sign-in; begin again at /signin")


def _fits(key: Mapping[str, Any], kid: str | None, algorithm: str) -> bool:
    kinds = {"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
    if key.get("kty") != kinds[algorithm] or key.get("use", "sig") != "sig":
        return False
    return key.get("alg", algorithm) == algorithm and (kid is None or key.get("kid") == kid)


def _silent(name: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"the provider {name} does not answer as it should: {why}")


def _jwt() -> Any:
    try:
        import jwt
    except ImportError as missing:
        raise Misconfigured("a provider needs: pip install 'indelible[oidc]'") from missing
    return jwt
