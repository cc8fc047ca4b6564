"""bench/peers.py: what it reads from other programs' output, and what it makes of rounds."""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import peers  # noqa: E402

LLAMA_BENCH = """[
  {"model_type": "deepseek4 ?B MXFP4", "n_batch": 2048, "n_prompt": 64, "n_gen": 0, "n_depth": 0, "avg_ts": 1321.726018},
  {"model_type": "deepseek4 ?B MXFP4", "n_batch": 2048, "n_prompt": 0, "n_gen": 8, "n_depth": 0, "avg_ts": 344.019378},
  {"model_type": "deepseek4 ?B MXFP4", "n_batch": 2048, "n_prompt": 64, "n_gen": 0, "n_depth": 128, "avg_ts": 1158.862126},
  {"model_type": "deepseek4 ?B MXFP4", "n_batch": 2048, "n_prompt": 0, "n_gen": 8, "n_depth": 128, "avg_ts": 273.935499}
]
"""
IK_BENCH = """============ Repacked 34 tensors
[
  {"n_prompt": 64, "n_gen": 0, "test_time": "2026-11-21T22:56:32Z", "avg_ts": 2275.127791, "test": "pp64"},
  {"n_prompt": 0, "n_gen": 8, "avg_ts": 648.054278, "test": "tg8"},
  {"n_prompt": 128, "n_gen": 8, "avg_ts": 520.931178, "test": "tg8@pp128"}
]
"""
BATCHED_BENCH = """
llama_batched_bench: n_kv_max = 4096, n_batch = 2048, n_ubatch = 512, flash_attn = -1, is_pp_shared = 0

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|    32 |     16 |   16 |    768 |    0.350 |  1463.66 |    0.370 |   691.35 |    0.720 |  1066.52 |

"""
SWEEP_BENCH = """
main: n_kv_max = 1024, n_batch = 2048, n_ubatch = 256, flash_attn = 1, n_gpu_layers = -1, n_threads = 2

|    PP |     TG |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |
|-------|--------|--------|----------|----------|----------|----------|
|   256 |     64 |      0 |    0.099 |  2581.79 |    0.106 |   601.68 |
|   256 |     64 |    256 |    0.107 |  2399.36 |    0.127 |   505.37 |
|   256 |     64 |    512 |    0.104 |  2450.93 |    0.136 |   470.11 |
"""


def test_outputs_of_the_programs():
    assert peers.parse_llama_bench(LLAMA_BENCH) == {
        ("prefill", 0, 64, 1): 1321.726018, ("decode", 0, 8, 1): 344.019378,
        ("prefill", 128, 64, 1): 1158.862126, ("decode", 128, 8, 1): 273.935499}
    assert peers.parse_llama_bench(IK_BENCH) == {
        ("prefill", 0, 64, 1): 2275.127791, ("decode", 0, 8, 1): 648.054278, ("decode", 128, 8, 1): 520.931178}
    assert peers.parse_batched_bench(BATCHED_BENCH) == {("concurrent", 0, 16, 16): 691.35}
    swept = peers.parse_sweep_bench(SWEEP_BENCH, [256, 512, 1024], [64], [256, 4096])
    assert swept == {("prefill", 256, 256, 1): pytest.approx(256 / 0.107),
                     ("prefill", 256, 512, 1): pytest.approx(512 / 0.211), ("decode", 256, 64, 1): 505.37}
    ours = {"rows": [{"test": "decode", "depth": 0, "tokens": 8, "concurrency": 1, "tokens_per_second": 700.5}]}
    assert peers.parse_sluice(ours) == {("decode", 0, 8, 1): 700.5}


def test_outputs_that_are_not_what_they_should_be():
    both = LLAMA_BENCH.replace('"n_prompt": 0, "n_gen": 8, "n_depth": 0', '"n_prompt": 64, "n_gen": 8, "n_depth": 0')
    with pytest.raises(ValueError, match="found both"):
        peers.parse_llama_bench(both)
    with pytest.raises(ValueError):
        peers.parse_llama_bench("error: unknown model architecture")
    with pytest.raises(ValueError):
        peers.parse_batched_bench(BATCHED_BENCH.replace("691.35", "nope"))
    assert peers.parse_batched_bench("nothing at all") == {}


class Engine:
    def __init__(self, name, speeds, log):
        self.name, self.speeds, self.log = name, iter(speeds), log

    def measure(self):
        self.log.append(self.name)
        return {("decode", 0, 8, 1): next(self.speeds)}


def test_rounds_alternate_and_unsteady_runs_do_not_count():
    log = []
    engines = [Engine("sluice", [100, 110, 120, 200, 130], log), Engine("other", [50, 50, 50, 50, 50], log)]
    steady, slow = {"read_gbytes": 40.0, "bf16_gflops": 0}, {"read_gbytes": 35.0, "bf16_gflops": 0}
    # Before the first round, then after each run: the last round's first run, of "other", is disturbed.
    probes = iter([steady] * 7 + [slow] * 4)
    results, seen = peers.run_rounds(engines, lambda: next(probes), 4, lambda text: None)
    assert log == ["sluice", "other", "other", "sluice", "sluice", "other", "other", "sluice", "sluice", "other"]
    assert len(seen) == 11
    assert [r["void"] for r in results] == [[], [], [], ["other"], []], "and a fifth round in its place"
    row, = peers.summarise(results, ["sluice", "other"])
    assert row["tokens_per_second"] == {"sluice": 120, "other": 50}
    assert row["ratio"] == {"other": pytest.approx(2.3)}
    assert row["rounds"] == {"sluice": 5, "other": 4} and row["steady"]
    text = peers.to_text([row], ["sluice", "other"])
    assert "120.0" in text and "2.30" in text and "unsteady" not in text


def test_a_machine_that_is_never_steady():
    engines = [Engine("sluice", [100] * 9, []), Engine("other", [50] * 9, [])]
    probes = iter([{"read_gbytes": 20.0 + 10 * (i % 2)} for i in range(99)])
    results, _ = peers.run_rounds(engines, lambda: next(probes), 2, lambda text: None)
    assert len(results) == 4, "twice as many as asked for"
    row, = peers.summarise(results, ["sluice", "other"])
    assert row["ratio"] == {"other": 2.0} and not row["steady"]
    assert "unsteady" in peers.to_text([row], ["sluice", "other"])


def test_commands():
    options = peers.parse_options(["model", "model.gguf", "--llama", "/l", "--ik", "/i", "--prefill", "512,2048",
                                   "--depth", "0,8192", "--concurrency", "1,16", "--ik-flags", "-fa 1"])
    llama = [" ".join(map(str, command)) for command, *_ in peers.Llama(options).commands]
    assert llama == ["/l/llama-bench -m model.gguf -t 2 -r 1 -o json -p 512,2048 -n 64 -d 0,8192",
                     "/l/llama-batched-bench -m model.gguf -t 2 -c 768 -npp 32 -ntg 16 -npl 16"]
    ik = [" ".join(map(str, command)) for command, *_ in peers.Ik(options).commands]
    assert ik == ["/i/llama-bench -m model.gguf -t 2 -rtr 1 -r 1 -o json -p 512,2048 -n 64 -fa 1",
                  "/i/llama-sweep-bench -m model.gguf -t 2 -rtr -c 10752 -ub 512 -fa 1"]
    assert "--concurrency 1,16 --concurrent-prompt 32 --concurrent-tokens 16" in " ".join(map(str, peers.Sluice(options).command))
    with pytest.raises(SystemExit):
        peers.parse_options(["model", "model.gguf"])


def test_a_program_that_fails_says_why(tmp_path):
    program = tmp_path / "llama-bench"
    program.write_text("#!/bin/sh\necho 'error: unknown model' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="unknown model"):
        peers.run([program, "-m", "x"])
    program.write_text("#!/bin/sh\necho out\necho err >&2\n")
    assert (peers.run([program]), peers.run([program], "stderr")) == ("out\n", "err\n")


def test_the_range_of_a_median():
    # Order statistics of 9, 12 and 25 values that hold the median in at least 95 of 100 cases.
    assert peers.median_range(list(range(9))) == [1, 7]
    assert peers.median_range(list(range(12))) == [2, 9]
    assert peers.median_range([*range(24, -1, -1)]) == [7, 17]
    assert peers.median_range([3, 1]) == [1, 3]


def test_unprobed_rounds_all_count():
    ours, theirs = Engine("sluice", [4.0, 2.0, 4.0], []), Engine("other", [2.0, 2.0, 1.0], [])
    results, _ = peers.run_rounds([ours, theirs], None, 3, lambda text: None)
    row, = peers.summarise(results, ["sluice", "other"])
    assert row["ratio"] == {"other": 2.0} and row["ratio_range"] == {"other": [1.0, 4.0]}
