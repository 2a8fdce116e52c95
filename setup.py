"""Compile translations and, if asked to, the hot modules into the wheel. Everything else is in pyproject.toml.

With `COMPILE_OUTCRY=1`, mypyc compiles the modules of `[tool.mypy]`, and a C compiler the kernels that are written in
C. Otherwise the build needs neither, and the same files run as Python. Decision records 0051, 0059, 0062 and 0063.
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SOURCE = ROOT / "src"
#: Modules written in C, each beside its twin in Python, and those that need functions of Linux.
KERNELS = ("market.volume_count", "access.counting", "library.price_ticks")
LINUX_KERNELS = ("http.responder", "http.parking")
sys.path.insert(0, str(SOURCE))

from outcry.base.catalogues import compile_tree  # noqa: E402 - found by the line above


class BuildWithTranslations(build_py):
    """Put compiled catalogues (`.mo`) in the place of their sources. An editable install reads the sources."""

    def run(self) -> None:
        """Build, then compile."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib)
        for _ in compile_tree(SOURCE, target):
            pass
        for copied in target.rglob("locale/*/*.po"):
            copied.unlink()


def compiled_modules() -> list[Extension]:
    """Return the extensions to build; none unless `COMPILE_OUTCRY` is 1."""
    if os.environ.get("COMPILE_OUTCRY") != "1":
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - a build without a compiler has no mypy
    except ImportError:
        sys.exit("COMPILE_OUTCRY=1 needs the dependency group `build`, and --no-build-isolation")
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    paths = sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
    level = os.environ.get("MYPYC_OPT_LEVEL", "3")
    kernels = [
        Extension(
            f"outcry.{name}",
            [f"src/outcry/{name.replace('.', '/')}.c"],
            extra_compile_args=[f"-O{level}", "-ffp-contract=off"],
        )
        for name in (*KERNELS, *(LINUX_KERNELS if sys.platform == "linux" else ()))
    ]
    generated = mypycify(paths, group_name="outcry", opt_level=level)
    for extension in generated:  # this warning took two thirds of the compiler's time for the generated C
        extension.extra_compile_args.append("-Wno-misleading-indentation")
    return [*kernels, *generated]


setup(cmdclass={"build_py": BuildWithTranslations}, ext_modules=compiled_modules())
