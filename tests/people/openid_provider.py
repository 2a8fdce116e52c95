"""An OpenID provider on loopback with real keys and sockets, honest unless a test changes it."""

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT, SECRET = "outcry client", "its secret: ü/+"


def new_key(number: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": number, "use": "sig", "alg": "RS256"}, private=True)


@dataclass
class Provider:
    """State of the provider.

    `claims` replaces valid claims of the next tokens, `about` entries of its discovery document."""

    now_s: int
    url: str = ""
    key: RSAKey = field(default_factory=lambda: new_key("one"))
    algorithm: str = "RS256"
    claims: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    authorization: list[str] = field(default_factory=list)

    def authorize(self, address: str) -> dict[str, str]:
        """Return what a browser brings back after signing in at the authorization URL."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.url}/authorize?")
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the response of the token endpoint; None refuses."""
        query = self.codes.pop(form.get("code", ""), None)
        if query is None or form["redirect_uri"] != query["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != query["code_challenge"]:
            return None
        honest = {
            "iss": self.url, "sub": "ann at the provider", "aud": CLIENT, "exp": self.now_s + 300, "iat": self.now_s,
            "nonce": query["nonce"], "email": "ann@example.com", "email_verified": True,
        }  # fmt: skip
        if "max_age" in query:
            honest["auth_time"] = self.now_s
        claims = {name: value for name, value in (honest | self.claims).items() if value is not None}
        return {"access_token": "an access token", "token_type": "Bearer", "id_token": self.signed(claims)}

    def signed(self, claims: dict[str, Any]) -> str:
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm == "none":
            parts = (json.dumps(part).encode() for part in (header, claims))
            return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])
        if self.algorithm == "HS256":  # algorithm confusion: the published key used as a shared secret
            return jwt.encode(header, claims, OctKey.import_key(self.key.as_pem(private=False)), ["HS256"])
        return jwt.encode(header, claims, self.key, [self.algorithm])

    def answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if path in self.raw:
            return 200, self.raw[path]
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            about: dict[str, Any] = {name: f"{self.url}/{where}" for name, where in names.items()}
            about |= {"issuer": self.url, "userinfo_endpoint": f"{self.url}/userinfo"}
            return 200, json.dumps(about | self.about).encode()
        if path == "/keys":
            return 200, json.dumps(KeySet([self.key]).as_dict(private=False)).encode()
        if path == "/token":
            self.forms.append(form)
            self.authorization.append(authorization)
            given = self.token(form)
            return (400, b'{"error":"invalid_grant"}') if given is None else (200, json.dumps(given).encode())
        if path == "/userinfo" and authorization == "Bearer an access token":
            return 200, json.dumps(self.userinfo).encode()
        return 404, b"{}"


@contextmanager
def provider(now_s: int) -> Iterator[Provider]:
    """Run a provider for the duration of the context."""
    running = Provider(now_s)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            self._answer(dict(parse_qsl(body)))

        def _answer(self, form: dict[str, str]) -> None:
            status, body = running.answer(self.path, form, self.headers.get("authorization", ""))
            self.send_response(status)
            self.send_header("content-type", "application/json")
            if status == 302:
                self.send_header("location", body.decode())
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
