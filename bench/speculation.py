"""python3 bench/speculation.py SLUICE OUT.md [--model V4_2B_CONFIG] [--quick] [--only-servers | --only-tasks | --only-edit]: what speculation gains and never costs
(docs/speculation.md), measured beside each other in one run, as ratios. From the root of a checkout, on a machine with
nothing else to do. The large model is random weights made from its config.json here; its part runs beside the embedded
model's, on two cores each. Several can run at once, each on cores (taskset) and ports of its own, for a part of the concurrencies."""
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
    return time.clock_gettime(~server.pid << 3 | 2)  # clock_getcpuclockid(3)


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


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.split("{")[0].split(" ")[0]: float(line.split()[-1]) for line in lines if line and line[0] != "#"}


def counts(port):
    count = metrics(port)
    return [count[f"sluice_spec_decode_num_{what}_tokens_total"] for what in ("draft", "accepted")]


def decode_seconds(port):
    return metrics(port)["sluice_request_decode_time_seconds_sum"]


class Case:
    """Requests that two servers, without drafts and with those that pay, answer in turn: both the same ones, nothing of which is cached."""

    def __init__(self, name, requests_of, concurrency, temperature):
        self.name, self.requests_of, self.concurrency, self.temperature = name, requests_of, concurrency, temperature
        self.turns, self.tokens, self.drafted, self.right = [], 0, 0, 0

    def seconds(self, server, port, requests, turn):
        """Wall and processor seconds."""
        more = {"temperature": self.temperature, "cache_salt": str(turn)}
        before, start = processor_seconds(server), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.concurrency) as pool:
            self.tokens += sum(pool.map(lambda job: tokens_of(port, job[1][0], job[1][1] | more | {"seed": job[0]}), enumerate(requests)))
        return time.monotonic() - start, processor_seconds(server) - before

    def run(self, servers, seconds):
        drafting = max(servers)
        before, end = counts(drafting), time.monotonic() + seconds
        while time.monotonic() < end or len(self.turns) % 2:
            turn = len(self.turns)
            requests = list(self.requests_of(turn // 2))
            order = sorted(servers, reverse=turn % 4 in (1, 2))
            times = {port: self.seconds(servers[port], port, requests, turn) for port in order}
            self.turns.append([times[port] for port in sorted(servers)])
        drafted, right = (after - was for after, was in zip(counts(drafting), before))
        self.drafted, self.right = self.drafted + drafted, self.right + right

    def ratio(self, way):
        """off / adaptive of all seconds, and how much it may be beside that: twice the jackknife's error, turn by turn."""
        off, on = ([turn[i][way] for turn in self.turns] for i in (0, 1))
        n, whole = len(off), sum(off) / sum(on)
        others = [(sum(off) - a) / (sum(on) - b) for a, b in zip(off, on)]
        return whole, 2 * ((n - 1) * statistics.pvariance(others)) ** 0.5

    def line(self):
        return (f"| {self.name} | {self.concurrency} | {self.temperature} | {len(self.turns)} |" +
                "".join(f" {whole:.3f} +- {error:.3f} |" for whole, error in map(self.ratio, (0, 1))) +
                f" {2 * self.drafted / self.tokens:.2f} | {self.right / max(1, self.drafted):.2f} |")


def never_slower(bench, starts, port=18611, concurrencies=(1, 4, 16, 64), kinds=("off", "auto")):
    """What is measured at a server's start differs from one to the next, so each case has several starts."""
    yield ("\n| off / adaptive | concurrent | temperature | turns | wall | processor | drafted a token | of these right |\n"
           "|---|---|---|---|---|---|---|---|")
    with open("tests/evals/prose.txt") as file:
        text = file.read()
    cases = []
    for concurrency in concurrencies:
        count = max(4, concurrency)
        for name, requests_of in (("tasks", lambda turn, n=count: of_tasks(bench.folder, n, turn)),
                                  ("prose", lambda turn, n=count: of_prose(text, n, turn))):
            cases += [Case(name, requests_of, concurrency, temperature) for temperature in (0, 1)]
    for _ in range(starts):
        servers = {port + i: serve(bench, port + i, ["--speculative", kind]) for i, kind in enumerate(kinds)}
        try:
            for case in cases:
                case.run(servers, 5)
        finally:
            for server in servers.values():
                server.terminate()
                server.wait()
    for case in cases:
        yield case.line()


def each_task(bench, port=18621, items=40, turns=6):
    """The four tasks, one request after the other at temperature 0, without drafts and with those that pay: processor seconds of
    all, and those between an answer's first token and its last, of which no prompt is a part. The least of some turns."""
    yield ("| off / adaptive | with prompts | answers | tokens | ms a token without | drafted a token | of these right |\n"
           "|---|---|---|---|---|---|---|")
    servers = {port + i: serve(bench, port + i, ["--speculative", kind]) for i, kind in enumerate(("off", "auto"))}
    whole = [[0, 0], [0, 0]]
    try:
        for task in TASKS:
            with open(os.path.join(bench.folder, f"{task}.jsonl")) as file:
                requests = [json.loads(line) for line in file][:items]
            requests = [("chat/completions", {key: item[key] for key in ("messages", "tools") if key in item} | {"max_tokens": 128})
                        for item in requests]
            least, before = [[float("inf")] * 2 for _ in servers], counts(port + 1)
            for turn in range(turns):
                for which in sorted((0, 1), reverse=turn % 4 in (1, 2)):
                    case, decoded = Case(task, None, 1, 0), decode_seconds(port + which)
                    processor = case.seconds(servers[port + which], port + which, requests, turn)[1]
                    seconds = processor, decode_seconds(port + which) - decoded
                    least[which] = [min(was, now) for was, now in zip(least[which], seconds)]
            drafted, right = (after - was for after, was in zip(counts(port + 1), before))
            whole = [[a + b for a, b in zip(*of)] for of in zip(whole, least)]
            tokens = case.tokens - len(requests)
            yield (f"| {task} |" + "".join(f" {off / on:.2f} |" for off, on in zip(*least)) + f" {tokens} |" +
                   f" {1e3 * least[0][1] / tokens:.3f} | {drafted / (turns * tokens):.2f} | {right / max(1, drafted):.2f} |")
    finally:
        for server in servers.values():
            server.terminate()
            server.wait()
    yield "| all |" + "".join(f" {off / on:.2f} |" for off, on in zip(*whole)) + " | | | |\n"


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
        drafted, right = counts(port)
    finally:
        server.terminate()
    yield f"\nProse, temperature 1, 20 continuations of 160 tokens: {right:.0f} of {drafted:.0f} first drafts right, {right / drafted:.3f}\n"


def edit(bench, turns=3):
    """A long answer of SmolLM2 for which the client gave a text as `prediction` that differs in every 25th word."""
    body = {"messages": [{"role": "user", "content": "Write a long story about a lighthouse keeper and a storm, in many chapters."}],
            "max_tokens": 700, "temperature": 0.8, "seed": 3}  # the likeliest tokens alone would repeat themselves
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
    yield from each_task(bench)
    yield from coupling(bench)
    yield from never_slower(bench, 1 if quick else 3)
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
    parser.add_argument("--only-servers", action="store_true", help="adaptive drafts beside none")
    parser.add_argument("--port", type=int, default=18611, help="of the first of these two servers")
    parser.add_argument("--starts", type=int, default=3, help="of these servers")
    parser.add_argument("--concurrent", default="1,4,16,64", help="requests at a time, for these servers")
    parser.add_argument("--kinds", default="off,auto", help="--speculative of these servers; off,off tells the error of the ratios")
    parser.add_argument("--only-tasks", action="store_true", help="each of the four tasks, one request at a time")
    parser.add_argument("--only-edit", action="store_true", help="a predicted answer of SmolLM2")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open("tests/evals/sluice-tiny-v4.tar.xz") as archive:
            archive.extractall(folder)
        embedded = Bench(args.sluice, "0,1", folder)
        parts = [of_embedded(embedded, args.quick)]
        if args.only_servers:
            parts = [never_slower(embedded, args.starts, args.port, list(map(int, args.concurrent.split(","))), args.kinds.split(","))]
        if args.only_tasks:
            parts = [each_task(embedded)]
        if args.only_edit:
            parts = [edit(embedded)]
        if args.model:
            parts.append(of_large(Bench(args.sluice, "4,5", folder), args.model, args.quick))
        with concurrent.futures.ThreadPoolExecutor() as pool, open(args.out, "w") as out:
            list(pool.map(lambda part: tell(part, out), parts))


if __name__ == "__main__":
    main()
