"""python3 bench/speculation.py SLUICE OUT.md [--model V4_2B_CONFIG] [--quick] [--only-servers]: what speculation gains and never costs
(docs/speculation.md), measured beside each other in one run, as ratios. From the root of a checkout, on a machine with
nothing else to do. The large model is random weights made from its config.json here; its part runs beside the embedded
model's, on two cores each."""
import argparse
import concurrent.futures
import itertools
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


def serve(bench, port, flags, model=EMBEDDED):
    """One thread, so that its processor time is work and no waiting for another."""
    command = [bench.sluice, "serve", model, "--port", str(port), "--threads", "1", "--log-level", "error", *flags]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return server
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not answer")


def ask(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def tokens_of(port, path, body):
    return ask(port, path, body)["usage"]["completion_tokens"]


def processor_seconds(server):
    with open(f"/proc/{server.pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def of_tasks(folder, requests, turn):
    """Of all four tasks in turn; the long prompts of `recall` are left out, which say nothing of answers."""
    items = []
    for task in TASKS:
        with open(os.path.join(folder, f"{task}.jsonl")) as file:
            items.append([json.loads(line) for line in file])
    for i in range(requests):
        of_task = items[i % len(items)]
        item = of_task[(turn * requests + i) // len(items) % len(of_task)]
        yield "chat/completions", {key: item[key] for key in ("messages", "tools") if key in item} | {"max_tokens": 128}


def of_prose(text, requests, turn):
    for i in range(requests):
        begin = (turn * requests + i) * 97 % (len(text) - 500)
        yield "completions", {"prompt": text[begin:begin + 300], "max_tokens": 96}


class Pair:
    """Two servers, without drafts and with those that pay, that answer the same requests in turn."""

    def __init__(self, bench):
        self.servers = {18611: serve(bench, 18611, ["--speculative", "off"]), 18612: serve(bench, 18612, [])}

    def seconds(self, port, requests, concurrency, temperature):
        """Wall and processor seconds of a token."""
        before, start = processor_seconds(self.servers[port]), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            tokens = sum(pool.map(lambda job: tokens_of(port, job[1][0], job[1][1] | {"temperature": temperature, "seed": job[0]}),
                                  enumerate(requests)))
        return (time.monotonic() - start) / tokens, (processor_seconds(self.servers[port]) - before) / tokens

    def ratios(self, requests_of, concurrency, temperature, turns):
        """off / adaptive by wall and by processor time: of the least of all turns, and the median of pairs."""
        times = {port: [] for port in self.servers}
        for turn in range(turns):
            requests = list(requests_of(turn))
            for port in sorted(self.servers, reverse=turn % 2 == 1):
                times[port].append(self.seconds(port, requests, concurrency, temperature))
        off, on = times.values()
        return [ratio for way in (0, 1) for ratio in (min(t[way] for t in off) / min(t[way] for t in on),
                                                      statistics.median(a[way] / b[way] for a, b in zip(off, on)))]

    def close(self):
        for server in self.servers.values():
            server.terminate()


def never_slower(bench, quick):
    yield ("\n| off / adaptive | concurrent | temperature | wall, least | wall, median of pairs | processor, least "
           "| processor, median of pairs |\n|---|---|---|---|---|---|---|")
    with open("tests/evals/prose.txt") as file:
        text = file.read()
    pair = Pair(bench)
    try:
        for concurrency in (1, 4, 16, 64):
            count = max(8 if quick else 16, concurrency)
            for name, requests_of in (("tasks", lambda turn, n=count: of_tasks(bench.folder, n, turn)),
                                      ("prose", lambda turn, n=count: of_prose(text, n, turn))):
                for temperature in (0, 1):
                    ratios = pair.ratios(requests_of, concurrency, temperature, 3 if quick else 7)
                    yield f"| {name} | {concurrency} | {temperature} |" + "".join(f" {ratio:.2f} |" for ratio in ratios)
    finally:
        pair.close()


def coupling(bench):
    """How many of the first drafts of prose are right at temperature 1."""
    with open("tests/evals/prose.txt") as file:
        text = file.read()
    port = 18613
    server = serve(bench, port, ["--speculative", "mtp", "--num-speculative-tokens", "1", "--no-speculative-adaptive"])
    try:
        for i in range(20):
            begin = i * 397 % (len(text) - 500)
            ask(port, "completions", {"prompt": text[begin:begin + 300], "max_tokens": 160, "temperature": 1, "seed": i,
                                      "ignore_eos": True})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        server.terminate()
    count = {line.split("{")[0].split(" ")[0]: float(line.split()[-1]) for line in lines if line and line[0] != "#"}
    drafted, right = (count[f"sluice_spec_decode_num_{what}_tokens_total"] for what in ("draft", "accepted"))
    yield f"\nProse, temperature 1, 20 continuations of 160 tokens: {right:.0f} of {drafted:.0f} first drafts right, {right / drafted:.3f}\n"


def edit(bench, turns=3):
    """A long answer of SmolLM2 for which the client gave a text as `prediction` that differs in every 25th word."""
    body = {"messages": [{"role": "user", "content": "Write a long story about a lighthouse keeper and a storm, in many chapters."}],
            "max_tokens": 700, "temperature": 0}
    off, on = (serve(bench, port, flags, "smollm2") for port, flags in
               ((18614, ["--speculative", "off"]), (18615, ["--speculative", "auto"])))
    try:
        answer = ask(18614, "chat/completions", body)["choices"][0]["message"]["content"]
        words = answer.split(" ")
        words[12::25] = ["somewhere"] * len(words[12::25])
        predicted = body | {"prediction": {"type": "content", "content": " ".join(words)}}
        times = {"off": [], "copies": [], "prediction": []}
        for _ in range(turns):
            for name, port, server, asked in (("off", 18614, off, body), ("copies", 18615, on, body),
                                              ("prediction", 18615, on, predicted)):
                before = processor_seconds(server)
                same = ask(port, "chat/completions", asked)
                times[name].append(processor_seconds(server) - before)
                if same["choices"][0]["message"]["content"] != answer:
                    raise SystemExit(f"an edit: the answer with {name} is another")
        details = same["usage"]["completion_tokens_details"]
        least = {name: min(of) for name, of in times.items()}
        yield (f"\nSmolLM2, an answer of {same['usage']['completion_tokens']} tokens, {1 - len(words[12::25]) / len(words):.0%} of its words predicted: "
               f"{least['off'] / least['prediction']:.2f} times as fast with `prediction`, {least['off'] / least['copies']:.2f} with copies alone; "
               f"{details['accepted_prediction_tokens']} drafts right, {details['rejected_prediction_tokens']} wrong\n")
    finally:
        off.terminate()
        on.terminate()


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
    yield from coupling(bench)
    yield from never_slower(bench, quick)
    yield from edit(bench)


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
    parser.add_argument("--only-servers", action="store_true", help="coupling, and adaptive drafts beside none")
    parser.add_argument("--only-edit", action="store_true", help="a predicted answer of SmolLM2")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open("tests/evals/sluice-tiny-v4.tar.xz") as archive:
            archive.extractall(folder)
        embedded = Bench(args.sluice, "0,1", folder)
        parts = [of_embedded(embedded, args.quick)]
        if args.only_servers:
            parts = [itertools.chain(coupling(embedded), never_slower(embedded, args.quick))]
        if args.only_edit:
            parts = [edit(embedded)]
        if args.model:
            parts.append(of_large(Bench(args.sluice, "4,5", folder), args.model, args.quick))
        with concurrent.futures.ThreadPoolExecutor() as pool, open(args.out, "w") as out:
            list(pool.map(lambda part: tell(part, out), parts))


if __name__ == "__main__":
    main()
