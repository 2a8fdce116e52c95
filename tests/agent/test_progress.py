"""What the way out shows of a service, line by line and on the whole."""

import asyncio

from outcry.agent.sender import RetryLater
from outcry.agent.spool_sender import SpoolSender
from outcry.client.errors import ApiError, Unreachable
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract

ES = StreamKey(1, "a", Contract("ES", 2024, 9))
NQ = StreamKey(1, "a", Contract("NQ", 2024, 9))
LINE = None  # the carrier here looks at no line


class Told:
    """A carrier that answers as it is told."""

    longest_pause_s = 0.4

    def __init__(self) -> None:
        self.answers: dict[StreamKey, RetryLater | None] = {}

    async def attempt(self, key, _line):
        return self.answers[key]

    def close(self) -> None: ...


def away() -> RetryLater:
    return RetryLater(Unreachable("the owner of the stream cannot be reached"))


def test_a_service_is_reached_once_every_line_is_and_its_state_does_not_go_to_and_fro() -> None:
    carrier, seen = Told(), []

    async def run() -> None:
        outward = SpoolSender(carrier, lambda: seen.append(outward.reached.code))
        for es, nq in (
            (None, None),
            (away(), None),
            (away(), None),
            (away(), away()),
            (None, away()),
            (None, None),
        ):
            carrier.answers = {ES: es, NQ: nq}
            for key in (ES, NQ):
                await outward.send(key, LINE)
            assert (outward.reaches(ES), outward.reaches(NQ)) == (es is None, nq is None)
        assert seen == ["ok", "service_unreachable", "ok"]

    asyncio.run(run())


def test_a_line_that_is_carried_no_more_and_one_that_is_refused_are_not_waited_for() -> None:
    carrier, seen = Told(), []

    async def run() -> None:
        outward = SpoolSender(carrier, lambda: seen.append(outward.reached.code))
        carrier.answers = {ES: away(), NQ: away()}
        for key in (ES, NQ):
            await outward.send(key, LINE)
        outward.forget(ES)
        busy = ApiError("too_many_requests", 429, "", "wait", {"reason": "occupied"})
        carrier.answers[NQ] = RetryLater(busy)
        await outward.send(NQ, LINE)
        assert seen == ["service_unreachable", "ok"]
        assert outward.refused == {NQ: "occupied"}

    asyncio.run(run())
