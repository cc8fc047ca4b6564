"""What the tools of those who run servers say of the metrics and of packaging/. Where such a tool is not there, ctest says that its test was skipped."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

import httpx
import pytest

from server_process import BUILD, PATIENCE, ROOT, Server, fetch

MONITORING = ROOT / "packaging/monitoring"


def checked(program, *arguments, text=None):
    return subprocess.run([program, *arguments], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)


def tool(name):
    program = os.environ.get(f"SLUICE_{name.upper().replace('-', '_')}") or shutil.which(name)
    return program or pytest.skip(f"{name} is not installed")


def test_promtool():
    promtool = tool("promtool")
    for arguments in (("check", "rules", MONITORING / "alerts.yml"), ("test", "rules", MONITORING / "alerts_test.yml")):
        done = checked(promtool, *arguments)
        assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout
    for prefix in ("sluice_", "vllm:"):
        with Server("--metrics-prefix", prefix) as server:
            for stream in (False, True):
                assert fetch(server.url + "/v1/completions", {"prompt": "Once", "max_tokens": 5, "stream": stream}).status == 200
            text = fetch(server.url + "/metrics").text
        assert f"{prefix}generation_tokens_total" in text
        said = checked(promtool, "check", "metrics", text=text).stdout.splitlines()
        # That names should have no colon is what there is to say of vLLM's own, too.
        assert [line for line in said if prefix == "sluice_" or not line.endswith("metric names should not contain ':'")] == []


def test_prometheus(tmp_path):
    """Every query of the dashboard returns data, once Prometheus has seen the server for some seconds."""
    prometheus = tool("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    queries = {target["expr"].replace("$model", ".*").replace("$__rate_interval", "10m") for panel in dashboard["panels"] for target in panel["targets"]}
    with Server() as server, httpx.Client(base_url=f"http://{address}", trust_env=False) as http:
        (tmp_path / "config.yml").write_text("scrape_configs: [{job_name: sluice, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{targets: ['"
                                             + server.url.removeprefix("http://") + "']}]}]")
        with open(tmp_path / "log", "w") as log:
            process = subprocess.Popen([prometheus, f"--config.file={tmp_path}/config.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address={address}"], stderr=log)
        try:
            missing, end = queries, time.monotonic() + PATIENCE
            while missing and time.monotonic() < end:
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert fetch(server.url + "/v1/completions", {"prompt": "Once " * 200, "max_tokens": 5, "ignore_eos": True}).status == 200
                time.sleep(0.3)
                try:
                    results = {query: http.get("/api/v1/query", params={"query": query}).json()["data"]["result"] for query in missing}
                except httpx.TransportError:
                    continue  # it starts
                missing = {query for query, rows in results.items() if not rows or any(row["value"][1] == "NaN" for row in rows)}
            assert not missing
        finally:
            process.kill()
            process.wait()


def test_systemd(tmp_path):
    analyze = tool("systemd-analyze")
    unit = tmp_path / "sluice.service"
    unit.write_text((ROOT / "packaging/sluice.service").read_text().replace("/usr/bin/sluice", str((BUILD / "sluice").resolve())))
    done = checked(analyze, "verify", "--man=no", unit)
    assert (done.returncode, done.stdout) == (0, "")
    done = checked(analyze, "security", "--offline=yes", "--threshold=25", unit)
    print(re.search(r"exposure level.*", done.stdout)[0])
    assert done.returncode == 0, done.stdout
