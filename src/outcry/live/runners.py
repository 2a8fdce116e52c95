"""The runners (one for each stream) of a process, by stream name, by owner and by feed."""

from collections.abc import Collection, Iterator, Mapping, ValuesView

from outcry.live.runner import Runner


class Runners(Mapping[str, Runner]):
    """The runners of a process, by the name of their stream, and by owner and feed.

    With thousands of streams, searching all of them would be too slow.
    """

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
        """Return all runners. If another thread may add runners, copy the result at once."""
        return self._all.values()

    def put(self, runner: Runner) -> None:
        """Add a runner."""
        self._all[runner.name] = runner
        self._of.setdefault(runner.key.owner, {}).setdefault(runner.key.feed, {})[runner.name] = runner

    def pop(self, name: str) -> Runner | None:
        """Remove and return a runner, None if there is none of that name."""
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
        """Return the runners of a feed."""
        return list(self._of.get(owner, {}).get(feed, {}).values())

    def of_owner(self, owner: int) -> list[Runner]:
        """Return the runners of all feeds of an owner."""
        feeds = list(self._of.get(owner, {}).values())
        return [runner for runners in feeds for runner in list(runners.values())]

    @property
    def owners(self) -> Collection[int]:
        """Return the owners of all streams."""
        return list(self._of)

    @property
    def feeds(self) -> set[tuple[int, str]]:
        """Return owner and name of every feed that has streams."""
        return {(owner, feed) for owner, feeds in self._of.items() for feed in feeds}
