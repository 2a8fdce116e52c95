from collections.abc import Iterator

import pytest
from tests.api.harness import Stage, build_stage, served


@pytest.fixture
def stage() -> Iterator[Stage]:
    with served(build_stage()) as running:
        yield running
