"""Configuration of the agent: errors are found before any connection, say what to do and contain no secret."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.feeds.memory_vendor import KEY as SECRET
from tests.feeds.memory_vendor import MemoryAdapter, MemoryPeer

from outcry.access.key_format import compose
from outcry.base.clock import SystemClock
from outcry.cli.agent_config import Plan, default_path, read_plan, write_config
from outcry.cli.agent_example import example
from outcry.cli.agent_feeds import BadConfig, Means
from outcry.connections.broker_adapter import BrokerAdapter
from outcry.trades.reference_tables import load_reference

INGEST = compose(12345)
UNIVERSE = load_reference().universe
FEED = f'[[feed]]\nbroker = "memory"\nsymbols = ["ES", "NQ"]\nkey = "{SECRET}"\n'
SERVICE = 'service = "https://outcry.example.com"\n'


def known() -> Mapping[str, BrokerAdapter]:
    return {"memory": MemoryAdapter(MemoryPeer())}


def plan(folder: Path, text: str, *, mode: int = 0o600, insecure: bool = False, key: str = INGEST) -> Plan:
    path = folder / "agent.toml"
    path.write_text(text)
    path.chmod(mode)
    environment = {"OUTCRY_KEY": key} if key else {}
    return read_plan(path, environment, Means(UNIVERSE, SystemClock(), known), insecure=insecure)


def refusal(folder: Path, text: str, **more: object) -> str:
    with pytest.raises(BadConfig) as refused:
        plan(folder, text, **more)  # pyright: ignore[reportArgumentType]
    said = str(refused.value)
    assert SECRET not in said
    assert INGEST not in said
    return said


def test_a_good_file(tmp_path: Path) -> None:
    found = plan(tmp_path, SERVICE + 'spool = "waiting"\nspool_limit = "500 MB"\n' + FEED)
    assert (found.spool, found.spool_limit_bytes) == (tmp_path / "waiting", 500_000_000)
    assert (found.service.url, found.service.key) == ("https://outcry.example.com", INGEST)
    assert INGEST not in repr(found)
    (feed,) = found.feeds
    assert (feed.name, feed.label) == ("memory", "Memory")
    assert feed.make().name == "memory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SERVICE, "has no feed"),
        (SERVICE + "[[feed]]\n", "feed 1: Set either broker"),
        (SERVICE + '[[feed]]\nbroker = "nobody"\n', "feed 1: Unknown broker. Use one of memory"),
        (SERVICE + FEED + FEED, "feed 2: The name memory is used twice"),
        (SERVICE + FEED.replace(f'key = "{SECRET}"', ""), "feed 1: key is missing. Set it to: Key"),
        (SERVICE + FEED.replace(f'"{SECRET}"', "1.5"), "feed 1: key must be a text in quotes"),
        (SERVICE + FEED + 'kye = "x"\n', "feed 1: Unknown field kye. Memory has the fields key"),
        (SERVICE + FEED.replace('["ES", "NQ"]', '["EX"]'), "feed 1: Unknown product 'EX'"),
        (SERVICE + FEED.replace('["ES", "NQ"]', '["ESZ6"]'), "the symbol of the full-size contract"),
        (SERVICE + FEED.replace('["ES", "NQ"]', '"ES"'), "feed 1: symbols must be a list"),
        (SERVICE + FEED + 'name = "Ann"\n', "feed 1: Invalid name. Use up to 24"),
        (SERVICE + 'spool_limit = "lots"\n' + FEED, "spool_limit: Invalid size 'lots'"),
        (SERVICE + 'spool_limit = "1 MB"\n' + FEED, "Use at least 64 MB"),
        (SERVICE + 'ca = "nowhere.pem"\n' + FEED, "ca: "),
        ('service = "ftp://x"\n' + FEED, "service: Invalid URL"),
        ('service = "https://ann:pw@x"\n' + FEED, "contains a user name or password"),
        ("servcie = 1\n" + FEED, "servcie"),
        ("service = \n" + FEED, "line 1"),
        (SERVICE + '[[feed]]\nscid = "notes.txt"\n', "feed 1: "),
        (SERVICE + '[[feed]]\nscid = "ESZ26_FUT_CME.scid"\nsymbols = ["ES"]\n', "Unknown field symbols"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


def test_a_key_is_needed_and_looked_at(tmp_path: Path) -> None:
    assert "No key" in refusal(tmp_path, SERVICE + FEED, key="")
    assert "Invalid key" in refusal(tmp_path, SERVICE + FEED, key=INGEST[:-1])
    assert "Both are set" in refusal(tmp_path, f'key = "{INGEST}"\nkey_file = "k"\n' + SERVICE + FEED)
    (tmp_path / "k").write_text(INGEST + "\n")
    (tmp_path / "k").chmod(0o640)
    text = SERVICE + 'key_file = "k"\n' + FEED
    assert "chmod 600" in refusal(tmp_path, text)
    (tmp_path / "k").chmod(0o600)
    assert plan(tmp_path, text, key="").service.key == INGEST


def test_a_file_with_secrets_is_its_owners_alone(tmp_path: Path) -> None:
    for mode in (0o644, 0o620, 0o604):
        assert "chmod 600" in refusal(tmp_path, SERVICE + FEED, mode=mode)
    no_secret = SERVICE + '[[feed]]\nscid = "ESZ26_FUT_CME.scid"\n'
    assert [feed.name for feed in plan(tmp_path, no_secret, mode=0o644).feeds] == ["sierra"]
    assert "chmod 600" in refusal(tmp_path, f'key = "{INGEST}"\n' + no_secret, mode=0o644)


def test_nothing_goes_over_a_network_unencrypted_unless_that_is_wanted(tmp_path: Path) -> None:
    far = 'service = "http://192.0.2.7:8000"\n' + FEED
    assert "unencrypted" in refusal(tmp_path, far)
    assert plan(tmp_path, far, insecure=True).service.url == "http://192.0.2.7:8000"
    for near in ("http://localhost:8000", "http://127.0.0.1:8000/", "http://[::1]:8000"):
        assert plan(tmp_path, f'service = "{near}"\n' + FEED).service.url == near.rstrip("/")


def test_two_feeds_of_one_broker_have_names_of_their_own(tmp_path: Path) -> None:
    found = plan(tmp_path, SERVICE + FEED + FEED + 'name = "second"\n')
    assert [feed.name for feed in found.feeds] == ["memory", "second"]


def test_what_is_not_installed_is_said_with_what_to_install(tmp_path: Path) -> None:
    adapter = MemoryAdapter(MemoryPeer())
    adapter.broker = replace(adapter.broker, installed=False, extra="memory")
    path = tmp_path / "agent.toml"
    write_config(path, SERVICE + FEED)
    with pytest.raises(BadConfig, match=re.escape("pip install 'openoutcry[memory]'")):
        read_plan(path, {"OUTCRY_KEY": INGEST}, Means(UNIVERSE, SystemClock(), lambda: {"memory": adapter}))


def test_the_example_is_a_file_of_this_form_with_every_broker(tmp_path: Path) -> None:
    """The example contains a table for each broker with all of its required settings."""
    from outcry.feeds.adapters import adapters

    text = example()
    said = tomllib.loads(text)
    assert set(said) == {"service", "key_file"}
    whole = tomllib.loads(re.sub(r"^# (\[\[feed\]\]|\w+ = )", r"\1", text, flags=re.MULTILINE))
    tables = {table["broker"]: table for table in whole["feed"] if "broker" in table}
    assert set(tables) == set(adapters())
    for broker, table in tables.items():
        fields = {field.name for field in adapters()[broker].broker.fields}
        assert set(table) == fields | {"broker", "symbols"}


def test_it_is_written_for_its_owner_alone_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "agent.toml"
    write_config(path, "x")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_config(path, "y")
    assert default_path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "outcry" / "agent.toml"
    assert os.fspath(default_path({})).endswith(".config/outcry/agent.toml")
