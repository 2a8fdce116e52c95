"""A counted number of requests to a server by `wrk`, with the server's processor time for them.

The server runs on processor 0 and `wrk` on processor 1. The cost is the server's processor time per request, which a
slow load generator or another process distorts least.
"""

import re
import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from bench.measurement import Unavailable
from bench.processes import cpu_ns
from bench.web_servers import Running

CONNECTIONS = 32
LOAD_CPU = 1
#: Share of requests that may be answered with 502, because the machine stalled for longer than the store may take.
_STALLED = 0.001

#: Arguments: file of keys, number of requests, ETag or `-`, least and most pause of a connection (ms; 0: none).
#: `wrk` has no such number and ends early on an interrupt only.
_LUA = """
local ffi = require("ffi")
ffi.cdef "int kill(int, int); int getpid(void); int usleep(unsigned);"
local requests, at, left = {}, 0, 0
function init(args)
  left = tonumber(args[2])
  local least, most = tonumber(args[4]), tonumber(args[5])
  for key in io.lines(args[1]) do
    local headers = {["x-api-key"] = key}
    if args[3] ~= "-" then headers["if-none-match"] = args[3] end
    requests[#requests + 1] = wrk.format("GET", nil, headers)
  end
  if most > 0 then
    function delay() return math.random(least, most) end
  end
end
function request()
  if at == 1 then ffi.C.usleep(20000) end  -- until the main thread handles interrupts
  at = at + 1
  left = left - 1
  if left == 0 then
    wrk.thread:stop()
    ffi.C.kill(ffi.C.getpid(), 2)
  end
  return requests[(at - 1) % #requests + 1]
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """One load: processor seconds of the server per request, its share of a processor, latencies in ms."""

    cost_s: float
    share: float
    per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a server by each of several keys in turn, with the status that it must have.

    asked_before: how often each key asks before a load is counted, so that the server has the answer, or refuses one.
    """

    server: Running
    path: str
    keys: Path
    status: int = 200
    etag: str = "-"
    asked_before: int = 1

    @property
    def url(self) -> str:
        """Return the whole URL."""
        return self.server.base + self.path


def need(*programs: str) -> None:
    """Raise `Unavailable` if a program is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"{' and '.join(missing)} not found: make browser installs what Debian has")


def prepare(question: Question) -> None:
    """Let each key ask before a load. Raises `RuntimeError` unless the answer then has the question's status."""
    keys = question.keys.read_text().split()
    load(question, question.asked_before * len(keys))
    status = ask(question, keys[0]).status
    if status != question.status:
        raise RuntimeError(f"{question.url} answered {status}, not {question.status}")


def load(
    question: Question, count: int, *, connections: int = CONNECTIONS, pause_ms: tuple[int, int] = (0, 0)
) -> Load:
    """Send a number of requests as fast as the server answers, or with pauses of each connection.

    Raises `RuntimeError` if the server refuses requests that it should answer, but for a few.
    """
    script = question.keys.with_name("load.lua")
    script.write_text(_LUA)
    # An interrupt before `wrk` waits for its end is lost: it then runs for this long.
    limit_s = 3 + count // 200
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{limit_s}s",
        "--latency",
        "-s",
        str(script),
        question.url,
    ]
    command += ["--", str(question.keys), str(count), question.etag, *map(str, pause_ms)]
    before_ns = cpu_ns(question.server.process.pid)
    done = subprocess.run(
        ["taskset", "-c", str(LOAD_CPU), *command], capture_output=True, text=True, check=False, timeout=limit_s + 30
    )  # fmt: skip
    used_s = (cpu_ns(question.server.process.pid) - before_ns) / 1e9
    output = done.stdout
    if done.returncode or "Socket errors" in output:
        raise RuntimeError(f"wrk failed on {question.url}: {done.stderr or output}")
    requests = int(_found(r"(\d+) requests in", output)[0])
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    if question.status < 400 and refused and int(refused[1]) > requests * _STALLED:
        raise RuntimeError(f"{question.url} did not answer everything with {question.status}:\n{output}")
    per_s = float(_found(r"Requests/sec:\s+([\d.]+)", output)[0])
    return Load(
        cost_s=used_s / requests,
        share=used_s * per_s / requests,
        per_s=per_s,
        p50_ms=_milliseconds(_found(r"50%\s+([\d.]+)(us|ms|s)", output)),
        p99_ms=_milliseconds(_found(r"99%\s+([\d.]+)(us|ms|s)", output)),
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status, headers with names in lower case, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask(question: Question, key: str) -> Answer:
    """Send one request with a key."""
    headers = {"x-api-key": key} | ({} if question.etag == "-" else {"if-none-match": question.etag})
    request = urllib.request.Request(question.url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as found:
            return Answer(found.status, _lower(found.headers), found.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, _lower(refusal.headers), refusal.read())


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"wrk did not print {pattern}:\n{text}")
    return match.groups()


def _milliseconds(found: tuple[str, ...]) -> float:
    number, unit = found
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]
