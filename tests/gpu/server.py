"""server.py [NAME...]: the requests of tests/schedules.py to servers on a GPU, under several sets of flags (some of those
of schedules.SERVERS by default; DEVICE is another device): their answers are those that a server on the CPU gives to each request alone, digit by
digit. Python's standard library alone; SLUICE_BUILD_DIR has the program. A line of JSON a server; exits 1 if any differs."""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from schedules import CLIENTS, REQUESTS, SERVERS, ask, check  # noqa: E402
from server_process import ROOT, Server  # noqa: E402

MODEL = str(ROOT / "models" / "sluice-tiny-v4")

NAMES = ["default", "chunks of 128, first come first served", "priorities and preemption", "a small cache", "swap"]


def main():
    start = time.monotonic()
    with Server(MODEL, "--device", "cpu", "--no-enable-prefix-caching") as server:
        alone = [ask(server, i) for i in range(len(REQUESTS))]
    print(json.dumps({"server": "cpu, each alone", "seconds": round(time.monotonic() - start, 1)}), flush=True)
    failed = False
    for name in sys.argv[1:] or NAMES:
        flags, seen = SERVERS[name]
        start, error = time.monotonic(), None
        try:
            check(name, [MODEL, "--device", os.environ.get("DEVICE", "cuda"), *flags], seen, alone, concurrencies=(CLIENTS,))
        except AssertionError as difference:
            error, failed = str(difference)[:400], True
        print(json.dumps({"server": name, "equal": error is None, "error": error,
                          "seconds": round(time.monotonic() - start, 1)}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
