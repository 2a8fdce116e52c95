"""The dashboard and the rules use metrics and labels that a running service has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.test_portable import Machine, get
from tests.timeouts import wait_until

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
#: Metrics that Prometheus itself adds, with their labels.
OWN = {"up": {"job", "instance"}}
#: Labels that Prometheus adds to every metric, and variables of Grafana.
ADDED = {"job", "instance"}
SUFFIXES = ("_bucket", "_sum", "_count")


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the place and text of every expression."""
    for group in yaml.safe_load((MONITORING / "outcry.rules.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def dashboard() -> dict[str, list[dict[str, object]]]:
    return json.loads((MONITORING / "grafana-dashboard.json").read_text())


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of an expression, with the labels that select or group it."""
    grouped = {
        label.strip() for labels in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression)
        for label in labels.split(",")
    }  # fmt: skip
    for name, selectors in re.findall(r"\b(outcry_\w+|up)\b(?:\{([^}]*)\})?", expression):
        yield name, grouped | set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selectors))


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The metrics of a running demo, each with its labels, after one request to each part and one delivery."""
    machine = Machine(tmp_path_factory.mktemp("demo"))
    with machine.running("serve", "--demo", "--port", "0") as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(4)]
        url, key = printed[0].split()[3], printed[2].split()[1]
        assert get(f"{url}/api/levels?symbol=ES", key)[0] == 200
        wait_until(lambda: b'outcry_feed_rows_total{became="rows"}' in get(f"{url}/metrics")[1])
        return parsed(get(f"{url}/metrics")[1].decode())


def parsed(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found.setdefault(name, set())
            if kind == "histogram":
                found |= {f"{name}{suffix}": set() for suffix in SUFFIXES}
        elif match := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            found.setdefault(match[1], set()).update(re.findall(r'(\w+)="', match[2] or ""))
    return found


def test_every_metric_and_label_exists(exposed: dict[str, set[str]]) -> None:
    # The demo delivers nothing and refuses nobody, so these have no values yet: names from `src/outcry/api/app.py` and
    # `src/outcry/http/exposition.py`.
    empty = {"outcry_deliveries_total": {"became"}, "outcry_limiter_refusals_total": {"tier"},
             "outcry_stream_events_total": {"event"}}  # fmt: skip
    for name, labels in empty.items():
        assert name in exposed
        exposed[name] |= labels
    known = exposed | OWN
    seen = set[str]()
    for place, expression in expressions():
        metrics = list(used(expression))
        assert metrics, place
        selected = set[str]().union(*(labels for _, labels in metrics))
        available = set[str]().union(*(known.get(name, set()) for name, _ in metrics)) | ADDED
        assert {name for name, _ in metrics} <= known.keys(), (place, expression)
        assert selected <= available, (place, expression)
        seen |= {name for name, _ in metrics}
    assert len(seen) > 12


@pytest.mark.parametrize(
    "expression",
    ["sum(outcry_nothing)", 'rate(outcry_http_requests_total{code="500"}[5m])', "sum by (x) (outcry_feeds)"],
)
def test_an_unknown_name_is_found(exposed: dict[str, set[str]], expression: str) -> None:
    wrong = [
        name
        for name, labels in used(expression)
        if name not in exposed or not labels <= exposed[name] | ADDED
    ]
    assert wrong


def test_the_dashboard_is_complete() -> None:
    board = dashboard()
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert "__inputs" not in board  # it can be provisioned as a file


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    rules = yaml.safe_load((MONITORING / "outcry.rules.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description"} <= rule["annotations"].keys()
    judge = shutil.which("promtool")
    if judge:
        shutil.copy(MONITORING / "outcry.rules.yaml", tmp_path)
        text = (MONITORING / "prometheus.yaml").read_text().replace("/etc/prometheus", str(tmp_path))
        (tmp_path / "prometheus.yml").write_text(text)
        done = subprocess.run(
            [judge, "check", "config", tmp_path / "prometheus.yml"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
