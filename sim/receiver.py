"""Endpoint that receives webhooks, and the deliveries it received."""

import json
import ssl
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Receiver:
    """Receives webhooks at `/in/OWNER`.

    `arrived`: message ids by owner and alert. `repeats`: times at which a message arrived again.
    """

    port: int
    arrived: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    messages: dict[str, str] = field(default_factory=dict[str, str])
    repeats: list[float] = field(default_factory=list[float])
    changed: list[str] = field(default_factory=list[str])

    async def serve(self, trust: ssl.SSLContext) -> web.AppRunner:
        """Start listening; the caller must clean up the returned runner at the end."""
        application = web.Application()
        application.router.add_post("/in/{owner}", self._take)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=trust).start()
        return runner

    def faults(self, recorded: Mapping[str, Sequence[str]], shared: Sequence[str]) -> Iterator[str]:
        """Return deliveries that are missing or arrived under two ids.

        `recorded`: keys of the alerts of each owner. `shared`: keys of the alerts that every user receives as well.
        """
        for owner, keys in recorded.items():
            missing = set(keys) - self.arrived[owner].keys()
            strange = self.arrived[owner].keys() - set(keys) - set(shared)
            if missing:
                yield f"deliveries to {owner}: {len(missing)} of {len(keys)} alerts did not arrive: {min(missing)}"
            if strange:
                yield f"deliveries to {owner}: {len(strange)} are of no alert there is: {min(strange)}"
            twice = [key for key, ids in self.arrived[owner].items() if len(ids) > 1]
            if twice:
                yield f"deliveries to {owner}: {len(twice)} alerts came under two ids: {min(twice)}"
        if self.changed:
            yield f"deliveries: {len(self.changed)} messages came again with another body: {self.changed[0]}"

    async def _take(self, request: web.Request) -> web.Response:
        body, number = await request.text(), request.headers["webhook-id"]
        if number in self.messages:
            self.repeats.append(time.monotonic())
            if self.messages[number] != body:
                self.changed.append(number)
        self.messages[number] = body
        for alert in json.loads(body)["alerts"]:
            self.arrived[request.match_info["owner"]][alert["key"]].add(number)
        return web.Response()
