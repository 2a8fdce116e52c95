"""Progress of sending to a service, by queue and in total."""

import asyncio

from outcry.agent.sender import RetryLater
from outcry.agent.spool_sender import SpoolSender
from outcry.client.errors import ApiError, Unreachable
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract

ES = StreamKey(1, "a", Contract("ES", 2024, 9))
NQ = StreamKey(1, "a", Contract("NQ", 2024, 9))
QUEUE = None  # this transport does not use the queue


class ScriptedTransport:
    """A transport with prepared answers."""

    longest_pause_s = 0.4

    def __init__(self) -> None:
        self.answers: dict[StreamKey, RetryLater | None] = {}

    async def attempt(self, key, _line):
        return self.answers[key]

    def close(self) -> None: ...


def away() -> RetryLater:
    return RetryLater(Unreachable("the owner of the stream cannot be reached"))


def test_a_service_is_reached_once_every_line_is_and_its_state_does_not_go_to_and_fro() -> None:
    transport, seen = ScriptedTransport(), []

    async def run() -> None:
        sender = SpoolSender(transport, lambda: seen.append(sender.service.code))
        for es, nq in (
            (None, None),
            (away(), None),
            (away(), None),
            (away(), away()),
            (None, away()),
            (None, None),
        ):
            transport.answers = {ES: es, NQ: nq}
            for key in (ES, NQ):
                await sender.send(key, QUEUE)
            assert (sender.is_answering(ES), sender.is_answering(NQ)) == (es is None, nq is None)
        assert seen == ["ok", "service_unreachable", "ok"]

    asyncio.run(run())


def test_a_line_that_is_carried_no_more_and_one_that_is_refused_are_not_waited_for() -> None:
    transport, seen = ScriptedTransport(), []

    async def run() -> None:
        sender = SpoolSender(transport, lambda: seen.append(sender.service.code))
        transport.answers = {ES: away(), NQ: away()}
        for key in (ES, NQ):
            await sender.send(key, QUEUE)
        sender.forget(ES)
        busy = ApiError("too_many_requests", 429, "", "wait", {"reason": "occupied"})
        transport.answers[NQ] = RetryLater(busy)
        await sender.send(NQ, QUEUE)
        assert seen == ["service_unreachable", "ok"]
        assert sender.refused == {NQ: "occupied"}

    asyncio.run(run())
