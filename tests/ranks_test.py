"""Several ranks (--tensor-parallel-size) on emulated devices: the bytes and the answers are those of one CPU.

`-k every` is the long part: all models, profiles, numbers of ranks and sizes of steps. The rest takes some of each."""

import hashlib
import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from program import BUILD, MODEL, QUICK_START, few, fails, sluice
from schedules import REQUESTS
from seed import SEED
from server_process import Server, fetch

ORACLES = BUILD / "test-data" / "oracles"
KINDS = ["tiny", "llama-like", "qwen2-swa-like", "qwen3-yarn-like", "qwen3moe-like", "v2-like", "v2-lite-like", "v3-like",
         "v32-like", "v4-flash-like", "v4-pro-like"]
PROFILES = ["default", "plain", "ref"]
RANKS = [1, 2, 4, 8]
ROWS = [512, 37, 3]  # most rows of a step
COUNT = 320  # ids: indexers choose from 48 tokens, 64 or 128 entries on, and windows end
GREEDY = 6


def folder(kind):
    return MODEL if kind == "tiny" else ORACLES / kind


@pytest.fixture(scope="module")
def digest(tmp_path_factory):
    """The digest of what `sluice logits` writes with these flags; that of a CPU is worked out once."""
    path = tmp_path_factory.mktemp("ranks")
    rng = random.Random(SEED)
    (path / "ids").write_text(" ".join(str(rng.randrange(10, 250)) for _ in range(COUNT)))
    known = {}

    def of(kind, profile, *flags):
        if (kind, profile, flags) not in known:
            out = path / "logits.safetensors"
            out.unlink(missing_ok=True)
            sluice("logits", folder(kind), "--ids-file", path / "ids", "--greedy", str(GREEDY), "--profile", profile, "--out",
                   out, "--log-level", "error", "--threads", "2", *flags)
            known[kind, profile, flags] = hashlib.sha256(out.read_bytes()).hexdigest()
        return known[kind, profile, flags]

    return of


def check(digest, kind, profile, ranks, rows):
    found = digest(kind, profile, "--device", "emulated", "--tensor-parallel-size", str(ranks), "--max-num-batched-tokens",
                   str(rows))
    assert found == digest(kind, profile), f"{kind}, profile {profile}: other logits on {ranks} ranks with steps of {rows}"


# Each kind once or twice, in turn with the profiles, the ranks and the steps.
SOME = [(kind, PROFILES[i % 3], RANKS[1 + i % 3], ROWS[i % 2]) for i, kind in enumerate(KINDS)]
SOME += [("v4-flash-like", "default", 8, 512), ("llama-like", "default", 8, 512), ("tiny", "default", 4, 37)]


@pytest.mark.parametrize("case", few(reversed(SOME), 2), ids=str)
def test_some_ranks_write_the_same_bytes(digest, case):
    check(digest, *case)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_ranks_writes_the_same_bytes(digest, kind):
    for profile, ranks, rows in itertools.product(PROFILES, RANKS, ROWS):
        check(digest, kind, profile, ranks, rows)


SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Lisbon", "Paris"]}, "days": {"type": "integer"}},
          "required": ["city", "days"], "additionalProperties": False}
STORY = "Once upon a time there was a fox, and the fox lived in a wood. "
MORE = [
    ("/v1/completions", {"prompt": STORY * 8, "max_tokens": 24, "prompt_logprobs": 3, "logprobs": 4, "temperature": 0}),
    ("/v1/completions", {"prompt": STORY * 8, "max_tokens": 40, "temperature": 1, "seed": 4, "n": 2, "logprobs": 1}),
    ("/v1/completions", {"prompt": STORY * 8 + "One day", "max_tokens": 40, "temperature": 0, "logprobs": 20}),
    ("/v1/completions", {"prompt": "Trip: ", "max_tokens": 60, "seed": 1, "temperature": 1, "logprobs": 2,
                         "structured_outputs": {"json": SCHEMA}}),
    ("/v1/completions", {"prompt": "Date: ", "max_tokens": 20, "seed": 2, "temperature": 1,
                         "structured_outputs": {"regex": "20[0-9]{2}-(0[1-9]|1[0-2])"}}),
    ("/v1/score", {"prompt": [STORY * 4, STORY * 3 + "It slept."], "start": 20, "top": 3}),
    ("/v1/completions", {"prompt": STORY, "max_tokens": 30, "seed": 5, "min_p": 0.05, "top_k": 30}),
]
SERVED = [("/v1/completions", body) for body in REQUESTS[::3]] + MORE
FLAGS = ["--speculative", "mtp", "--num-speculative-tokens", "3", "--max-num-batched-tokens", "300", "--force-preempt-every",
         "4", "--swap-space", "64MiB", "--log-level", "warning", *QUICK_START]
USED = ["sluice_prefix_cache_hits_total", "sluice_swaps_restored_total", "sluice_spec_decode_num_accepted_tokens_total"]


def answers(server, order, at_once):
    def ask(index):
        path, body = SERVED[index]
        answer = fetch(server.url + path, body)
        said = answer.json()
        return answer.status, said.get("choices", said.get("data"))

    with ThreadPoolExecutor(at_once) as pool:
        return dict(zip(order, pool.map(ask, order)))


def test_a_server_of_two_ranks_answers_as_one_of_a_cpu():
    order = few(range(len(SERVED)), 4)
    with Server("--no-enable-prefix-caching", "--speculative", "off", *QUICK_START[:2], "--log-level", "warning") as cpu:
        expected = answers(cpu, order, 1)
    assert all(status == 200 and said for status, said in expected.values()), expected
    random.Random(SEED).shuffle(order)
    with Server("--device", "emulated", "--tensor-parallel-size", "2", *FLAGS) as server:
        for at_once in (1, 6):
            for index, said in answers(server, order, at_once).items():
                assert said == expected[index], f"request {index}, {at_once} at once: {SERVED[index]}"
        for metric in USED:
            assert server.metric(metric) > 0, metric


def test_scores_of_ranks_are_those_of_the_cpu(tmp_path):
    prompts = [STORY * 20, STORY * 20 + "It slept.", "A fox."]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    written = []
    for flags in ([], ["--device", "emulated", "--tensor-parallel-size", "2", "--max-num-batched-tokens", "200"]):
        out = tmp_path / "out.safetensors"
        sluice("score", tmp_path / "in.jsonl", out, "--top", "5", "--distributions", "--experts", "--indices", *QUICK_START, *flags)
        written.append(out.read_bytes())
        out.unlink()
    assert written[0] == written[1]


@pytest.mark.parametrize("flags, says", [
    (["--tensor-parallel-size", "2"], "--tensor-parallel-size: expected 1 with --device cpu, found 2"),
    (["--device", "emulated", "--tensor-parallel-size", "0"], "--tensor-parallel-size"),
    (["--device", "emulated", "--tensor-parallel-size", "9"], "--tensor-parallel-size"),
    (["--device", "emulated", "--tensor-parallel-size", "2", "--collective-timeout", "0"], "--collective-timeout"),
    (["--device", "cuda:0,1"], "--device cuda:0,1: expected as many numbers as --tensor-parallel-size, 1, found 2"),
])
def test_what_cannot_be_is_refused(flags, says):
    fails("logits", "--ids", "1 2 3", "--out", "/dev/null", *flags, says=says)
