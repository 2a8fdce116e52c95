"""Print the responses to random packets and the form that built them: for tests/arch/test_compiled.py.

Clocks stand still between steps. Request ids, durations and dates are masked.
"""

import asyncio
import hashlib
import json
import logging
import re
import sys
from collections.abc import Iterator
from random import Random

from tests.api.harness import Harness, build_harness, served
from tests.api.test_api_fastpath_parsing import DATED, DECEIVING, MORE, PARTS, Service
from tests.api.wire import Wire, plain

from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.base.build_form import form
from outcry.http import revision_poller

SECOND = 1_000_000_000
PATHS = ("/api/levels?symbol=ES", "/api/symbols", "/api/levels?symbol=XX", "/api/context?symbol=ES")
MASK = re.compile(rb'[0-9a-f]{12}-[0-9a-f]{8}|"ms":[0-9.]+|\r\ndate: [^\r]+')
Result = list[object]


def limits(seed: int) -> Iterator[Result]:
    """Count requests of a few subjects by a clock that advances at random."""
    random, at_ns = Random(seed), 0
    limiter = SlidingWindowLimiter(lambda: at_ns, max_subjects=6)
    for _ in range(4000):
        at_ns += random.choice((0, 1, SECOND // 7, SECOND, SECOND, 20 * SECOND, 61 * SECOND))
        subject, limit = (
            random.choice(("key:1", "key:2", "ip:1", f"ip:{random.randrange(9)}")),
            random.choice((0, 1, 5, 40, 700)),
        )
        verdict = getattr(limiter, random.choice(("take", "take", "take", "refusal", "peek")))(subject, limit)
        found = verdict and [verdict.allowed, verdict.remaining, verdict.reset_ms, verdict.retry_after_ms]
        yield [found, limiter.subjects, sorted(limiter.recent("ip:").items())]


def packet(random: Random, keys: list[str]) -> bytes:
    """Return a request of known lines, often damaged."""
    text = f"GET {random.choice(PATHS)} HTTP/1.1\r\nHost: outcry\r\nx-api-key: {random.choice(keys)}\r\n"
    text += random.choice([*MORE, *MORE, *DECEIVING, 'If-None-Match: "ETAG"\r\n']) + "\r\n"
    for _ in range(random.choice((0, 0, 1, 2))):
        ends = [place for place, letter in enumerate(text) if letter in "\r\n:"] + [0, len(text)]
        at = random.choice((random.choice(ends), random.randrange(len(text))))
        text = text[:at] + random.choice(PARTS).replace("KEY", keys[0]) + text[at + random.randrange(3) :]
    return text.encode("latin-1")


async def teach(service: Service, harness: Harness, keys: list[str]) -> None:
    """Let the fast path learn all requests of these keys, after the service has noticed all changes of keys."""
    await harness.app.edge.poller.next(60)
    for key in keys:
        for path in PATHS:
            for more in MORE:
                await service.teach(plain(key, path, more))
                harness.steady.at_ns += 3 * SECOND


def change(random: Random, harness: Harness) -> None:
    """Change what an answer depends on."""
    harness.steady.at_ns += random.choice((0, 0, SECOND // 50, SECOND, 61 * SECOND))
    harness.clock.at_ns += random.choice((0, 1_000_000, SECOND // 9, SECOND))
    if random.random() < 0.02:
        harness.app.edge.poller.freshness.end()


async def packets(seed: int) -> list[Result]:
    """Return the fast path's responses to packets, then the log and the metrics."""
    random, harness = Random(seed), build_harness()
    await harness.app.start()
    service = Service(harness)
    keys = [harness.key(random.choice(("admin", "pro", "free"))) for _ in range(8)]
    masks = {key: f"K{number}" for number, key in enumerate(keys)}
    names = {key[:15]: mask for key, mask in masks.items()}
    tag, found, dated = b"", list[Result](), list(DATED)
    for step in range(3000):
        if step % 1000 == 0:  # the revoked key is tried on
            harness.keys.revoke(keys[step // 1000][:15], harness.clock.now_ns())
        if step % 1000 == 200:
            await teach(service, harness, keys[step // 1000 + 1 :])
        change(random, harness)
        if random.random() < 0.05:
            dated = [(b"date", b"%d" % random.randrange(10))]
        data = packet(random, keys).replace(b"ETAG", tag)
        response = harness.app.fast_path.serve(data, dated)
        etag = re.search(rb'etag: "([0-9a-f]{32})"', response or b"")
        tag = etag[1] if etag else tag
        found.append([response and MASK.sub(b"", response).decode("latin-1")])
    harness.app.edge.access_log.flush()
    log = MASK.sub(b"", harness.log.getvalue()).decode()
    for name, mask in names.items():
        log = log.replace(name, mask)
    tallies = {str(key): tally.count for key, tally in harness.app.edge.metrics.tallies.items()}
    found.append([log, sorted(tallies.items()), sorted(harness.app.edge.metrics.refusals.items())])
    await harness.app.stop()
    return found


def connections(seed: int) -> Iterator[Result]:
    """Return the responses on real connections that repeat, change, divide and pipeline their requests."""
    random = Random(seed)
    with served(build_harness()) as harness:
        keys = [harness.key(), harness.key("pro")]
        wires = [Wire(harness) for _ in range(3)]
        for _ in range(300):
            wire, key = random.choice(wires), random.choice(keys)
            requests = [plain(key, random.choice(PATHS)) for _ in range(random.choice((1, 1, 1, 3)))]
            data, cut = b"".join(requests), random.choice((0, 0, random.randrange(40)))
            wire.send(data[:cut])
            wire.send(data[cut:])
            yield [MASK.sub(b"", wire.read()).decode("latin-1") for _ in requests]
        for wire in wires:
            wire.socket.close()


def main() -> None:
    logging.disable()
    revision_poller.STALE_NS = 3600 * SECOND
    found = [[*limits(seed), *asyncio.run(packets(seed)), *connections(seed)] for seed in range(3)]
    answered = sum(isinstance(result[0], str) for each in found for result in each)
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    json.dump({"form": form(), "answered": answered, "digest": digest}, sys.stdout)


if __name__ == "__main__":
    main()
