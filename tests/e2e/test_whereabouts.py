"""How commands find the service: by option, else a running one, else by settings."""

from pathlib import Path

import pytest

from outcry.app.settings import Settings
from outcry.cli.whereabouts import address, remove_address, service, site, write_address


@pytest.fixture(autouse=True)
def _nothing_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTCRY_URL", raising=False)
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://localhost:8321"),
        ("127.0.0.9", "http://localhost:8321"),
        ("::1", "http://localhost:8321"),
        ("0.0.0.0", "http://localhost:8321"),
        ("::", "http://localhost:8321"),
        ("localhost", "http://localhost:8321"),
        ("192.0.2.7", "http://192.0.2.7:8321"),
        ("2001:db8::7", "http://[2001:db8::7]:8321"),
        ("desk.example", "http://desk.example:8321"),
    ],
)
def test_this_machine_is_called_by_its_name(host: str, expected: str) -> None:
    assert address(host, 8321) == expected


def test_what_was_said_with_the_command_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTCRY_URL", "http://there.example")
    assert service("http://here.example") == "http://here.example"
    assert service(None) == "http://there.example"


def test_a_running_service_is_found_by_its_folder_and_forgotten_when_it_stops(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_address(folder, "http://localhost:9111")
    assert service(None) == "http://localhost:9111"
    assert site(Settings(data=str(folder))) == "http://localhost:9111"
    remove_address(folder)
    assert service(None) == "http://localhost:8000"
    assert list(folder.iterdir()) == []


def test_a_demonstration_beside_it_is_found_where_the_service_itself_does_not_run(tmp_path: Path) -> None:
    demo = tmp_path / "data-demo"
    demo.mkdir()
    write_address(demo, "http://localhost:9222")
    assert service(None) == "http://localhost:9222"


def test_without_one_that_runs_the_settings_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTCRY_PORT", "8321")
    assert service(None) == "http://localhost:8321"
    monkeypatch.setenv("OUTCRY_PUBLIC_URL", "https://outcry.example.com")
    assert service(None) == "https://outcry.example.com"
    assert site(Settings(data=str(tmp_path), port=8321)) == "http://localhost:8321"
