"""The endpoints of `/page` are those of `/api`, for a signed-in browser only."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.api.harness import SERVER_SECRET, HandClock, known, served
from tests.api.live_harness import Market
from tests.people.memory_store import MemoryIdentity

from outcry.access.licences import VISITOR, Scope
from outcry.http.auth import LOCAL_COOKIE, PAGE_STREAMS, PageAuthenticator
from outcry.people.browser_sessions import IDLE_NS, LONGEST_NS, BrowserSessions, Origin
from outcry.people.model import UserRow

DAY_NS = 24 * 3600 * 1_000_000_000


@dataclass
class Hall:
    """A service with pages and in-memory users."""

    market: Market
    people: MemoryIdentity
    browser_sessions: BrowserSessions
    clock: HandClock
    visitors: list[Scope]

    def person(self, email: str = "ann@example.com") -> UserRow:
        user = self.people.add_user(
            email, "member", "free", email.encode().ljust(32, b"."), self.clock.now_ns()
        )
        assert user is not None
        return user

    def sign_in(self, user: UserRow) -> dict[str, str]:
        """Return the cookie of a signed-in browser."""
        signed = self.browser_sessions.open(user, Origin("127.0.0.1", "test"), self.clock.now_ns())
        return {"cookie": f"theme=dark; {LOCAL_COOKIE}={signed.token}"}

    def get(self, path: str, headers: dict[str, str] | None = None, key: str | None = None) -> int:
        return self.market.harness.get(path, key, headers=headers).status


@pytest.fixture
def hall() -> Iterator[Hall]:
    people, clock, visitors = MemoryIdentity(), HandClock(), list[Scope]()
    browser_sessions = BrowserSessions(people, SERVER_SECRET, clock)
    authenticator = PageAuthenticator(browser_sessions, clock, lambda: visitors[0] if visitors else None)
    market = Market({"page_authenticator": authenticator})
    with served(market.harness):
        yield Hall(market, people, browser_sessions, clock, visitors)


def test_a_session_opens_page_and_never_api(hall: Hall) -> None:
    cookie = hall.sign_in(hall.person())
    assert hall.get("/page/levels?symbol=ES", cookie) == 200
    assert hall.get("/api/levels?symbol=ES", cookie) == 401
    assert hall.get("/page/levels?symbol=ES") == 401


def test_a_key_opens_api_and_never_page(hall: Hall) -> None:
    key = hall.market.harness.key()
    assert hall.get("/api/levels?symbol=ES", key=key) == 200
    assert hall.get("/page/levels?symbol=ES", key=key) == 401


def test_the_bodies_are_the_same(hall: Hall) -> None:
    cookie, key = hall.sign_in(hall.person()), hall.market.harness.key()
    for question in ("levels?symbol=ES", "symbols", "alerts"):
        page = hall.market.harness.get(f"/page/{question}", headers=cookie)
        assert page.body == hall.market.harness.get(f"/api/{question}", key).body
        assert "cookie" in page.headers["vary"]
        assert (page.headers["x-ratelimit-limit"], page.headers["cache-control"]) == (
            "600",
            "private, no-cache",
        )


def test_nobody_pushes_or_takes_tickets_by_a_session(hall: Hall) -> None:
    cookie = hall.sign_in(hall.person())
    for path in ("/page/ingest", "/page/stream/ticket", "/page/anything"):
        assert hall.market.harness.get(path, method="POST", headers=cookie, body=b"{}").status == 404
    assert hall.market.harness.get("/page/levels?symbol=ES", method="POST", headers=cookie).status == 405


def test_a_session_that_was_ended_opens_nothing_within_a_second(hall: Hall) -> None:
    """Another process ends the session, and the service sees it at the next poll of the store."""
    user = hall.person()
    cookie, other = hall.sign_in(user), hall.sign_in(user)
    assert hall.get("/page/symbols", cookie) == 200
    ended = hall.browser_sessions.of(user.id, hall.clock.now_ns())
    hall.people.end_sessions(user.id, hall.clock.now_ns(), only=ended[-1].id)
    known(hall.market.harness)
    assert {hall.get("/page/symbols", cookie), hall.get("/page/symbols", other)} == {200, 401}


def test_a_disabled_user_is_out_within_a_second(hall: Hall) -> None:
    user = hall.person()
    cookie = hall.sign_in(user)
    hall.people.change_user(user.id, disabled_ns=hall.clock.now_ns())
    known(hall.market.harness)
    assert hall.get("/page/symbols", cookie) == 401


@pytest.mark.parametrize("after_ns", [IDLE_NS, LONGEST_NS])
def test_a_session_ends_by_itself(hall: Hall, after_ns: int) -> None:
    cookie = hall.sign_in(hall.person())
    if after_ns == LONGEST_NS:  # in use all the time
        for _ in range(8):
            hall.clock.at_ns += 11 * DAY_NS
            assert hall.get("/page/symbols", cookie) == 200
        hall.clock.at_ns += 2 * DAY_NS
    else:
        hall.clock.at_ns += after_ns
    assert hall.get("/page/symbols", cookie) == 401


def test_a_stream_ends_with_its_session(hall: Hall) -> None:
    user = hall.person()
    hall.market.feed("ES")
    hall.market.grant("ES")
    time.sleep(0.5)
    cookie = hall.sign_in(user)
    with hall.market.stream(None, "/page/stream?symbols=ES", cookie=cookie["cookie"]) as stream:
        assert stream.status == 200
        assert stream.until("snapshot").data["states"][0]["live"] is True
        hall.browser_sessions.end(user.id, hall.clock.now_ns())
        assert stream.until("error").data == {"code": "unauthorized"}


@pytest.mark.parametrize("after_ns", [IDLE_NS, LONGEST_NS])
def test_a_stream_ends_when_its_sessions_time_is_over(hall: Hall, after_ns: int) -> None:
    cookie = hall.sign_in(hall.person())
    with hall.market.stream(None, "/page/stream", cookie=cookie["cookie"]) as stream:
        assert stream.until("snapshot")
        if after_ns == LONGEST_NS:  # in use all the time, in other tabs
            for _ in range(9):
                hall.clock.at_ns += 9 * DAY_NS
                assert hall.get("/page/symbols", cookie) == 200
                time.sleep(0.3)
            hall.clock.at_ns += 9 * DAY_NS
        else:
            hall.clock.at_ns += after_ns
        assert stream.until("error").data == {"code": "unauthorized"}


def test_a_person_has_so_many_streams_and_no_more(hall: Hall) -> None:
    cookie = hall.sign_in(hall.person())["cookie"]
    ears = [hall.market.stream(None, "/page/stream", cookie=cookie) for _ in range(PAGE_STREAMS)]
    try:
        assert {stream.status for stream in ears} == {200}
        assert hall.get("/page/stream", {"cookie": cookie}) == 429
    finally:
        for stream in ears:
            stream.close()


def test_a_visitor_sees_what_visitors_may_and_nothing_where_they_may_not(hall: Hall) -> None:
    assert hall.get("/page/alerts") == 401
    hall.visitors.append(Scope(VISITOR, ()))
    assert hall.get("/page/alerts") == 200
    assert hall.market.harness.query.calls[-1][1] == VISITOR


@pytest.mark.parametrize("token", ["", "x", "x" * 5000, "ä", "'; drop table sessions", "a=b=c"])
def test_no_token_is_guessed_or_breaks_anything(hall: Hall, token: str) -> None:
    sent = {"cookie": f"{LOCAL_COOKIE}={token}".encode().decode("latin-1")}
    assert hall.get("/page/symbols", sent) == 401


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::1", "127.0.0.1:99999", ""])
def test_under_a_strangers_name_nothing_of_a_page_and_no_metrics(hall: Hall, host: str) -> None:
    hall.visitors.append(Scope(VISITOR, ()))
    cookie = hall.sign_in(hall.person())
    assert hall.get("/page/symbols") == 200
    assert hall.get("/page/symbols", {"host": host}) in {400, 401}
    assert hall.get("/page/symbols", {"host": host, **cookie}) in {400, 401}
    assert hall.get("/metrics") == 200
    assert hall.get("/metrics", {"host": host}) in {400, 403}


def test_visitors_together_have_so_many_streams(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.api.stream.VISITOR_STREAMS", 3)
    hall.visitors.append(Scope(VISITOR, ()))
    ears = [hall.market.stream(None, "/page/stream") for _ in range(3)]
    try:
        assert {stream.status for stream in ears} == {200}
        assert hall.get("/page/stream") == 429
        with hall.market.stream(None, "/page/stream", cookie=hall.sign_in(hall.person())["cookie"]) as stream:
            assert stream.status == 200
    finally:
        for stream in ears:
            stream.close()
