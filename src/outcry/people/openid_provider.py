"""Client of an OpenID provider: discovery, authorization code flow with PKCE, and ID token validation.

Requests go over https only (plain http to this machine is allowed for tests), follow no redirect, read at most
256 KB and take at most ten seconds. An ID token must be signed by the provider with an asymmetric key, for this
client and this request. An expired token is refused (OpenID Connect Core 1.0, 3.1.3.7). Decision record 0050
explains why this is not Authlib.
"""

import asyncio
import base64
import hashlib
import ipaddress
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
from joserfc import jwt
from joserfc.errors import ClaimError, JoseError
from joserfc.jwk import KeySet

from outcry.base.clock import Clock
from outcry.base.http_client import system_resolution
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.people.openid_model import OpenIdAnswer, OpenIdFailed, OpenIdRequest

TIMEOUT_S = 10.0
LONGEST_ANSWER = 256 * 1024
#: The discovery document and the keys are fetched again after this.
CACHE_NS = NANOS_PER_HOUR
SKEW_S = 120
#: OpenID Connect Core 1.0, 2.
LONGEST_SUBJECT = 255
_SCOPE = "openid email"
#: Asymmetric algorithms only: with a shared secret, the published key could be used to forge a token.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")


class WebOpenIdProvider:
    """The OpenID provider that the operator configured. `name`: shown on the sign-in page.

    An empty `secret` makes a public client, protected by PKCE alone.
    """

    def __init__(self, name: str, issuer: str, client_id: str, secret: str, clock: Clock) -> None:
        self.name = name
        self._issuer, self._client_id, self._secret, self._clock = issuer, client_id, secret, clock
        self._about: Mapping[str, Any] = {}
        self._keys: KeySet | None = None
        self._fetched_ns = 0

    def address(self, request: OpenIdRequest) -> str:
        """Return the provider's URL to which the browser is sent to sign in."""
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
        """Exchange the code that the browser brought back from the provider for the person's identity.

        Each request may block for ten seconds; raises `OpenIdFailed`.
        """
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
        """Return the header with our credentials (RFC 6749, 2.3.1), or add them to the form."""
        methods = self._discovered().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret and "client_secret_basic" in methods:
            login, password = quote_plus(self._client_id), quote_plus(self._secret)
            return {"authorization": aiohttp.encode_basic_auth(login, password)}
        form["client_id"] = self._client_id
        if self._secret:
            form["client_secret"] = self._secret
        return {}

    # -- the ID token

    def _claims(self, token: object, request: OpenIdRequest) -> dict[str, Any]:
        if not isinstance(token, str):
            raise OpenIdFailed("the provider sent no ID token")
        try:
            sent = self._decoded(token).claims
            claims = {name: value for name, value in sent.items() if value is not None}
            jwt.JWTClaimsRegistry(
                now=self._clock.now_ns() // NANOS_PER_SECOND,
                leeway=SKEW_S,
                iss={"essential": True, "value": self._issuer},
                sub={"essential": True},
                aud={"essential": True, "value": self._client_id},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": request.nonce},
                azp={"essential": _has_several(claims.get("aud")), "value": self._client_id},
            ).validate(claims)
        except (JoseError, ValueError, TypeError) as problem:
            claim = f" ({problem.claim})" if isinstance(problem, ClaimError) else ""
            raise OpenIdFailed(f"the ID token is invalid: {type(problem).__name__}{claim}") from None
        if any(isinstance(claims.get(name), list) for name in ("nonce", "azp")):
            raise OpenIdFailed("the ID token is invalid: nonce and azp cannot be lists")
        subject = claims["sub"]
        if not subject.isprintable() or len(subject) > LONGEST_SUBJECT:
            raise OpenIdFailed("the ID token is invalid: its subject is not printable or too long")
        return claims

    def _decoded(self, token: str) -> jwt.Token:
        offered = self._discovered().get("id_token_signing_alg_values_supported") or ["RS256"]
        algorithms = [name for name in _ALGORITHMS if name in offered]
        if not algorithms:  # the library reads an empty list as "any"
            raise OpenIdFailed("the provider supports no asymmetric signature algorithm")
        try:
            return jwt.decode(token, self._key_set(), algorithms=algorithms)
        except JoseError:  # the provider may have rotated its keys
            return jwt.decode(token, self._key_set(reload=True), algorithms=algorithms)

    def _more_of(self, claims: Mapping[str, Any], access_token: str) -> dict[str, Any]:
        """Return the email claims from the provider's userinfo endpoint, if it has one."""
        if "userinfo_endpoint" not in self._discovered():
            return {}
        headers = {"authorization": f"Bearer {access_token}"}
        user_info = self._fetch("GET", self._endpoint("userinfo_endpoint"), headers=headers)
        if user_info.get("sub") != claims["sub"]:
            raise OpenIdFailed("the ID token and the userinfo endpoint name different subjects")
        return {name: user_info[name] for name in ("email", "email_verified") if name in user_info}

    # -- discovery and keys

    def _discovered(self) -> Mapping[str, Any]:
        now_ns = self._clock.now_ns()
        if not self._about or not 0 <= now_ns - self._fetched_ns < CACHE_NS:
            address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            about = self._fetch("GET", address)
            if about.get("issuer") != self._issuer:
                raise OpenIdFailed(f"{address} names another issuer than the configured one")
            self._about, self._keys, self._fetched_ns = about, None, now_ns
        return self._about

    def _endpoint(self, name: str) -> str:
        address = self._discovered().get(name)
        if not isinstance(address, str):
            raise OpenIdFailed(f"the discovery document has no {name}")
        return address

    def _key_set(self, *, reload: bool = False) -> KeySet:
        if self._keys is None or reload:
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
        """Return the JSON object of a response. Raises `OpenIdFailed`, which never contains a secret."""
        if not _is_confidential(address):
            raise OpenIdFailed(f"{address[:100]!r} is not an https URL")
        host = urlsplit(address).hostname
        try:
            status, body = asyncio.run(_exchange(method, address, form, headers))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise OpenIdFailed(f"{host} did not answer: {type(problem).__name__}") from None
        if len(body) > LONGEST_ANSWER:
            raise OpenIdFailed(f"{host} answered with more than {LONGEST_ANSWER} bytes")
        if status != 200:
            raise OpenIdFailed(f"{host} answered {status} to {method} {urlsplit(address).path}")
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise OpenIdFailed(f"{host} did not answer with a JSON object")
        return fields


async def _exchange(
    method: str, address: str, form: Mapping[str, str] | None, headers: Mapping[str, str] | None
) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    asked = {"accept": "application/json", **(headers or {})}
    async with (
        aiohttp.ClientSession(connector=system_resolution(), timeout=timeout) as session,
        session.request(method, address, data=form, headers=asked, allow_redirects=False) as response,
    ):
        # stop at the first byte over the limit, which `_fetch` reports
        body = bytearray()
        async for part in response.content.iter_chunked(16 * 1024):
            body += part
            if len(body) > LONGEST_ANSWER:
                break
        return response.status, bytes(body)


def _has_several(audience: object) -> bool:
    """Return whether a token has several audiences, and therefore must name its authorized party."""
    return isinstance(audience, list) and len(cast("list[object]", audience)) > 1


def _is_confidential(address: str) -> bool:
    """Return whether requests to a URL are encrypted or stay on this machine."""
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
