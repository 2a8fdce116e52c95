"""Actions of a person in the browser, found by the words on the page, with scripts or without."""

import json
import re
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from playwright.sync_api import Locator
from tests.web.browsing import Window
from tests.web.harness import PASSWORD


class Person:
    """Uses one tab. Every step ends by looking at what the page then says."""

    def __init__(self, tab: Window, email: str = "ann@example.com") -> None:
        self.tab, self.page, self.harness, self.email = tab, tab.page, tab.harness, email

    def heading(self, text: str | re.Pattern[str]) -> None:
        self.page.get_by_role("heading", name=text, level=1).wait_for()

    def field(self, label: str | re.Pattern[str]) -> Locator:
        return self.page.locator("main").get_by_label(label, exact=isinstance(label, str))

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def set_up(self) -> None:
        token = self.harness.people.identity.first_run.new_token()
        self.tab.go("/sign-in")
        self.heading("Set up Outcry")
        self.field("One-time token").fill(token)
        self.field("Email address").fill(self.email)
        self.field("New password").fill(PASSWORD)
        self.press("Set up and sign in")
        self.page.get_by_role("button", name="Sign out").wait_for()

    def sign_in(self) -> None:
        self.tab.go("/sign-in")
        self.field("Email address").fill(self.email)
        self.field("Password").fill(PASSWORD)
        self.page.locator("main").get_by_role("button", name="Sign in", exact=True).click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def sign_out(self) -> None:
        self.press("Sign out")
        self.page.get_by_role("banner").get_by_role("link", name="Sign in").wait_for()

    def create_key(self, name: str) -> str:
        """Return the key, as the page shows it this once."""
        self.tab.go("/account/keys")
        self.page.get_by_role("link", name="Create key").click()
        self.field("Name").fill(name)
        self.press("Create key")
        self.heading("Your new key")
        key = re.search(r"outcry_[0-9A-Za-z]{49}", self.page.locator("#key").inner_text())
        assert key, "the page shows no key"
        self.page.get_by_role("link", name="I've saved it").click()
        assert key[0] not in self.page.content(), "a key is shown once"
        return key[0]

    def revoke_key(self, name: str) -> None:
        self.tab.go("/account/keys")
        self.page.get_by_role("link", name=f"Manage {name}").click()
        self.field(re.compile("^Type .* to confirm")).fill(name)
        self.press("Revoke key")
        self.page.get_by_text("Key revoked.").wait_for()

    def subscribe(self, address: str, name: str) -> str:
        """Return the signing secret, as the page shows it this once."""
        self.tab.go("/account/webhooks")
        self.page.get_by_role("link", name="Add webhook").first.click()
        self.field("Send to").select_option("https")
        self.field("URL or email address").fill(address)
        self.field("Name").fill(name)
        self.press("Add webhook")
        self.heading("Signing secret")
        secret = re.search(r"whsec_[0-9A-Za-z+/=]{40,}", self.page.locator("#secret").inner_text())
        assert secret, "the page shows no secret"
        self.page.get_by_role("link", name="I've saved it").click()
        self.heading(name)
        assert secret[0] not in self.page.content(), "a secret is shown once"
        return secret[0]

    def ask(self, key: str, path: str = "/api/levels?symbol=ES") -> tuple[int, dict[str, Any]]:
        """What a program is answered with that key."""
        request = Request(
            self.harness.base.replace("localhost", "127.0.0.1") + path, headers={"x-api-key": key}
        )
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)
