"""Digests sent to real SMTP servers on loopback, and parsed as a mail program does."""

import asyncio
import re
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser

import pytest
from babel.messages.pofile import read_po
from hypothesis import given
from hypothesis import strategies as st
from support.events import tell_into
from tests.delivery.mailed import NOW_NS, READER, alert, make_message
from tests.people.memory_store import HandClock
from tests.people.test_mail import Taken, server
from tests.timeouts import within

from outcry.base.log_events import Report, discard
from outcry.delivery import digest_message, email_sender
from outcry.delivery.digest_message import FOLDERS, MOST_SHOWN, Links, render_digest
from outcry.delivery.email_sender import MailSender
from outcry.delivery.model import SubscriptionRow
from outcry.delivery.outbox_model import Message
from outcry.delivery.sender import SendResult, Verdict
from outcry.market.alerts.machine import AlertType
from outcry.people.smtp import smtp_server

SITE = "https://outcry.example.com"
END = f"{SITE}/digest/unsubscribe?token=3.7.0.{'x' * 43}"
LINKS = Links(f"{SITE}/alerts", f"{SITE}/account/webhooks/7", END)
ES, NQ = alert("ES"), alert("NQ", severity="info", type=AlertType.NAKED_POC, ref="2026-09-17")
CL = alert("CL", severity="critical", type=AlertType.VA_TEST_HIGH, ref="VAH", params={"vah": 71_250_000_000})


def end_of(_row: SubscriptionRow) -> str:
    return END


def sender(port: int, report: Report = discard) -> MailSender:
    url = f"smtp://127.0.0.1:{port}"
    return MailSender(smtp_server(url), "Outcry <outcry@example.com>", SITE, end_of, HandClock(), report)


def sent(
    port: int, given: Message, *, address: str = "ann@example.com", said: list[str] | None = None
) -> SendResult:
    report = tell_into(said) if said is not None else discard
    return asyncio.run(sender(port, report).send(given, address, ()))


def parts(source: bytes) -> tuple[EmailMessage, str, str]:
    mail = message_from_bytes(source, policy=default)
    assert isinstance(mail, EmailMessage)
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    return mail, text.get_content(), html.get_content()


class _Page(HTMLParser):
    """Collects the text of HTML, and whatever it would load or run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.fetched: list[str] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = tag
        at = dict(attrs)
        self.fetched += [str(at[name]) for name in ("src", "srcset", "background", "poster") if name in at]
        self.fetched += [name for name in at if name.startswith("on")]
        if tag == "link":
            self.fetched.append(str(at.get("href")))

    def handle_data(self, data: str) -> None:
        if self._inside != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


# -- the email that arrives


def test_a_digest_arrives_as_text_and_as_html() -> None:
    taken = Taken()
    with server(taken) as port:
        done = sent(port, make_message(ES, NQ, CL))
    assert (done.verdict, done.code, done.status) == (Verdict.ARRIVED, "ok", 250)
    assert {name for name, _ in done.phases_ms} == {"connect", "answer"}
    mail, text, html = parts(taken.sources[0])
    assert mail.get_content_type() == "multipart/alternative"
    assert (mail["From"], mail["To"]) == ("Outcry <outcry@example.com>", "ann@example.com")
    assert mail["Subject"] == "3 alerts: ES, NQ, CL"
    page = _Page(html)
    for said in (
        "■ Critical · Mon, Sep 21, 2026 10:13:20 EDT", "▲ Warning", "● Info", "VAH tested",
        "Price traded at 6512.25, above the initial balance (IBH 6512).", "untouched POC of Thu, Sep 17, 2026",
        "Educational context, not advice.", "Time zone: America/New_York.", "Desk",
    ):  # fmt: skip
        assert said in " ".join(text.split())
        assert said in page.text
    assert END in text
    assert f'href="{END}"' in html


def test_headers_for_mail_programs() -> None:
    """A mail program sees the headers that mailbox providers require.

    RFC 8058 requires both List-Unsubscribe headers, unaltered and covered by the signature; RFC 3834 requires Auto-
    Submitted."""
    taken = Taken()
    with server(taken) as port:
        sent(port, make_message(ES))
    mail, _, _ = parts(taken.sources[0])
    head = taken.sources[0].partition(b"\r\n\r\n")[0].decode("ascii").splitlines()
    assert f"List-Unsubscribe: <{END}>" in head
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == "<msg_2f0c@example.com>"
    assert mail["Date"] == "Mon, 21 Sep 2026 14:13:20 +0000"
    assert taken.sources[0].isascii()
    assert max(map(len, taken.sources[0].split(b"\r\n"))) <= 998


def test_a_retried_email_has_the_same_id() -> None:
    taken = Taken()
    with server(taken) as port:
        for tries in range(2):
            sent(port, make_message(ES, tries=tries))
    assert [mail["Message-ID"] for mail in taken.mails] == ["<msg_2f0c@example.com>"] * 2


def test_a_test_email_is_labelled_as_a_test() -> None:
    taken = Taken()
    with server(taken) as port:
        done = sent(port, make_message())
    assert done.verdict is Verdict.ARRIVED
    mail, text, _ = parts(taken.sources[0])
    assert mail["Subject"] == "Test of your Outcry digest"
    assert "It contains no alerts;" in text
    assert done.request.startswith("Test of your Outcry digest")
    assert END not in done.request


def test_missed_alerts_are_reported_until_an_email_arrives() -> None:
    taken = Taken()
    with server(taken) as port:
        assert sent(port, make_message(ES, missed=3)).reported_missed
        assert not sent(port, make_message(ES)).reported_missed
        taken.answer = "451 later"
        assert not sent(port, make_message(ES, missed=3)).reported_missed
    _, text, html = parts(taken.sources[0])
    for form in (text, _Page(html).text):
        assert "3 earlier alerts could not be delivered." in form


# -- results


@pytest.mark.parametrize(
    ("welcome", "answer", "verdict", "code", "status"),
    [
        ("250 OK", "451 4.3.0 try later", Verdict.LATER, "mail_failed", 451),
        ("450 4.2.0 greylisted", "250 OK", Verdict.LATER, "mail_failed", 450),
        ("550 5.1.1 no such user", "250 OK", Verdict.BOUNCED, "mail_refused", 550),
        ("550 no such user", "250 OK", Verdict.BOUNCED, "mail_refused", 550),
        ("552 5.2.2 mailbox full", "250 OK", Verdict.BOUNCED, "mail_refused", 552),
        ("250 OK", "550 no such user after all", Verdict.BOUNCED, "mail_refused", 550),
        ("554 5.7.1 relay access denied", "250 OK", Verdict.LATER, "mail_failed", 554),
        ("250 OK", "554 5.6.0 bad content", Verdict.LATER, "mail_failed", 554),
    ],
)
def test_the_servers_response_decides_the_result(
    welcome: str, answer: str, verdict: Verdict, code: str, status: int
) -> None:
    taken, said = Taken(), list[str]()
    taken.welcome, taken.answer = welcome, answer
    with server(taken) as port:
        done = sent(port, make_message(ES), said=said)
        assert (done.verdict, done.code, done.status) == (verdict, code, status)
        refused = welcome if welcome != "250 OK" else answer
        assert done.excerpt == refused[4:]
        # the operator can correct it, or for a mailbox its owner
        where = f"127.0.0.1:{port} returned {status}"
        assert said == ([f"email_failed kind=alerts problem={where}"] if verdict is Verdict.LATER else [])
    assert taken.mails == []


def test_a_wrong_password_is_reported_to_the_operator() -> None:
    from tests.people.test_mail import _authenticate

    taken, said = Taken(), list[str]()
    with server(taken, authenticator=_authenticate, auth_require_tls=False) as port:
        url = smtp_server(f"smtp://outcry:wrong@127.0.0.1:{port}")
        mails = MailSender(url, "outcry@example.com", SITE, end_of, HandClock(), tell_into(said))
        done = asyncio.run(mails.send(make_message(ES), "ann@example.com", ()))
    assert (done.verdict, done.code, done.status) == (Verdict.LATER, "mail_failed", 535)
    assert said == [f"email_failed kind=alerts problem=127.0.0.1:{port} rejected the user name or password"]


def test_an_unreachable_server_is_retried_later() -> None:
    said: list[str] = []
    done = sent(1, make_message(ES), said=said)
    assert (done.verdict, done.code, done.status) == (Verdict.LATER, "mail_failed", None)
    assert said == ["email_failed kind=alerts problem=connection to 127.0.0.1:1 failed: SMTPConnectError"]


def test_an_unresponsive_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(email_sender, "_WITHIN_S", 0.2)

    async def silent() -> SendResult:
        held = asyncio.Event()

        async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await held.wait()
            writer.close()

        mute = await asyncio.start_server(hold, "127.0.0.1", 0)
        async with mute:
            port = mute.sockets[0].getsockname()[1]
            done = await within(sender(port).send(make_message(ES), "ann@example.com", ()), 5)
            held.set()
        return done

    done = asyncio.run(silent())
    assert (done.verdict, done.code) == (Verdict.LATER, "mail_failed")


def test_simultaneous_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections use all slots. A third message is reported as waiting and does not count as an attempt."""
    monkeypatch.setattr(email_sender, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(email_sender, "AT_A_TIME", 2)

    async def crowd() -> SendResult:
        begun, held = asyncio.Semaphore(0), asyncio.Event()

        async def hold(*_given: object) -> SendResult:
            begun.release()
            await held.wait()
            return SendResult(Verdict.ARRIVED, "ok")

        mails = sender(1)
        mails._send = hold  # type: ignore[method-assign,assignment]
        first = [asyncio.create_task(mails.send(make_message(ES), "ann@example.com", ())) for _ in range(2)]
        for _ in first:
            await begun.acquire()
        third = await mails.send(make_message(ES), "ann@example.com", ())
        held.set()
        await asyncio.gather(*first)
        assert (await mails.send(make_message(ES), "ann@example.com", ())).verdict is Verdict.ARRIVED
        return third

    assert asyncio.run(crowd()) == SendResult(Verdict.BUSY, "too_busy")


def test_an_address_cannot_add_a_header() -> None:
    taken = Taken()
    with server(taken) as port:
        done = sent(port, make_message(ES), address="ann@example.com\r\nBcc: all@example.com")
    assert done.verdict is Verdict.REFUSED
    assert taken.mails == []


# -- contents


def test_a_long_digest_shows_the_most_severe_and_newest_and_counts_the_rest() -> None:
    many = [alert("ES", severity="info", at_ns=NOW_NS + n * 10**9) for n in range(60)]
    many[0] = alert("CL", severity="critical")
    digest = render_digest(make_message(*many), LINKS)
    assert digest.text.count("● Info") == MOST_SHOWN - 1
    assert digest.text.count("■ Critical") == 1
    assert f"and 10 more: {SITE}/alerts" in digest.text
    assert "10:13:30 EDT" not in digest.text  # the tenth is the newest of those omitted
    assert "10:13:31 EDT" in digest.text
    assert digest.subject == "60 alerts: CL, ES"
    assert "more:" not in render_digest(make_message(*many[:MOST_SHOWN]), LINKS).text


def test_alerts_are_grouped_by_symbol_in_their_order() -> None:
    digest = render_digest(make_message(NQ, ES, alert("NQ", severity="critical")), LINKS)
    found = re.findall(r"^(?:NQ|ES|[■▲●] \w+)", digest.text, re.MULTILINE)
    assert found == ["NQ", "● Info", "■ Critical", "ES", "▲ Warning"]


def test_a_subject_has_the_number_and_symbols_of_alerts() -> None:
    symbols = ("ES", "NQ", "CL", "GC", "ZN", "6E", "YM", "RTY")
    assert render_digest(make_message(ES), LINKS).subject == "1 alert: ES"
    assert (
        render_digest(make_message(*map(alert, symbols)), LINKS).subject
        == "8 alerts: ES, NQ, CL, GC, ZN, 6E, …"
    )


def test_times_are_in_the_readers_time_zone() -> None:
    india = READER.__class__("a@example.com", "en", "Asia/Kolkata", 9)
    assert "Mon, Sep 21, 2026 19:43:20 IST" in render_digest(make_message(ES, reader=india), LINKS).text


def test_a_german_reader_gets_german_emails() -> None:
    german = READER.__class__("a@example.com", "de", "Europe/Berlin", 9)
    digest = render_digest(make_message(ES, CL, missed=1, reader=german), LINKS)
    assert digest.subject == "2 Alerts: ES, CL"
    for said in (
        "▲ Warnung · Mo., 21. Sept. 2026 16:13:20 CEST", "■ Kritisch", "Ausbruch über die Initial Balance",
        "Kurs bei 6512.25, über der Initial Balance (IBH 6512).", "1 früherer Alert konnte nicht",
        "Nur zum Lernen, keine Anlageberatung.",
    ):  # fmt: skip
        assert said in digest.text
        assert said in _Page(digest.html).text
    assert '<html lang="de">' in digest.html


def test_a_simulated_market_is_labelled_as_simulated() -> None:
    assert "Simulated market" not in render_digest(make_message(ES), LINKS).text
    digest = render_digest(make_message(ES, alert("NQ", invented=True)), LINKS)
    assert "Simulated market" in digest.text
    assert "Simulated market" in digest.html


def test_an_email_loads_and_runs_nothing() -> None:
    page = _Page(render_digest(make_message(ES, NQ, CL, missed=1), LINKS).html)
    assert page.fetched == []
    assert not page.tags & {"script", "img", "iframe", "link", "object", "svg", "form"}
    assert "@import" not in render_digest(make_message(ES), LINKS).html
    assert "url(" not in render_digest(make_message(ES), LINKS).html


@given(label=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_text_of_the_owner_is_escaped(label: str) -> None:
    page = _Page(render_digest(make_message(ES, subscription={"label": label + "<script>&"}), LINKS).html)
    assert "script" not in page.tags
    assert "<script>&" in page.text


# -- texts


def test_every_text_has_german() -> None:
    """The catalogues contain every text of the templates and of `words`."""
    folder = FOLDERS[0].parent
    sources = [path.read_text() for path in (folder / "templates").iterdir()]
    sources.append((folder / "digest_message.py").read_text())
    texts = {
        text
        for source in sources
        for text in re.findall(r'(?:words\(|ngettext\(|_counted\(\s*words,)\s*"([^"]+)"', source)
    }
    assert len(texts) >= 12
    known: set[str] = set()
    for path in (path for at in FOLDERS for path in (at / "de").glob("*.po")):
        with path.open("rb") as file:
            known |= {
                message.id if isinstance(message.id, str) else message.id[0]
                for message in read_po(file, locale="de")
                if message.id and all([message.string] if isinstance(message.string, str) else message.string)
            }
    assert texts - known == set()


def test_an_unknown_language_falls_back_to_english() -> None:
    for language in ("", "xx", "../de"):
        assert digest_message.vocabulary(language).language == "en"
