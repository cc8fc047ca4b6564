"""The commands whose result is a report: `sluice bench`, `simulate` and `eval`."""

import json
import shutil
import xml.etree.ElementTree

import numpy
import pytest
import tokenizers

from program import BUILD, MODEL, ROOT, SANITIZED, TINY, fails, logits, sluice


# --- bench ------------------------------------------------------------------------------------------------------------

SMALL_BENCH = ["--rounds", 1, "--probe-size", "1MB", "--threads", 2, "--kv-cache-memory", "64MB"]


def test_bench(tmp_path):
    out = tmp_path / "bench.json"
    done = sluice("bench", "--prefill", "16,32", "--decode", 2, "--depth", "0,256", "--concurrency", "1,3",
                  "--concurrent-prompt", 8, "--concurrent-tokens", 4, *SMALL_BENCH, "--json", out)
    report = json.loads(out.read_text())
    shapes = [(r["test"], r["depth"], r["tokens"], r["concurrency"]) for r in report["rows"]]
    assert shapes == [("prefill", 0, 16, 1), ("prefill", 0, 32, 1), ("prefill", 256, 16, 1), ("prefill", 256, 32, 1),
                      ("decode", 0, 2, 1), ("decode", 256, 2, 1), ("concurrent", 0, 4, 3)]
    for row in report["rows"]:
        assert row["state"] == ("synthetic" if row["depth"] else "none")
        assert row["tokens_per_second"] > 0 and row["floor_tokens_per_second"] > 0
        assert row["percent_of_floor"] > 0 and len(row["runs"]) == row["rounds"] == 1
        assert 0 < row["cache_bytes_per_token"] < row["bytes_per_token"] <= row["used_bytes_per_token"] * 1.5
    decode, deep, together = (row["bytes_per_token"] for row in report["rows"][4:])
    weights = sum(file.stat().st_size for file in MODEL.glob("*.safetensors"))
    assert together < decode < deep < weights, "rows share weights, and one token uses a part of the experts"
    assert report["model"] == "sluice-tiny-v4" and report["machine"]["cores"] >= 1
    assert report["flags"]["threads"] == 2 and report["commit"] and report["probe"]["read_gbytes"] > 0
    assert "a synthetic state" in done.stdout and "concurrent" in done.stdout
    assert xml.etree.ElementTree.parse(out.with_suffix(".svg")).getroot().tag.endswith("svg")
    probe = json.loads(sluice("bench", "--probe-only", "--probe-size", "1MB").stdout)
    assert probe.keys() == {"read_gbytes", "f32_gflops", "bf16_gflops", "int8_gops", "tiles_gflops", "thread_ratio"}
    plain = json.loads(sluice("bench", "--probe-only", "--probe-size", "1MB", "--isa", "scalar").stdout)
    assert plain["read_gbytes"] > 0 and plain["f32_gflops"] == plain["int8_gops"] == 0, "peaks of the kernels that run"
    sluice("bench", "--prefill", 8, "--decode", 0, "--isa", "scalar", *SMALL_BENCH, "--json", out)
    assert json.loads(out.read_text())["probe"]["f32_gflops"] == 0


def test_bench_by_stage_and_threads(tmp_path):
    out = tmp_path / "out.json"
    rest = SMALL_BENCH[:SMALL_BENCH.index("--threads")] + SMALL_BENCH[SMALL_BENCH.index("--threads") + 2:]
    done = sluice("bench", "--prefill", 0, "--decode", 4, "--stages", "--threads", "1,2", *rest, "--json", out)
    report = json.loads(out.read_text())
    assert report["flags"]["threads"] == 1 and [other["threads"] for other in report["other_threads"]] == [2]
    for rows in report["rows"], report["other_threads"][0]["rows"]:
        stages = rows[0]["stages"]
        assert stages.keys() == {"rest", "dense", "experts", "head", "attention"}
        assert all(stage["seconds"] > 0 for stage in stages.values())
    assert done.stdout.count("a step of decode 4:") == 2
    lines = done.stdout.splitlines()
    assert ["threads", "1", "2"] in [line.split() for line in lines] and lines[-1].startswith(("decode 4 ", "!: ", "?: "))


def test_bad_bench(tmp_path):
    fails("bench", "--prefill", "512,many", says="many")
    fails("bench", "--prefill", "0", "--decode", "0", says="nothing to measure")
    fails("bench", "--depth", "-1", says=["--depth", "-1"])
    fails("bench", "--concurrency", "0", says=["--concurrency", "found 0"])
    fails("bench", "--rounds", "0", says="--rounds")
    fails("bench", "--threads", "4,x", says="--threads: expected a whole number, found '4,x'")
    fails("bench", "--threads", "1,5000", says=["--threads", "found 5000"])
    for threads in "4,0", "2,1,2":
        fails("bench", "--threads", threads, says=f"--threads: expected 0 alone, or other numbers, each once, found {threads}")
    fails("bench", "--json", tmp_path / "no" / "where.json", says="--json")
    fails("bench", tmp_path / "nothing", says="nothing")
    fails("bench", BUILD / "test-data/oracles/llama-like", "--speculative", "mtp", says="multi-token prediction")
    longest = TINY["max_position_embeddings"]
    fails("bench", "--depth", longest, *SMALL_BENCH, says=["tokens of one sequence", str(longest)])
    fails("bench", "--prefill", "0", "--depth", "20000", *SMALL_BENCH[:-1], "8MB", code=3, says="--kv-cache-memory")


# --- simulate ---------------------------------------------------------------------------------------------------------


def simulate(tmp_path, *arguments, **options):
    out = tmp_path / "out"
    done = sluice("simulate", *arguments, "--out", out, "--kv-cache-memory", "2GB", **options)
    return json.loads((out / "summary.json").read_text()), done.stdout, out


def test_simulate(tmp_path):
    requests = 40 if SANITIZED else 300
    flags = ("--requests", requests, "--cost", "step=0.01,row=1e-4", "--policies", "fair,fcfs,decode-first")
    summary, text, out = simulate(tmp_path, *flags)
    assert [run["policy"] for run in summary["runs"]] == ["fair", "fcfs", "decode-first"]
    for run in summary["runs"]:
        assert run["requests"] == requests and run["refused"] == 0
        assert 0 < run["ttft"]["p50"] <= run["ttft"]["p99"] <= run["ttft"]["max"]
    assert summary["runs"][1]["seconds"] == summary["runs"][2]["seconds"]
    for name in ("latency.svg", "load.svg", "summary.svg"):
        assert xml.etree.ElementTree.parse(out / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    again, _, _ = simulate(tmp_path, *flags)
    assert again == summary
    assert f"{requests} requests" in text


def test_simulate_a_trace_and_a_calibrated_cost(tmp_path):
    trace = tmp_path / "trace.jsonl"  # so far apart that the slowest machine has ended one before the next
    lines = [{"timestamp": 1_000_000 * i, "input_length": 1000, "output_length": 5, "hash_ids": [7, i]} for i in range(3)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary, text, _ = simulate(tmp_path, "--trace", trace)
    run = summary["runs"][0]
    assert run["requests"] == 3
    # The second request wants to resume behind the common block, which is kept from then on; the third does.
    assert run["hit_rate"] == pytest.approx(512 / 3000)
    assert "cost of a step: " in text
    assert run["ttft"]["max"] > 0


def test_bad_simulate(tmp_path):
    config = ROOT / "tests" / "configs" / "v4-flash.json"
    fails("simulate", says="--out")
    fails("simulate", config, "--out", tmp_path, says="a config.json has no weights")
    fails("simulate", "--cost", "stp=1", "--out", tmp_path, says="found 'stp=1'")
    cost = ("--cost", "step=1", "--out", tmp_path)
    fails("simulate", *cost, "--without-retention", "nothing", says="there is no rule 'nothing'")
    fails("simulate", *cost, "--trace", tmp_path / "none.jsonl", says="none.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n{"timestamp": 1}\n')
    fails("simulate", *cost, "--trace", tmp_path / "bad.jsonl", says="bad.jsonl line 2: key 'input_length'")
    fails("simulate", *cost, "--requests", 0, says="--requests: expected 1 to")
    fails("simulate", *cost, "--kv-cache-memory", 1000, says="--kv-cache-memory")
    fails("simulate", "--cost", "step=1", "--out", tmp_path / "bad.jsonl", says="cannot be made")


# --- eval -------------------------------------------------------------------------------------------------------------

HASHES = 'the number after the last "####" equals expected_answer'
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city.",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def item(name, question, check, mode="chat", **keys):
    return {"id": name, "mode": mode, "messages": [{"role": "user", "content": question}], "check": check} | keys


def evaluate(tmp_path, items, *flags, **options):
    (tmp_path / "task.jsonl").write_text("".join(json.dumps(i) + "\n" for i in items))
    return sluice("eval", "--task", tmp_path / "task.jsonl", "--json", tmp_path / "out.json", *flags, **options)


def test_eval(tmp_path):
    age = "Tom is 28 years old. Wendy is 3 years younger than Tom. What is the total of their ages?"
    sort = "Sort these words alphabetically: spoon, daisy, robot, queen, sheep, piano, stone"
    tokyo, rome = ([{"name": "get_weather", "arguments": {"city": city}}] for city in ("Tokyo", "Rome"))
    as_text = [{"name": "get_weather", "arguments": json.dumps({"city": "Tokyo"})}]
    equals, occurs = "content equals expected_answer", "expected_answer occurs in the answer (after </think>)"
    ask, same_calls = "What is the weather in Tokyo?", "tool name and arguments are equal"
    right = [item("sum", age, HASHES, expected_answer="53.0"),
             item("sort", sort, equals, expected_answer="daisy, piano, queen, robot, sheep, spoon, stone"),
             item("think", age, occurs, mode="thinking", expected_answer="53"),
             item("tool", ask, same_calls, tools=TOOLS, expected_tool_calls=tokyo),
             item("text", ask, same_calls, tools=TOOLS, expected_tool_calls=as_text)]
    wrong = [item("sum", age, HASHES, expected_answer="5"),
             item("sort", sort, equals, expected_answer="daisy, piano, queen, robot, sheep, spoon"),
             item("think", age, occurs, mode="thinking", expected_answer="28 - 3"),  # it is in the reasoning
             item("tool", ask, same_calls, tools=TOOLS, expected_tool_calls=rome),
             item("more", ask, same_calls, tools=TOOLS, expected_tool_calls=tokyo * 2)]
    items = [i for pair in zip(right, wrong) for i in pair]
    done = evaluate(tmp_path, items)
    assert done.stdout.split()[-4:] == ["task", "10", "5", "50.00"]
    results = json.loads((tmp_path / "out.json").read_text())
    assert (results["n"], results["correct"]) == (10, 5)
    assert [i["id"] for i in results["items"]] == [i["id"] for i in items]
    assert [i["correct"] for i in results["items"]] == [True, False] * 5
    assert results["items"][0]["output_ids"] == results["items"][1]["output_ids"] != []
    evaluate(tmp_path, items, "--concurrency", "3", "--threads", "1")
    beside = json.loads((tmp_path / "out.json").read_text())
    assert beside["items"] == results["items"]  # the same tokens, whatever runs at the same time
    assert beside["steps"] < results["steps"] and beside["preemptions"] == results["preemptions"] == 0
    evaluate(tmp_path, items, "--limit", "3")
    limited = json.loads((tmp_path / "out.json").read_text())
    assert (limited["n"], limited["correct"], limited["items"]) == (3, 2, results["items"][:3])
    evaluate(tmp_path, items[:1], "--max-tokens", "2")
    assert len(json.loads((tmp_path / "out.json").read_text())["items"][0]["output_ids"]) == 2


@pytest.mark.parametrize("broken, says", [
    ({"check": "looks right"}, ["looks right", "content equals expected_answer", "line 2"]),
    ({"mode": "loud"}, ["mode", "loud"]),
    ({"messages": "hi"}, ["messages"]),
    ({"expected_answer": None}, ["expected_answer"]),
    ({"id": 7}, ["id"]),
])
def test_bad_task(tmp_path, broken, says):
    good = item("a", "Hi", HASHES, expected_answer="1")
    done = evaluate(tmp_path, [good, good | broken], code=2)
    for words in says:
        assert words in done.stderr


def test_bad_eval(tmp_path):
    task = tmp_path / "task.jsonl"
    fails("eval", says="--task")
    fails("eval", "--task", tmp_path / "none", says="none")
    task.write_text("\n")
    fails("eval", "--task", task, says="at least one item")
    task.write_text("{")
    fails("eval", "--task", task, says="line 1")
    task.write_text(json.dumps(item("a", "Hi", HASHES, expected_answer="1")))
    fails("eval", "--task", task, "--concurrency", "0", says="--concurrency")
    fails("eval", "--task", task, "--limit", "-1", says="--limit")


def test_perplexity(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("What is 17 + 25? The sum of seventeen and twenty-five is forty-two. " * 16)
    out = tmp_path / "out.json"
    done = sluice("eval", "--perplexity", text, "--window", "64", "--json", out, "--profile", "plain")
    found = json.loads(out.read_text())
    assert found["window"] == 64 and found["windows"] >= 3
    assert found["scored"] == found["windows"] * 31
    assert found["perplexity"] == pytest.approx(numpy.exp(found["nll"]))
    assert f"over {found['windows']} windows" in done.stdout
    sluice("eval", "--perplexity", text, "--window", "64", "--json", out, "--max-num-batched-tokens", "7",
           "--profile", "plain")
    assert json.loads(out.read_text()) == found  # chunks change nothing
    if SANITIZED:
        return  # the rest is arithmetic
    # One window, by its logits.
    ids = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json")).encode(text.read_text(),
                                                                              add_special_tokens=False).ids
    assert len(ids) // 64 == found["windows"]
    nll = []
    for window in range(found["windows"]):
        piece = ids[64 * window:64 * window + 64]
        values = logits(tmp_path, "--ids", " ".join(map(str, piece)), "--profile", "plain")["logits"].astype("float64")
        for t in range(33, 64):
            row = values[t - 1]
            nll.append(numpy.log(numpy.exp(row - row.max()).sum()) + row.max() - row[piece[t]])
    assert found["nll"] == pytest.approx(numpy.mean(nll), rel=1e-9)


def logits_of_windows(tmp_path, text, window, *flags):
    """Of each scored position the logits in f64, and the token that follows."""
    ids = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    rows, targets = [], []
    for begin in range(0, len(ids) - window + 1, window):
        piece = ids[begin:begin + window]
        values = logits(tmp_path, "--ids", " ".join(map(str, piece)), *flags)["logits"].astype("float64")
        rows.append(values[window // 2:window - 1])
        targets += piece[window // 2 + 1:]
    return numpy.concatenate(rows), targets


def log_softmax(rows):
    rows = rows - rows.max(axis=1, keepdims=True)
    return rows - numpy.log(numpy.exp(rows).sum(axis=1, keepdims=True))


def test_perplexity_against_another_profile(tmp_path):
    text = "What is 17 + 25? The sum of seventeen and twenty-five is forty-two. " * 16
    (tmp_path / "text.txt").write_text(text)

    def measure(*flags):
        done = sluice("eval", "--perplexity", tmp_path / "text.txt", "--window", "64", "--json", tmp_path / "out.json",
                      *flags)
        return json.loads((tmp_path / "out.json").read_text()), done.stdout

    found, said = measure("--compute-dtype", "fp8", "--against", "plain")
    against = found["against"]
    assert found["profile"].startswith("default fp8 kv=fp8") and against["profile"] == "plain f32 kv=f32 index=f32"
    assert measure("--compute-dtype", "fp8", "--against", "plain", "--max-num-batched-tokens", "7")[0] == found
    for side, flags in (found, ["--compute-dtype", "fp8"]), (against, ["--profile", "plain"]):
        alone, _ = measure(*flags)
        assert [side[key] for key in ("profile", "nll")] == [alone[key] for key in ("profile", "nll")]
    if SANITIZED:
        return  # the rest is arithmetic
    # By the definitions, from the logits of both.
    here, targets = logits_of_windows(tmp_path, text, 64, "--compute-dtype", "fp8")
    there, _ = logits_of_windows(tmp_path, text, 64, "--profile", "plain")
    assert len(targets) == found["scored"]
    p, q = log_softmax(there), log_softmax(here)
    divergences = numpy.sort((numpy.exp(p) * (p - q)).sum(axis=1))
    assert against["kl_mean"] == pytest.approx(divergences.mean(), rel=1e-9) and against["kl_mean"] > 1e-3
    # The least value that 99 % of them do not exceed.
    assert against["kl_p99"] == pytest.approx(divergences[-(-99 * len(targets) // 100) - 1], rel=1e-9)
    assert against["same_best"] == (here.argmax(axis=1) == there.argmax(axis=1)).mean()
    for words in [f"against {against['profile']}: perplexity {against['perplexity']:.4f}, ",
                  f"{against['kl_mean']:.3g} nats", f"{against['kl_p99']:.3g} at the 99th percentile",
                  f"{100 * against['same_best']:.2f} %"]:
        assert words in said
    # A profile against itself.
    found, _ = measure("--against", "default")
    assert found["against"] == {"profile": found["profile"], "nll": found["nll"], "perplexity": found["perplexity"],
                                "kl_mean": 0, "kl_p99": 0, "same_best": 1}


def test_bad_perplexity(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Too short.")
    fails("eval", "--perplexity", text, "--against", "fancy", says=["--against", "fancy", "plain"])
    fails("eval", "--task", text, "--against", "plain", says=["--against", "--perplexity"])
    fails("eval", "--perplexity", text, says="at least one window of 512 tokens")
    fails("eval", "--perplexity", text, "--window", "2", says="--window")
    fails("eval", "--perplexity", tmp_path / "none", says="none")


def test_perplexity_of_damaged_weights(tmp_path):
    """A weight that is no number: an error, no result."""
    shutil.copytree(MODEL, tmp_path / "model")
    (tmp_path / "text.txt").write_text("What is 17 + 25? " * 16)
    for shard in (tmp_path / "model").glob("*.safetensors"):
        data = bytearray(shard.read_bytes())
        size = int.from_bytes(data[:8], "little")
        if (norm := json.loads(data[8:8 + size]).get("norm.weight")) is not None:
            assert norm["dtype"] == "BF16"
            begin = 8 + size + norm["data_offsets"][0]
            data[begin:begin + 2] = b"\xc0\x7f"
            shard.write_bytes(data)
    fails("eval", tmp_path / "model", "--perplexity", tmp_path / "text.txt", "--window", "64", "--against", "plain",
          says="not a finite number", code=1)
