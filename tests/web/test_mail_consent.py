"""An email webhook from creation to unsubscribing, with a real SMTP server on loopback and the links it was sent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.people.test_mail import Taken, server
from tests.web.account_harness import FORM, Member, Read, account_service
from tests.web.harness import Visitor, WebHarness

from outcry.app.secret import derived
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow

READER = "reader@example.com"
SITE = "http://localhost"
NEW = {
    "target": "email", "address": READER, "label": "Desk <i>1</i>", "symbols": "ES NQ", "min_severity": "warn",
    "window": "hour", "at_once": "yes",
}  # fmt: skip


@dataclass
class ConsentHarness:
    """A service that mails, and what it mailed."""

    harness: WebHarness
    taken: Taken
    member: Member

    def link(self, path: str = "/digest/confirm") -> str:
        """The newest link to a page that was mailed, without the site."""
        texts = [str(mail.get_content()) for mail in self.taken.mails]  # type: ignore[attr-defined]
        return [found for text in texts for found in re.findall(rf"{SITE}({path}\?token=\S+)", text)][-1]

    def end_link(self, row: SubscriptionRow) -> str:
        """What a digest to this subscription would carry."""
        installation = self.harness.installation
        links = ConsentLinks(derived(installation.secret, "mail consent"), SITE, installation.clock)
        return links.unsubscribe(row).removeprefix(SITE)

    @property
    def row(self) -> SubscriptionRow:
        return self.harness.people.subscriptions.of(self.member.user.id)[-1]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebHarness, Taken]]:
    taken = Taken()
    with server(taken) as port:
        operator = {
            "OUTCRY_SMTP_URL": f"smtp://127.0.0.1:{port}",
            "OUTCRY_MAIL_FROM": "outcry@example.com",
            "OUTCRY_PUBLIC_URL": SITE,
        }
        with account_service(tmp_path_factory.mktemp("consent"), operator) as harness:
            yield harness, taken


@pytest.fixture
def post(served: tuple[WebHarness, Taken], request: pytest.FixtureRequest) -> ConsentHarness:
    """Each test has a user and, where it makes a webhook, a reader of its own: questions are counted."""
    harness, taken = served
    name = re.sub(r"\W", "-", request.node.name)[-40:]
    taken.mails.clear()
    return ConsentHarness(harness, taken, Member(harness, f"owner-{name}@example.com"))


def make(post: ConsentHarness, **fields: str) -> SubscriptionRow:
    wanted = {**NEW, "address": post.member.user.email.replace("owner", "reader"), **fields}
    reply = post.member.send("/account/webhooks", wanted)
    assert reply.status == 303, Read(reply).text
    return post.row


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


def press(visitor: Visitor, link: str) -> int:
    """Open a link and press the one button there, as the page's form has it."""
    page = visitor.get(link)
    assert page.status == 200
    action = re.search(r'<form class="panel" method="post" action="([^"]+)"', page.text)
    assert action is not None
    return visitor.post(action[1], {"csrf": csrf(page.text)} if "csrf" in page.text else {}).status


def one_click(post: ConsentHarness, link: str) -> int:
    """What a mail program sends (RFC 8058): from elsewhere, without cookies, with one entry."""
    headers = {**FORM, "origin": "https://mail.example.net", "sec-fetch-site": "cross-site"}
    return post.harness.visitor().send("POST", link, b"List-Unsubscribe=One-Click", headers).status


# -- yes


def test_a_reader_is_asked_and_nothing_is_sent_before_they_agree(post: ConsentHarness) -> None:
    row = make(post)
    assert row.phase is SubscriptionPhase.UNCONFIRMED
    (mail,) = post.taken.mails
    assert mail["To"] == row.shown
    link = post.link()

    visitor = post.harness.visitor()  # not signed in
    page = visitor.get(link)
    assert page.status == 200
    assert page.headers["cache-control"] == "no-store"
    text = Read(page).text
    for shown in (row.shown, "ES, NQ", "Warning and above", "Every hour", "Critical alerts immediately"):
        assert shown in text
    assert "Desk" not in text  # its owner's words are not the reader's
    assert post.row.phase is SubscriptionPhase.UNCONFIRMED

    for _ in range(2):
        assert press(visitor, link) == 200
        assert post.row.phase is SubscriptionPhase.ACTIVE


def test_a_yes_is_taken_from_our_page_alone(post: ConsentHarness) -> None:
    make(post)
    for fields in ({}, {"csrf": "0" * 40}):
        assert post.harness.visitor().post(post.link(), fields).status == 400
    assert post.row.phase is SubscriptionPhase.UNCONFIRMED


def test_another_address_is_asked_anew(post: ConsentHarness) -> None:
    row = make(post)
    old = post.link()
    assert press(post.harness.visitor(), old) == 200
    other = row.shown.replace("reader", "other")
    reply = post.member.send(f"/account/webhooks/{row.id}", {**NEW, "address": other})
    assert reply.status == 303
    assert (post.row.phase, post.row.shown) == (SubscriptionPhase.UNCONFIRMED, other)
    assert post.taken.mails[-1]["To"] == other
    assert post.harness.visitor().get(old).status == 404
    assert press(post.harness.visitor(), post.link()) == 200
    assert post.row.phase is SubscriptionPhase.ACTIVE


def test_an_address_that_stays_is_not_asked_again(post: ConsentHarness) -> None:
    row = make(post)
    press(post.harness.visitor(), post.link())
    post.taken.mails.clear()
    assert post.member.send(f"/account/webhooks/{row.id}", {**NEW, "address": "", "label": "x"}).status == 303
    assert post.row.phase is SubscriptionPhase.ACTIVE
    assert post.taken.mails == []


# -- no more


def test_a_mail_program_ends_the_mails_by_one_press(post: ConsentHarness) -> None:
    row = make(post)
    press(post.harness.visitor(), post.link())
    link = post.end_link(row)
    assert post.harness.visitor().get(link).status == 200  # mail servers look at links
    assert post.row.phase is SubscriptionPhase.ACTIVE
    for _ in range(2):
        assert one_click(post, link) == 200
        assert (post.row.phase, post.row.reason) == (SubscriptionPhase.UNCONFIRMED, "unsubscribed")


def test_a_reader_ends_them_by_the_page(post: ConsentHarness) -> None:
    row = make(post)
    press(post.harness.visitor(), post.link())
    assert press(post.harness.visitor(), post.end_link(row)) == 200
    assert post.row.reason == "unsubscribed"
    old = post.link()
    assert post.harness.visitor().get(old).status == 404  # what they said before does not count any more
    # its owner is told so, and can have the reader asked once more, who may agree
    place = f"/account/webhooks/{row.id}"
    assert post.member.send(f"{place}/confirmation").headers["location"] == f"{place}?done=asked"
    assert post.link() != old
    again = post.member.follow(post.member.send(f"{place}/confirmation"))
    assert "one a week after the recipient unsubscribed" in Read(again).text
    assert press(post.harness.visitor(), post.link()) == 200
    assert post.row.phase is SubscriptionPhase.ACTIVE


def test_forms_from_elsewhere_are_taken_for_this_alone(post: ConsentHarness) -> None:
    make(post)
    assert one_click(post, post.link()) == 400
    assert post.row.phase is SubscriptionPhase.UNCONFIRMED


@pytest.mark.parametrize("language", ["en", "de"])
def test_why_a_link_does_not_hold_is_told_to_nobody(post: ConsentHarness, language: str) -> None:
    """Altered, made for something else, of no subscription, none at all: one page, but for what differs in any two."""
    row = make(post)
    confirm, end = post.link(), post.end_link(row)
    at = end.index("=") + 1  # not the last character: some of its bits are not decoded
    bad = [
        end[:at] + ("A" if end[at] != "A" else "B") + end[at + 1 :],
        confirm.replace("confirm", "unsubscribe"),
        post.end_link(replace(row, id=row.id + 1000)),
        "/digest/unsubscribe?token=nothing",
        "/digest/unsubscribe",
        "/digest/unsubscribe?token=" + "x" * 5000,
    ]
    visitor = post.harness.visitor(language)
    pages = set()
    for link in bad:
        for reply in (visitor.get(link), visitor.post(link, {})):
            assert reply.status == 404
            pages.add(Read(reply).text.replace("csrf", ""))
    assert len(pages) == 1
    assert (
        "Dieser Link ist nicht mehr gültig" if language == "de" else "This link is no longer valid"
    ) in pages.pop()
    assert post.row == row


@pytest.mark.parametrize(
    "address", ["reader@localhost", "reader%elsewhere.example@example.com", "o'b@example.com"]
)
def test_an_address_that_is_no_mailbox_of_the_internet_is_refused(post: ConsentHarness, address: str) -> None:
    reply = post.member.send("/account/webhooks", {**NEW, "address": address})
    assert reply.status == 422
    assert "Enter an email address such as" in Read(reply).text
    assert post.taken.mails == []


# -- without mail


def test_a_service_without_mail_takes_no_address_for_it(tmp_path: Path) -> None:
    with account_service(tmp_path) as harness:
        member = Member(harness, "ann@example.com")
        reply = member.send("/account/webhooks", NEW)
        assert reply.status == 422
        assert "the operator has not set up a mail server" in Read(reply).text
        assert harness.people.subscriptions.of(member.user.id) == []


def test_a_token_is_in_no_log(post: ConsentHarness) -> None:
    row = make(post)
    token = urlsplit(post.end_link(row)).query.partition("=")[2]
    post.harness.visitor().get(post.end_link(row))
    one_click(post, post.end_link(row))
    assert token.rpartition(".")[2] not in post.harness.log.getvalue().decode()
