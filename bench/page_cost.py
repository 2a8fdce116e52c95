"""Cost of the pages for the server and the wire: completed sessions of thirty products, nothing changes meanwhile."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.figures import Figure, Rounds, at_most
from bench.measurement import Size
from bench.paint import browsing, signed_in
from bench.processes import cpu_ns
from bench.tape import lay_out
from bench.web_servers import Running, service

#: As Chromium sends it.
_ENCODINGS = "gzip, deflate, br, zstd"
_PAGES = 10
_QUIET_S = 1.5


def goals(size: Size) -> Iterator[Figure]:
    """Measure the scan of all markets and the requests of one symbol's page."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        data = Path(place)
        lay_out(data, history=size.of(20, 20, 2))
        with browsing() as browser, service(data, {}) as running:
            state = signed_in(browser, running.base, data)
            cookie = "; ".join(f"{each['name']}={each['value']}" for each in state["cookies"])
            _page(running, cookie)
            costs, sizes = list[float](), list[int]()
            for _ in range(size.rounds):
                before_ns = cpu_ns(running.process.pid)
                sizes = [_page(running, cookie) for _ in range(_PAGES)]
                costs.append((cpu_ns(running.process.pid) - before_ns) / _PAGES / 1e6)
            name = "page `/`: server's processor time, unchanged"
            yield Figure.of_rounds(name, Rounds.of(costs), "ms", goal=at_most(10))
            yield Figure("page `/`: bytes on the wire", sizes[-1] / 1e3, "kB", goal=at_most(20))
            requests = _requests(browser, running, state)
            yield Figure("page `/s/ES`: requests", requests, "requests", goal=at_most(15))


def _page(running: Running, cookie: str) -> int:
    """Get the page; return the bytes of its head and body."""
    connection = http.client.HTTPConnection(running.base.removeprefix("http://"), timeout=30)
    connection.request("GET", "/", headers={"accept-encoding": _ENCODINGS, "cookie": cookie})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the page answered {answer.status}")
    return sum(len(name) + len(value) + 4 for name, value in answer.getheaders()) + len(body)


def _requests(browser: Any, running: Running, state: Any) -> int:
    """Return the number of requests of one page in a browser without a cache, until it is quiet."""
    asked: list[str] = []

    def note(request: Any) -> None:
        asked.append(request.url)

    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.on("request", note)
    page.goto(f"{running.base}/s/ES")
    before = -1
    while before != len(asked):
        before = len(asked)
        page.wait_for_timeout(_QUIET_S * 1e3)
    context.close()
    return len(asked)
