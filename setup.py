"""Compile the translations into the wheel. Everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).parent / "src"
sys.path.insert(0, str(SOURCE))

from outcry.base.translations import compile_tree  # noqa: E402 - found by the line above


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


setup(cmdclass={"build_py": BuildWithTranslations})
