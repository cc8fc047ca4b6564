"""For pytest: after failures, the seed with which they can be repeated."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from seed import SEED  # noqa: E402


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"SLUICE_TEST_SEED={SEED}")
