from collections.abc import Iterator

import pytest
from tests.api.harness import Harness, build_harness, served


@pytest.fixture
def harness() -> Iterator[Harness]:
    with served(build_harness()) as running:
        yield running
