"""Distributes test files to the processes of `pytest -n 4 --dist loadfile`, as `make test` runs them.

A process runs a whole file, because the tests of a file share services, browsers and recordings. Files that take long
start first, so that no process is still busy with one when the others have finished.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: The pages' tests run before all others: each process stops the service that they share before it goes on.
FIRST = "tests/web/"
#: Seconds that a file takes on two cores beside three others. Files that are not listed take less than 20; of those,
#: files with many tests run first.
SECONDS = {
    "tests/web/test_every_page.py[en]": 220,
    "tests/web/test_every_page.py[de]": 220,
    "tests/web/test_hostile_pages.py": 150,
    "tests/web/test_shared_stream.py": 110,
    "tests/web/test_chart_drawing.py": 70,
    "tests/web/test_alerts_page.py": 60,
    "tests/web/test_levels_page.py": 50,
    "tests/web/test_passkeys.py": 40,
    "tests/web/test_links.py": 40,
    "tests/web/test_connecting.py": 35,
    "tests/web/test_chart_use.py": 35,
    "tests/web/test_symbol_page.py": 35,
    "tests/web/test_profile_page.py": 30,
    "tests/web/test_webhook_health.py": 30,
    "tests/web/test_security.py": 30,
    "tests/web/test_journey.py": 20,
    "tests/web/test_every_page.py": 20,
    "tests/arch/test_benches.py": 260,
    "tests/arch/test_compiled.py": 230,
    "tests/e2e/test_commands.py": 200,
    "tests/e2e/test_docs_with_a_service.py": 150,
    "tests/e2e/test_agent.py": 100,
    "tests/golden/test_replayed_sessions.py": 90,
    "tests/e2e/test_live_determinism.py": 60,
    "tests/e2e/test_vendor_files.py": 60,
    "tests/arch/test_installation.py": 60,
    "tests/e2e/test_portable.py": 55,
    "tests/arch/test_without_cluster.py": 50,
    "tests/cluster/test_sim.py": 50,
    "tests/e2e/test_served_kills.py": 40,
    "tests/e2e/test_live_disturbed.py": 40,
    "tests/contract/test_jetstream_log.py": 40,
    "tests/e2e/test_delivery_kills.py": 35,
    "tests/contract/test_partitions.py": 30,
    "tests/e2e/test_live_kills.py": 25,
    "tests/recordings/test_forgetting.py": 25,
    "tests/feeds/test_feed_replay.py": 25,
    "tests/e2e/test_replay_command.py": 20,
}


def unit_of(test: str) -> str:
    """Return the unit of a test, which one process runs: its file, or the part of the file in one language."""
    name = test.partition("::")[0]
    for part in SECONDS:
        file, bracket, language = part.partition("[")
        if bracket and name == file and test.endswith(f"-{language}"):
            return part
    return name


class LongestFirst(LoadFileScheduling):
    """Assigns units as processes become free, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda unit: (unit.startswith(FIRST), SECONDS.get(unit, 0)))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
