"""Requests that the OpenAPI document allows, and such that it does not: no answer of 5xx, no undocumented status, no hang.

A few for each call with a body; SLUICE_OPENAPI_REQUESTS sets how many, of which a night's run has 20,000 in all.
"""

import os
import pathlib
import subprocess
import sys

from seed import SEED
from server_process import PATIENCE, Server, fetch

REQUESTS = int(os.environ.get("SLUICE_OPENAPI_REQUESTS", "300"))


def send(server, operations, seed, folder):
    run = subprocess.run(
        [pathlib.Path(sys.executable).parent / "schemathesis", "run", server.url + "/openapi.json", "--phases",
         "fuzzing", "--checks", "not_a_server_error,status_code_conformance", "--max-examples",
         str(-(-REQUESTS // operations)), "--seed", str(seed), "--request-timeout", str(PATIENCE),
         "--suppress-health-check", "all", "--warnings", "off", "--no-color", "--continue-on-failure"],
        cwd=folder, capture_output=True, text=True,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": str(pathlib.Path(__file__).parent)})
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr[-2000:]
    assert server.process.poll() is None
    print(run.stdout[-1500:])


def test_the_document_is_what_the_server_does(tmp_path):
    with Server("--max-model-len", "96", "--log-level", "warning") as server:
        # A call without a body gets one request.
        paths = fetch(server.url + "/openapi.json").json()["paths"].values()
        operations = sum("requestBody" in operation for path in paths for operation in path.values())
        missing = [(path, status) for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                                               "/tokenize", "/v1/score") for status in (200, 400)]
        # At least a quarter of 25 requests to each path are bad, or good: now and then none is. Then more are sent.
        for seed in range(SEED, SEED + 8):
            send(server, operations, seed, tmp_path)
            posted = [line for line in fetch(server.url + "/metrics").text.splitlines()
                      if line.startswith("sluice_http_requests_total{")]
            print("\n".join(posted))
            missing = [(path, status) for path, status in missing
                       if not any(f'path="{path}",status="{status}"' in line for line in posted)]
            if not missing:
                break
        assert not missing
