"""Asking for names, some of whose servers hang: who waits for whom, and who is at fault."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from tests.deliver.conftest import NAME, Run
from tests.deliver.outside import HEADERS, Authority, OutsideRule, leaving

from outcry.delivery import names
from outcry.delivery.names import NameService, Unresolvable
from outcry.delivery.slots import NoTurn, Turns

QUICK_S = 0.3
#: Of one domain, at once.
SHARE = names.THREADS // 8


class Hanging:
    """A name service; names that begin with `hang` are answered when they are `released`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hang = "hang"
        self.released = threading.Event()

    def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name.startswith(self.hang):
            self.released.wait(20)
        return ("127.0.0.2",)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.released.set()


async def fault(service: NameService, name: str, *, judging: bool = False) -> str:
    """`ok`, or why a name has no addresses."""
    try:
        await service.addresses(name, judging=judging)
    except (Unresolvable, NoTurn) as problem:
        return type(problem).__name__
    return "ok"


def test_a_domain_has_its_share_and_who_waits_behind_it_is_told_so(run: Run, hanging: Hanging) -> None:
    async def trial() -> None:
        service = NameService(hanging, QUICK_S)
        asked = [f"hang{at}.evil.dev" for at in range(SHARE + 3)]
        faults = asyncio.gather(*(fault(service, name) for name in asked))
        assert await fault(service, "good.dev") == "ok"
        assert await faults == ["Unresolvable"] * SHARE + ["NoTurn"] * 3
        hanging.released.set()
        assert await fault(service, "last.evil.dev") == "ok"
        assert not {*hanging.asked} & {*asked[SHARE:]}  # nobody waits for them any more
        assert [await fault(service, name) for name in asked] == ["ok"] * len(asked)
        service.close()

    run(trial())


def test_who_still_waits_is_answered_though_another_left(run: Run, hanging: Hanging) -> None:
    async def trial() -> None:
        service = NameService(hanging, 10)
        held = [asyncio.create_task(fault(service, f"hang{at}.evil.dev")) for at in range(SHARE)]
        waiting = [asyncio.create_task(fault(service, "x.evil.dev")) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        hanging.released.set()
        assert await waiting[1] == "ok"
        assert await asyncio.gather(*held) == ["ok"] * SHARE
        assert hanging.asked.count("x.evil.dev") == 1
        service.close()

    run(trial())


def test_judging_and_delivering_do_not_wait_for_each_other(run: Run, hanging: Hanging) -> None:
    async def trial() -> None:
        service = NameService(hanging, QUICK_S)
        for judging, threads in ((True, names.JUDGING_THREADS), (False, names.THREADS)):
            asked = [f"hang{at}.is{judging}.d{at}" for at in range(threads)]
            faults = asyncio.gather(*(fault(service, name, judging=judging) for name in asked))
            await asyncio.sleep(0)
            # while its own threads are all taken, as those of the other kind may be
            assert await fault(service, f"x{judging}.dev", judging=judging) == "NoTurn"
            assert await faults == ["Unresolvable"] * threads
            if judging:
                assert await fault(service, "good.dev") == "ok"
        service.close()

    run(trial())


def test_the_queue_is_no_fault_of_an_endpoint(run: Run, authority: Authority, hanging: Hanging) -> None:
    async def trial() -> None:
        async with leaving(OutsideRule(), hanging, authority.trust(), patience_s=QUICK_S) as egress:
            posts = [egress.post(f"https://hang{at}.mysite.dev/in", b"{}", HEADERS) for at in range(SHARE)]
            posting = asyncio.gather(*posts, egress.post(f"https://{NAME}/in", b"{}", HEADERS))
            replies = await posting
            assert [reply.code for reply in replies] == ["unresolvable"] * SHARE + ["too_busy"]
            hanging.released.set()

    run(trial())


def test_of_many_slow_names_the_oldest_is_forgotten(
    run: Run, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_MOST_SLOW_NAMES", 2)
    monkeypatch.setattr(names, "SLOW_S", -1.0)  # whatever it takes
    monkeypatch.setattr(names, "SLOW_THREADS", 1)

    async def trial() -> None:
        service = NameService(hanging, QUICK_S)
        for name in ("a.dev", "b.dev", "c.dev"):
            assert await fault(service, name) == "ok"
        hanging.hang = "c"
        held = asyncio.create_task(fault(service, "c.dev"))
        await asyncio.sleep(0)
        assert await fault(service, "b.dev") == "NoTurn"
        assert await fault(service, "a.dev") == "ok"
        assert await held == "Unresolvable"
        service.close()

    run(trial())


def test_turns_go_to_who_has_waited_longest_and_none_is_lost(run: Run) -> None:
    async def trial() -> None:
        turns = Turns(1)
        assert turns.take_now("a")
        assert not turns.take_now("a")
        first, second = (asyncio.create_task(turns.take(("a",), 5)) for _ in range(2))
        either = asyncio.create_task(turns.take(("a", "b"), 5))
        assert await either == "b"
        turns.give_back("a")
        assert await first == "a"
        assert not second.done()
        turns.give_back("a")  # it is handed over, and whom it is handed to goes away at once
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert turns.take_now("a")
        with pytest.raises(NoTurn):
            await turns.take(("a", "b"), 0.01)
        turns.give_back("b")
        assert await turns.take(("a", "b"), 0.01) == "b"

    run(trial())
