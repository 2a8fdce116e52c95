"""What lies in the account the pages are looked at with, so that no page is looked at empty; and where each page is.

Rule kept: every page of `web.pages` has an address here. A new one without is a failure, not a page nobody looks at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from re import sub
from typing import Literal

from webstage import SHOWS, WebStage

from outcry.ports.delivery import SubscriptionPhase, SubscriptionRow, Target
from outcry.ports.identity import Preferences, UserRow
from outcry.services.consent_links import ConsentLinks
from outcry.services.identity.browsers import Origin
from outcry.services.subscriptions import Wish
from outcry.store.subscriptions import SqlSubscriptionStore
from outcry.web.pages import all_pages
from outcry.wiring import House
from outcry.wiring.secret import derived


@dataclass(frozen=True)
class Furnished:
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
    stage: WebStage, theme: Literal["dark", "light"] = "dark", language: str = "en", who: str = "operator"
) -> Furnished:
    """Make it, for somebody who likes things so."""
    email = f"{who}-{theme}-{language}@example.com"
    operator, member = stage.person(email, operator=True), stage.person(f"member-of-{who}@example.com")
    house, people = stage.house, stage.people
    now_ns = house.clock.now_ns()
    if not house.keys.of(operator.id):
        people.identity.prefer(operator, Preferences(language=language, theme=theme))
        house.keys.create(email, "pro", now_ns, label="notebook <b>1</b>")
        wish = Wish(
            Target.HTTPS, "https://hooks.example.com/a/b/c", "desk & <i>phone</i>", ("ES", "NQ"), "warn"
        )
        people.subscriptions.add(operator.id, wish, now_ns)
        _have_mailed(house, people.subscriptions.of(operator.id)[0])
    invitation = people.identity.invite(None, f"guest-of-{who}@example.com", "member", "free", Origin())
    reset = people.identity.reset_link(None, member.id, Origin())
    return Furnished(
        operator, member, stage.token(operator),
        {
            "key_id": house.keys.of(operator.id)[0].id,
            "webhook_id": people.subscriptions.of(operator.id)[0].id,
            "user_id": member.id,
            "connection_id": 1,
        },
        invitation, reset, *_consent_links(house, people.subscriptions.of(operator.id)[-1]),
    )  # fmt: skip


def _have_mailed(house: House, like: SubscriptionRow) -> None:
    """Put a digest beside a webhook: the service of these tests sends no mail, and would take none."""
    reader = replace(
        like, target=Target.EMAIL, shown="reader@example.com", phase=SubscriptionPhase.UNCONFIRMED,
        sealed_secret=None, secret_last4="", created_ns=like.created_ns + 1,
    )  # fmt: skip
    assert SqlSubscriptionStore(house.database).add_subscription(reader, 20) is not None


def _consent_links(house: House, row: SubscriptionRow) -> tuple[str, str]:
    links = ConsentLinks(derived(house.secret, "mail consent"), "", house.clock)
    return links.confirm(row), links.unsubscribe(row)


#: Parts of addresses that are chosen, not numbered.
_CHOSEN: Mapping[str, tuple[str, ...]] = {
    "symbol": tuple(root for root, _ in SHOWS.values()),
    "code": ("unauthorized", "no_licensed_source"),
    "broker": ("databento",),
    "form": ("name", "rotate", "revoke"),
}
#: More to see than the bare address shows: other views of a page, and pages that need something in their address.
_MORE: Mapping[str, tuple[str, ...]] = {
    "/": ("?units=points&sort=symbol", "?sector=index", "?q=nothing-goes-by-this"),
    "/s/{symbol}": ("?view=table", "?layout=split&sessions=10", "?layout=candles"),
    "/alerts": ("?severity=critical", "?symbol=ES", "?day=2026-03-03", "?symbol=nothing"),
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


def addresses(path: str, furnished: Furnished) -> list[str]:
    """Addresses of a path, all its chosen parts tried."""
    found = [path]
    for name, options in _CHOSEN.items():
        found = [
            sub(rf"\{{{name}(:path)?\}}", option, address)
            for address in found
            for option in (options if f"{{{name}" in address else options[:1])
        ]
    for name, number in furnished.numbers.items():
        found = [address.replace(f"{{{name}}}", str(number)) for address in found]
    links = {
        "invitation": furnished.invitation, "reset": furnished.reset,
        "confirm": furnished.confirm, "unsubscribe": furnished.unsubscribe,
    }  # fmt: skip
    tokens = {name: link.rpartition("token=")[2] for name, link in links.items()}
    more = [suffix.format(**tokens) for suffix in _MORE.get(path, ())]
    return [*found, *(found[0] + suffix for suffix in more)]
