"""The seed of a run: fresh, or SLUICE_TEST_SEED, to run a failure again. conftest.py prints it where a test fails."""

import os
import random

SEED = int(os.environ.get("SLUICE_TEST_SEED", random.randrange(2**32)))
