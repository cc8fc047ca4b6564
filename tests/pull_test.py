"""`sluice pull`, `list` and `rm`, and models by name, against a small server of the hub's protocol. The server cuts,
stalls, changes and refuses answers; the cache's layout is compared with what huggingface_hub writes, from its
documentation."""

import collections
import contextlib
import hashlib
import http.server
import json
import os
import pty
import random
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest

from program import MODEL, QUICK_START, SLUICE
from server_process import make_certificate

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LFS = (".safetensors", ".gguf", "tokenizer.json")
CHUNK = 16 << 20


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def digest(path, data):
    return sha256(data) if path.endswith(LFS) else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """The endpoint and the host of large files, on two ports. `faults[path]` has what the next answers of this file do,
    and the key "api" those of the list; `requests` has (host, path, headers)."""

    def __init__(self, models):
        self.models, self.faults, self.requests = models, collections.defaultdict(list), []
        self.answer_list = self.list_files
        self.hub, self.cdn = self.listen("hub"), self.listen("cdn")

    def listen(self, name):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.requests.append((name, self.path, dict(self.headers)))
                (outer.answer_hub if name == "hub" else outer.answer_cdn)(self)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True, args=(0.02,)).start()
        return server

    def close(self):
        for server in self.hub, self.cdn:
            server.shutdown()
            server.server_close()

    def url(self, host="hub"):
        return f"http://127.0.0.1:{getattr(self, host).server_address[1]}"

    def paths(self, host="hub"):
        return [path for name, path, _ in self.requests if name == host]

    def list_files(self, model):
        return json.dumps({"sha": COMMIT, "siblings": [
            {"rfilename": path, "size": len(data), "blobId": digest("x", data)} |
            ({"lfs": {"sha256": sha256(data), "size": len(data)}} if path.endswith(LFS) else {})
            for path, data in self.models[model].items()]}).encode()

    @staticmethod
    def send(handler, status, body=b"", **headers):
        handler.send_response(status)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def answer_hub(self, handler):
        path = handler.path.split("?")[0]
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            fault = self.faults["api"].pop(0) if self.faults["api"] else None
            if fault is not None:
                return self.send(handler, fault[0], b"{}", **fault[1])
            if match[1] not in self.models:
                return self.send(handler, 404, b"{}", X_Error_Code="RepoNotFound")
            return self.send(handler, 200, self.answer_list(match[1]))
        model, name = re.fullmatch(rf"/([^/]+/[^/]+)/resolve/{COMMIT}/(.+)", path).groups()
        if name.endswith(LFS):
            return self.send(handler, 302, b"elsewhere", Location=f"{self.url('cdn')}/{model}/{name}?signature=1")
        return self.serve_file(handler, name, self.models[model][name])

    def answer_cdn(self, handler):
        org, model, name = handler.path.split("?")[0].lstrip("/").split("/", 2)
        self.serve_file(handler, name, self.models[f"{org}/{model}"][name])

    def serve_file(self, handler, name, data):
        fault = self.faults[name].pop(0) if self.faults[name] else None
        if isinstance(fault, int):
            return self.send(handler, fault)
        begin, end = 0, len(data)
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", "")):
            begin, end = int(match[1]), int(match[2]) + 1 if match[2] else len(data)
        part = data[begin:end]
        if fault == "wrong":
            part = bytes([part[0] ^ 1]) + part[1:]
        handler.send_response(206 if match else 200)
        if match:
            handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(part)))
        handler.end_headers()
        handler.wfile.write(part if fault not in ("cut", "stall") else part[:len(part) // 2])
        if fault == "stall":
            handler.wfile.flush()
            time.sleep(1.5)
        handler.close_connection = fault in ("cut", "stall")


def model_files():
    return {path.name: path.read_bytes() for path in sorted(MODEL.iterdir()) if path.is_file()}


@pytest.fixture(name="hub")
def fixture_hub():
    small = {"config.json": b"{}", "model.safetensors": b"weights" * 1000, "README.md": b"no", "a.bin": b"no"}
    gguf = {"m-Q4_0.gguf": b"GGUF" + b"4" * 100, "m-Q8_0.gguf": b"GGUF" + b"8" * 200}
    hub = Hub({"org/real": model_files(), "org/small": small, "org/gguf": gguf})
    yield hub
    hub.close()


class Cache:
    def __init__(self, folder, hub):
        self.folder, self.hub = folder / "hub", hub
        self.environment = {key: value for key, value in os.environ.items()
                            if not re.match(r"(HF_|HUGGING|.*_PROXY$)", key, re.I)}
        self.environment |= {"HF_HOME": str(folder), "HF_ENDPOINT": hub.url(), "HF_HUB_DOWNLOAD_TIMEOUT": "0.5"}

    def run(self, *arguments, code=0, says=(), **variables):
        done = subprocess.run([SLUICE, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment | variables)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        for words in [says] if isinstance(says, str) else says:
            assert words in done.stderr, done.stderr
        return done

    def model(self, name):
        return self.folder / ("models--" + name.replace("/", "--"))

    def snapshot(self, name):
        return self.model(name) / "snapshots" / COMMIT

    def files(self, name):
        return sorted(path.relative_to(self.model(name)).as_posix() for path in self.model(name).rglob("*")
                      if path.is_symlink() or path.is_file())


@pytest.fixture(name="cache")
def fixture_cache(tmp_path, hub):
    return Cache(tmp_path, hub)


def test_the_layout_is_that_of_the_hubs_tools(cache, hub):
    done = cache.run("pull", "org/small")
    assert done.stdout == f"{cache.snapshot('org/small')}\n"
    files = hub.models["org/small"]
    blobs = [f"blobs/{digest(path, files[path])}" for path in ("config.json", "model.safetensors")]
    links = [f"snapshots/{COMMIT}/{path}" for path in ("config.json", "model.safetensors")]
    assert cache.files("org/small") == sorted([*blobs, "refs/main", *links])
    assert (cache.model("org/small") / "refs/main").read_text() == COMMIT
    for blob, link in zip(blobs, links):
        assert os.readlink(cache.model("org/small") / link) == f"../../{blob}"
    assert (cache.snapshot("org/small") / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_run_takes_a_name(cache, hub):
    asked = ["run", "org/real", *QUICK_START, "-p", "What is 17 + 25?"]
    cache.run(*asked, code=2, says="`sluice pull org/real` fetches it")
    assert not hub.requests
    answer = cache.run(*asked, "--pull").stdout
    assert answer == cache.run("run", MODEL, *asked[2:]).stdout
    hub.requests.clear()
    assert cache.run(*asked, "--pull").stdout == answer
    assert not hub.requests
    assert cache.run("run", "org/real@" + COMMIT, *asked[2:]).stdout == answer


def test_a_terminal_is_leave_to_fetch(cache, hub):
    outer, inner = pty.openpty()
    with subprocess.Popen([SLUICE, "run", "org/real", *QUICK_START, "-p", "What is 17 + 25?"], stdin=inner, stderr=inner,
                          stdout=subprocess.PIPE, env=cache.environment) as process:
        os.close(inner)
        text = b""
        with contextlib.suppress(OSError):  # the terminal's end
            while data := os.read(outer, 65536):
                text += data
        assert process.stdout.read().strip() and process.wait(60) == 0, text
    os.close(outer)
    assert b"fetching" in text and (cache.model("org/real") / "refs/main").exists()


def test_the_second_time_asks_once(cache, hub):
    cache.run("pull", "org/small")
    hub.requests.clear()
    cache.run("pull", "org/small", says="the cache has all of it")
    assert hub.paths() == ["/api/models/org/small/revision/main?blobs=true"] and not hub.paths("cdn")
    hub.requests.clear()
    assert cache.run("pull", "org/small", HF_HUB_OFFLINE="1").stdout == f"{cache.snapshot('org/small')}\n"
    cache.run("pull", "org/gguf", HF_HUB_OFFLINE="1", code=2, says="HF_HUB_OFFLINE is set")
    assert not hub.requests
    (cache.snapshot("org/small") / "config.json").unlink()
    cache.run("pull", "org/small")
    assert not any("resolve" in path for path in hub.paths())


def test_the_token_stays_with_the_endpoint(cache, hub):
    cache.run("pull", "org/small", HF_TOKEN="hf_secret")
    for host, _, headers in hub.requests:
        assert headers.get("Authorization") == ("Bearer hf_secret" if host == "hub" else None)
    assert hub.paths("cdn")
    (cache.folder.parent / "token").write_text("hf_file\n")
    cache.run("pull", "org/small")
    assert hub.requests[-1][2]["Authorization"] == "Bearer hf_file"


@pytest.mark.parametrize("fault", ["cut", "stall", 503])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_passing_fault_is_tried_again(cache, hub, fault, name):
    hub.models["org/small"]["config.json"] = b'{"a": 1}' * 100
    hub.faults[name] = [fault]
    cache.run("pull", "org/small", says="trying again")
    data = hub.models["org/small"][name]
    assert (cache.snapshot("org/small") / name).read_bytes() == data
    ranges = [headers.get("Range") for _, path, headers in hub.requests if path.split("?")[0].endswith(name)]
    assert isinstance(fault, int) or ranges[-1] == f"bytes={len(data) // 2}-{len(data) - 1}"


def test_a_stopped_download_goes_on(cache, hub):
    data = hub.models["org/small"]["model.safetensors"]
    part = cache.model("org/small") / "blobs" / (sha256(data) + ".incomplete")
    part.parent.mkdir(parents=True)
    part.write_bytes(data[:4000])
    cache.run("pull", "org/small")
    assert hub.requests[-1][2]["Range"] == f"bytes=4000-{len(data) - 1}"
    assert not part.exists()


def test_a_wrong_part_is_fetched_anew(cache, hub):
    data = hub.models["org/small"]["model.safetensors"]
    part = cache.model("org/small") / "blobs" / (sha256(data) + ".incomplete")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 4000)
    cache.run("pull", "org/small", says="fetching it anew")
    assert (cache.snapshot("org/small") / "model.safetensors").read_bytes() == data


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_wrong_bytes_are_not_published(cache, hub, name):
    hub.faults[name] = ["wrong"]
    done = cache.run("pull", "org/small", code=2, says=[name, "are not the file's", "nothing of it was kept"])
    assert done.stdout == ""
    assert not any(path.startswith(("snapshots", "refs")) or path.endswith("incomplete")
                   for path in cache.files("org/small"))
    cache.run("pull", "org/small")


def test_large_files_come_in_parallel(cache, hub):
    data = random.Random(1).randbytes(3 * CHUNK + 12345)
    hub.models["org/small"]["model.safetensors"] = data
    hub.faults["model.safetensors"] = ["cut", None, 403]
    cache.run("pull", "org/small")
    assert (cache.snapshot("org/small") / "model.safetensors").read_bytes() == data
    ranges = {headers["Range"] for host, _, headers in hub.requests if host == "cdn"}
    assert {f"bytes={i * CHUNK}-{min(len(data), (i + 1) * CHUNK) - 1}" for i in range(4)} <= ranges


@pytest.mark.parametrize("status, headers, code, says", [
    (401, {}, 2, ["(401)", "HF_TOKEN"]), (401, {"X_Error_Code": "GatedRepo"}, 2, ["gated", "accept its terms at"]),
    (403, {}, 2, ["(403)", "/org/small"]), (404, {}, 2, ["no such model, revision or file"]),
    (404, {"X_Error_Code": "RevisionNotFound"}, 2, ["no revision 'main'"]),
    (429, {"Retry_After": "3600"}, 3, ["asks to wait 3600 seconds", "(429)"])])
def test_refusals_are_plain(cache, hub, status, headers, code, says):
    hub.faults["api"] = [(status, headers)]
    cache.run("pull", "org/small", code=code, says=says)
    assert len(hub.requests) == 1


def test_too_many_requests_wait(cache, hub):
    hub.faults["api"] = [(429, {"Retry_After": "0"}), (503, {"Retry_After": "0"})]
    cache.run("pull", "org/small", says="trying again in 0 s")
    assert len([path for path in hub.paths() if "/api/" in path]) == 3


@pytest.mark.parametrize("answer, says", [
    (b"<html>", "line 1"), (b"[" * 100_000, "the list of files"), (b" " * (33 << 20), "longer than"),
    (json.dumps({"sha": COMMIT, "siblings": [{"rfilename": "../../x.safetensors", "size": 1, "blobId": "a" * 40}]}).encode(),
     "within the repository"),
    (json.dumps({"sha": "../..", "siblings": []}).encode(), "expected a commit"),
    (json.dumps({"sha": COMMIT, "siblings": [
        {"rfilename": "model.safetensors", "size": 1 << 45, "blobId": "a" * 40}]}).encode(), "free disk")])
def test_no_answer_leads_astray(cache, hub, answer, says):
    hub.answer_list = lambda _: answer
    code = 3 if says == "free disk" else 2
    cache.run("pull", "org/small", code=code, says=says)
    assert len(hub.requests) == 1


def test_redirects_are_bounded(cache, hub):
    hub.faults["api"] = [(302, {"Location": "/api/models/org/small/revision/main"})] * 9
    cache.run("pull", "org/small", code=3, says="more than 5 redirects")
    hub.faults["api"] = [(302, {"Location": "file:///etc/passwd"})]
    cache.run("pull", "org/small", code=2, says="expected a URL")


def test_a_quantisation_is_chosen(cache, hub):
    cache.run("pull", "org/gguf", code=2, says="org/gguf:Q4_0, org/gguf:Q8_0")
    done = cache.run("pull", "org/gguf:q8_0")
    assert done.stdout == f"{cache.snapshot('org/gguf')}/m-Q8_0.gguf\n"
    assert hub.paths("cdn") == ["/org/gguf/m-Q8_0.gguf?signature=1"]
    cache.run("inspect", "org/gguf:Q4_0", code=2, says="`sluice pull org/gguf:Q4_0` fetches it")
    cache.run("inspect", "org/gguf:Q8_0", code=2, says="m-Q8_0.gguf")  # it is found, and no real GGUF file


def test_list_and_rm(cache, hub):
    cache.run("list", says="has no models")
    cache.run("pull", "org/small")
    cache.run("pull", "org/gguf:Q4_0@v1")
    lines = [line.split() for line in cache.run("list").stdout.splitlines()]
    assert lines == [["model", "revision", "commit", "size", "kind"],
                     ["org/gguf", "v1", COMMIT[:12], "104", "B", "gguf"],
                     ["org/small", "main", COMMIT[:12], "7.0", "kB", "safetensors"]]
    cache.run("rm", "org/other", code=2, says="does not have it")
    cache.run("rm", "org/gguf@v2", code=2, says="no such revision")
    cache.run("rm", "org/gguf@v1", says="104 B are free again")
    assert cache.files("org/gguf") == []
    cache.run("rm", "org/small", says="free again")
    assert not cache.model("org/small").exists()


def listen_as_proxy(asked):
    """A proxy that opens tunnels, whatever the name, to the port that it names."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source, target):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def serve():
        while True:
            client, _ = listener.accept()
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            asked.append(head.split(b"\r\n")[0].decode())
            server = socket.create_connection(("127.0.0.1", int(asked[-1].split()[1].split(":")[1])))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for pair in (client, server), (server, client):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_https_goes_through_a_tunnel(cache, hub, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = make_certificate(tmp_path, "hub")
    context.load_cert_chain(certificate, key)
    for server in hub.hub, hub.cdn:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hub.url = lambda host="hub": f"https://localhost:{getattr(hub, host).server_address[1]}"
    asked = []
    variables = {"HF_ENDPOINT": hub.url(), "HTTPS_PROXY": listen_as_proxy(asked)}
    cache.run("pull", "org/small", code=3, says=["TLS:", "REQUESTS_CA_BUNDLE"], **variables)
    cache.run("pull", "org/small", REQUESTS_CA_BUNDLE=str(certificate), **variables)
    hosts = {f"CONNECT localhost:{server.server_address[1]} HTTP/1.1" for server in (hub.hub, hub.cdn)}
    assert set(asked) == hosts


def test_a_proxy_carries_requests(cache, hub):
    # The server answers absolute addresses as a proxy would: the host of the model does not exist.
    answer_hub = hub.answer_hub

    def answer(handler):
        assert handler.path.startswith("http://hub.invalid")
        handler.path = handler.path.removeprefix("http://hub.invalid").removeprefix(":80")
        answer_hub(handler)

    hub.answer_hub = answer
    variables = {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": hub.url()}
    cache.run("pull", "org/small", NO_PROXY="127.0.0.1", **variables)
    cache.run("pull", "org/small", code=2, says="HTTP_PROXY", HTTP_PROXY="socks5://127.0.0.1:1")
