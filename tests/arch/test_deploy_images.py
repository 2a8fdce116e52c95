"""Base images are named by digest: `deploy/pin-images` resolves them, and what starts them requires them."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
INDEX = "application/vnd.oci.image.index.v1+json"


def wanted() -> dict[str, str]:
    lines = (line.split() for line in (DEPLOY / "images.txt").read_text().splitlines())
    return dict(pair for pair in lines if pair and not pair[0].startswith("#"))


class Registry(ThreadingHTTPServer):
    """Fake Docker Hub: returns a token, then the list of platforms of a tag."""

    stated: str | None = None  #: digest returned instead of the correct one
    kind = INDEX

    def body(self, path: str) -> bytes:
        return json.dumps({"mediaType": self.kind, "manifests": [], "of": path}).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        if self.path.startswith("/token?"):
            assert "scope=repository:library/" in self.path
            body, digest = b'{"token": "t1"}', ""
        elif self.headers["Authorization"] != "Bearer t1" or INDEX not in self.headers["Accept"]:
            self.send_error(401)
            return
        else:
            body = self.server.body(self.path)
            digest = self.server.stated or f"sha256:{hashlib.sha256(body).hexdigest()}"
        self.send_response(200)
        self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DEPLOY / "images.txt", tmp_path)
    return tmp_path


def pin(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, DEPLOY / "pin-images", "--folder", folder, *more]
    return subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)


def from_(registry: Registry) -> list[str]:
    return ["--registry", registry.url, "--auth", registry.url]


def test_every_tag_is_resolved_to_the_digest_of_its_content(folder: Path, registry: Registry) -> None:
    assert pin(folder, "--check").returncode == 1  # nothing is pinned yet
    done = pin(folder, *from_(registry))
    assert done.returncode == 0, done.stderr
    lines = [line for line in (folder / "images.env").read_text().splitlines() if not line.startswith("#")]
    expected = []
    for name, image in wanted().items():
        path = "/v2/library/{}/manifests/{}".format(*image.split(":"))
        expected.append(f"{name}={image}@sha256:{hashlib.sha256(registry.body(path)).hexdigest()}")
    assert lines == expected
    assert pin(folder, "--check").returncode == 0


def test_what_the_registry_states_is_not_believed(folder: Path, registry: Registry) -> None:
    registry.stated = f"sha256:{64 * '0'}"
    done = pin(folder, *from_(registry))
    assert done.returncode == 1
    assert "the registry states sha256:000" in done.stderr
    assert not (folder / "images.env").exists()


def test_one_platforms_manifest_is_refused(folder: Path, registry: Registry) -> None:
    registry.kind = "application/vnd.oci.image.manifest.v1+json"
    done = pin(folder, *from_(registry))
    assert (done.returncode, (folder / "images.env").exists()) == (1, False)
    assert "no list of platforms" in done.stderr


def test_a_tag_that_changed_counts_as_not_pinned(folder: Path, registry: Registry) -> None:
    pin(folder, *from_(registry))
    text = (folder / "images.txt").read_text()
    (folder / "images.txt").write_text(text.replace("nats:2.12", "nats:2.13"))
    done = pin(folder, "--check")
    assert done.returncode == 1
    assert "NATS_IMAGE is not pinned to nats:2.13-alpine@sha256" in done.stderr
    assert "CADDY_IMAGE" not in done.stderr


def test_a_registry_that_is_not_there_changes_nothing(folder: Path) -> None:
    (folder / "images.env").write_text("NATS_IMAGE=before\n")
    done = pin(folder, "--registry", "http://127.0.0.1:9", "--auth", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert (folder / "images.env").read_text() == "NATS_IMAGE=before\n"
    assert "Traceback" not in done.stderr


def test_nothing_starts_on_an_image_that_is_not_pinned() -> None:
    """Compose fails if a variable is not set; the build has no base image without its argument."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    used = {
        re.fullmatch(r"\$\{(\w+):\?run deploy/pin-images\}", one["image"])
        for one in services
        if "build" not in one
    }
    built = {one["build"]["args"]["PYTHON_IMAGE"] for one in services if "build" in one}
    assert built == {"${PYTHON_IMAGE:?run deploy/pin-images}"}
    assert None not in used
    assert {found[1] for found in used if found} | {"PYTHON_IMAGE"} == wanted().keys()
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "ARG PYTHON_IMAGE" in lines
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"${PYTHON_IMAGE}"}
    if (DEPLOY / "images.env").exists():
        assert pin(DEPLOY, "--check").returncode == 0


def test_a_locked_image_installs_nothing_without_a_hash() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-deps /dist/*.whl" in each for each in installs)
