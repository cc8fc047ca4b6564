"""What the tools of those who run servers say of the metrics and of packaging/. Where such a tool is not there, ctest says that its test was skipped."""

import os
import re
import shutil
import subprocess

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


def test_systemd(tmp_path):
    analyze = tool("systemd-analyze")
    unit = tmp_path / "sluice.service"
    unit.write_text((ROOT / "packaging/sluice.service").read_text().replace("/usr/bin/sluice", str((BUILD / "sluice").resolve())))
    done = checked(analyze, "verify", "--man=no", unit)
    assert (done.returncode, done.stdout) == (0, "")
    done = checked(analyze, "security", "--offline=yes", "--threshold=25", unit)
    print(re.search(r"exposure level.*", done.stdout)[0])
    assert done.returncode == 0, done.stdout
