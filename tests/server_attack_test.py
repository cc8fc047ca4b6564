"""Clients that mean no good, many at a time, a disk that is full, and signals while everybody is busy: what is documented comes, and
nothing is lost for others."""

import collections
import http.client
import json
import os
import random
import resource
import signal
import socket
import string
import subprocess
import threading
import time
import urllib.parse

import pytest

from seed import SEED
from server_process import BUILD, PATIENCE, Server, fetch, make_certificate, resident_mb

# An exception in a client's thread fails its test.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
BODY = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}).encode()
HEADER_SECONDS = 10  # that the server gives a header
SHORT = 400_000  # bytes of a file: more than the states of short requests, less than those of long ones
SECRET = "a-secret-of-41-bytes-0123456789-abcdefghi"


def address_of(server):
    parts = urllib.parse.urlsplit(server.url)
    return parts.hostname, parts.port


def answers(server):
    return fetch(server.url + "/v1/completions", BODY).status == 200


def still_takes(client, byte):
    """Whether a client's connection is open, by sending something over it."""
    try:
        client.send(byte)
        return client.recv(4096) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_a_thousand_clients_that_do_not_go_on():
    """Those that are at a header are cut, however often they send a byte of it; those at a body may take longer; others are served
    meanwhile, and then there is room again."""
    with Server("--max-connections", "1100") as server:
        descriptors = f"/proc/{server.process.pid}/fd"
        assert answers(server)
        before = len(os.listdir(descriptors))
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        slow = [socket.create_connection(address_of(server), PATIENCE) for _ in range(1000)]
        for i, client in enumerate(slow):
            client.sendall(head + b"Content-Length: 100\r\n\r\n{" if i % 2 else head + b"X: " if i < 20 else head[:1 + i % len(head)])
        server.wait_for("sluice_http_connections", lambda count: count >= 1000)
        assert answers(server)
        drips = slow[0:20:2]  # a byte of a header from time to time, for as long as it takes it
        for client in drips:
            client.setblocking(False)
        deadline = time.monotonic() + 3 * HEADER_SECONDS
        while drips and time.monotonic() < deadline:
            time.sleep(0.2)
            drips = [client for client in drips if still_takes(client, b"y")]
        assert not drips, "a header may take as long as its client likes"
        for client in slow[20::2]:
            client.settimeout(PATIENCE)
            try:
                while client.recv(4096):
                    pass
            except ConnectionResetError:
                pass  # cut before it had read what was sent
        for client in slow[0::2]:
            client.close()
        assert answers(server)
        for client in slow[1::2]:
            client.close()
        deadline = time.monotonic() + PATIENCE
        while len(os.listdir(descriptors)) > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(os.listdir(descriptors)) <= before
        assert server.wait_for("sluice_http_connections", lambda count: count <= 1) <= 1, "their places are taken for ever"


def test_headers_without_an_end():
    with Server() as server:
        for bomb in (b"X: " + b"y" * 100_000, b"".join(b"X-%d: y\r\n" % i for i in range(20_000)), b"X: y\r\n" * 20_000):
            with socket.create_connection(address_of(server), PATIENCE) as client:
                try:
                    client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + bomb)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it has heard enough
                assert client.recv(100).startswith(b"HTTP/1.1 431 ")
        assert answers(server)


def test_a_pipelined_flood_is_answered_in_order():
    with Server() as server, socket.create_connection(address_of(server), PATIENCE) as client, client.makefile("rb") as reader:
        count = 2000
        ask = b"".join(b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: n%d\r\n\r\n" % i for i in range(count))
        sender = threading.Thread(target=client.sendall, args=(ask,))
        sender.start()
        for i in range(count):
            assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(reader)
            assert headers["X-Request-Id"] == f"n{i}"
            reader.read(int(headers["Content-Length"]))
        sender.join()


def test_what_is_sent_ahead_is_bounded():
    """Behind a request that takes long: requests without end, whose answers nobody reads. The client is cut."""
    with Server() as server, socket.create_connection(address_of(server), PATIENCE) as client:
        body = json.dumps({"prompt": "Once", "max_tokens": 60_000, "ignore_eos": True}).encode()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        server.wait_for("sluice_num_requests_running", lambda count: count == 1)
        more = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
        try:
            for _ in range(64 * 2**20 // len(more)):
                client.sendall(more)
        except (ConnectionResetError, BrokenPipeError):
            pass
        else:
            raise AssertionError("the server holds 64 MiB that it has no use for yet")
        assert server.wait_for("sluice_num_requests_running", lambda count: count == 0) == 0
        assert answers(server)


def guess(server, draw, count, seen):
    """Wrong keys over one connection, 50 ahead of their answers: in one header or the other, of any length, or the right one cut or with more behind it."""
    asked = 0
    with socket.create_connection(address_of(server), PATIENCE) as client, client.makefile("rb") as reader:
        while asked < count:
            part = min(50, count - asked)
            for _ in range(part):
                key = "".join(draw.choices(string.ascii_letters + string.digits + "-._", k=draw.randint(1, 120)))
                kind = draw.randrange(8)
                if kind < 2:
                    key = (SECRET[:draw.randrange(1, len(SECRET))], SECRET + key)[kind]
                header = draw.choice(("Authorization: Bearer", "x-api-key:"))
                body = BODY if draw.randrange(8) == 0 else b""
                what = b"POST /v1/completions" if body else draw.choice((b"GET /v1/models", b"GET /metrics", b"GET /debug/cache"))
                client.sendall(what + f" HTTP/1.1\r\nHost: localhost\r\n{header} {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            for _ in range(part):
                seen[int(reader.readline().split()[1])] += 1
                reader.read(int(http.client.parse_headers(reader)["Content-Length"]))
            asked += part


def test_random_keys():
    """SLUICE_ATTACK_KEYS=100000: none opens the server, the right one does all the time, and nothing is kept of them."""
    count, draw = int(os.environ.get("SLUICE_ATTACK_KEYS", 2000)), random.Random(SEED)
    with Server("--api-key", f"ann:{SECRET}", "--api-key", "bob:another", "--admin-key", "root:third") as server:
        def opens():
            began = time.monotonic()
            connection = http.client.HTTPConnection(*address_of(server), timeout=PATIENCE)
            connection.request("POST", "/v1/completions", BODY, {"Authorization": f"Bearer {SECRET}"})
            status = connection.getresponse().status
            connection.close()
            assert status == 200
            return 1000 * (time.monotonic() - began)

        seen = [collections.Counter() for _ in range(4)]
        guess(server, draw, 1000, seen[0])
        opens()
        memory, descriptors = resident_mb(server.process), len(os.listdir(f"/proc/{server.process.pid}/fd"))
        threads = [threading.Thread(target=guess, args=(server, random.Random(SEED + i), count // 4, seen[i])) for i in range(4)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        times = [opens()]
        while any(thread.is_alive() for thread in threads):
            times.append(opens())
        took = time.monotonic() - began
        opens()
        assert sum(seen, collections.Counter()) == {401: 1000 + count // 4 * 4}
        times.sort()
        print(f"{count} wrong keys in {took:.1f} s; the right one beside them, {len(times)} times: p50 {times[len(times) // 2]:.1f} ms, at most {times[-1]:.1f}; "
              f"{memory:.1f} -> {resident_mb(server.process):.1f} MB; SLUICE_TEST_SEED={SEED}")
        assert resident_mb(server.process) < memory + 16
        deadline = time.monotonic() + PATIENCE
        while len(os.listdir(f"/proc/{server.process.pid}/fd")) > descriptors and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors


def test_renegotiation_is_refused(tmp_path):
    certificate, key = make_certificate(tmp_path, "own")
    with Server("--tls-certificate", certificate, "--tls-key", key) as server:
        host, port = address_of(server)
        asked = subprocess.run(["openssl", "s_client", "-tls1_2", "-connect", f"{host}:{port}"], input=b"R\n", capture_output=True, timeout=PATIENCE)
        said = asked.stdout + asked.stderr
        assert b"RENEGOTIATING" in said and b"no renegotiation" in said, said
        run = subprocess.run([BUILD / "sluice", "bench", "serve", server.url, "--insecure", "--requests", "2", "--warmup", "0"], capture_output=True)
        assert run.returncode == 0


def test_the_log_is_on_a_full_disk(tmp_path):
    path = str(tmp_path / "socket")
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([BUILD / "sluice", "serve", "--host", f"unix:{path}", "--log-format", "json"], stderr=full, stdout=full)
    try:
        deadline = time.monotonic() + PATIENCE
        for _ in range(5):
            connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
            connection.sock = socket.socket(socket.AF_UNIX)
            while connection.sock.connect_ex(path) != 0:  # until it is there, and then until somebody listens
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            connection.request("POST", "/v1/completions", BODY)
            assert connection.getresponse().status == 200
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def short_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (SHORT, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_the_swap_space_is_full(tmp_path, place):
    """Some states of preempted requests find room and others do not: those are computed again, to the same answers. SLUICE_ATTACK_SWAP: a folder of a
    small disk, in the place of one where no file may be long."""
    disk = os.environ.get("SLUICE_ATTACK_SWAP")
    flags = ["--swap-space", str(SHORT)] if place == "memory" else ["--swap-space", "1GiB", "--swap-dir", disk or tmp_path]
    limit = {} if place == "memory" or disk else {"preexec_fn": short_files, "restore_signals": False}
    asks = [{"prompt": f"{i}: " + "Once upon a time " * (60 if i % 3 else 1), "max_tokens": 110, "temperature": 0, "ignore_eos": True} for i in range(9)]
    found = {}
    with Server() as plain:
        alone = [fetch(plain.url + "/v1/completions", ask).json()["choices"][0]["text"] for ask in asks]
    with Server("--audit", "--no-enable-prefix-caching", "--force-preempt-every", "3", *flags, **limit) as server:
        def call(i):
            answer = fetch(server.url + "/v1/completions", asks[i])
            found[i] = (answer.status, answer.json()["choices"][0]["text"])

        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(asks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {i: (200, text) for i, text in enumerate(alone)}
        kinds = {kind: server.metric(f'sluice_num_preemptions_total{{kind="{kind}"}}') for kind in ("swap", "recompute")}
        print(kinds, "restored", server.metric("sluice_swaps_restored_total"))
        assert kinds["swap"] > 0 and kinds["recompute"] > kinds["swap"] + 2, "they take turns, but for those that find no room"
        assert server.wait_for("sluice_swap_bytes_used", lambda used: used == 0) == 0
        assert answers(server)


def test_signals_under_load(tmp_path):
    """Twenty times SIGHUP, then SIGTERM: what had begun ends as documented, and the exit code is 0."""
    keys = tmp_path / "keys"
    keys.write_text("ann:secret\n")
    seen, lock = collections.Counter(), threading.Lock()
    with Server("--api-key-file", keys, "--drain-timeout", "60", "--max-num-seqs", "4") as server:
        def ask(seed):
            draw = random.Random(seed)
            while True:
                connection = http.client.HTTPConnection(*address_of(server), timeout=PATIENCE)
                try:
                    connection.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": draw.randrange(1, 60), "stream": True,
                                                                              "ignore_eos": True}), {"x-api-key": "secret"})
                except OSError:
                    return  # it listens no more
                try:
                    answer = connection.getresponse()
                    whole = answer.read().endswith(b"data: [DONE]\n\n")
                    with lock:
                        seen[answer.status, whole] += 1
                    if answer.status != 200:
                        return
                except (ConnectionResetError, http.client.RemoteDisconnected):
                    with lock:
                        seen["closed before an answer", False] += 1
                    return
                except http.client.IncompleteRead:
                    with lock:
                        seen["cut in the middle", False] += 1
                    return
                finally:
                    connection.close()

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(12)]
        for thread in threads:
            thread.start()
        for i in range(20):
            done = sum(seen.values())
            fresh = tmp_path / "fresh"
            fresh.write_text(f"ann:secret\nbob:secret{i}\n")
            fresh.rename(keys)  # whole, though the server may still be at the last signal
            server.process.send_signal(signal.SIGHUP)
            while sum(seen.values()) == done and any(thread.is_alive() for thread in threads):
                time.sleep(0.005)
        assert set(seen) == {(200, True)}, seen
        server.logged("reloaded")
        assert fetch(server.url + "/v1/models").status == 401, "the keys are gone"
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(PATIENCE)
        assert server.process.wait(PATIENCE) == 0
    assert seen[200, True] >= 20 and set(seen) <= {(200, True), (503, False), ("closed before an answer", False)}, seen
