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
    done = verify("--schedules", "8", "--seed", "3", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "no difference" in done.stdout
    assert "warning" not in done.stderr, done.stderr
    report = json.loads(path.read_text())
    assert report["schedules"] == 8
    # Four schedules of each half have all of this.
    for count in [
        *("choosing_rows", "hits", "resumed_tokens", "preemptions", "swaps", "swaps_restored", "swapped_aborts"),
        *("forks", "forks_apart", "truncations", "aborts", "forgotten_spans", "drafts", "drafts_rejected", "evictions", "in_flight"),
    ]:
        assert report[count] > 0, count
    assert f"{report['swaps']} swapped out, {report['swaps_restored']} brought back" in done.stdout
    assert f"in {report['choosing_rows']} of the rows compared, attention chose" in done.stdout
    assert report["differences"] == 0
    assert report["seed"] == 3
    assert report["comparisons"] > 5000
    assert "difference" not in report
    assert any("attention reads 64 entries of 4 at most" in border for border in report["borders_met"])
    assert report["borders_beyond"] == ["65536 tokens (the longest context)"]
    assert "borders too far for this run, which nothing met: 65536 tokens" in done.stdout


def test_the_digest_is_of_the_bits_alone(tmp_path):
    """Kernels and threads do not change it; the seed and the profile do."""

    def digest(*flags, seed="7"):
        path = tmp_path / "report.json"
        done = verify(LATENT, "--schedules", "2", "--brief", "--seed", seed, *flags, "--json", str(path))
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(path.read_text())
        assert report["schedules"] == 2
        assert f"digest of the logits and tokens: {report['digest']};" in done.stdout
        return report["digest"]

    first = digest("--threads", "1")
    assert digest("--threads", "3") == first
    assert digest("--isa", "scalar") == first
    assert len({first, digest(seed="8"), digest("--profile", "amx")}) == 3


def test_a_fault_is_found_among_brief_schedules():
    done = verify(SMALL, "--inject", "skipped-write", "--schedules", "20", "--brief", "--half", "rows", "--seed", "1")
    assert done.returncode == 1
    assert "A DIFFERENCE: among brief ones, seed 1 schedule" in done.stdout
    assert "digest" not in done.stdout


def test_a_fresh_seed_is_printed():
    seeds = {verify(SMALL, "--schedules", "1", "--half", "rows").stdout.split("seed ")[1].split()[0] for _ in range(2)}
    assert len(seeds) == 2


def test_a_long_prompt_makes_the_indexer_choose(tmp_path):
    # With the number of entries that V4-Flash reads, which the prompts that every schedule has do not reach.
    model = tmp_path / "model"
    model.mkdir()
    for file in pathlib.Path(SMALL).glob("*.safetensors"):
        (model / file.name).symlink_to(file)
    config = json.loads((pathlib.Path(SMALL) / "config.json").read_text())
    config["index_topk"] = 512
    (model / "config.json").write_text(json.dumps(config))
    for schedules, half, reached in [("3", "rows", False), ("4", "rows", True), ("4", "scheduling", True)]:
        path = tmp_path / "report.json"
        done = verify(str(model), "--schedules", schedules, "--half", half, "--json", str(path))
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(path.read_text())
        assert report["chooses_from"] == 2051
        assert (report["choosing_rows"] > 0) == reached
        assert ("it does from token 2051 on, which no schedule of these reached" in done.stdout) != reached
    assert "compressed entries" not in verify(LATENT, "--schedules", "1", "--half", "rows").stdout


@pytest.mark.parametrize("half, smallest", [("rows", "schedule"), ("scheduling", "workload")])
@pytest.mark.parametrize(
    "fault", ["skipped-write", "early-insertion", "stale-hash", "chunk-reduction", "leaked-reference"]
)
def test_either_half_finds_every_fault_and_can_be_run_again(fault, half, smallest, tmp_path):
    path = tmp_path / "report.json"
    arguments = [SMALL, "--inject", fault, "--schedules", "20", "--half", half]
    done = verify(*arguments, "--json", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "A DIFFERENCE" in done.stdout
    assert f"the smallest {smallest} found" in done.stdout
    report = json.loads(path.read_text())
    assert report["differences"] == 1
    assert report["half"] == half
    first = report["difference"]["first_value"]
    assert first in ("audit", "logits", "score") or "layers." in first
    again = verify(*arguments, "--seed", str(report["seed"]))
    assert again.returncode == 1
    assert again.stdout.split("A DIFFERENCE")[1] == done.stdout.split("A DIFFERENCE")[1]


def test_bad_arguments_say_what_is_wrong():
    for arguments, words in [
        (["--schedules", "0"], "--schedules: expected at least 1"),
        (["--brief", "--half", "moves"], "--brief: is of the other halves"),
        (["--half", "third"], "--half: expected one of both, borders, rows, scheduling, moves, found"),
        (["--inject", "nothing"], "--inject: expected one of skipped-write"),
        (["/nowhere"], "/nowhere"),
        ([LATENT, "--mla-prefill", "expanded"], "--mla-prefill expanded: gives up the row law"),
    ]:
        done = verify(*arguments)
        assert done.returncode == 2, arguments
        assert words in done.stderr
