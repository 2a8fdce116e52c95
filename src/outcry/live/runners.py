"""The streams of a process."""

from collections.abc import Collection, Iterator, Mapping, ValuesView

from outcry.live.runner import Runner


class Runners(Mapping[str, Runner]):
    """Runners by the name of their stream; those of an owner, or of one feed of theirs, are not looked for among all,
    for with thousands of streams each asks for its own."""

    def __init__(self) -> None:
        self._all: dict[str, Runner] = {}
        self._of: dict[int, dict[str, dict[str, Runner]]] = {}

    def __getitem__(self, name: str) -> Runner:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def values(self) -> ValuesView[Runner]:
        """See `Mapping`; a list of it is made at once, whichever thread adds to it."""
        return self._all.values()

    def put(self, runner: Runner) -> None:
        """A stream has begun."""
        self._all[runner.name] = runner
        self._of.setdefault(runner.key.owner, {}).setdefault(runner.key.feed, {})[runner.name] = runner

    def pop(self, name: str) -> Runner | None:
        """A stream is known no more; its runner, if there was one."""
        runner = self._all.pop(name, None)
        if runner is not None:
            feeds = self._of[runner.key.owner]
            del feeds[runner.key.feed][name]
            if not feeds[runner.key.feed]:
                del feeds[runner.key.feed]
            if not feeds:
                del self._of[runner.key.owner]
        return runner

    def of(self, owner: int, feed: str) -> list[Runner]:
        """Those of a feed."""
        return list(self._of.get(owner, {}).get(feed, {}).values())

    def of_owner(self, owner: int) -> list[Runner]:
        """Those of all of an owner's feeds."""
        feeds = list(self._of.get(owner, {}).values())
        return [runner for runners in feeds for runner in list(runners.values())]

    @property
    def owners(self) -> Collection[int]:
        """Who has streams."""
        return list(self._of)

    @property
    def feeds(self) -> set[tuple[int, str]]:
        """Owner and name of every feed there are streams of."""
        return {(owner, feed) for owner, feeds in self._of.items() for feed in feeds}
