"""The wheel and the source distribution in empty environments, as a user installs them."""

import re
import time
from pathlib import Path

import pytest
from support.environment import Environment
from support.wheel import build_sdist, build_wheel

#: What `pip install openoutcry` installs.
BASE = {"openoutcry", "msgspec", "numpy", "tzdata"}
BASE_BYTES = 90 * 10**6
#: How long the demo may take until its first live level. The goal is a minute, on a machine that does nothing else.
DEMO_S = 240
PROFILE = """
import sys, outcry
trades = {"ts": [0, 60_000_000_000], "price": [10.0, 10.5], "size": [3, 5]}
print(outcry.profile(trades, tick_size=0.5, window=(0, 3_600_000_000_000)).vpoc, "sqlalchemy" in sys.modules)
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a wheel and a source distribution of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    return build_wheel(folder, compiled=False), build_sdist(folder)


@pytest.fixture(scope="module")
def base(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the source distribution, without extras."""
    return Environment(tmp_path_factory.mktemp("base"), distributions[1])


@pytest.fixture(scope="module")
def serve(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the wheel and the extra `serve`."""
    return Environment(tmp_path_factory.mktemp("serve"), distributions[0], "[serve]")


def test_the_base_is_small_and_computes_a_profile(base: Environment) -> None:
    assert base.packages == BASE
    assert base.size <= BASE_BYTES
    done = base.run("python", "-c", PROFILE)
    assert (done.stdout, done.stderr) == ("10.5 False\n", "")


@pytest.mark.parametrize("command", [("outcry", "serve"), ("python", "-m", "outcry", "--help")])
def test_the_base_names_the_extra_of_the_command_line(base: Environment, command: tuple[str, ...]) -> None:
    done = base.run(*command)
    assert done.returncode == 1
    assert done.stderr == (
        "outcry: The command line needs the extra `serve`. Run: pip install 'openoutcry[serve]'\n"
    )


def test_the_base_names_the_extra_of_a_plot(base: Environment) -> None:
    done = base.run("python", "-c", PROFILE.replace(".vpoc", ".plot()"))
    assert done.stderr.splitlines()[-1].endswith(
        "plot() needs the extra `plot`. Run: pip install 'openoutcry[plot]'"
    )


def test_the_wheel_serves_a_live_level_of_the_demo(serve: Environment, tmp_path: Path) -> None:
    assert not {"pyarrow", "matplotlib", "pandas"} & serve.packages
    started = time.monotonic()
    with serve.demo(tmp_path / "data") as demo:
        live = demo.live_levels(started + DEMO_S)
    assert live["symbol"] == "ES"
    assert live["developing"]["val"] <= live["developing"]["poc"] <= live["developing"]["vah"]


def test_an_import_names_the_extra_that_its_format_needs(serve: Environment, tmp_path: Path) -> None:
    file = tmp_path / "es.csv"
    file.write_text("timestamp,price,size\n2024-01-02T15:00:00Z,4700.25,1\n")
    done = serve.run("outcry", "import", str(file), "--contract", "ESH4", data=tmp_path / "data")
    assert done.returncode == 1
    assert re.search(
        r"Reading text and Parquet files needs the extra `files`\. Run: pip install 'openoutcry\[files\]'$",
        done.stderr.strip(),
    )
    assert "Traceback" not in done.stderr
