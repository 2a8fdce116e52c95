"""One house with all real sessions imported, as an operator would: by naming the folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outcry.app import House, open_house
from outcry.app.settings import Settings
from outcry.recordings.file_model import ReadOptions


@pytest.fixture(scope="session")
def house(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    settings = Settings(data=str(tmp_path_factory.mktemp("golden")))
    with open_house(settings) as opened:
        for path in opened.importer.files(shared / "data" / "lean"):
            opened.importer.run(path, 0, ReadOptions(), opened.clock.now_ns())
        yield opened
