"""Pages and files are compressed as the client accepts; pages with secrets are not, so that no length reveals one."""

import gzip
import re
from pathlib import Path

import pytest
import zstandard
from tests.web.harness import Visitor, WebHarness
from tests.web.sign_in_harness import ANN, SignInHarness, csrf, sign_in_service

from outcry.http.auth import LOCAL_COOKIE, SECURE_COOKIE
from outcry.http.compression import best_encoding

#: By hand, from RFC 9110 §12.5.3; of equals zstd is preferred.
WISHES = [
    ("", None),
    ("identity", None),
    ("br", None),
    ("gzip", "gzip"),
    ("GZIP", "gzip"),
    ("gzip, deflate, br, zstd", "zstd"),
    ("gzip;q=1.0, zstd;q=0.5", "gzip"),
    ("gzip;q=0", None),
    ("zstd;q=0, gzip;q=0.1", "gzip"),
    ("*", "zstd"),
    ("*;q=0", None),
    ("zstd;q=0, *", "gzip"),
    ("identity;q=1, gzip;q=0.5", None),
    ("identity;q=0.5, gzip;q=1", "gzip"),
    ("notgzip", None),
    (";;;,,q=", None),
]


@pytest.mark.parametrize(("accepted", "encoding"), WISHES)
def test_the_encoding_is_what_the_reader_wants_most(accepted: str, encoding: str | None) -> None:
    assert best_encoding(accepted) == encoding


def unpacked(body: bytes, encoding: str) -> bytes:
    return zstandard.decompress(body) if encoding == "zstd" else gzip.decompress(body)


def masked(page: bytes) -> bytes:
    """Without what is new in each page: tokens of forms, and the time."""
    return re.sub(rb'(name="csrf" value=|data-csrf=|data-now=)"[^"]+"', rb'\1""', page)


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
@pytest.mark.parametrize("path", ["/errors", "/guide", "/nothing-here"])
def test_a_page_is_the_same_compressed(harness: WebHarness, path: str, encoding: str) -> None:
    visitor = harness.visitor()
    visitor.get(path)  # with the cookies that the first visit sets
    plain = visitor.get(path)
    packed = visitor.get(path, **{"accept-encoding": encoding})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == encoding
    assert packed.status == plain.status
    assert masked(unpacked(packed.body, encoding)) == masked(plain.body)
    assert 2 * len(packed.body) < len(plain.body)
    for reply in (plain, packed):
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert "accept-encoding" in reply.headers["vary"]
        assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_head_tells_the_length_of_the_answer_to_get(harness: WebHarness) -> None:
    visitor, how = harness.visitor(), {"accept-encoding": "gzip"}
    visitor.get("/errors")
    reply = visitor.send("HEAD", "/errors", None, how)
    assert (reply.body, reply.headers["content-encoding"]) == (b"", "gzip")
    assert int(reply.headers["content-length"]) > 100


def test_a_page_that_shows_a_secret_is_not_compressed(harness: WebHarness) -> None:
    reply = harness.visitor().get("/reset/new?token=abc", **{"accept-encoding": "zstd, gzip"})
    assert reply.headers["cache-control"] == "no-store"
    assert "content-encoding" not in reply.headers


@pytest.mark.parametrize(
    ("site", "https", "encoding"),
    [
        ("same-origin", True, "zstd"),
        ("none", True, "zstd"),
        ("cross-site", True, None),
        ("same-site", True, None),
        ("", True, None),  # an old browser
        ("cross-site", False, None),
        ("", False, "zstd"),  # the page itself can be read on its way
    ],
)
def test_a_users_page_is_not_compressed_if_another_site_may_have_opened_it(
    harness: WebHarness, site: str, https: bool, encoding: str | None
) -> None:
    token = harness.token(harness.person("ann@example.com"), https=https)
    ann, visitor = harness.visitor(), harness.visitor()
    ann.cookies[SECURE_COOKIE if https else LOCAL_COOKIE] = token
    headers = {"accept-encoding": "zstd", "x-forwarded-proto": "https" if https else "http"}
    headers |= {"sec-fetch-site": site} if site else {}
    reply = ann.get("/errors?guess=secret", **headers)
    assert reply.status == 200
    assert reply.headers.get("content-encoding") == encoding
    body = unpacked(reply.body, encoding) if encoding else reply.body
    assert b'action="/sign-out"' in body
    assert visitor.get("/errors", **headers).headers["content-encoding"] == "zstd"


@pytest.mark.parametrize(
    ("accepted", "encoding"), [("gzip, zstd", "zstd"), ("gzip", "gzip"), ("gzip;q=0", None), ("br", None)]
)
def test_files_are_compressed_beforehand(harness: WebHarness, accepted: str, encoding: str | None) -> None:
    page = harness.visitor().get("/errors").text
    found = re.search(r'"(/static/[0-9a-f]+/[^"]+\.css)"', page)
    assert found
    plain = harness.visitor().get(found[1])
    reply = harness.visitor().get(found[1], **{"accept-encoding": accepted})
    assert reply.headers.get("content-encoding") == encoding
    assert (unpacked(reply.body, encoding) if encoding else reply.body) == plain.body
    assert reply.headers["vary"] == plain.headers["vary"]


def test_a_forms_token_is_another_text_in_each_page_and_each_of_them_is_taken(tmp_path: Path) -> None:
    with sign_in_service(tmp_path) as step:
        step.person()
        _tokens(step)


def _tokens(step: SignInHarness) -> None:
    visitor = step.visitor()
    tokens = [csrf(visitor.get("/sign-in").text) for _ in range(8)]
    assert len(set(tokens)) == 8
    pieces = [{text[at : at + 8] for at in range(len(text) - 7)} for text in tokens]
    assert not set.intersection(*pieces)

    def sent(token: str, browser: Visitor = visitor) -> int:
        step.minute()
        return browser.post("/sign-in", {"email": ANN, "password": "not hers at all", "csrf": token}).status

    assert [sent(token) for token in tokens[:3]] == [422] * 3, "taken: the password is what is wrong"
    first = tokens[0]
    flipped = f"{int(first[0], 16) ^ 1:x}{first[1:]}"
    wrong = ["", "zz", first[:-2], first + "00", first[:40], "0" * len(first), flipped, "é"]
    assert [sent(token) for token in wrong] == [400] * len(wrong)
    assert sent(first, step.visitor()) == 400, "of another browser"
