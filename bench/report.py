"""Tables of stored runs in Markdown: `python -m bench.report RUN.json [OTHER.json…] [--all]`.

A run is stored by `python -m bench --json FILE`. Of several runs, such as those of both forms, or before and after
a change, the first gives the rows and their details, and each further one a column and a verdict.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from bench.figures import Figure


class Line(msgspec.Struct):
    """A figure of a bench. `is_listed`: it belongs to the table of goals."""

    bench: str
    is_listed: bool
    figure: Figure


class Run(msgspec.Struct):
    """A run: when it began, the machine and the form of the program, and its figures."""

    began: str
    machine: list[str]
    lines: list[Line] = []

    def add(self, bench: str, figure: Figure, *, is_listed: bool) -> None:
        """Add a figure."""
        self.lines.append(Line(bench, is_listed, figure))

    def save(self, path: Path) -> None:
        """Write the run to a file."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Return the run of a file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def figures(self, *, listed: bool) -> dict[tuple[str, str], Figure]:
        """Return the figures of the table of goals, or the others, by bench and name."""
        return {
            (line.bench, line.figure.name): line.figure for line in self.lines if line.is_listed is listed
        }


def table(runs: Sequence[Run], names: Sequence[str], *, listed: bool) -> Iterator[str]:
    """Yield the lines of a table of the first run's figures, with those of the others beside them."""
    first, *others = (run.figures(listed=listed) for run in runs)
    values = names if others else ["median (best)"]
    columns = ["measure", "compared with", *values, "goal", "verdict", "detail"]
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for key, figure in first.items():
        found = [figure, *(run.get(key) for run in others)]
        amounts = [each.amount if each else "–" for each in found]
        verdicts = [each.verdict.replace("MISSED", "**missed**") if each else "–" for each in found]
        cells = [figure.name, figure.comparator, *amounts, str(figure.goal or ""), ", ".join(verdicts)]
        yield f"| {' | '.join([*cells, figure.note])} |"


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument(
        "--all", action="store_true", help="also the figures that are not in the table of goals"
    )
    given = parser.parse_args()
    runs, names = [Run.load(path) for path in given.runs], [path.stem for path in given.runs]
    for name, run in zip(names, runs, strict=True):
        print(f"{name}: {run.began}; {'; '.join(run.machine)}.")
    for listed in (True, False) if given.all else (True,):
        print()
        print("\n".join(table(runs, names, listed=listed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
