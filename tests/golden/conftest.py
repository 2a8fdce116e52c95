"""Fixture: one installation with all real sessions, imported by naming the folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.recordings.file_model import ReadOptions


@pytest.fixture(scope="session")
def installation(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    settings = Settings(data=str(tmp_path_factory.mktemp("golden")))
    with open_installation(settings) as opened:
        for path in opened.importer.library.expand(shared / "data" / "lean"):
            opened.importer.run(path, 0, ReadOptions(), opened.clock.now_ns())
        yield opened
