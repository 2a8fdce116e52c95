"""The API reference shows what the OpenAPI document contains, every text exists, and its examples run."""

import base64
import hashlib
import hmac
import html
import os
import re
import shutil
import subprocess
import sys

import pytest
from tests.web.browsing import Opened
from tests.web.harness import WebHarness
from tests.web.sample_account import furnish

from outcry.access.keys import KeyRefusal
from outcry.answers.wording import STATES
from outcry.api.openapi import build_document
from outcry.base.clock import SystemClock
from outcry.http.errors import STATUS
from outcry.web.guide.contract import Contract
from outcry.web.guide.reference import EXAMPLES, SAMPLES, VERIFIERS
from outcry.web.language import Languages
from outcry.web.static import StaticFiles
from outcry.web.template_engine import Templates

CONTRACT = Contract(build_document())
CODE = re.compile(r'<p class="sample-name">([^<]+)</p>\s*<pre[^>]*><code>(.*?)</code></pre>', re.DOTALL)
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = b'{"version":2,"text":"caf\xc3\xa9","alerts":[]}'


def words(name: str, table: str) -> dict[str, object]:
    """A table of words of a template, in English."""
    environment = Templates(StaticFiles())._build(Languages.words("en"))
    return getattr(environment.get_template(name).module, table)


def schemas() -> set[str]:
    roots = [each.answer for each in CONTRACT.operations if each.answer]
    return {
        name for root in (*roots, "Snapshot", "Quote", "State", "Error") for name in CONTRACT.within(root)
    }


def test_every_name_of_the_document_has_words_and_no_other_has() -> None:
    meanings = words("reference/meanings.html", "fields")
    fields = {(schema, each.name) for schema in schemas() for each in CONTRACT.fields(schema)}
    missing = {
        f"{schema}.{name}"
        for schema, name in fields
        if f"{schema}.{name}" not in meanings and name not in meanings
    }
    assert missing == set()
    used = {f"{schema}.{name}" if f"{schema}.{name}" in meanings else name for schema, name in fields}
    assert set(meanings) - used == set()


def test_every_operation_parameter_and_schema_has_words() -> None:
    operations, parameters = (words("reference/meanings.html", each) for each in ("operations", "parameters"))
    assert set(operations) == {each.id for each in CONTRACT.operations}
    asked = {(each.id, given.name) for each in CONTRACT.operations for given in each.given}
    assert {name for operation, name in asked if f"{operation}.{name}" not in parameters} <= set(parameters)
    answers = {each.answer for each in CONTRACT.operations}
    assert schemas() - answers - {"Error"} - set(words("reference/meanings.html", "schemas")) == set()


def test_every_code_and_reason_has_words() -> None:
    assert set(words("reference/codes.html", "codes")) == set(STATUS)
    reasons = words("reference/codes.html", "reasons")["unauthorized"]
    assert {name for name, _ in reasons} == {each.value for each in KeyRefusal}  # type: ignore[attr-defined]
    assert set(EXAMPLES) <= set(STATUS)
    assert {name for name, _, _ in words("reference/states.html", "states")} == set(STATES)


def samples(page: str) -> list[tuple[str, str]]:
    return [(html.unescape(name), html.unescape(code)) for name, code in CODE.findall(page)]


def test_the_examples_in_python_run(harness: WebHarness) -> None:
    """Those for the client, and those without: each after the lines the page begins with."""
    key = harness.installation.keys.create(
        "reference@example.com", "admin", harness.installation.clock.now_ns()
    )
    shown = samples(harness.visitor().get("/docs", host=f"localhost:{harness.port}").text)
    with_client = [code for name, code in shown if name == "Python, with the client"]
    without = [code for name, code in shown if name == "Python, without the client"]
    answering = [each for each in CONTRACT.operations if each.method == "GET"]
    assert len(with_client) == len(answering) + 1
    assert len(without) == len(answering)  # the stream is no answer

    once = [code.replace("    print(event)", "    print(event)\n    break") for code in with_client]
    for name, blocks in (("client", once), ("plain", without)):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)], env={**os.environ, "OUTCRY_KEY": key}, timeout=60,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert len(done.stdout.splitlines()) >= len(blocks) - 1, name


def test_the_examples_with_curl_run(harness: WebHarness) -> None:
    if shutil.which("curl") is None:
        pytest.fail("no curl: apt-get install curl")
    key = harness.installation.keys.create("curl@example.com", "admin", harness.installation.clock.now_ns())
    commands = [code for name, code in samples(harness.visitor().get("/docs").text) if name == "curl"]
    assert len(commands) == len(CONTRACT.operations) + 1
    for command in commands:
        line = command.rpartition("curl ")[2]
        done = subprocess.run(
            ["sh", "-c", f"curl -sS --max-time 3 -o /dev/null -w '%{{http_code}}' {line}"],
            env={**os.environ, "OUTCRY_KEY": key}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "200", f"{line}: {done.stdout} {done.stderr}"


def signed(stamp: int, secret: str = SECRET, body: bytes = BODY) -> str:
    """By the words of Standard Webhooks: HMAC-SHA256 over id.timestamp.body, under the secret's bytes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, b"msg_1.%d." % stamp + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


OTHER = "whsec_" + base64.b64encode(b"z" * 32).decode()


def deliveries() -> list[tuple[int, str, bytes, bool]]:
    """What a receiver is sent just now, and whether it is ours."""
    now = int(SystemClock().now_ns() // 10**9)
    return [
        (now, signed(now), BODY, True),
        (now, f"{signed(now, OTHER)} {signed(now)}", BODY, True),  # while the secret is rotated
        (now, signed(now, OTHER), BODY, False),
        (now, signed(now), BODY + b" ", False),
        (now - 1, signed(now), BODY, False),
        (now - 3600, signed(now - 3600), BODY, False),
        (now + 3600, signed(now + 3600), BODY, False),
        (now, "", BODY, False),
        (now, signed(now).replace("v1,", "v2,"), BODY, False),
    ]


@pytest.mark.parametrize("which", range(9))
def test_the_verifier_in_python(which: int) -> None:
    stamp, signature, body, ours = deliveries()[which]
    found: dict[str, object] = {}
    exec(compile((SAMPLES / "webhook.py").read_text(), "webhook.py", "exec"), found)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(stamp), "webhook-signature": signature}
    verify = found["verify"]
    assert callable(verify)
    if ours:
        verify(SECRET, headers, body)
    else:
        with pytest.raises(ValueError):  # noqa: PT011 - the reason is for people
            verify(SECRET, headers, body)


def test_the_verifier_in_javascript(opened: Opened) -> None:
    """In a browser, whose WebCrypto is that of Node, Deno and the workers of clouds."""
    source = (SAMPLES / "webhook.mjs").read_text().replace("export async function", "async function")
    with opened() as tab:
        tab.go("/errors")
        for stamp, signature, body, ours in deliveries():
            accepted = tab.page.evaluate(
                "async ([secret, stamp, signature, body]) => {" + source + """
                  const headers = new Headers({"webhook-id": "msg_1", "webhook-timestamp": stamp});
                  if (signature) headers.set("webhook-signature", signature);
                  try { await verify(secret, headers, body); return true; } catch { return false; }
                }""",
                [SECRET, str(stamp), signature, body.decode()],
            )  # fmt: skip
            assert accepted is ours, (stamp, signature)


def test_all_three_verifiers_are_shown(harness: WebHarness) -> None:
    shown = dict(samples(harness.visitor().get("/docs").text))
    for name, file in VERIFIERS:
        assert shown[name].strip() == (SAMPLES / file).read_text().strip()


@pytest.mark.parametrize("code", STATUS)
def test_a_code_has_a_page_that_shows_its_body(harness: WebHarness, code: str) -> None:
    reply = harness.visitor("de").get(f"/errors/{code}")
    assert reply.status == 200
    assert f'"code": "{code}"' in html.unescape(reply.text)
    assert f'"status": {STATUS[code]}' in html.unescape(reply.text)
    assert f'href="/errors/{code}"' in harness.visitor().get("/errors").text


def test_what_is_no_code_has_no_page(harness: WebHarness) -> None:
    assert harness.visitor().get("/errors/nonsense").status == 404


def test_links_within_the_reference_lead_somewhere(harness: WebHarness) -> None:
    for path in ("/docs", "/broker-guide", "/errors/no_licensed_source", "/errors/invalid_request"):
        page = harness.visitor().get(path).text
        for target, anchor in re.findall(r'href="(/[^"#]*)?#([\w-]+)"', page):
            there = harness.visitor().get(target).text if target else page
            assert f'id="{anchor}"' in there, f"{path}: {target}#{anchor}"
        for target in set(re.findall(r'href="(/(?:docs|errors|account|broker-guide|alerts|s)[^"#]*)', page)):
            assert harness.visitor().get(html.unescape(target)).status in {200, 303}, f"{path}: {target}"


def test_the_guide_says_how_its_reader_stands(harness: WebHarness) -> None:
    visitor = harness.visitor()
    assert "This demo shows a simulated market" in visitor.get("/broker-guide").text
    visitor.cookies["outcry-local"] = furnish(harness, who="guided").token
    page = visitor.get("/broker-guide").text
    assert "None of your own feeds is live." in page
    assert "stale_link" in page
