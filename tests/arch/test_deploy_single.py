"""The files for one machine: containers, systemd units and the proxy have the rights they need, and no others."""

import plistlib
import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.arch.test_deploy import NAMES, env_file

from outcry.app.settings import read_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
SINGLE = DEPLOY / "single"
UNITS = ("outcry.service", "outcry-backup.service", "outcry-backup.timer")


def compose() -> dict[str, Any]:
    return yaml.safe_load((SINGLE / "compose.yaml").read_text())


def unit(name: str) -> RawConfigParser:
    """Return a unit. Of settings that are given twice, the last one counts here."""
    read = RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string((SINGLE / name).read_text())
    return read


def test_the_settings_of_compose_are_valid(tmp_path: Path) -> None:
    example = env_file(SINGLE / ".env.example")
    given = compose()["services"]["outcry"]["environment"]
    filled = {
        name: re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda found: example[found[1]], value)
        for name, value in given.items()
    }
    settings = read_settings(filled | {"OUTCRY_DATA": str(tmp_path)})
    assert settings.public_url == "https://outcry.example.com"
    assert settings.trusted_proxies == compose()["services"]["proxy"]["networks"]["inside"]["ipv4_address"]


def test_services_write_to_volumes_only_and_have_no_capabilities() -> None:
    services = compose()["services"]
    assert services.keys() == {"outcry", "proxy"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else []), name
        for volume in service["volumes"]:
            here = volume.split(":")[0]
            assert (SINGLE / here).exists() if here.startswith(".") else here in compose()["volumes"], volume
    assert "ports" not in services["outcry"]  # people and programs reach it through the proxy only
    assert services["outcry"]["image"] == "outcry:0.1.0"
    assert services["outcry"]["build"]["dockerfile"] == "deploy/Dockerfile"
    assert (SINGLE / services["outcry"]["build"]["context"] / "pyproject.toml").resolve().is_file()
    assert services["proxy"]["image"].startswith("${CADDY_IMAGE:?")
    assert services["proxy"]["environment"]["UPSTREAM"] == "outcry:8000"


def test_the_image_runs_as_a_user_and_checks_its_health() -> None:
    lines = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER outcry$", lines, re.MULTILINE)
    assert lines.index("USER outcry") < lines.index('CMD ["outcry"')
    check = re.search(r"HEALTHCHECK (?:.*\\\n)+\s+CMD (\[.*\])", lines)
    assert check is not None
    python, option, code = yaml.safe_load(check[1])
    assert (python, option) == ("python", "-c")
    compile(code, "healthcheck", "exec")
    assert "/readyz" in code
    # The folders that volumes are mounted on belong to this user.
    assert "--home-dir /data" in lines
    assert "--owner outcry --mode 0700 /backups" in lines


def test_the_proxy_hides_operators_paths_and_secrets() -> None:
    text = (SINGLE / "Caddyfile").read_text()
    assert "path /metrics /readyz /healthz" in text
    assert "request>headers delete" in text
    assert r"request>uri regexp \?.* ?" in text
    assert "trusted_proxies" not in text  # so Caddy replaces what clients send in X-Forwarded-For
    caddy = shutil.which("caddy")
    if caddy:
        done = subprocess.run(
            [caddy, "validate", "--adapter", "caddyfile", "--config", SINGLE / "Caddyfile"],
            env={"DOMAIN": "outcry.example.com", "UPSTREAM": "127.0.0.1:8000", "HOME": "/nonexistent"},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_the_settings_of_the_unit_are_valid(tmp_path: Path) -> None:
    given = env_file(SINGLE / "outcry.env")
    assert given.keys() <= NAMES
    assert read_settings(given | {"OUTCRY_DATA": str(tmp_path)}).trusted_proxies == "127.0.0.1,::1"


@pytest.mark.parametrize("name", ["outcry.service", "outcry-backup.service"])
def test_a_service_is_hardened(name: str, tmp_path: Path) -> None:
    service = unit(name)["Service"]
    assert service["User"] == "outcry"
    for setting in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "PrivateUsers", "ProtectHome", "ProtectClock",
                    "ProtectKernelTunables", "ProtectControlGroups", "RestrictNamespaces", "LockPersonality",
                    "MemoryDenyWriteExecute", "RestrictSUIDSGID"):  # fmt: skip
        assert service[setting] == "yes", setting
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"
    assert service["StateDirectory"] == "outcry"
    assert service["Environment"] == "OUTCRY_DATA=/var/lib/outcry"
    judge = shutil.which("systemd-analyze")
    if judge:
        (tmp_path / name).write_text(
            re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (SINGLE / name).read_text())
        )
        call = [judge, "security", "--offline=true", "--no-pager", "--threshold=20", tmp_path / name]
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        old = "unrecognized option" in done.stderr  # before systemd 250
        assert old or done.returncode == 0, done.stdout[-300:] + done.stderr  # exposure above 2.0 of 10


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    assert unit("outcry.service")["Install"]["WantedBy"] == "multi-user.target"
    assert unit("outcry-backup.timer")["Timer"]["Persistent"] == "true"
    assert unit("outcry-backup.timer")["Install"]["WantedBy"] == "timers.target"
    judge = shutil.which("systemd-analyze")
    if judge:
        for name in UNITS:
            text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (SINGLE / name).read_text())
            (tmp_path / name).write_text(text)
        call = [judge, "verify", "--man=no", *(tmp_path / name for name in UNITS)]
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        errors = [line for line in done.stderr.splitlines() if tmp_path.name in line or "outcry" in line]
        assert not errors, errors
        shown = subprocess.run(
            [judge, "calendar", unit("outcry-backup.timer")["Timer"]["OnCalendar"]],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert shown.returncode == 0, shown.stderr


def test_the_timer_runs_a_backup_into_the_folder_it_may_write() -> None:
    service = unit("outcry-backup.service")["Service"]
    command = service["ExecStart"].split()
    assert command[1:] == ["backup", service["ReadWritePaths"], "--keep", "7"]
    assert service["Type"] == "oneshot"


def test_the_agent_of_macos() -> None:
    found = plistlib.loads((DEPLOY / "macos" / "com.openoutcry.agent.plist").read_bytes())
    assert found["Label"] == "com.openoutcry.agent"
    assert found["ProgramArguments"][1:] == ["agent", "--log", "json"]
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, True)


def test_the_agent_of_windows() -> None:
    """No PowerShell here: check that the script uses commands and options of `outcry` that exist."""
    text = (DEPLOY / "windows" / "install-agent.ps1").read_text()
    assert text.isascii()  # Windows PowerShell reads other characters in the machine's code page
    assert re.findall(r"outcry agent (\w+)", text) == ["init"]
    assert "agent check --config $Config" in text
    assert "agent --log json --config" in text
    for opening, closing in ("()", "{}", "[]"):
        assert text.count(opening) == text.count(closing)
