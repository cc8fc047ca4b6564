"""A running `sluice serve` for the tests, with the OpenAI client and plain HTTP."""

import functools
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading
import time
import urllib.parse

from program import QUICK_START, SANITIZED

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
# Sanitizer builds and busy machines are slow; a healthy server needs a few seconds.
PATIENCE = 120


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.text = response.status, response.headers, response.read().decode()

    def json(self):
        return json.loads(self.text)


def fetch(url, body=None):
    """GET, or POST of bytes or of a value as JSON."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    try:
        connection.request("GET" if body is None else "POST", parts.path, body)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def resident_mb(process):
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024


def make_certificate(folder, name):
    """A certificate for localhost, signed by itself."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out",
                    files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


class Server:
    """A running `sluice serve`, or another command that becomes one; `log` gathers its stderr."""

    def __init__(self, *flags, command=None, **options):
        if SANITIZED and not {"--threads", "--speculative"} & set(map(str, flags)):
            flags = [*QUICK_START, "--num-speculative-tokens", "1", *flags]
        self.process = subprocess.Popen(command or [BUILD / "sluice", "serve", "--port", "0", *flags],
                                        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.log = []
        self.url = None
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._started.wait(PATIENCE), "the server did not start:\n" + "".join(self.log)
        assert self.url, "the server ended:\n" + "".join(self.log)

    @functools.cached_property
    def client(self):
        import openai  # tests/gpu does without

        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.match(r"Serving .* on (https?://\S+)$", line):
                self.url = found[1]
                self._started.set()
        self._started.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def logged(self, pattern):
        """The match of a line of the log, which may still be on its way."""
        start = time.monotonic()
        while time.monotonic() - start < PATIENCE:
            for line in list(self.log):
                if found := re.search(pattern, line.rstrip("\n")):
                    return found
            time.sleep(0.02)
        raise AssertionError(f"not in the log: {pattern}\n" + "".join(self.log))

    def metrics(self):
        """All of them, without the label that each has."""
        return re.sub(r'model_name="[^"]*",?', "", fetch(self.url + "/metrics").text).replace("{}", "")

    def metric(self, name):
        text = self.metrics()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def wait_for(self, name, condition):
        """Waits until a metric fulfils a condition; its last value."""
        start = time.monotonic()
        while not condition(value := self.metric(name)) and time.monotonic() - start < PATIENCE:
            time.sleep(0.02)
        return value
