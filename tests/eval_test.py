"""Evaluations do not depend on how they are scheduled: `sluice eval` gives the same token ids and the same
log-probability for every item. Beside that, what the default profile costs.

One factor at a time, and four combinations. By pytest: the first items of each task, of the long one in some of the
runs, with what had to happen (steps, preemptions, hits) counted. As a program, for longer:

  python tests/eval_test.py [--whole | --limit N] [TASK...]

which prints a line for each run and ends with 1 on any difference.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from program import QUICK_START  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
ARCHIVE = ROOT / "tests" / "evals" / "sluice-tiny-v4.tar.xz"
TASKS = ["arithmetic", "lists", "recall", "tools", "recall_long"]
FEW = 20  # items of a task by default
# Items of a task in each run by pytest; those of recall_long have 16,000 tokens.
SOME = {"arithmetic": 8, "lists": 5, "recall": 5, "tools": 5, "recall_long": 1}
LONG_RUNS = {"chunk 128", "prefix cache", "chunk 1024, 8 at once, preemption", "chunk 128, cache, 32 at once, preemption"}

BASELINE = ["--max-num-batched-tokens", "512", "--no-enable-prefix-caching", "--concurrency", "1", "--speculative", "off"]


def changed(chunk=512, cached=False, concurrency=1, preempt=0, drafts=("off",)):
    flags = ["--max-num-batched-tokens", chunk, "--concurrency", concurrency, "--speculative", drafts[0]]
    if len(drafts) > 1:
        flags += ["--num-speculative-tokens", drafts[1], "--no-speculative-adaptive"]
    flags += ["--enable-prefix-caching" if cached else "--no-enable-prefix-caching"]
    return [str(flag) for flag in flags + (["--force-preempt-every", preempt] if preempt else [])]


RUNS = {
    "chunk 7": changed(chunk=7),
    "chunk 128": changed(chunk=128),
    "chunk 4096": changed(chunk=4096),
    "prefix cache": changed(cached=True),
    "8 at once": changed(concurrency=8),
    "32 at once": changed(concurrency=32),
    "preemption": changed(preempt=50),
    "chunk 7, cache, 32 at once": changed(chunk=7, cached=True, concurrency=32),
    # Without the cache, what is preempted starts again: in smaller chunks, eight of 16,000 tokens would hardly get further.
    "chunk 1024, 8 at once, preemption": changed(chunk=1024, concurrency=8, preempt=50),
    "chunk 4096, cache, preemption": changed(chunk=4096, cached=True, preempt=50),
    "chunk 128, cache, 32 at once, preemption": changed(chunk=128, cached=True, concurrency=32, preempt=50),
    "drafts by MTP, 1": changed(drafts=("mtp", 1)),
    "drafts by MTP, 3": changed(chunk=128, drafts=("mtp", 3)),
    "drafts by MTP, 8, 8 at once": changed(concurrency=8, drafts=("mtp", 8)),
    "drafts by copies, 8": changed(chunk=128, drafts=("ngram", 8)),
    "drafts as they pay": changed(drafts=("auto",)),
    "drafts as they pay, chunk 64, cache, 8 at once, preemption": changed(
        chunk=64, cached=True, concurrency=8, preempt=20, drafts=("auto",)),
}


def unpack(folder):
    with tarfile.open(ARCHIVE) as archive:
        for task in TASKS:
            (folder / f"{task}.jsonl").write_bytes(archive.extractfile(f"{task}.jsonl").read())


def evaluate(folder, task, flags, limit):
    """n, correct, steps, preemptions, resumed_tokens; items, each with id, correct, logprob, output_ids."""
    out = folder / "out.json"
    # To measure which number of threads is best would take longer than a few items.
    few = ["--threads", "2"] if 0 < limit <= FEW else []
    done = subprocess.run([BUILD / "sluice", "eval", "--task", folder / f"{task}.jsonl", "--json", out, "--limit",
                           str(limit), "--log-level", "warning", *few, *flags], capture_output=True, text=True)
    assert done.returncode == 0, f"{task} {flags}: exit code {done.returncode}\n{done.stderr}"
    return json.loads(out.read_text())


def differences(expected, found):
    """Of the items of `found`, which are the first of `expected`."""
    expected, found = expected["items"], found["items"]
    assert found and [item["id"] for item in expected[:len(found)]] == [item["id"] for item in found]
    return [item["id"] for item, other in zip(expected, found) if item != other]


# --- by pytest --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("evals")
    unpack(path)
    return path


@pytest.fixture(scope="module")
def baseline(folder):
    results = {task: evaluate(folder, task, BASELINE, 1 if task == "recall_long" else FEW) for task in TASKS}
    for task, result in results.items():
        assert result["correct"] >= 0.9 * result["n"], f"{task}: {result['correct']} of {result['n']}"
        assert result["preemptions"] == result["resumed_tokens"] == 0
    return results


@pytest.mark.parametrize("run", RUNS)
def test_items_do_not_depend_on_the_schedule(folder, baseline, run):
    steps = preemptions = resumed = accepted = 0
    for task, limit in SOME.items():
        if task == "recall_long" and run not in LONG_RUNS:
            continue
        found = evaluate(folder, task, RUNS[run], limit)
        assert found["n"] == limit and differences(baseline[task], found) == [], task
        steps += found["steps"]
        preemptions += found["preemptions"]
        resumed += found["resumed_tokens"]
        accepted += sum(found["accepted_by_depth"])
    assert steps > 0
    assert (accepted > 0) == ("drafts" in run)
    assert (preemptions > 0) == ("preemption" in run)
    if run != "chunk 7, cache, 32 at once":  # whose prompts are too short to begin alike for a block
        assert (resumed > 0) == ("cache" in run)


@pytest.mark.parametrize("fault", ["skipped-write", "chunk-reduction"])
def test_a_fault_is_seen(folder, fault):
    expected = evaluate(folder, "arithmetic", BASELINE, 3)
    assert differences(expected, evaluate(folder, "arithmetic", changed(chunk=7) + ["--inject", fault], 3)) != []


# The share of right drafts by the MTP layer in the answers: at depth 1, and at depth 2 where depth 1 was.
SECOND = {"arithmetic": 0.41, "lists": 0.45, "recall": 0.52, "tools": 0.55}


@pytest.mark.parametrize("task", SECOND)
def test_the_mtp_layer_guesses_what_it_was_trained_to(folder, baseline, task):
    found = evaluate(folder, task, changed(drafts=("mtp", 2)), FEW)
    assert differences(baseline[task], found) == []
    drafted, accepted = found["drafted_by_depth"], found["accepted_by_depth"]
    assert drafted[0] > 100 and sum(drafted[2:]) == 0
    assert accepted[0] >= 0.995 * drafted[0]
    assert accepted[1] >= SECOND[task] * accepted[0]


# Nats: docs/dev/numerics.md has it among the rules for the default profile.
KL_BOUND = 0.006


def test_the_price_of_the_default_profile(tmp_path):
    prose = ROOT / "tests" / "evals" / "prose.txt"
    done = subprocess.run([BUILD / "sluice", "eval", *QUICK_START, "--perplexity", prose, "--against", "ref", "--json",
                           tmp_path / "out.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["scored"] == 3825 and found["profile"].startswith("default int8")
    assert abs(found["perplexity"] / found["against"]["perplexity"] - 1) < 0.005
    assert found["against"]["kl_mean"] <= KL_BOUND
    assert found["against"]["kl_mean"] >= KL_BOUND / 3, "it became better: tighten the bound"
    assert f"| {KL_BOUND} nats |" in (ROOT / "docs" / "dev" / "numerics.md").read_text()


# --- as a program -----------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description="Compares evaluations under different schedules, item by item.")
    parser.add_argument("--whole", action="store_true", help="every item of every task")
    parser.add_argument("--limit", type=int, help="so many items of each task; by default as in the tests")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    options = parser.parse_args()
    unknown = set(options.tasks) - set(TASKS)
    if unknown:
        parser.error(f"no such task: {', '.join(sorted(unknown))}; expected {', '.join(TASKS)}")
    folder = BUILD / "test-data" / "evals"
    folder.mkdir(parents=True, exist_ok=True)
    unpack(folder)
    found = items = 0
    for task in options.tasks or TASKS:
        limit = 0 if options.whole else options.limit or FEW
        start = time.monotonic()
        expected = evaluate(folder, task, BASELINE, limit)
        print(f"{task:12} {'alone':42} {expected['n']:4} items, {expected['correct']} correct"
              f" {time.monotonic() - start:7.1f} s", flush=True)
        for name, flags in RUNS.items():
            start = time.monotonic()
            different = differences(expected, evaluate(folder, task, flags, limit))
            items += expected["n"]
            found += len(different)
            print(f"{task:12} {name:42} {len(different):4} different {' '.join(different[:5])}"
                  f" {time.monotonic() - start:7.1f} s", flush=True)
    print(f"{items} items compared, {found} different")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
