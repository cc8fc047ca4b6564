"""What stands around the server: keys, TLS, local sockets, request ids, the log, and clients that mean no good."""

import http.client
import json
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import threading
import time

import httpx
import openai
import pytest

from server_process import BUILD, PATIENCE, Server, make_certificate

KEY, ADMIN = "user-secret", "admin-secret"
BODY = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("guard")


@pytest.fixture(scope="module")
def server(folder):
    certificate, key = make_certificate(folder, "first")
    (folder / "tls.pem").write_bytes(certificate.read_bytes())
    (folder / "tls.key").write_bytes(key.read_bytes())
    (folder / "keys").write_text(f"# users\nann:{KEY}\n")
    with Server("--host", "localhost", "--host", f"unix:{folder}/socket", "--tls-certificate", folder / "tls.pem",
                "--tls-key", folder / "tls.key", "--api-key-file", folder / "keys", "--log-format", "json",
                "--network-threads", "2", "--max-connections", "400", "--audit",
                env={**os.environ, "SLUICE_ADMIN_KEY": f"root:{ADMIN}"}) as running:
        yield running
        assert running.process.poll() is None, "the server died:\n" + "".join(running.log[-50:])


def trusting(folder):
    return ssl.create_default_context(cafile=str(folder / "tls.pem"))


def client(server, folder, key=KEY):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=PATIENCE,
                         http_client=httpx.Client(verify=trusting(folder), timeout=PATIENCE))


def port_of(server):
    return int(server.url.rsplit(":", 1)[1])


def call(server, folder, path, body=None, headers=None, host="localhost"):
    connection = http.client.HTTPSConnection(host, port_of(server), timeout=PATIENCE, context=trusting(folder))
    try:
        connection.request("GET" if body is None else "POST", path, body, {"x-api-key": KEY, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_a_client_with_the_key_over_tls(server, folder):
    whole = client(server, folder).completions.create(model="sluice-tiny-v4", prompt="Once", max_tokens=8, temperature=0)
    pieces = client(server, folder).completions.create(model="sluice-tiny-v4", prompt="Once", max_tokens=8,
                                                       temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    for wrong in ("none", KEY + "x", KEY[:-1], "a" * 500):
        with pytest.raises(openai.AuthenticationError):
            client(server, folder, wrong).models.list()
    assert call(server, folder, "/debug/cache")[0] == 403
    assert call(server, folder, "/debug/cache", headers={"x-api-key": ADMIN})[0] == 200


def test_a_large_body_over_tls(server, folder):
    body = json.dumps({"prompt": "x", "max_tokens": 1, "metadata": {"filler": "y" * (3 << 20)}})
    assert call(server, folder, "/v1/completions", body)[0] == 200
    assert call(server, folder, "/v1/completions", "z" * (17 << 20))[0] == 413


def test_the_local_socket(server, folder):
    connection = http.client.HTTPSConnection("localhost", timeout=PATIENCE)
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(f"{folder}/socket")
    connection.sock = trusting(folder).wrap_socket(raw, server_hostname="localhost")
    connection.request("POST", "/v1/completions", BODY, {"Authorization": f"Bearer {KEY}"})
    assert connection.getresponse().status == 200
    connection.close()


def test_both_families_of_localhost(server, folder):
    addresses = pathlib.Path("/proc/net/if_inet6")
    has_v6 = addresses.exists() and " lo" in addresses.read_text()
    for host in ("127.0.0.1", "::1") if has_v6 else ("127.0.0.1",):
        with socket.create_connection((host, port_of(server)), PATIENCE) as raw:
            with trusting(folder).wrap_socket(raw, server_hostname="localhost") as tls:
                assert tls.version() == "TLSv1.3"


def test_what_is_no_tls(server, folder):
    for garbage in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(300), b"\x00" * 50,
                    random.Random(1).randbytes(5000)):
        with socket.create_connection(("127.0.0.1", port_of(server)), PATIENCE) as raw:
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            try:
                while raw.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    old = trusting(folder)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        with socket.create_connection(("127.0.0.1", port_of(server)), PATIENCE) as raw:
            old.wrap_socket(raw, server_hostname="localhost")
    assert call(server, folder, "/health", None)[0] == 200


def test_keys_and_certificate_change_at_sighup(server, folder):
    certificate, key = make_certificate(folder, "second")
    streaming = client(server, folder).completions.create(model="sluice-tiny-v4", prompt="Once", max_tokens=200,
                                                          temperature=0, stream=True, extra_body={"ignore_eos": True})
    assert next(iter(streaming))
    (folder / "tls.pem").write_bytes(certificate.read_bytes())
    (folder / "tls.key").write_bytes(key.read_bytes())
    (folder / "keys").write_text(f"ann:{KEY}\nbob:another\n")
    server.process.send_signal(signal.SIGHUP)
    server.logged("reloaded")
    assert call(server, folder, "/v1/models", headers={"x-api-key": "another"})[0] == 200
    assert call(server, folder, "/v1/models", headers={"x-api-key": "a third"})[0] == 401
    assert sum(1 for _ in streaming) > 100, "what runs goes on"
    (folder / "tls.pem").write_text("no certificate")
    server.process.send_signal(signal.SIGHUP)
    server.logged("not reloaded.*--tls-certificate")
    (folder / "tls.pem").write_bytes(certificate.read_bytes())
    assert call(server, folder, "/v1/models")[0] == 200


def test_the_log_tells_of_each_request(server, folder):
    start = time.monotonic()
    with httpx.Client(verify=trusting(folder), timeout=PATIENCE) as http:
        with http.stream("POST", server.url + "/v1/completions", headers={"x-api-key": KEY, "X-Request-Id": "the-one"},
                         json={"prompt": "Once", "max_tokens": 50, "stream": True, "ignore_eos": True}) as answer:
            assert answer.headers["x-request-id"] == "the-one"
            lines = answer.iter_lines()
            next(lines)
            first = time.monotonic() - start
            for _ in lines:
                pass
    line = json.loads(server.logged('"id":"the-one"').string)
    assert line["key"] == "ann" and line["status"] == 200 and line["path"] == "/v1/completions"
    assert line["completion_tokens"] == 50 and line["finish"] == "length"
    assert 0 <= line["queue_s"] <= line["ttft_s"] <= first <= time.monotonic() - start
    assert "Once" not in "".join(server.log) and KEY not in "".join(server.log)


def test_a_flood_of_what_clients_should_not_do(server, folder):
    """Half requests, vanished clients, pipelined floods and slow headers: others are served, nothing is left."""
    descriptors = f"/proc/{server.process.pid}/fd"
    before = len(os.listdir(descriptors))
    rounds = int(os.environ.get("SLUICE_ATTACK_ROUNDS", 1))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\n".encode()

    def attack(seed):
        draw = random.Random(seed)
        for _ in range(20):
            kind = draw.randrange(6)
            try:
                with socket.create_connection(("127.0.0.1", port_of(server)), PATIENCE) as raw:
                    tls = trusting(folder).wrap_socket(raw, server_hostname="localhost")
                    if kind == 0:  # leaves in the middle of a body
                        tls.sendall(head + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1000)
                    elif kind == 1:  # leaves in the middle of an answer
                        body = json.dumps({"prompt": "x", "max_tokens": 500, "stream": True}).encode()
                        tls.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                        tls.recv(100)
                    elif kind == 2:  # asks for much and reads nothing
                        tls.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nx-api-key: " + KEY.encode() +
                                    b"\r\n\r\n")
                        tls.sendall((b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nx-api-key: " + KEY.encode() +
                                     b"\r\n\r\n") * 50)
                    elif kind == 3:  # a header that never ends
                        tls.sendall(head + b"X: " + b"y" * draw.randrange(1, 70000))
                    elif kind == 4:  # half closed
                        tls.sendall(head[:draw.randrange(len(head))])
                        raw.shutdown(socket.SHUT_WR)
                    else:
                        raw.sendall(draw.randbytes(draw.randrange(1, 2000)))
            except (OSError, ssl.SSLError):
                pass

    for attacks in range(rounds):
        threads = [threading.Thread(target=attack, args=(attacks * 10 + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert call(server, folder, "/v1/completions", BODY)[0] == 200
        for thread in threads:
            thread.join()
    deadline = time.monotonic() + PATIENCE
    while len(os.listdir(descriptors)) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir(descriptors)) <= before


def test_a_key_is_asked_for_beyond_this_machine():
    with Server("--host", "0.0.0.0") as open_server:
        open_server.logged("EVERYBODY WHO CAN REACH THIS ADDRESS")


def test_flags_that_make_no_sense(folder):
    for flags, message in ((["--tls-key", "x"], "--tls-certificate"), (["--api-key", "a b:c"], "NAME:SECRET"),
                           (["--api-key-file", "/nowhere"], "/nowhere"), (["--host", "unix:"], "unix:PATH"),
                           (["--tls-certificate", folder / "keys", "--tls-key", folder / "keys"], "PEM")):
        run = subprocess.run([BUILD / "sluice", "serve", "--port", "0", *flags], capture_output=True, text=True,
                             timeout=PATIENCE)
        assert run.returncode != 0 and message in run.stderr
        assert "b:c" not in run.stderr
