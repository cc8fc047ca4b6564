"""Many clients of every temper at once: those that leave, read slowly, run out of time, or are refused.

SLUICE_LOAD_CLIENTS and SLUICE_LOAD_SECONDS make it longer."""

import collections
import http.client
import json
import os
import random
import threading
import time
import urllib.parse

import pytest

from server_process import PATIENCE, Server, fetch, resident_mb
from stream_delay import measure

# An exception in a client's thread fails its test.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
CLIENTS = int(os.environ.get("SLUICE_LOAD_CLIENTS", 40))
SECONDS = float(os.environ.get("SLUICE_LOAD_SECONDS", 4))


def client(server, seed, end, seen):
    draw = random.Random(seed)
    address = urllib.parse.urlsplit(server.url)
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
        kind = draw.choice(("plain", "late", "leaves", "slow"))
        headers = {"X-Request-Timeout": str(draw.choice((0.05, 0.5, 3)))} if kind == "late" else {}
        stream = draw.random() < 0.8
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "Once " * draw.randrange(1, 100) + str(seed), "max_tokens": draw.randrange(1, 100), "stream": stream}),
            headers)
        if kind == "leaves":
            time.sleep(draw.random() / 2)
            connection.close()
            continue
        answer = connection.getresponse()
        if kind == "slow":
            time.sleep(draw.random())
        text = answer.read().decode()
        connection.close()
        end_of_stream = "[DONE]" in text or not stream or answer.status != 200
        seen[answer.status, "deadline_exceeded" in text, end_of_stream] += 1
        if answer.status == 429:
            assert int(answer.headers["Retry-After"]) >= 1
            time.sleep(0.5)


def test_everybody_gets_a_documented_answer_and_nothing_is_left():
    with Server("--audit", "--log-level", "warning", "--max-connections", "2000", "--network-threads", "2",
                "--max-waiting-requests", str(max(8, CLIENTS // 2)), "--kv-cache-memory", "48MiB") as server:
        for _ in range(3):
            assert fetch(server.url + "/v1/completions", {"prompt": "Once", "max_tokens": 50}).status == 200
        descriptors = f"/proc/{server.process.pid}/fd"
        before, memory = len(os.listdir(descriptors)), resident_mb(server.process)
        seen = collections.Counter()
        end = time.monotonic() + SECONDS
        threads = [threading.Thread(target=client, args=(server, seed, end, seen)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(dict(seen), f"{memory:.0f} -> {resident_mb(server.process):.0f} MB")
        assert server.process.poll() is None, "the server died:\n" + "".join(server.log[-50:])
        assert all(whole for _, _, whole in seen), "every stream that began has its end"
        assert {status for status, _, _ in seen} <= {200, 429, 503}
        assert all(late for status, late, _ in seen if status == 503)
        assert seen[200, False, True] > 0
        for name in ("sluice_num_requests_running", "sluice_num_requests_waiting", "sluice_kv_cache_bytes_used"):
            assert server.wait_for(name, lambda value: value == 0) == 0
        deadline = time.monotonic() + PATIENCE
        while len(os.listdir(descriptors)) > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(os.listdir(descriptors)) <= before
        assert resident_mb(server.process) < memory + 64 + 48, "the cache's own memory is touched by and by"


def test_what_the_network_adds_to_a_stream():
    """Prints it; time alone proves nothing on a busy machine. SLUICE_LOAD_STREAMS=200; alone by stream_delay.py."""
    streams = int(os.environ.get("SLUICE_LOAD_STREAMS", 20))
    assert measure(streams) > streams


LARGE_CLIENTS = int(os.environ.get("SLUICE_LOAD_LARGE_CLIENTS", 2))
LARGE_MB = float(os.environ.get("SLUICE_LOAD_LARGE_MB", 2))


def test_small_requests_beside_large_bodies():
    """Prints what the small ones took; time alone proves nothing on a busy machine. SLUICE_LOAD_LARGE_CLIENTS=8 SLUICE_LOAD_LARGE_MB=15."""
    with Server("--log-level", "warning", "--kv-cache-memory", "48MiB") as server:
        body = json.dumps({"prompt": "Once " * int(LARGE_MB * 2**20 / 5), "max_tokens": 1}).encode()
        small = json.dumps({"prompt": "Once", "max_tokens": 1}).encode()
        larges, stop = collections.Counter(), threading.Event()

        def post(payload):
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=PATIENCE)
            connection.request("POST", "/v1/completions", payload)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status

        def send_large():
            while not stop.is_set():
                larges[post(body)] += 1

        def measure():
            times, end = [], time.monotonic() + SECONDS
            while time.monotonic() < end:
                began = time.monotonic()
                assert post(small) == 200
                times.append(1000 * (time.monotonic() - began))
            times.sort()
            return f"p50 {times[len(times) // 2]:.1f} ms, p99 {times[int(len(times) * 0.99)]:.1f} of {len(times)}"

        alone = measure()
        threads = [threading.Thread(target=send_large) for _ in range(LARGE_CLIENTS)]
        for thread in threads:
            thread.start()
        beside = measure()
        stop.set()
        for thread in threads:
            thread.join()
        print("alone:", alone, "beside:", beside, dict(larges))
        assert set(larges) == {400}, "longer than the context"
