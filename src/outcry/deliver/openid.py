"""An OpenID provider over the network: discovery, the code flow with PKCE, and the ID token checked.

Rules kept: nothing is spoken to but over https (or this very machine), no redirect is followed, no answer is read
beyond its bounds or waited for longer than ten seconds. An ID token counts only if the provider's key signed it, by an
algorithm with a public key, for us, now, in answer to this question (OpenID Connect Core 1.0, 3.1.3.7).
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from outcry.core.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.ports.clock import Clock
from outcry.ports.openid import OpenIdAnswer, OpenIdFailed, OpenIdRequest

TIMEOUT_S = 10.0
LONGEST_ANSWER = 256 * 1024
#: What the provider says of itself, and its keys, are asked for again after this.
KEPT_NS = NANOS_PER_HOUR
SKEW_S = 120
#: OpenID Connect Core 1.0, 2.
LONGEST_SUBJECT = 255
_SCOPE = "openid email"
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")


class WebOpenIdProvider:
    """Implements `ports.openid.OpenIdProvider`. `secret` empty: a client without one, by PKCE alone."""

    def __init__(self, name: str, issuer: str, client_id: str, secret: str, clock: Clock) -> None:
        self.name = name
        self._issuer, self._client_id, self._secret, self._clock = issuer, client_id, secret, clock
        self._about: Mapping[str, Any] = {}
        self._keys: KeySet | None = None
        self._asked_ns = 0

    def address(self, request: OpenIdRequest) -> str:
        """See `OpenIdProvider`."""
        digest = hashlib.sha256(request.verifier.encode("ascii")).digest()
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": request.callback,
            "scope": _SCOPE,
            "state": request.state,
            "nonce": request.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        if request.fresh:
            parameters |= {"prompt": "login", "max_age": "0"}
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    def answer(self, code: str, request: OpenIdRequest) -> OpenIdAnswer:
        """See `OpenIdProvider`."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": request.callback,
            "code_verifier": request.verifier,
        }
        headers = self._authenticate(form)
        given = self._fetch("POST", self._endpoint("token_endpoint"), form=form, headers=headers)
        claims = self._claims(given.get("id_token"), request)
        if "email" not in claims and isinstance(given.get("access_token"), str):
            claims = self._more_of(claims, given["access_token"]) | claims
        email, at = claims.get("email"), claims.get("auth_time")
        return OpenIdAnswer(
            issuer=self._issuer,
            subject=claims["sub"],
            email=email if isinstance(email, str) else "",
            email_verified=claims.get("email_verified") in (True, "true"),
            authenticated_ns=int(at) * NANOS_PER_SECOND if isinstance(at, int | float) else None,
        )

    def _authenticate(self, form: dict[str, str]) -> dict[str, str]:
        """Say who we are, the way the provider takes it: in a header (RFC 6749, 2.3.1), or else in the form."""
        methods = self._discovered().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret and "client_secret_basic" in methods:
            pair = f"{quote_plus(self._client_id)}:{quote_plus(self._secret)}"
            return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        form["client_id"] = self._client_id
        if self._secret:
            form["client_secret"] = self._secret
        return {}

    # -- the ID token

    def _claims(self, token: object, request: OpenIdRequest) -> dict[str, Any]:
        if not isinstance(token, str):
            raise OpenIdFailed("the provider gave no ID token")
        try:
            claims = self._decoded(token).claims
            jwt.JWTClaimsRegistry(
                now=self._clock.now_ns() // NANOS_PER_SECOND,
                leeway=SKEW_S,
                iss={"essential": True, "value": self._issuer},
                sub={"essential": True},
                aud={"essential": True, "value": self._client_id},
                exp={"essential": True},
                iat={"essential": True},
            ).validate(claims)
        except (JoseError, ValueError, TypeError) as problem:
            raise OpenIdFailed(f"the ID token is not good: {type(problem).__name__}") from None
        nonce, party = claims.get("nonce"), claims.get("azp")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), request.nonce.encode()):
            raise OpenIdFailed("the ID token answers another question")
        if party != self._client_id and (party is not None or several):
            raise OpenIdFailed("the ID token was made for somebody else")
        whom = claims["sub"]
        if not isinstance(whom, str) or not whom.isprintable() or not 0 < len(whom) <= LONGEST_SUBJECT:
            raise OpenIdFailed("the ID token does not say of whom it speaks")
        return dict(claims)

    def _decoded(self, token: str) -> jwt.Token:
        offered = self._discovered().get("id_token_signing_alg_values_supported") or ["RS256"]
        algorithms = [name for name in _ALGORITHMS if name in offered]
        if not algorithms:  # which the library would take for any
            raise OpenIdFailed("the provider signs with nothing that has a public key")
        try:
            return jwt.decode(token, self._key_set(), algorithms=algorithms)
        except JoseError:  # perhaps the provider has new keys
            return jwt.decode(token, self._key_set(anew=True), algorithms=algorithms)

    def _more_of(self, claims: Mapping[str, Any], access_token: str) -> dict[str, Any]:
        """What the provider says of the same person where it is asked for more."""
        if "userinfo_endpoint" not in self._discovered():
            return {}
        headers = {"authorization": f"Bearer {access_token}"}
        said = self._fetch("GET", self._endpoint("userinfo_endpoint"), headers=headers)
        if said.get("sub") != claims["sub"]:
            raise OpenIdFailed("the provider speaks of two people")
        return {name: said[name] for name in ("email", "email_verified") if name in said}

    # -- what the provider says of itself

    def _discovered(self) -> Mapping[str, Any]:
        now_ns = self._clock.now_ns()
        if not self._about or not 0 <= now_ns - self._asked_ns < KEPT_NS:
            address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            about = self._fetch("GET", address)
            if about.get("issuer") != self._issuer:
                raise OpenIdFailed(f"{address} speaks for another issuer than the one that is set")
            self._about, self._keys, self._asked_ns = about, None, now_ns
        return self._about

    def _endpoint(self, name: str) -> str:
        address = self._discovered().get(name)
        if not isinstance(address, str):
            raise OpenIdFailed(f"the provider names no {name}")
        return address

    def _key_set(self, *, anew: bool = False) -> KeySet:
        if self._keys is None or anew:
            given: Any = self._fetch("GET", self._endpoint("jwks_uri"))
            try:
                self._keys = KeySet.import_key_set(given)
            except (JoseError, ValueError, LookupError, TypeError) as problem:
                raise OpenIdFailed(f"the provider's keys are unreadable: {type(problem).__name__}") from None
        return self._keys

    def _fetch(
        self, method: str, address: str, form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """One exchange, answered with a JSON object. Raises `OpenIdFailed`, which names the host, never a secret."""
        if not _private_line(address):
            raise OpenIdFailed(f"{address[:100]!r} is no https address")
        host = urlsplit(address).hostname
        try:
            status, body = asyncio.run(_exchange(method, address, form, headers))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise OpenIdFailed(f"{host} did not answer: {type(problem).__name__}") from None
        if len(body) > LONGEST_ANSWER:
            raise OpenIdFailed(f"{host} answers at greater length than is read")
        if status != 200:
            raise OpenIdFailed(f"{host} answered {status} to {method} {urlsplit(address).path}")
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise OpenIdFailed(f"{host} did not answer with a JSON object")
        return said


async def _exchange(
    method: str, address: str, form: Mapping[str, str] | None, headers: Mapping[str, str] | None
) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    asked = {"accept": "application/json", **(headers or {})}
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(method, address, data=form, headers=asked, allow_redirects=False) as response,
    ):
        # one byte more than is read tells a long answer from one that just fits
        body = bytearray()
        async for part in response.content.iter_chunked(16 * 1024):
            body += part
            if len(body) > LONGEST_ANSWER:
                break
        return response.status, bytes(body)


def _private_line(address: str) -> bool:
    """Whether nobody on the way can read along."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.scheme == "http" and parts.hostname == "localhost"
