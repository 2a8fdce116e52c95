"""A service raises its limit of open files to the maximum."""

import resource
import subprocess
import sys

PROGRAM = """
import resource
from outcry.base.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_lets_it() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4096", "4096"]
