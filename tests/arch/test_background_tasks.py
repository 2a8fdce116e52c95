"""Background tasks are started in one place, which reports their errors and ends them with their component."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "outcry"
#: Modules that create tasks themselves, and why.
EXCEPTIONS = {
    "agent/agent.py": "it waits for its feeds and raises their errors, and ends them before it sends what is left",
    "base/tasks.py": "the supervisor",
    "cluster/nats/client.py": "the task belongs to the library, which expects it under this name",
    "live/service.py": "its error is logged by an event of its own and makes the process unready",
    "http/strict_protocol.py": "the task answers a pipelined request, as uvicorn does; uvicorn's server awaits it",
    "feeds/seam.py": "the generator that creates the task waits for it and raises its error",
}


def created(source: str) -> Iterator[int]:
    """Yield the lines that create a task, except in a task group, which raises its errors and waits for it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "create_task":
            if not (isinstance(node.value, ast.Name) and node.value.id == "group"):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and any(name.name == "create_task" for name in node.names):
            yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("asyncio.create_task(work())", [1]),
        ("pass\nasyncio.get_running_loop().create_task(work())", [2]),
        ("begin = loop.create_task", [1]),
        ("from asyncio import create_task as begin", [1]),
        ("async with asyncio.TaskGroup() as group:\n    group.create_task(work())", []),
        ("tasks.start('name', work())", []),
    ],
)
def test_a_created_task_is_found(source: str, lines: list[int]) -> None:
    assert list(created(source)) == lines


def test_only_the_supervisor_and_named_exceptions_create_tasks() -> None:
    found = {
        path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if any(created(path.read_text()))
    }
    assert found == EXCEPTIONS.keys(), (
        "use outcry.base.tasks.BackgroundTasks, or remove what is no exception any more"
    )
