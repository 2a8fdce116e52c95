"""The deployment examples use existing settings, roles and files, and start the processes they describe."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from outcry.app.settings import ROLES, Settings, read_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEMD = DEPLOY / "systemd"
NAMES = {f"OUTCRY_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
#: Values that the operator enters.
FILLED_IN = {
    "DOMAIN": "outcry.example.com", "NATS_PASSWORD": "p0", "NATS_ROUTE_PASSWORD": "r0", "POSTGRES_PASSWORD": "q0",
    "OUTCRY_SECRET": "0123456789abcdef", "OUTCRY_VAULT_KEYS": "k1:" + 32 * "ab",
}  # fmt: skip


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def environment_of(service: dict[str, Any]) -> dict[str, str]:
    """Return the environment that compose passes to the process; a name missing in the example of `.env` fails."""
    fill = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")
    return {
        name: fill.sub(lambda found: FILLED_IN[found[1]], value)
        for name, value in service["environment"].items()
    }


def ours() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose()["services"].items() if one["image"].startswith("outcry:")}


def env_file(path: Path) -> dict[str, str]:
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def test_compose_starts_what_a_cluster_is(tmp_path: Path) -> None:
    """A cluster has three engines, three APIs, pages, two feed and two delivery processes, all with valid settings."""
    roles: Counter[str] = Counter()
    for service in ours().values():
        settings = read_settings(environment_of(service) | {"OUTCRY_DATA": str(tmp_path)})
        assert settings.cluster.count("nats://") == 3
        roles.update(settings.roles)
    assert roles == {"engine": 3, "api": 3, "web": 1, "feeds": 2, "deliver": 2}


def test_every_image_is_of_a_version_and_every_file_is_there() -> None:
    services = compose()["services"]
    for service in services.values():
        image = service["image"]
        assert image == "outcry:0.1.0" or image.startswith("${"), image  # the others: test_deploy_images.py
        for volume in service["volumes"]:
            here = volume.split(":")[0]
            assert (DEPLOY / here).exists() if here.startswith(".") else here in compose()["volumes"]
    assert {name for name in services if name.startswith("nats")} == {"nats1", "nats2", "nats3"}
    variables = env_file(DEPLOY / ".env.example")
    assert variables.keys() == FILLED_IN.keys()
    # The project contains no secret.
    assert {name for name, value in variables.items() if value} == {"DOMAIN"}


def test_no_service_has_rights_it_does_not_need() -> None:
    """Services write only to volumes or memory; the proxy alone has a capability: to listen on port 80."""
    for name, service in compose()["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else []), name
        assert "privileged" not in service, name
        places = {each.split(":")[0] for each in service.get("tmpfs", [])}
        places |= {each.split(":")[1] for each in service["volumes"] if not each.endswith(":ro")}
        written = {
            "postgres": {"/var/lib/postgresql/data", "/run/postgresql", "/tmp"},
            "proxy": {"/data", "/config", "/tmp"},
        }
        assert places == written.get(name, {"/data"} if name.startswith("nats") else {"/data", "/tmp"}), name
    assert compose()["services"]["postgres"]["user"] == "postgres"


def test_the_proxy_asks_everybody_who_answers() -> None:
    asked = set(re.findall(r"(\w+):8000", (DEPLOY / "Caddyfile").read_text()))
    assert asked == {name for name in ours() if name.startswith(("api", "web"))}


def test_the_proxy_keeps_keys_and_tickets_out_of_its_log() -> None:
    """Caddy logs headers and URLs of failed requests, and does not treat `x-api-key` as a secret."""
    fields = re.search(
        r"format filter \{\s+wrap json\s+fields \{(.*?)\n\t\t\t\}", (DEPLOY / "Caddyfile").read_text(), re.S
    )
    assert fields is not None
    assert [line.strip() for line in fields[1].strip().splitlines()] == [
        "request>headers delete", r"request>uri regexp \?.* ?",
    ]  # fmt: skip


@pytest.mark.parametrize("node", ["nats1", "nats2", "nats3"])
def test_a_node_of_jetstream_takes_its_file(node: str, tmp_path: Path) -> None:
    """The server validates its own configuration (`nats-server -t`)."""
    server = Path(sys.executable).with_name("nats-server")
    shutil.copytree(DEPLOY / "nats", tmp_path / "nats")
    call = [server, "-t", "-c", tmp_path / "nats" / f"{node}.conf"]
    given = environment_of(compose()["services"][node])
    done = subprocess.run(call, env=given, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert f"server_name: {node}\n" in (DEPLOY / "nats" / f"{node}.conf").read_text()


def test_the_files_of_systemd_are_settings_for_every_role(tmp_path: Path) -> None:
    common = env_file(SYSTEMD / "outcry.env")
    common |= {name: FILLED_IN[name] for name in ("OUTCRY_SECRET", "OUTCRY_VAULT_KEYS")}
    ports = set[int]()
    for role in ROLES:
        own = env_file(SYSTEMD / f"{role}.env")
        settings = read_settings(common | own | {"OUTCRY_DATA": str(tmp_path)})
        assert settings.roles == {role}
        ports.add(settings.port)
    assert len(ports) == len(ROLES)
    assert {name for name in common if name.startswith("OUTCRY_")} <= NAMES


@pytest.mark.parametrize("name", ["outcry@.service", "nats.service"])
def test_a_unit_is_one_systemd_takes(name: str, tmp_path: Path) -> None:
    """Check required settings everywhere, and the whole unit with systemd if it is installed."""
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((SYSTEMD / name).read_text())
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    assert {"Unit", "Service", "Install"} == set(unit.sections())
    judge = shutil.which("systemd-analyze")
    if judge:
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (SYSTEMD / name).read_text())
        path = tmp_path / name.replace("@", "@api1")
        path.write_text(text)
        done = subprocess.run(
            [judge, "verify", "--man=no", path], capture_output=True, text=True, timeout=60, check=False
        )
        errors = [line for line in done.stderr.splitlines() if tmp_path.name in line or path.name in line]
        assert not errors, errors
