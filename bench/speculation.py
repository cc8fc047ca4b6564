"""python3 bench/speculation.py SLUICE OUT.md [--model V4_2B_CONFIG] [--quick]: what speculation gains and never costs
(docs/speculation.md), measured beside each other in one run, as ratios. From the root of a checkout, on a machine with
nothing else to do. The large model is random weights made from its config.json here; its part runs beside the embedded
model's, on two cores each."""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import tarfile
import tempfile
import time
import urllib.request

TASKS = ("arithmetic", "lists", "recall", "tools")
EMBEDDED = "models/sluice-tiny-v4"


class Bench:
    def __init__(self, sluice, cores, folder):
        self.sluice, self.folder = sluice, folder
        self.pinned = ["taskset", "-c", cores]

    def run(self, *args):
        command = self.pinned + [self.sluice, *map(str, args), "--threads", "2", "--log-level", "error"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr[-400:]}")
        return done.stdout

    def rows(self, *args):
        out = os.path.join(self.folder, f"{id(self)}.json")
        self.run("bench", *args, "--json", out)
        with open(out) as file:
            return json.load(file)["rows"]


def speed(row):
    return row["tokens_per_second"]


def drafted(bench, model, flags, tokens, rounds, counts=(1, 2, 3, 4)):
    """Lines of: acceptance, k, given drafts and the model's own as ratios to none."""
    for k in counts:
        rows = bench.rows(model, "--prefill", 0, "--decode", tokens, "--acceptance", "0.9,0.8",
                          "--num-speculative-tokens", k, "--rounds", rounds, *flags)
        plain = speed(rows[0])
        yield f"| {' '.join(flags) or 'best ISA'}, k = {k} | {plain:.1f} |" + "".join(
            f" {speed(row) / plain:.2f} |" for row in rows[1:5])


def prefill(bench, model, rounds):
    """The time of a prompt with the layer's rows, beside that without: pairs, one after the other."""
    ratios = []
    for _ in range(rounds):
        times = [1 / speed(bench.rows(model, "--prefill", 512, "--decode", 0, "--rounds", 3, "--speculative", kind)[0])
                 for kind in ("off", "mtp")]
        ratios.append(times[1] / times[0])
    return statistics.median(ratios)


def tasks(bench, concurrency, flags, limit):
    start = time.monotonic()
    for task in TASKS:
        bench.run("eval", EMBEDDED, "--task", os.path.join(bench.folder, f"{task}.jsonl"), "--limit", limit, "--concurrency",
                  concurrency, *flags)
    return time.monotonic() - start


def serve(bench, port, flags):
    command = bench.pinned + [bench.sluice, "serve", EMBEDDED, "--port", str(port), "--threads", "2", "--log-level", "error", *flags]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return server
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not answer")


def complete(port, prompt, seed, temperature):
    body = {"model": "sluice-tiny-v4", "prompt": prompt, "max_tokens": 96, "temperature": temperature, "seed": seed}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def prose(port, text, concurrency, temperature, requests, turn):
    pieces = [text[i * 97 % (len(text) - 500):][:300 + turn] for i in range(requests)]
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        tokens = sum(pool.map(lambda i: complete(port, pieces[i], i, temperature), range(requests)))
    return tokens / (time.monotonic() - start)


def of_large(bench, config, quick):
    yield "| v4-2b | tokens/s without | 0.9 given | 0.9 MTP | 0.8 given | 0.8 MTP |\n|---|---|---|---|---|---|"
    model = os.path.join(bench.folder, "v4-2b")
    subprocess.run([bench.sluice, "synth", config, model], check=True, capture_output=True)
    for isa in (("--isa", "auto"), ("--isa", "avx2")):
        yield from drafted(bench, model, isa, 32, 1 if quick else 2, (3, 2))
    yield f"\nv4-2b, a prompt of 512 with MTP's rows: {prefill(bench, model, 1 if quick else 2):.3f} of the time without\n"


def of_embedded(bench, quick):
    yield "| embedded | tokens/s without | 0.9 given | 0.9 MTP | 0.8 given | 0.8 MTP |\n|---|---|---|---|---|---|"
    yield from drafted(bench, EMBEDDED, (), 64, 3 if quick else 5)
    yield f"\nEmbedded, a prompt of 512 with MTP's rows: {prefill(bench, EMBEDDED, 3 if quick else 9):.3f} of the time without\n"
    yield "| tasks, whole program, concurrency | off / adaptive, median of pairs |\n|---|---|"
    limit, rounds = (10, 1) if quick else (20, 3)
    for concurrency in (1, 4, 16, 64):
        pairs = [tasks(bench, concurrency, ["--speculative", "off"], limit) / tasks(bench, concurrency, [], limit)
                 for _ in range(rounds)]
        yield f"| {concurrency} | {statistics.median(pairs):.2f} |"
    yield "\n| prose over the server, temperature, concurrency | adaptive / off, median of pairs |\n|---|---|"
    with open("tests/evals/prose.txt") as file:
        text = file.read()
    off, on = serve(bench, 18611, ["--speculative", "off"]), serve(bench, 18612, [])
    try:
        for temperature in (0, 1):
            for concurrency in (1, 4, 16, 64):
                requests = max(4 if quick else 12, concurrency * 2)
                pairs = [prose(18612, text, concurrency, temperature, requests, turn) /
                         prose(18611, text, concurrency, temperature, requests, turn) for turn in range(1 if quick else 5)]
                yield f"| {temperature}, {concurrency} | {statistics.median(pairs):.2f} |"
    finally:
        off.terminate(), on.terminate()


def tell(lines, out):
    for line in lines:
        print(line, file=out, flush=True)
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("out")
    parser.add_argument("--model")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open("tests/evals/sluice-tiny-v4.tar.xz") as archive:
            archive.extractall(folder)
        parts = [of_embedded(Bench(args.sluice, "0,1", folder), args.quick)]
        if args.model:
            parts.append(of_large(Bench(args.sluice, "4,5", folder), args.model, args.quick))
        with concurrent.futures.ThreadPoolExecutor() as pool, open(args.out, "w") as out:
            list(pool.map(lambda part: tell(part, out), parts))


if __name__ == "__main__":
    main()
