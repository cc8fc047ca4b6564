"""`sluice verify` as a user runs it: a report, its JSON, and every deliberate fault found."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
SMALL = str(BUILD / "test-data" / "oracles" / "v4-flash-like")
LATENT = str(BUILD / "test-data" / "oracles" / "v2-lite-like")


def verify(*arguments):
    command = [str(BUILD / "sluice"), "verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_embedded_model_is_sound(tmp_path):
    path = tmp_path / "report.json"
    done = verify("--schedules", "6", "--seed", "3", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "no difference" in done.stdout
    report = json.loads(path.read_text())
    assert report["schedules"] == 6
    assert report["differences"] == 0
    assert report["seed"] == 3
    assert report["comparisons"] > 5000
    assert "difference" not in report


def test_a_fresh_seed_is_printed():
    seeds = {verify(SMALL, "--schedules", "1").stdout.split("seed ")[1].split()[0] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    "fault", ["skipped-write", "early-publication", "stale-hash", "chunk-reduction", "leaked-reference"]
)
def test_every_fault_is_found_and_can_be_run_again(fault, tmp_path):
    path = tmp_path / "report.json"
    done = verify(SMALL, "--inject", fault, "--schedules", "200", "--json", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "A DIFFERENCE" in done.stdout
    assert "the smallest schedule found" in done.stdout
    report = json.loads(path.read_text())
    assert report["differences"] == 1
    assert report["difference"]["first_value"] in ("audit", "logits") or "layers." in report["difference"]["first_value"]
    again = verify(SMALL, "--inject", fault, "--schedules", "200", "--seed", str(report["seed"]))
    assert again.returncode == 1
    assert again.stdout.split("A DIFFERENCE")[1] == done.stdout.split("A DIFFERENCE")[1]


def test_bad_arguments_say_what_is_wrong():
    for arguments, words in [
        (["--schedules", "0"], "--schedules: expected at least 1"),
        (["--inject", "nothing"], "--inject: expected one of skipped-write"),
        (["/nowhere"], "/nowhere"),
        ([LATENT, "--mla-prefill", "expanded"], "--mla-prefill expanded: gives up the row law"),
    ]:
        done = verify(*arguments)
        assert done.returncode == 2, arguments
        assert words in done.stderr
