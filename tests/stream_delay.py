"""What the server adds to streams, from a token's making to its event being with the system. Needs the program and Python alone:

    SLUICE_BUILD_DIR=build SLUICE_LOAD_STREAMS=200 python3 tests/stream_delay.py [FLAG OF sluice serve...]"""

import os
import pathlib
import re
import subprocess
import sys

from server_process import BUILD, PATIENCE, Server

TOKENS = 128


def thread_seconds(process):
    """What each thread has used. The main one, which waits, has little."""
    used = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        used[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return used


def measure(streams, *flags):
    """Prints what is found; the number of pieces."""
    with Server("--log-level", "warning", *flags) as server:
        before = thread_seconds(server.process)
        report = subprocess.run([BUILD / "sluice", "bench", "serve", server.url, "--requests", str(streams), "--input", "32", "--output", str(TOKENS),
                                 "--concurrency", str(streams), "--warmup", "0"], capture_output=True, text=True, timeout=PATIENCE, check=True)
        after = thread_seconds(server.process)
        buckets = [(float(le), int(count)) for le, count in re.findall(r'^sluice_stream_delay_seconds_bucket\{le="([^"]+)"\} (\d+)', server.metrics(), re.M)]
    total = buckets[-1][1]
    print(report.stdout)
    print(f"{total} pieces:", ", ".join(f"{100 * count / total:.1f} % within {1000 * le:g} ms" for le, count in buckets if count))
    for part in (0.5, 0.99):
        print(f"p{100 * part:g}: at most {1000 * next(le for le, count in buckets if count >= part * total):g} ms")
    print({task: f"{1e6 * (after[task] - before.get(task, 0)) / (TOKENS * streams):.1f} us a token" for task in after})
    return total


if __name__ == "__main__":
    measure(int(os.environ.get("SLUICE_LOAD_STREAMS", 200)), *sys.argv[1:])
