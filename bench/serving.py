"""Answers over HTTP with real keys, exact limits and the request log, compared with nginx that sends the same bytes.

Every load is a counted number of requests, so that no key reaches its limit within a minute, after an uncounted pass in
which each key asks once. A round runs all loads one after another.
"""

import os
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.figures import Figure, Goal, Rounds, at_least, at_most, shown
from bench.measurement import Size, Unavailable
from bench.processes import pss_bytes
from bench.web_load import Load, Question, ask, load, need, prepare
from bench.web_servers import lay_out, new_keys, nginx, served, service
from support.engines.ports import free_ports

from outcry.access.tiers import REQUESTS_ALLOWED

LEVELS = "/api/levels?symbol=ES"
PATHS = {
    name: f"/api/{name}?symbol=ES" for name in ("levels", "context", "profile", "history", "alerts", "chart")
}
#: Keys of one load and of the two that show whether many distinct requests cost more; each asks for the levels.
FEW, BELOW, ABOVE = 600, 3_000, 6_000
_FREE = REQUESTS_ALLOWED["free"]
#: A smoke test divides these and the requests of a load by this.
_CUT = 15
REQUESTS, PACED_S = 15_000, 2.0
#: Least requests of a key, so that it hardly matters if an answer has to be cached again.
_EACH = 5
#: Connections of the paced load, whose pauses make up its rate, and that rate as a share of full load.
PACED, SHARE = 256, 0.55


@dataclass(frozen=True, slots=True)
class Stage:
    """The running servers: what to ask, by name, and the number of requests of a load."""

    questions: Mapping[str, Question]
    requests: int
    pid: int

    def measured(self, rounds: int) -> dict[str, Rounds]:
        """Return the processor seconds per request of every question, all in turn."""
        costs: dict[str, list[float]] = {name: [] for name in self.questions}
        for _ in range(rounds):
            for name, question in self.questions.items():
                prepare(question)
                count = max(self.requests, _EACH * len(question.keys.read_text().split()))
                costs[name].append(load(question, count).cost_s)
        return {name: Rounds.of(each) for name, each in costs.items()}


def goals(size: Size) -> Iterator[Figure]:
    """Measure the processor time of answers, and the delay at half load."""
    with _stage(size) as stage:
        costs = stage.measured(size.rounds)
        for name, comparator, words, goal in _ROWS:
            other = "nginx sending the same file" if comparator.startswith("nginx") else f"that of {BELOW:,}"
            note = f"{costs[name].rate(1e-3)} to {costs[comparator].rate(1e-3)} k requests/CPU-s"
            yield Figure.ratio(words, costs[comparator], costs[name], other, goal, note)
        memory = pss_bytes(stage.pid) / 1e6
        yield Figure("memory after these loads (PSS)", memory, "MB", f"{ABOVE:,} keys", "", at_most(250))
        yield _delay(stage, costs, size)


def more(size: Size) -> Iterator[Figure]:
    """Measure the least that servers in Python and nginx without a file do, for scale."""
    with _stage(size) as stage, ExitStack() as stack:
        levels, files = stage.questions["levels"], stage.questions["nginx levels"]
        folder = levels.keys.parent
        questions = {"levels": levels, "generic": stage.questions["generic"]}
        for name, kind in (("uvicorn", "asgi"), ("protocol", "protocol")):
            (port,) = free_ports(1)
            command = [sys.executable, "-m", "bench.bare", kind, str(port), str(folder / "levels.json")]
            server = stack.enter_context(served(command, port, "/", {}))
            questions[name] = Question(server, "/", levels.keys)
        questions["memory"] = replace(files, path="/memory")
        costs = replace(stage, questions=questions).measured(size.rounds)
        for name, other, words in (
            ("levels", "memory", "nginx answering from memory"),
            ("levels", "protocol", "a protocol that sends constant bytes"),
            ("generic", "uvicorn", "a bare uvicorn application"),
        ):
            note = f"{costs[name].rate(1e-3)} to {costs[other].rate(1e-3)} k requests/CPU-s"
            yield Figure.ratio(
                f"`GET /api/levels`, {name} against {other}", costs[other], costs[name], words, note=note
            )


def _delay(stage: Stage, costs: Mapping[str, Rounds], size: Size) -> Figure:
    """Measure the delay of answers while each server is offered the same share of what it can do."""
    found: dict[str, list[Load]] = {"below": [], "nginx levels": []}
    lasts_s = size.of(PACED_S, PACED_S, PACED_S / _CUT)
    for _ in range(size.rounds):
        for name, loads in found.items():
            question, rate = stage.questions[name], SHARE / costs[name].median
            prepare(question)
            pauses = 1, max(1, round(2 * PACED / rate * 1e3) - 1)
            loads.append(load(question, round(rate * lasts_s), connections=PACED, pause_ms=pauses))
    ours, theirs = (Rounds.of([each.p99_ms for each in loads]) for loads in found.values())
    shares = " and ".join(f"{100 * median(each.share for each in loads):.0f} %" for loads in found.values())
    note = f"{shown(ours.median)} to {shown(theirs.median)} ms; {shares} of a processor"
    words = f"p99 at {100 * SHARE:.0f} % load"
    return Figure.ratio(words, ours, theirs, "nginx at the same share of its load", at_most(1.5), note)


_ROWS: tuple[tuple[str, str, str, Goal], ...] = (
    ("levels", "nginx levels", "`GET /api/levels` with a key", at_least(1.2)),
    ("304", "nginx levels", "… answered with 304", at_least(1.0)),
    ("429", "nginx levels", "… answered with 429", at_least(1)),
    ("404", "nginx levels", "… answered with 404", at_least(0.5)),
    ("above", "below", f"… {ABOVE:,} distinct requests", at_least(0.95)),
    *(
        (name, f"nginx {name}", f"`GET /api/{name}`, unchanged", at_least(0.8))
        for name in PATHS
        if name != "levels"
    ),
    ("generic", "nginx levels", "generic route (fast path off)", at_least(0.45)),
)


@contextmanager
def _stage(size: Size) -> Generator[Stage]:
    """Run the service with and without its fast path, and nginx with the answers of the first."""
    need("wrk", "nginx", "taskset")
    if (os.cpu_count() or 1) < 2:
        raise Unavailable("it takes two processors: one for the server, one for the load")
    cut = size.of(1, 1, _CUT)
    with TemporaryDirectory(prefix="outcry-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        keys = {"admin": new_keys(ABOVE // cut), "free": new_keys(10)}
        lay_out(folder / "1", folder, {"admin": keys["admin"], "free": keys["free"]}, {})
        lay_out(folder / "0", folder, {"admin": keys["admin"][:FEW]}, {})
        fast = stack.enter_context(service(folder / "1", {"OUTCRY_FASTPATH": "1"}))
        slow = stack.enter_context(service(folder / "0", {"OUTCRY_FASTPATH": "0"}))
        groups = _groups(folder, keys["admin"], cut) | {"free": _written(folder / "free", keys["free"])}
        questions = {name: Question(fast, path, groups[name]) for name, path in PATHS.items()}
        answers = {name: ask(question, keys["admin"][0]) for name, question in questions.items()}
        for name, answer in answers.items():
            (folder / f"{name}.json").write_bytes(answer.body)
        levels = questions["levels"]
        questions |= {
            "304": replace(levels, keys=groups["304"], status=304, etag=answers["levels"].headers["etag"]),
            "429": replace(levels, keys=groups["free"], status=429, asked_before=_FREE + 1),
            "404": replace(levels, keys=groups["404"], path="/api/levels?symbol=NOPE", status=404),
            "below": replace(levels, keys=groups["below"]),
            "above": replace(levels, keys=groups["above"]),
            "generic": replace(levels, server=slow, keys=groups["levels"]),
        }
        files = stack.enter_context(nginx(folder, answers["levels"].headers, len(answers["levels"].body)))
        for name in PATHS:
            questions[f"nginx {name}"] = Question(files, f"/{name}.json", groups["levels"])
        yield Stage(questions, size.of(REQUESTS, ABOVE, REQUESTS // cut), fast.process.pid)


def _groups(folder: Path, keys: list[str], cut: int) -> dict[str, Path]:
    """Write the keys of each load to a file; those of single loads differ."""
    names = [*PATHS, "304", "404"]
    found = {
        name: _written(folder / f"{name}.keys", keys[at * FEW // cut : (at + 1) * FEW // cut])
        for at, name in enumerate(names)
    }
    found |= {name: _written(folder / f"{name}.keys", keys[-count // cut :]) for name, count in
              (("below", BELOW), ("above", ABOVE))}  # fmt: skip
    return found


def _written(path: Path, keys: list[str]) -> Path:
    path.write_text("\n".join(keys) + "\n")
    return path
