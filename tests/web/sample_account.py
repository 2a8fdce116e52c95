"""The sample account for checks of every page: its data, and the URL of each page.

Every page of `web.pages` must have a URL here; a test fails for a page without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from re import sub
from typing import Literal

from tests.web.account_harness import Member, show
from tests.web.harness import SHOWS, WebHarness

from outcry.access.model import GrantRow
from outcry.app.installation import Installation
from outcry.app.secret import derived
from outcry.connections.model import ConnectionPhase, ConnectionRow
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.model import AttemptRow, SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Queue
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.delivery.subscriptions import Wish
from outcry.market.instruments import Contract
from outcry.market.saved_setting import setting_of
from outcry.market.units import NANOS_PER_HOUR
from outcry.people.browser_sessions import Origin
from outcry.people.model import Preferences, UserRow
from outcry.people.preset_store import SqlPresets
from outcry.sessions.datasets import ATTESTATION
from outcry.web.routes import all_pages


@dataclass(frozen=True)
class SampleAccount:
    """An operator with one of everything, a second user, and the numbers of what there is."""

    operator: UserRow
    member: UserRow
    token: str
    numbers: Mapping[str, int]
    invitation: str
    reset: str
    confirm: str
    unsubscribe: str


def furnish(
    harness: WebHarness, theme: Literal["dark", "light"] = "dark", language: str = "en", who: str = "operator"
) -> SampleAccount:
    """Make it, for somebody who likes things so."""
    email = f"{who}-{theme}-{language}@example.com"
    operator, member = harness.person(email, operator=True), harness.person(f"member-of-{who}@example.com")
    installation, people = harness.installation, harness.people
    now_ns = installation.clock.now_ns()
    if not installation.keys.of(operator.id):
        people.identity.prefer(operator, Preferences(language=language, theme=theme))
        installation.keys.create(email, "pro", now_ns, label="notebook <b>1</b>")
        wish = Wish(
            Target.HTTPS, "https://hooks.example.com/a/b/c", "desk & <i>phone</i>", ("ES", "NQ"), "warn"
        )
        people.subscriptions.add(operator.id, wish, now_ns)
        _deliver(harness, people.subscriptions.of(operator.id)[0])
        _have_mailed(installation, people.subscriptions.of(operator.id)[0])
        values = {"basis": "volume", "bars": 5, "percent": 68, "row": 4, "label": "edges"}
        presets = SqlPresets(installation.database)
        presets.add(operator.id, "my-desk", setting_of("my-desk", values), now_ns)
        _connect(harness, operator, language)
        _grant(installation, operator)
    invitation = people.identity.invite(None, f"guest-of-{who}@example.com", "member", "free", Origin())
    reset = people.identity.reset_link(None, member.id, Origin())
    return SampleAccount(
        operator, member, harness.token(operator),
        {
            "key_id": installation.keys.of(operator.id)[0].id,
            "webhook_id": people.subscriptions.of(operator.id)[0].id,
            "preset_id": SqlPresets(installation.database).of(operator.id)[0].id,
            "user_id": member.id,
            "connection_id": _first_connection(operator),
        },
        invitation, reset, *_consent_links(installation, people.subscriptions.of(operator.id)[-1]),
    )  # fmt: skip


def _grant(installation: Installation, operator: UserRow) -> None:
    """Something granted on a licence, and withdrawn."""
    row = GrantRow(0, f"user:{operator.id}", "live", ("ES", "NQ"), None, None, 0, None, licence="internal")
    attested, now_ns = ATTESTATION.format(licence="internal"), installation.clock.now_ns()
    number = installation.store.add_grant(row, now_ns, by=operator.email, attested=attested)
    installation.store.revoke_grant(number, now_ns, by="command")
    installation.store.add_grant(
        replace(row, scope="completed"), now_ns, by=operator.email, attested=attested
    )


def _have_mailed(installation: Installation, like: SubscriptionRow) -> None:
    """Put a digest beside a webhook: the service of these tests sends no mail, and would take none."""
    reader = replace(
        like, target=Target.EMAIL, shown="reader@example.com", phase=SubscriptionPhase.UNCONFIRMED,
        sealed_secret=None, secret_last4="", created_ns=like.created_ns + 1,
    )  # fmt: skip
    assert SqlSubscriptionStore(installation.database).add_subscription(reader, 20) is not None


def _consent_links(installation: Installation, row: SubscriptionRow) -> tuple[str, str]:
    links = ConsentLinks(derived(installation.secret, "mail consent"), "", installation.clock)
    return links.confirm(row), links.unsubscribe(row)


#: How the connections stand that an account has, the first of them checked.
_CONNECTIONS = (
    ("tradovate", ConnectionPhase.DEGRADED, "not_entitled"),
    ("databento", ConnectionPhase.CATCHING_UP, "catching_up"),
    ("tastytrade", ConnectionPhase.NEEDS_SIGN_IN, "login_refused"),
    ("massive", ConnectionPhase.PAUSED, "paused"),
)


def _first_connection(user: UserRow) -> int:
    return user.id * 10


def _connect(harness: WebHarness, user: UserRow, language: str) -> None:
    """Connections that stand in every way, one of them with streams and a check."""
    assert harness.connections is not None
    now_ns, first = harness.installation.clock.now_ns(), _first_connection(user)
    for number, (broker, phase, code) in enumerate(_CONNECTIONS, first):
        label = "desk & <i>home</i>" if number == first else ""
        row = ConnectionRow(number, user.id, broker, label, phase, code, now_ns, ("PL", "ZC", "HG"), "c0de")
        harness.connections.put(row)
    for root, reason in (("PL", "not_entitled"), ("HG", "catching_up")):
        show(harness.installation.registry, user.id, "tradovate", Contract(root, 2026, 5), reason)
    member = Member(harness, user.email, operator=True, language=language)
    assert member.send(f"/account/brokers/{first}/check").status == 303


def _deliver(harness: WebHarness, webhook: SubscriptionRow) -> None:
    """A log with something of each kind, and something at the receiver."""
    now_ns, outbox = harness.installation.clock.now_ns(), SqlOutbox(harness.installation.database)
    tried = AttemptRow(
        id=0, subscription_id=webhook.id, at_ns=now_ns, alert_key="ES:ib-break-up:1772640000000",
        alert_type="ib-break-up", symbol="ES", outcome="delivered", code="ok", status=200, took_ms=84,
        excerpt="<b>thanks</b> \x1b[31m", next_ns=None, message_id="msg_2yZC7cDjpkJZ", alerts=4,
        phases_ms=(("dns", 4), ("connect", 20), ("tls", 40), ("answer", 20)), shown=webhook.shown,
    )  # fmt: skip
    failing = Queue(failures=3, failing_since_ns=now_ns - 26 * NANOS_PER_HOUR, failed_ns=now_ns)
    for attempt, queue in (
        (tried, None),
        (
            replace(
                tried, outcome="pending", code="status", status=500, number=2, next_ns=now_ns + NANOS_PER_HOUR
            ),
            None,
        ),
        (
            replace(
                tried, outcome="dead", code="expired", status=None, took_ms=None, phases_ms=(), excerpt=""
            ),
            None,
        ),
        (
            replace(
                tried, outcome="failed", code="tls_error", alert_type="webhook-test", shown="then.example.com"
            ),
            failing,
        ),
    ):
        outbox.keep_attempt(attempt, queue)
    assert harness.installation.sink is not None
    harness.installation.sink.take(
        [("Webhook-Id", "msg_2yZC7cDjpkJZ")], b'{"version":2,"text":"ES \xe2\x80\xae","alerts":[]}'
    )


#: Parts of addresses that are chosen, not numbered.
_CHOSEN: Mapping[str, tuple[str, ...]] = {
    "symbol": tuple(root for root, _ in SHOWS.values()),
    "code": ("unauthorized", "no_licensed_source"),
    "broker": ("databento", "tradovate"),
    "form": ("name", "rotate", "revoke"),
    "root": ("ES", "6E"),
}
#: More to see than the bare address shows: other views of a page, and pages that need something in their address.
_MORE: Mapping[str, tuple[str, ...]] = {
    "/": ("?units=points&sort=symbol", "?sector=index", "?q=nothing-goes-by-this"),
    "/s/{symbol}": (
        "?view=table",
        "?layout=split&sessions=10",
        "?layout=candles",
        "?view=profile",
        "?view=profile&period=month&method=tradingview&delta=1",
        "?view=profile&date=2020-01-01",
    ),
    "/match": (
        "?symbol=ES",
        "?symbol=ES&date=2026-03-03&poc=7032.5&vah=7043&val=7020.5",
        "?symbol=ES&date=2026-03-03&poc=7000.25&vah=7100&val=6900",
    ),
    "/alerts": ("?severity=critical", "?symbol=ES", "?day=2026-03-03", "?symbol=nothing"),
    "/account/webhooks/new": ("?target=email", "?target=slack"),
    "/account/webhooks/{webhook_id}": ("?outcome=dead", "?done=resent&count=3"),
    "/account/brokers/{connection_id}": ("?done=often", "?done=saved"),
    "/sink": ("?done=manner",),
    "/invite": ("?token={invitation}",),
    "/reset/new": ("?token={reset}",),
    "/link": ("?token=none",),
    "/email": ("?token=none",),
    "/digest/confirm": ("?token={confirm}",),
    "/digest/unsubscribe": ("?token={unsubscribe}",),
}


def get_pages() -> list[str]:
    """The paths of all pages that are read."""
    return sorted({path for path, methods, _ in all_pages() if "GET" in methods})


def addresses(path: str, sample_account: SampleAccount) -> list[str]:
    """Addresses of a path, all its chosen parts tried."""
    found = [path]
    for name, options in _CHOSEN.items():
        found = [
            sub(rf"\{{{name}(:path)?\}}", option, address)
            for address in found
            for option in (options if f"{{{name}" in address else options[:1])
        ]
    for name, number in sample_account.numbers.items():
        found = [address.replace(f"{{{name}}}", str(number)) for address in found]
    links = {
        "invitation": sample_account.invitation, "reset": sample_account.reset,
        "confirm": sample_account.confirm, "unsubscribe": sample_account.unsubscribe,
    }  # fmt: skip
    tokens = {name: link.rpartition("token=")[2] for name, link in links.items()}
    more = [suffix.format(**tokens) for suffix in _MORE.get(path, ())]
    return [*found, *(found[0] + suffix for suffix in more)]
