"""Start of the command, compared with a Python that does nothing, and memory once it serves.

Processor time up to the first answer, because wall time depends on what else the machine does. One start that does not
count comes first, because it writes bytecode, which an installed program has.
"""

import http.client
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from bench.figures import Figure, Rounds, at_most, shown
from bench.measurement import Size, installed_command, run_child
from bench.processes import cpu_ns, pss_bytes
from bench.tape import PRODUCTS, lay_out
from bench.web_servers import end, wait_for_answer
from support.engines.ports import free_ports

#: Completed sessions of every product, of regular hours and of the whole day.
SESSIONS = 50
#: Half of what version 0.1.0 took when it loaded all its modules, in units of `python -c pass`.
_HALF = {"empty": 83.0, "full": 112.0}
_IDLE_S = 2.0
#: Bytecode is written even where the environment forbids it: compiling all modules takes longer than the start.
_WRITES_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, slots=True)
class Started:
    """A service that has answered once: its processor and wall seconds until then, and its process."""

    cpu_s: float
    wall_s: float
    pid: int


def goals(size: Size) -> Iterator[Figure]:
    """Measure starts with an empty folder and with 3,000 sessions, the help page, and idle memory."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder, nothing = Path(place), [sys.executable, "-c", "pass"]
        history = size.of(SESSIONS, SESSIONS, 1)
        lay_out(folder / "full", history=history)
        costs: dict[str, list[float]] = {"nothing": [], "help": [], "empty": [], "full": []}
        walls: dict[str, list[float]] = {"empty": [], "full": []}
        memory: list[float] = []
        with _started(folder / "first"):
            pass
        for number in range(size.rounds):
            costs["nothing"].append(run_child(nothing, _WRITES_BYTECODE).cpu_s)
            costs["help"].append(run_child([installed_command(), "--help"], _WRITES_BYTECODE).cpu_s)
            for name, data in (("empty", folder / f"empty{number}"), ("full", folder / "full")):
                with _started(data) as service:
                    costs[name].append(service.cpu_s)
                    walls[name].append(service.wall_s)
                    if name == "full":
                        sleep(_IDLE_S)
                        memory.append(pss_bytes(service.pid) / 1e6)
    rounds = {name: Rounds.of(each) for name, each in costs.items()}
    for name, words in (("empty", "empty folder"), ("full", f"{2 * PRODUCTS * history:,} sessions")):
        note = f"{shown(rounds[name].median)} CPU-s, {shown(Rounds.of(walls[name]).median)} s by the clock"
        title, goal = f"`outcry serve` to the first answer, {words}", at_most(_HALF[name])
        yield Figure.ratio(title, rounds[name], rounds["nothing"], "`python -c pass`", goal, note)
    yield Figure.of_rounds("`outcry --help`", rounds["help"], "CPU-s", goal=at_most(0.25))
    yield Figure.of_rounds("memory idle (PSS)", Rounds.of(memory), "MB", goal=at_most(70))


@contextmanager
def _started(data: Path) -> Generator[Started]:
    """Run the service until the end of the context; it has answered a request for levels."""
    (port,) = free_ports(1)
    began = perf_counter()
    command = [installed_command(), "serve", "--data", str(data), "--port", str(port)]
    environment = os.environ | _WRITES_BYTECODE
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_answer(process, f"http://127.0.0.1:{port}/readyz")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/api/levels?symbol=ES")
        connection.getresponse().read()
        yield Started(cpu_ns(process.pid) / 1e9, perf_counter() - began, process.pid)
        connection.close()
    finally:
        end(process)
