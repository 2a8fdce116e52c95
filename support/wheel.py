"""Builds the wheel of this checkout and unpacks it: `python -m support.wheel FOLDER` does so with compiled modules.

`PYTHONPATH=FOLDER` then runs the compiled form, while the checkout stays pure Python.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
#: What a build needs beside the sources.
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


def unpack_wheel(folder: Path, *, compiled: bool, opt_level: int = 3) -> str:
    """Build a wheel and unpack it into a new folder; return the wheel's file name.

    opt_level: of the C compiler, if modules are compiled; 0 takes half as long. Raises `CalledProcessError`.
    """
    with TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for name in NEEDED:
            shutil.copy(ROOT / name, copy)
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
        shutil.copytree(ROOT / "src", copy / "src", ignore=unwanted)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index",
             "--no-deps", "--no-build-isolation", "--wheel-dir", copy / "dist", copy],
            env=os.environ | {"COMPILE_OUTCRY": str(int(compiled)), "MYPYC_OPT_LEVEL": str(opt_level)},
            check=True, timeout=1200, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (wheel,) = (copy / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return wheel.name


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    unpack_wheel(target, compiled=True)
