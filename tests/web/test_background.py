"""URL checks and test messages to hosts that do not answer: which requests wait, and which do not."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from unittest.mock import patch

import pytest
from tests.web.account_harness import Member, Read
from tests.web.harness import Reply, WebHarness
from tests.web.webhook_harness import SLACK, URL, ScriptedDeliverer, made, stored_rows, webhook_service, wish

from outcry.delivery import service as delivery
from outcry.web import background

PATIENCE_S = 60.0


@dataclass
class HangingHosts:
    """Hosts that hang until they are let go: their names begin with the user they are of."""

    open: bool = False
    waiting: Counter[str] = field(default_factory=Counter[str])
    changed: Condition = field(default_factory=Condition)

    def __call__(self, address: str) -> None:
        host = address.removeprefix("https://").partition("/")[0]
        if not host.startswith("hang-"):
            return
        user = host.partition(".")[0]
        with self.changed:
            self.waiting[user] += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.open, 120)
            self.waiting[user] -= 1

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting.total() >= count, PATIENCE_S), self.waiting

    def let_go(self) -> None:
        with self.changed:
            self.open = True
            self.changed.notify_all()


DELIVERER = ScriptedDeliverer()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with webhook_service(tmp_path_factory.mktemp("background"), DELIVERER) as staged:
        yield staged


@pytest.fixture
def hosts() -> Iterator[HangingHosts]:
    hosts = HangingHosts()
    DELIVERER.before = hosts
    yield hosts
    hosts.let_go()
    DELIVERER.before = lambda _: None


def save(member: Member, user: str, number: int) -> Reply:
    return member.send("/account/webhooks", wish(address=f"https://hang-{user}.mysite.dev/{number}"))


def test_whoever_waits_for_hosts_holds_up_nobody_else(harness: WebHarness, hosts: HangingHosts) -> None:
    """Twenty saves, more than there are threads for pages, at hosts whose names are not answered."""
    others = {user: Member(harness, f"{user}-hangs@example.com") for user in ("a", "b", "c", "d")}
    bob = Member(harness, "bob-does-not@example.com")
    with ThreadPoolExecutor(20) as pool:
        sent: list[Future[Reply]] = [
            pool.submit(save, member, user, number) for user, member in others.items() for number in range(5)
        ]
        try:
            hosts.wait_for(8)
            row = made(harness, bob)
            assert bob.get(f"/account/webhooks/{row.id}").status == 200
            assert "Delivered." in Read(bob.send(f"/account/webhooks/{row.id}/test")).text
            assert others["a"].get("/account/webhooks").status == 200
            assert hosts.waiting == {f"hang-{user}": background.MAX_RUNNING for user in others}
        finally:
            hosts.let_go()
        assert [one.result().status for one in sent] == [303] * 20
    assert [len(stored_rows(harness, member)) for member in others.values()] == [5] * 4


def test_what_finds_no_place_is_refused_with_what_was_typed(harness: WebHarness, hosts: HangingHosts) -> None:
    ann = Member(harness, "ann-has-two-under-way@example.com")
    row = made(harness, ann)
    with ThreadPoolExecutor(2) as pool, patch.object(background, "QUEUE_TIMEOUT_S", 0.05):
        sent = [pool.submit(save, ann, "ann", number) for number in range(2)]
        try:
            hosts.wait_for(2)
            for path in ("/account/webhooks", f"/account/webhooks/{row.id}"):
                refused = ann.send(path, wish(address="https://third.mysite.dev/in", label="Third"))
                assert refused.status == 429
                assert "Not saved" in Read(refused).text
                assert Read(refused).entry("address") == "https://third.mysite.dev/in"
                assert Read(refused).entry("label") == "Third"
            tested = ann.send(f"/account/webhooks/{row.id}/test")
            assert tested.status == 429
            assert "deliveries are in progress" in Read(tested).text
            renamed = ann.send(f"/account/webhooks/{row.id}", wish(address="", label="Renamed"))
            assert renamed.status == 303  # nothing is looked for
        finally:
            hosts.let_go()
        assert [one.result().status for one in sent] == [303, 303]


def test_ten_hosts_a_minute(harness: WebHarness) -> None:
    carol = Member(harness, "carol-saves@example.com")
    row = made(harness, carol)
    place = f"/account/webhooks/{row.id}"
    for number in range(9):
        assert carol.send(place, wish(address=f"https://h{number}.mysite.dev/in")).status == 303
    for path in (place, "/account/webhooks"):
        refused = carol.send(path, wish(address="https://more.mysite.dev/in"))
        assert refused.status == 429
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert Read(refused).entry("address") == "https://more.mysite.dev/in"
    assert carol.send("/account/webhooks", wish(target="slack", address=SLACK)).status == 303
    assert carol.send(place, wish(address="", label="Renamed")).status == 303
    assert (
        Member(harness, "dave-saves@example.com").send("/account/webhooks", wish(address=URL)).status == 303
    )


def test_a_page_waits_for_what_a_test_says_at_last() -> None:
    """A test that is not answered ends by itself, with why; the page must not have given it up by then."""
    assert background.TIMEOUT_S > delivery._TESTING_S + 1
