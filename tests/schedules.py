"""The requests of schedules_test.py, what is asked of a server with them, and the flags of the servers. With the standard
library alone, so that tests/gpu/server.py can use it on a machine that has nothing else."""

import random
from concurrent.futures import ThreadPoolExecutor

from seed import SEED
from server_process import Server, fetch

VOCABULARY = 4000  # ids from 10 on are ordinary tokens or role markers
CLIENTS = 12  # at once
LONGEST = 2_500

# Each: what the flags change; what must be seen in the metrics afterwards, so that the flags are known to have worked.
SERVERS = {
    "default": ([], "sluice_prefix_cache_hits_total"),
    "chunks of 7, one thread": (["--max-num-batched-tokens", "7", "--threads", "1"], "sluice_prefix_cache_hits_total"),
    "chunks of 128, first come first served": (
        ["--max-num-batched-tokens", "128", "--scheduling-policy", "fcfs", "--no-enable-mixed-prefill-decode"], None),
    "chunks of 4096 without the cache, two threads": (
        ["--max-num-batched-tokens", "4096", "--no-enable-prefix-caching", "--threads", "2"], None),
    "priorities and preemption": (
        ["--scheduling-policy", "priority", "--force-preempt-every", "5", "--long-prefill-token-threshold", "100",
         "--audit"], 'sluice_num_preemptions_total{kind="recompute"}'),
    "a small cache": (
        ["--kv-cache-memory", "4MiB", "--max-model-len", "3000", "--max-num-batched-tokens", "300"],
        'sluice_prefix_cache_evicted_pages_total{pool="latent"}'),
    "swap": (
        ["--force-preempt-every", "3", "--swap-space", "64MiB"], "sluice_swaps_restored_total"),
}


def make_requests():
    """About twenty: lengths around block boundaries, prompts that start alike, greedy and seeded sampling."""
    rng = random.Random(1)
    texts = [[rng.randrange(10, VOCABULARY) for _ in range(LONGEST)] for _ in range(3)]
    lengths = [1, 5, 40, 127, 128, 129, 130, 200, 256, 257, 300, 384, 385, 500, 640, 900, 1200, 1600, 2048, LONGEST]
    requests = []
    for i, length in enumerate(lengths):
        shared = length * (i % 4) // 4  # how much of it others start with as well
        prompt = texts[i % 3][:shared] + [rng.randrange(10, VOCABULARY) for _ in range(length - shared)]
        body = {"prompt": prompt, "max_tokens": 8 + 4 * (i % 5), "logprobs": 3, "ignore_eos": i % 2 == 0,
                "priority": i % 3 - 1}
        if i % 2 == 0:
            body["temperature"] = 0
        else:
            body |= {"temperature": 1.0, "top_p": 0.95, "seed": 1000 + i}
        if i % 7 == 3:
            body["n"] = 2
        requests.append(body)
    return requests


REQUESTS = make_requests()


def ask(server, index):
    """Everything in the answer that is said to be a function of the request."""
    answer = fetch(server.url + "/v1/completions", REQUESTS[index])
    assert answer.status == 200, answer.text
    return answer.json()["choices"]


def check(name, flags, seen, alone, concurrencies=(1, CLIENTS)):
    """All requests, in random order, to a server with these flags: its answers are those of each alone."""
    rng = random.Random(f"{SEED} {name}")
    with Server(*flags, "--log-level", "warning") as server:
        for concurrency in concurrencies:
            order = list(range(len(REQUESTS)))
            rng.shuffle(order)
            if concurrency == 1:  # the slow way, which a random half takes
                order = order[::2]
            with ThreadPoolExecutor(concurrency) as pool:
                answers = dict(zip(order, pool.map(lambda i: ask(server, i), order)))
            for i, answer in answers.items():
                assert answer == alone[i], (f"request {i} ({len(REQUESTS[i]['prompt'])} tokens) at concurrency "
                                            f"{concurrency}; SLUICE_TEST_SEED={SEED}")
        if seen:
            assert server.metric(seen) > 0, f"{flags} had no effect"
