"""Passkeys in a real browser with a virtual authenticator: create, sign in, confirm identity, remove, and failures."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect
from tests.web.harness import PASSWORD
from tests.web.sign_in_harness import ANN, SignInHarness, csrf, sign_in_service


@pytest.fixture
def step(tmp_path: Path) -> Iterator[SignInHarness]:
    with sign_in_service(tmp_path) as running:
        running.person()
        yield running


class Tab:
    """A page with an authenticator, and the errors it records."""

    def __init__(self, browser: Browser, step: SignInHarness, **options: Any) -> None:
        self.context = browser.new_context(base_url=f"http://localhost:{step.port}", **options)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        self._devices: CDPSession = self.context.new_cdp_session(self.page)
        self._devices.send("WebAuthn.enable")
        self._device = ""

    def plug_in(self, *, verifies: bool = True) -> None:
        """Give it a device with a lock; `verifies`: whether its user unlocks it."""
        made = self._devices.send(
            "WebAuthn.addVirtualAuthenticator",
            {
                "options": {
                    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True,
                    "hasUserVerification": True, "isUserVerified": verifies, "automaticPresenceSimulation": True,
                }
            },
        )  # fmt: skip
        self._device = made["authenticatorId"]

    def credentials(self) -> list[dict[str, Any]]:
        return self._devices.send("WebAuthn.getCredentials", {"authenticatorId": self._device})["credentials"]

    def sign_in(self) -> None:
        self.page.goto("/sign-in")
        self.page.get_by_label("Email address").fill(ANN)
        self.page.get_by_label("Password", exact=True).fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    def sign_out(self) -> None:
        self.page.get_by_role("button", name="Sign out", exact=True).first.click()
        expect(self.page.get_by_role("link", name="Sign in", exact=True)).to_be_visible()

    def add(self, label: str) -> None:
        self.page.goto("/account/security/passkeys")
        self.page.get_by_role("textbox", name="Name").fill(label)
        self.page.get_by_role("button", name="Add passkey").click()

    def arrives(self, path: str) -> None:
        expect(self.page).to_have_url(re.compile(rf"^[^?]*{re.escape(path)}$"))


@pytest.fixture
def tab(browser: Browser, step: SignInHarness) -> Iterator[Tab]:
    opened = Tab(browser, step)
    yield opened
    opened.context.close()


def test_a_passkey_is_made_and_signs_in_and_proves_who_it_is(tab: Tab, step: SignInHarness) -> None:
    tab.plug_in()
    tab.sign_in()
    tab.add("Ann's <b>laptop</b>")
    expect(tab.page.get_by_text("Ann's <b>laptop</b>")).to_be_visible()
    assert [credential["rpId"] for credential in tab.credentials()] == ["localhost"]

    tab.sign_out()
    tab.page.goto("/sign-in?next=/account/log")
    tab.page.get_by_role("button", name="Sign in with a passkey").click()
    tab.arrives("/account/log")
    expect(tab.page.get_by_text("Passkey added")).to_be_visible()

    step.clock.forward(11 * 60)
    tab.page.goto("/account/security/password")
    tab.page.get_by_role("button", name="Confirm with a passkey").click()
    tab.arrives("/account/security/password")

    tab.page.goto("/account/security/passkeys")
    tab.page.get_by_role("button", name="Remove").click()
    expect(tab.page.get_by_text("Passkey removed.")).to_be_visible()
    tab.sign_out()
    tab.page.goto("/sign-in")
    tab.faults.clear()
    tab.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(tab.page.get_by_role("alert")).to_have_text(
        "The passkey was not accepted. Try again, or sign in another way."
    )
    assert all("422" in fault for fault in tab.faults), tab.faults


def test_a_device_that_does_not_check_its_user_is_not_enough(tab: Tab) -> None:
    tab.plug_in(verifies=False)
    tab.sign_in()
    tab.add("unlocked")
    expect(tab.page.get_by_role("alert")).to_contain_text("The passkey request was cancelled")
    expect(tab.page.get_by_role("textbox", name="Name")).to_have_value("unlocked")
    assert tab.credentials() == []


def test_the_same_device_is_not_added_twice(tab: Tab) -> None:
    tab.plug_in()
    tab.sign_in()
    tab.add("first")
    expect(tab.page.get_by_text("first")).to_be_visible()
    tab.add("second")
    expect(tab.page.get_by_role("alert")).to_contain_text("already")
    assert len(tab.credentials()) == 1


def test_a_confirmation_that_is_over_leads_to_a_new_one_and_back(tab: Tab, step: SignInHarness) -> None:
    tab.plug_in()
    tab.sign_in()
    tab.page.goto("/account/security/passkeys")
    step.clock.forward(11 * 60)
    tab.page.get_by_role("button", name="Add passkey").click()
    tab.page.get_by_label("Password", exact=True).fill(PASSWORD)
    tab.page.get_by_role("button", name="Confirm", exact=True).click()
    tab.arrives("/account/security/passkeys")


def test_without_scripts_the_password_does_and_nothing_is_offered_that_would_not(
    browser: Browser, step: SignInHarness
) -> None:
    tab = Tab(browser, step, java_script_enabled=False)
    tab.page.goto("/sign-in")
    expect(tab.page.get_by_role("button", name="Sign in with a passkey")).to_have_count(0)
    expect(tab.page.get_by_text("Show password")).to_be_hidden()
    tab.sign_in()
    tab.context.close()


def test_a_password_can_be_looked_at_and_is_hidden_when_it_goes(tab: Tab) -> None:
    tab.page.goto("/sign-in")
    password = tab.page.locator("#f-password")
    password.fill("wrong but readable")
    tab.page.get_by_label("Show password").check()
    expect(password).to_have_attribute("type", "text")
    sent: list[str] = []
    tab.page.on("request", lambda request: sent.append(request.post_data or ""))
    tab.page.get_by_label("Email address").fill(ANN)
    tab.page.get_by_role("button", name="Sign in", exact=True).click()
    expect(tab.page.get_by_role("alert").first).to_be_focused()
    expect(tab.page.locator("#f-password")).to_have_attribute("type", "password")
    assert "wrong+but+readable" in sent[0]


def test_recovery_codes_are_kept_as_a_file(tab: Tab, step: SignInHarness) -> None:
    tab.sign_in()
    tab.page.goto("/account/security/authenticator")
    secret = tab.page.locator("input[name=secret]").input_value()
    tab.page.get_by_label("Code", exact=True).fill(step.code(secret))
    tab.page.get_by_role("button", name="Turn on").click()
    shown = tab.page.locator("#codes li").all_text_contents()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Download").click()
    codes = Path(download.value.path()).read_text().split()
    assert codes == shown
    assert download.value.suggested_filename == "outcry-recovery-codes.txt"
    assert tab.faults == []


def test_the_way_back_shows_nothing_once_signed_out(tab: Tab) -> None:
    tab.sign_in()
    tab.page.goto("/account/security")
    expect(tab.page.get_by_text(ANN)).to_be_visible()
    tab.sign_out()
    tab.page.go_back()
    expect(tab.page.get_by_label("Password", exact=True)).to_be_visible()
    expect(tab.page.get_by_text(ANN)).to_have_count(0)


#: Messages nobody can make anything of.
UNREADABLE = {
    "not UTF-8": b'{"ticket": "t", "answer": "\xff\xfe"}',
    "half a character": b'{"ticket": "t", "answer": {"id": "\xe2\x82"}}',
    "not UTF-8 in a name": b'{"ticket": "t", "answer": {"\xc0\xaf": 1}}',
    "lists in lists": b'{"ticket": "t", "answer": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "objects in objects": b'{"ticket": "t", "answer": ' + b'{"a":' * 9_000 + b"1" + b"}" * 9_000 + b"}",
    "unasked for": b'{"ticket": "t", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b', "answer": 1}',
    "half a surrogate": b'{"ticket": "\\ud800", "answer": {}}',
    "of another form": b'{"ticket": 7, "answer": {}}',
    "half a surrogate in the answer": b'{"ticket": "t", "answer": "\\ud800"}',
    "cut off": b'{"ticket": "t", "answer": {',
    "nothing": b"",
}


@pytest.mark.parametrize("path", ["/sign-in/passkey", "/confirm/passkey", "/account/security/passkeys/new"])
def test_what_cannot_be_read_is_refused_and_no_fault_of_the_service(step: SignInHarness, path: str) -> None:
    visitor = step.visitor() if path == "/sign-in/passkey" else step.signed_in()
    page = visitor.get("/sign-in" if path == "/sign-in/passkey" else "/account/security/passkeys")
    sent = {"content-type": "application/json", "x-csrf": csrf(page.text)}
    for what, body in UNREADABLE.items():
        reply = visitor.send("POST", path, body, sent)
        message = json.loads(reply.body)["message"]
        assert (what, reply.status, message) == (what, 400, "This page has expired. Reload it.")
    assert step.faults() == []


def test_an_answer_that_is_none_is_refused_like_a_wrong_one(step: SignInHarness) -> None:
    for answer in (b"1", b'{"id": "\\u0000", "rawId": []}', b"[" * 900 + b"]" * 900):
        visitor = step.visitor()
        sent = {"content-type": "application/json", "x-csrf": csrf(visitor.get("/sign-in").text)}
        options = visitor.send("POST", "/sign-in/passkey/options", b"{}", sent)
        ticket = json.loads(options.body)["ticket"].encode()
        body = b'{"ticket": "' + ticket + b'", "answer": ' + answer + b"}"
        reply = visitor.send("POST", "/sign-in/passkey", body, sent)
        assert reply.status == 422, (answer[:20], reply.text)
        step.minute()
    assert step.faults() == []
