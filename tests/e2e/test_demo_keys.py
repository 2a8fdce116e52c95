"""Each start of the demo revokes the key of the previous start, and no key that a user created."""

from pathlib import Path

import pytest

from outcry.app.people import people_of
from outcry.app.settings import Settings
from outcry.cli import demo


def test_each_start_ends_the_key_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "SESSIONS", 1)
    printed = list[str]()
    own = ""
    for start in range(3):
        with demo.open_demo(Settings(data=str(tmp_path))) as serving:
            keys, now_ns = serving.installation.keys, serving.installation.clock.now_ns()
            serving.greet("127.0.0.1", 8000, people_of(serving.installation))
            lines = capsys.readouterr().out.splitlines()
            printed.append(next(line for line in lines if line.startswith("key: ")).removeprefix("key: "))
            own = own or keys.create("ann@example.com", "free", now_ns)
            good = [key for key in (*printed, own) if not isinstance(keys.find(key, now_ns), str)]
            assert good == [printed[start], own]
