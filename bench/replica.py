"""Levels from a replica with shared limits, compared with the same from a single process."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Figure, Rounds, at_least
from bench.measurement import Size, installed_command
from bench.serving import LEVELS
from bench.web_load import LOAD_CPU, Question, load, need
from bench.web_servers import end, lay_out, new_keys, service
from support.engines.jetstream import JetStream
from support.engines.postgres import Postgres

KEYS = 3_000
REQUESTS = 100_000


def more(size: Size) -> Iterator[Figure]:
    """Measure completed sessions from both in turn, with PostgreSQL, one JetStream node and an engine running."""
    need("wrk", "taskset")
    keys, requests = new_keys(size.of(KEYS, KEYS, 200)), size.of(REQUESTS, 20_000, 2_000)
    with TemporaryDirectory(prefix="outcry-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        nodes, postgres = stack.enter_context(JetStream(1)), stack.enter_context(Postgres())
        secret = secrets.token_hex(16)
        shared = {"OUTCRY_DATABASE_URL": postgres.url(postgres.database()), "OUTCRY_SECRET": secret}
        for name, environment in (("alone", {}), ("shared", shared)):
            lay_out(folder / name, folder, {"admin": keys}, environment)
        (folder / "keys").write_text("\n".join(keys) + "\n")
        shared |= {"OUTCRY_CLUSTER": nodes.urls, "OUTCRY_VAULT_KEYS": f"k1:{secrets.token_hex(32)}"}
        stack.callback(end, _engine(folder / "shared", shared))
        servers = {
            "alone": stack.enter_context(service(folder / "alone", {})),
            "shared": stack.enter_context(service(folder / "shared", shared | {"OUTCRY_ROLE": "api"})),
        }
        costs: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(size.rounds + 1):
            for name, server in servers.items():
                cost_s = load(Question(server, LEVELS, folder / "keys"), requests).cost_s
                if number:  # the first round is a warm-up
                    costs[name].append(cost_s)
    alone, replica = (Rounds.of(each) for each in costs.values())
    note = f"{replica.rate(1e-3)} to {alone.rate(1e-3)} k requests/CPU-s"
    yield Figure.ratio(
        "`GET /api/levels` of a replica", alone, replica, "a single process", at_least(0.95), note
    )


def _engine(data: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [installed_command(), "serve", "--port", "0", "--data", str(data), "--role", "engine"]
    return subprocess.Popen(
        ["taskset", "-c", str(LOAD_CPU), *command],
        env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
