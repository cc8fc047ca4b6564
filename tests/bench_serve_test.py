"""`sluice bench serve` against a server of the test's own, whose delays and faults are known, and against our own.

The scripted server notes the system's monotonic clock, which the program's records use too, whenever it sends a token:
what the program saw is compared with that, so a busy machine delays both.
"""

import http.server
import json
import socket
import subprocess
import threading
import time

import pytest

from program import SLUICE, fails, sluice
from server_process import PATIENCE, Server, make_certificate

WORDS = "the quick brown fox jumps over a lazy dog and runs away".split()


class Scripted(http.server.ThreadingHTTPServer):
    """Streams WORDS with `first` seconds before the first and `gap` before each other one; `fault(number)` names what
    goes wrong with the request of that number, of those that are streamed. No stream goes on before `together` have run at
    a time, those of one word left out."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, first=0.03, gap=0.01, fault=lambda number: None, together=1):
        super().__init__(("127.0.0.1", 0), Handler)
        self.first, self.gap, self.fault = first, gap, fault
        self.streams, self.sent, self.lock = 0, [], threading.Lock()
        self.running = self.most = 0
        self.together, self.met = together, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or the first word waits for the system to confirm the role
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {"object": "list", "data": [{"id": "scripted"}]})

    def chunk(self, text):
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def event(self, delta, finish=None, name="a", **more):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.chunk("data: " + json.dumps({"id": name, "choices": [choice], **more}) + "\n\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = len(body["messages"][0]["content"].split()) * 2 + 5
        count = min(body["max_tokens"], len(WORDS))
        words = [word + " " for word in WORDS[:count]]
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": 0}}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "".join(words)}, "finish_reason": "length"}
            return self.answer(200, {"id": "a", "choices": [choice], "usage": usage})
        server = self.server
        with server.lock:
            number = server.streams
            server.streams += 1
            server.running += 1
            self.runs = 1
            server.most = max(server.most, server.running)
            if server.most >= server.together:
                server.met.set()
        if count > 1:
            server.met.wait(PATIENCE)
        try:
            self.stream(server.fault(number), words, usage)
        finally:
            self.leave()

    def leave(self):
        with self.server.lock:
            self.server.running -= self.runs
            self.runs = 0

    def stream(self, fault, words, usage):
        server = self.server
        if fault == "status":
            return self.answer(503, {"error": {"message": "busy"}})
        if fault == "lost":
            words = words[:3] + words[4:]
        if fault == "duplicated":
            words = words[:3] + [words[2]] + words[3:]
        if fault == "reordered":
            words = words[:3] + [words[4], words[3]] + words[5:]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"role": "assistant", "content": ""})
        times = []
        for i, word in enumerate(words):
            time.sleep(server.gap if i else server.first)
            times.append(time.monotonic())
            self.event({"content": word}, name="b" if fault == "mixed" and i == 5 else "a")
            if fault == "cut" and i == 4:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        with server.lock:
            server.sent.append(times)
        self.event({}, "length")
        self.chunk("data: " + json.dumps({"id": "a", "choices": [], "usage": usage}) + "\n\n")
        self.leave()  # before the client hears of the end and sends its next request
        self.chunk("data: [DONE]\n\n")
        self.chunk("")


def bench(server, *flags, code=0):
    url = server if isinstance(server, str) else server.url
    return sluice("bench", "serve", url, "--warmup", 0, *flags, code=code)


def delays(server, folder):
    """The report of one run, its records, and how late the client saw each token of each stream, in seconds."""
    record, report = folder / "record.jsonl", folder / "report.json"
    server.sent.clear()
    bench(server, "--requests", 16, "--input", 40, "--output", 10, "--record", record, "--json", report)
    seen = [json.loads(line) for line in record.read_text().splitlines()]
    assert len(seen) == 16 and all(len(one["token_times"]) == 10 for one in seen)
    # The word scale's requests were streamed, too: of one token each. One at a time: both are in the order of time.
    sent = [times for times in server.sent if len(times) == 10]
    late = [[b - a for a, b in zip(times, one["token_times"])] for times, one in zip(sent, seen, strict=True)]
    return json.loads(report.read_text())["runs"][0], seen, late


def is_median(value, values):
    values = sorted(values)
    return values[(len(values) - 1) // 2] * 0.995 <= value <= values[len(values) // 2] * 1.005  # a histogram's precision


def test_delays_are_reported_as_they_were(tmp_path):
    server, end = Scripted(), time.monotonic() + PATIENCE
    # A busy machine is late now and then, a wrong clock is late each time. So the test takes the least delay of the
    # token at each place of a stream.
    least = [1] * 10
    while max(least) >= 1e-3 and time.monotonic() < end:
        run, seen, late = delays(server, tmp_path)
        least = [min(values) for values in zip(least, *late)]
        assert min(least) > -1e-4, least
        assert is_median(run["ttft"]["p50"], [one["token_times"][0] - one["sent"] for one in seen])
        assert is_median(run["itl"]["p50"], [b - a for one in seen for a, b in zip(one["token_times"], one["token_times"][1:])])
    assert max(least) < 1e-3, least
    assert 0.03 <= run["ttft"]["p50"]
    assert run["output_tokens"] == 160 and run["requests"] == 16 and run["failures"] == {}
    assert abs(run["input_tokens"] / 16 - 40) <= 2, "the length that was asked for, in the server's own tokens"


def test_open_and_closed_loops(tmp_path):
    report, flags = tmp_path / "report.json", ("--requests", 12, "--input", 20, "--output", 2)
    for most in (1, 3):
        server = Scripted(first=0.05, gap=0, together=most)
        bench(server, *flags, "--concurrency", most)
        assert server.most == most
    server = Scripted(first=0.05, gap=0, together=12)
    bench(server, *flags, "--rate", 1000, "--burst", 12, "--json", report)
    assert server.most == 12, "all at once, whatever the server does"
    assert json.loads(report.read_text())["runs"][0]["name"] == "1000 a second"


@pytest.mark.parametrize("fault, kind", [("status", "status"), ("cut", "cut"), ("mixed", "mixed")])
def test_failures_are_counted_by_kind(tmp_path, fault, kind):
    server = Scripted(first=0, gap=0, fault=lambda number: fault if number % 4 == 3 else None)
    report = tmp_path / "report.json"
    bench(server, "--requests", 14, "--input", 20, "--output", 10, "--json", report, code=1)
    run = json.loads(report.read_text())["runs"][0]
    assert run["failures"] == {kind: 4} and run["requests"] == 10, "two streams ask for the scale of words"


@pytest.mark.parametrize("fault", ["lost", "duplicated", "reordered"])
def test_faults_of_streams_are_found(tmp_path, fault):
    server = Scripted(first=0, gap=0, fault=lambda number: fault if number % 5 == 4 else None)
    report = tmp_path / "report.json"
    done = bench(server, "--check-determinism", "--requests", 10, "--input", 20, "--output", 12, "--json", report, code=1)
    found = json.loads(report.read_text())["determinism"]
    assert found[fault] == 4 and sum(found[f] for f in ("lost", "duplicated", "reordered", "foreign")) == 4, found
    assert "answers differ" in done.stdout


def test_a_fault_free_server_passes(tmp_path):
    done = bench(Scripted(first=0, gap=0), "--check-determinism", "--requests", 10, "--input", 20, "--output", 12)
    assert "0 answers differ, the server gave no log-probabilities" in done.stdout


def test_our_own_answers_do_not_depend_on_what_else_runs(tmp_path):
    with Server("--max-num-seqs", "8") as server:
        done = bench(server.url, "--check-determinism", "--requests", 24, "--input", 60, "--spread", 0.5, "--output", 16)
        assert "24 requests alone, together and together again: 0 answers differ, 0 sets of log-probabilities differ" \
            in done.stdout
        page, trace = tmp_path / "page.html", tmp_path / "trace.jsonl"
        bench(server.url, "--endpoint", "ids", "--requests", 6, "--input", 300, "--shared-prefix", 256, "--output", 8,
              "--concurrency", "1,2", "--slo", "ttft:60s,itl:60s", "--html", page, "--json", tmp_path / "report.json")
        runs = json.loads((tmp_path / "report.json").read_text())["runs"]
        assert [run["input_tokens"] for run in runs] == [1800, 1800], "lengths of ids are exact"
        assert all(run["cached_tokens"] >= 2 * 128 and run["goodput"] > 0 for run in runs)
        assert "<svg" in page.read_text() and "<script" not in page.read_text()
        trace.write_text('{"timestamp": 0, "input_length": 40, "output_length": 4}\n'
                         '{"timestamp": 5, "input_length": 60, "output_length": 4}\n')
        done = bench(server.url, "--trace", trace, "--baseline", tmp_path / "report.json")
        assert "at the trace's times: 2 requests" in done.stdout


def test_over_tls(tmp_path):
    certificate, key = make_certificate(tmp_path, "own")
    flags = ("--requests", 4, "--input", 60, "--output", 8, "--concurrency", 4)
    with Server("--host", "127.0.0.1", "--host", "127.0.0.2", "--tls-certificate", certificate, "--tls-key", key) as server:
        fails("bench", "serve", server.url, *flags, says=["TLS: self-signed certificate", "--insecure"], code=3)
        stranger = server.url.replace("127.0.0.1", "127.0.0.2")
        fails("bench", "serve", stranger, "--cacert", certificate, *flags, says="TLS: IP address mismatch", code=3)
        for url, trust in ((server.url, ("--cacert", certificate)), (stranger, ("--insecure",))):
            assert "4 requests" in bench(url, *flags, *trust).stdout
            assert "0 answers differ" in bench(url, *flags, *trust, "--check-determinism").stdout
        plain = server.url.replace("https", "http")
        fails("bench", "serve", plain, *flags, says="GET /v1/models", code=3)


def test_what_is_wrong_is_told(tmp_path):
    fails("bench", "serve", "https://127.0.0.1:1", "--cacert", __file__, says="expected certificates in PEM")
    fails("bench", "serve", "http://127.0.0.1:1", says="GET /v1/models", code=3)
    fails("bench", "serve", "http://127.0.0.1:1", "--slo", "ttft:5", says="--slo")
    fails("bench", "serve", "http://127.0.0.1:1", "--extra-body", "[]", says="--extra-body")
    fails("bench", "serve", "http://127.0.0.1:1", "--model", "x", "--endpoint", "ids", "--input", 0, "--warmup", 0,
          says="input tokens: expected 1")
    fails("bench", "serve", says="url")


def test_an_interrupt_ends_it():
    server = Scripted(first=30)
    process = subprocess.Popen([SLUICE, "bench", "serve", server.url, "--endpoint", "chat", "--warmup", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while server.running == 0:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(60) == 130
