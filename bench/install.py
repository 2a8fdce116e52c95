"""Installation from the wheel alone: sizes, processor time of the first import and command, and the demo's first level.

Everything runs in environments that contain the wheel of this form of the program and the libraries it declares, with
their bytecode. Times of the demo are by the clock, because a user waits for them.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from bench.figures import Figure, Rounds, at_most, shown
from bench.measurement import Size, Unavailable, run_child
from support.environment import Environment, NotInstalled
from support.wheel import build_wheel, pack_wheel

import outcry
from outcry.base.build_form import is_compiled

_MB = 1e6
#: A child of the bench imports nothing but what the environment has installed.
_ALONE = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
_DEMO_S = 240.0
#: Two thirds of the 459 MB that version 0.1.0 installed for every use, in MB.
_MOST_SERVE = at_most(306)


def goals(size: Size) -> Iterator[Figure]:
    """Measure the base installation, its import, `outcry --help`, and the demo until its first live level."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        wheel = _wheel(folder)
        base, serve = _installed(folder / "base", wheel), _installed(folder / "serve", wheel, "[serve]")
        names = ", ".join(sorted(base.packages - {"openoutcry"}))
        yield Figure("size of `openoutcry`", base.size / _MB, "MB", f"with {names}", goal=at_most(90))
        note = f"{len(serve.packages)} distributions"
        yield Figure("size of `openoutcry[serve]`", serve.size / _MB, "MB", note, goal=_MOST_SERVE)
        python = base.command("python")
        costs: dict[str, list[float]] = {"nothing": [], "import": [], "help": []}
        commands = {
            "nothing": [python, "-c", "pass"],
            "import": [python, "-c", "import outcry; dir(outcry)"],
            "help": [serve.command("outcry"), "--help"],
        }
        for number in range(size.rounds + 1):  # the first round warms the disk's cache, and does not count
            for name, command in commands.items():
                cost = run_child(command, _ALONE).cpu_s
                if number:
                    costs[name].append(cost)
        note = f"`python -c pass` alone {shown(Rounds.of(costs['nothing']).median)} CPU-s"
        yield Figure.of_rounds(
            "`import outcry`, process included", Rounds.of(costs["import"]), "CPU-s", goal=at_most(0.1), note=note
        )  # fmt: skip
        yield Figure.of_rounds("`outcry --help`", Rounds.of(costs["help"]), "CPU-s", goal=at_most(0.25))
        waits = Rounds.of([_first_level_s(serve, folder / f"data{n}") for n in range(size.of(3, 2, 1))])
        yield Figure.of_rounds("`outcry serve --demo` to the first live level", waits, "s", goal=at_most(60))


def _wheel(folder: Path) -> Path:
    """Return a wheel of the form of the program that this process runs."""
    if is_compiled():  # PYTHONPATH names the folder of an unpacked wheel
        return pack_wheel(Path(outcry.__file__).parents[1], folder)
    return build_wheel(folder, compiled=False)


def _installed(folder: Path, wheel: Path, extras: str = "") -> Environment:
    try:
        return Environment(folder, wheel, extras)
    except NotInstalled as problem:
        raise Unavailable(f"pip could not install {wheel.name}{extras}: {problem}") from problem


def _first_level_s(environment: Environment, data: Path) -> float:
    """Return the seconds from the command to the first live level, with a new data folder."""
    began = monotonic()
    with environment.demo(data) as demo:
        demo.live_levels(began + _DEMO_S)
        return monotonic() - began
