"""Hostile input in every form field and URL is escaped, refused with a reason, kept in the form, never an error 500."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest
from tests.web.harness import Reply, Visitor, WebHarness
from tests.web.sample_account import SampleAccount, addresses, furnish, get_pages

#: Too long to turn up by chance in a token: three letters did, once in some thousand cookies.
MARK = "zq7hostile"
#: What each would do, if anybody let it.
HOSTILE = {
    "markup": f"\"'><script>{MARK}()</script><img src=x onerror={MARK}()>",
    "template": "{{7919*7907}} {% include 'base.html' %} %(name)s %s ${7919*7907}",
    "control": f"a\x00b\x1b[31m\r\nset-cookie: {MARK}=1\r\n\x7f\u202e\ufeff",
    "sql": f"1' OR '1'='1'; DROP TABLE users; -- {MARK}",
    "long": MARK + "x" * 20_000,
    "surrogates": "\ud800\U0010ffff\u0600".encode("utf-8", "replace").decode(),
    "path": "../../../../etc/passwd%00//evil.example/\\evil",
    "number": "-99999999999999999999999999e999",
    "formula": '=HYPERLINK("http://evil.example","x")',
}
#: Never given back, whatever was typed.
SECRET_KINDS = frozenset(("password",))


#: What pages are asked with.
PARAMETERS = (
    "symbol", "token", "next", "before", "after", "page", "day", "view", "sessions", "severity", "type", "q", "sort",
    "units", "sector", "state", "user", "done", "row", "layout", "letters", "show", "date", "time", "outcome",
)  # fmt: skip


@dataclass
class Form:
    """A form as a browser would send it."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


class Forms(HTMLParser):
    """Reads the forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(given.get("method", "get").lower(), given.get("action", "")))
        elif self.found and tag in {"input", "textarea", "select", "button"} and given.get("name"):
            name, kind = given["name"], given.get("type", tag)
            if kind in {"checkbox", "radio"} and "checked" not in given:
                self.found[-1].kinds.setdefault(name, kind)
                return
            self.found[-1].fields[name] = given.get("value", "")
            self.found[-1].kinds[name] = kind
            self._select = name if tag == "select" else ""
        elif tag == "option" and self._select and "selected" in given:
            self.found[-1].fields[self._select] = given.get("value", "")


def signed_in(harness: WebHarness, account: SampleAccount, token: str = "") -> Visitor:
    visitor = harness.visitor()
    visitor.cookies["outcry-local"] = token or account.token
    return visitor


@pytest.fixture(scope="module")
def account(harness: WebHarness) -> SampleAccount:
    return furnish(harness, who="hostile")


def sane(reply: Reply, what: str, typed: str) -> Iterator[str]:
    """What is wrong with an answer to something hostile."""
    if reply.status >= 500 and reply.status != 502:
        yield f"{what}: {reply.status}"
    if reply.headers.get("content-type", "").startswith("text/html"):
        if f"<script>{MARK}" in reply.text or f"onerror={MARK}()>" in reply.text.replace("&gt;", ""):
            yield f"{what}: markup came back as markup"
        if str(7919 * 7907) in reply.text:
            yield f"{what}: a template was computed"
    if MARK in reply.cookies or any(
        MARK in value for name, value in reply.headers.items() if name == "set-cookie"
    ):
        yield f"{what}: a header was made"
    location = reply.headers.get("location", "/")
    if location.startswith(("//", "http:", "https:", "\\")) or "\\" in location:
        yield f"{what}: leads to {location}"


def forms_of(
    harness: WebHarness, account: SampleAccount
) -> dict[tuple[str, str, tuple[str, ...]], tuple[str, Form]]:
    """Every form there is, once, with the address of a page it is on."""
    found: dict[tuple[str, str, tuple[str, ...]], tuple[str, Form]] = {}
    for path in get_pages():
        for address in addresses(path, account)[:1] + [a for a in addresses(path, account) if "token=" in a]:
            for visitor in (signed_in(harness, account), harness.visitor()):
                reply = visitor.get(address)
                if reply.headers.get("content-type", "").startswith("text/html"):
                    for form in Forms(reply.text).found:
                        key = (form.method, form.action or address, tuple(sorted(form.kinds)))
                        found.setdefault(key, (address, form))
    return found


def test_every_form_takes_anything_without_fault(harness: WebHarness, account: SampleAccount) -> None:
    forms = forms_of(harness, account)
    assert len(forms) >= 15, sorted(forms)
    faults: list[str] = []
    before = len(harness.faults())
    for (method, action, _), (address, form) in forms.items():
        token = harness.token(account.operator)  # a password that is changed ends the sessions before
        for name, kind in form.kinds.items():
            if name == "csrf" or action.startswith(("/sign-out", "/account/security/sessions")):
                continue
            for attack, typed in HOSTILE.items():
                fields = form.fields | {name: typed}
                reply, there = send(signed_in(harness, account, token), method, action, address, fields)
                what = f"{method} {action} {name}={attack}"
                faults += sane(reply, what, typed)
                if reply.status == 422 and there and kind != "hidden":
                    faults += stored_texts(reply, what, name, kind, form, fields)
    assert not faults, "\n".join(faults)
    assert harness.faults()[before:] == []


def send(
    visitor: Visitor, method: str, action: str, address: str, fields: dict[str, str]
) -> tuple[Reply, bool]:
    """Send a form; return what is answered, and whether the page has the form at all: a link that was used has not."""
    target = action or address
    if method == "get":
        return visitor.get(f"{target.partition('?')[0]}?{urlencode(fields)}"), True
    page = Forms(visitor.get(address).text).found
    tokens = [form.fields["csrf"] for form in page if "csrf" in form.fields]
    there = any((form.action or address) == target for form in page)
    return visitor.post(target, fields | {"csrf": tokens[0] if tokens else ""}), there


def stored_texts(
    reply: Reply, what: str, name: str, kind: str, form: Form, fields: dict[str, str]
) -> Iterator[str]:
    """A refused form comes back with everything that was typed, but for secrets, and says what is wrong."""
    if 'role="alert"' not in reply.text:
        yield f"{what}: refused without a word"
    again = next((each for each in Forms(reply.text).found if set(form.kinds) <= set(each.kinds)), None)
    if again is None:
        if form.kinds.get("token") != "hidden":  # a link that was used has no form to come back to
            yield f"{what}: the form did not come back"
        return
    for other, value in fields.items():
        typed = form.kinds.get(other) in {"text", "email", "textarea", "url"} and other != name
        if typed and again.fields.get(other, "") != value:
            yield f"{what}: what was typed in {other} is lost"
    if kind in SECRET_KINDS and again.fields.get(name):
        yield f"{what}: a secret came back"


@pytest.fixture(autouse=True)
def _uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person types less in a minute than these tests do: the limits have tests of their own."""
    monkeypatch.setattr("outcry.web.app.FORMS_A_MINUTE", 100_000)
    monkeypatch.setattr("outcry.web.app.PAGES_A_MINUTE", 100_000)


@pytest.mark.parametrize("path", get_pages())
def test_every_address_takes_anything_without_fault(
    harness: WebHarness, account: SampleAccount, path: str
) -> None:
    """In the place of each part of the path, and as each parameter that the page's own links and forms know."""
    faults: list[str] = []
    before = len(harness.faults())
    for typed in HOSTILE.values():
        asked = path
        while "{" in asked:
            start, _, rest = asked.partition("{")
            asked = start + quote(typed[:2000], safe="") + rest.partition("}")[2]
        query = urlencode(dict.fromkeys(PARAMETERS, typed[:500]))
        for visitor in (signed_in(harness, account), harness.visitor()):
            for address in (
                f"{asked}?{query}",
                *(f"{asked}?{urlencode({name: typed[:500]})}" for name in PARAMETERS[:9]),
            ):
                faults += sane(visitor.get(address), f"{path} {typed[:30]!r}", typed)
    assert not faults, "\n".join(dict.fromkeys(faults))
    assert harness.faults()[before:] == []


@pytest.mark.parametrize(
    "where", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", "/\t/evil"]
)
def test_nobody_is_led_away(harness: WebHarness, where: str) -> None:
    """Where a page leads on to is on this service, whatever its address says."""
    visitor = harness.visitor()
    for path in ("/theme", "/language"):
        csrf = Forms(visitor.get("/errors").text).found[0].fields["csrf"]
        reply = visitor.post(path, {"csrf": csrf, "theme": "dark", "language": "en", "next": where})
        assert reply.headers.get("location", "/") == "/", (path, reply.status)
    page = visitor.get(f"/sign-in?next={quote(where)}")
    assert "evil.example" not in "".join(form.action for form in Forms(page.text).found)


def test_a_form_of_another_site_is_refused(harness: WebHarness, account: SampleAccount) -> None:
    token = harness.token(account.operator)
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        visitor = signed_in(harness, account, token)
        csrf = Forms(visitor.get("/account").text).found[0].fields["csrf"]
        assert visitor.post("/account", {"csrf": csrf, "theme": "dark"}, **headers).status == 400
    visitor = signed_in(harness, account, token)
    for csrf in ("", "0" * 40, harness.visitor().get("/errors").text[:40]):
        assert visitor.post("/account", {"csrf": csrf}).status == 400


def test_another_name_is_not_answered(harness: WebHarness) -> None:
    """A stranger's name that leads here must not be given these pages."""
    for name in ("evil.example", "evil.example:80", "localhost.evil.example", ""):
        assert harness.visitor().get("/docs", host=name).status in {400, 421}
