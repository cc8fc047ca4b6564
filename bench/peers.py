#!/usr/bin/env python3
"""Runs other engines' own benchmarks in turn with `sluice bench`, on the same weights, and prints ratios.

  bench/peers.py MODEL GGUF --llama DIR --ik DIR [--prefill 512,2048 --decode 64 --depth 0 --concurrency 16]
  bench/peers.py MODEL --before PROGRAM                    # against an earlier build of sluice itself

MODEL is what sluice loads, GGUF what the peers load; DIR holds a peer's programs: llama-bench and llama-batched-bench of
llama.cpp, llama-bench and llama-sweep-bench of ik_llama.cpp. Nothing of theirs is built or fetched here.

A round runs every engine once on every test; the next one in the opposite order. The machine's speed is measured before,
between and after (`sluice bench --probe-only`), and what ran while it changed by more than 10 % does not count; rounds are
repeated for it, at most twice as many in all, and what was never steady is shown as such, of all rounds. Ratios are taken
within a round; the medians are printed, with the range that holds the true median in 95 of 100 cases. With --unprobed every
round counts: many short ones tell small differences on a machine that is never steady. ik_llama.cpp has no depth option, so its depths come from one sweep over the
whole context, which takes minutes. Standard library only.
"""

import argparse
import json
import math
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

STEADY = 0.10
ROOT = pathlib.Path(__file__).resolve().parent.parent


def key(test, depth, tokens, concurrency=1):
    return (test, depth, tokens, concurrency)


# --- what each program prints -----------------------------------------------------------------------------------------


def parse_sluice(report):
    """What `sluice bench` reports."""
    return {key(row["test"], row["depth"], row["tokens"], row["concurrency"]): row["tokens_per_second"]
            for row in report["rows"]}


def parse_llama_bench(text):
    """The JSON of llama-bench. ik_llama.cpp's has progress lines around it, and names tests of a context "tg8@pp128"."""
    rows = json.loads(text[text.index("["):text.rindex("]") + 1])
    speeds = {}
    for row in rows:
        depth, prompt, generated = row.get("n_depth", 0), row["n_prompt"], row["n_gen"]
        if "@" in row.get("test", ""):
            depth, prompt = prompt, 0
        if prompt and generated:
            raise ValueError(f"llama-bench: expected a prompt or an answer, found both: {prompt} and {generated}")
        name = ("prefill", prompt) if prompt else ("decode", generated)
        speeds[key(name[0], depth, name[1])] = row["avg_ts"]
    return speeds


def table_rows(text):
    """The rows of a Markdown table as dictionaries of numbers."""
    header, rows = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|") or set("".join(cells)) <= set("-:"):
            continue
        if header is None:
            header = cells
        else:
            rows.append(dict(zip(header, map(float, cells), strict=True)))
    return rows


def parse_batched_bench(text):
    """llama-batched-bench: the speed of decoding, all sequences together."""
    return {key("concurrent", 0, int(row["TG"]), int(row["B"])): row["S_TG t/s"] for row in table_rows(text)}


def parse_sweep_bench(text, prefills, decodes, depths):
    """llama-sweep-bench: one row for each step of the context. A longer prefill is a sum of steps."""
    rows = {int(row["N_KV"]): row for row in table_rows(text)}
    speeds = {}
    for depth in depths:
        for tokens in prefills:
            done, seconds = 0, 0.0
            while done < tokens and depth + done in rows:
                seconds += rows[depth + done]["T_PP s"]
                done += int(rows[depth + done]["PP"])
            if done == tokens:
                speeds[key("prefill", depth, tokens)] = tokens / seconds
        for tokens in decodes:
            if depth in rows:
                speeds[key("decode", depth, tokens)] = rows[depth]["S_TG t/s"]
    return speeds


# --- the engines ------------------------------------------------------------------------------------------------------


def run(command, stream="stdout"):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", check=False)  # a peer may print a part of a character
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return getattr(done, stream)


def listed(values):
    return ",".join(map(str, values))


class Sluice:
    def __init__(self, options, program=None, name="sluice"):
        self.options = options
        self.name = name
        self.about = {}
        o = options
        self.command = [program or o.sluice, "bench", o.model, "--rounds", 1, "--threads", o.threads, "--prefill", listed(o.prefill),
                        "--decode", listed(o.decode), "--depth", listed(o.depth), "--concurrency",
                        listed(o.concurrency), "--concurrent-prompt", o.concurrent_prompt, "--concurrent-tokens",
                        o.concurrent_tokens, *shlex.split(o.sluice_flags)]

    def flags(self):
        return [self.command[3:]]

    def measure(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "bench.json"
            run([*self.command, "--json", out])
            report = json.loads(out.read_text())
        self.about = {name: report[name] for name in ("machine", "date", "version", "commit") if name in report}
        return parse_sluice(report)

    def probe(self):
        return json.loads(run([self.options.sluice, "bench", "--probe-only", "--threads", self.options.threads]))


class Llama:
    name = "llama.cpp"

    def __init__(self, options):
        o = options
        base = ["-m", o.gguf, "-t", o.threads]
        extra = shlex.split(o.llama_flags)
        self.commands = [([pathlib.Path(o.llama) / "llama-bench", *base, "-r", 1, "-o", "json", "-p", listed(o.prefill),
                           "-n", listed(o.decode), "-d", listed(o.depth), *extra], parse_llama_bench, "stdout")]
        for count in o.concurrency:
            if count > 1:
                tokens = count * (o.concurrent_prompt + o.concurrent_tokens)
                self.commands.append(([pathlib.Path(o.llama) / "llama-batched-bench", *base, "-c", tokens, "-npp",
                                       o.concurrent_prompt, "-ntg", o.concurrent_tokens, "-npl", count, *extra],
                                      parse_batched_bench, "stdout"))

    def flags(self):
        return [[command[0].name, *command[3:]] for command, _, _ in self.commands]

    def measure(self):
        speeds = {}
        for command, parse, stream in self.commands:
            speeds.update(parse(run(command, stream)))
        return speeds


class Ik:
    name = "ik_llama.cpp"

    def __init__(self, options):
        o = options
        base = ["-m", o.gguf, "-t", o.threads]
        extra = shlex.split(o.ik_flags)
        folder = pathlib.Path(o.ik)
        self.commands = []
        if 0 in o.depth:
            self.commands.append(([folder / "llama-bench", *base, "-rtr", 1, "-r", 1, "-o", "json", "-p",
                                   listed(o.prefill), "-n", listed(o.decode), *extra], parse_llama_bench, "stdout"))
        deep = [depth for depth in o.depth if depth > 0]
        if deep:
            context = max(deep) + max([*o.prefill, o.ik_step]) + o.ik_step
            sweep = [folder / "llama-sweep-bench", *base, "-rtr", "-c", context, "-ub", o.ik_step, *extra]
            self.commands.append((sweep, lambda text: parse_sweep_bench(text, o.prefill, o.decode, deep), "stderr"))

    flags = Llama.flags
    measure = Llama.measure


# --- rounds -----------------------------------------------------------------------------------------------------------


def difference(a, b):
    """The largest relative difference of two probes."""
    return max((max(a[k], b[k]) / min(a[k], b[k]) - 1 for k in a if min(a[k], b[k]) > 0), default=0.0)


def run_rounds(engines, probe, rounds, say):
    """[{"speeds": {engine: {key: tokens a second}}, "void": [engine]}] and all probes. `probe` may be None. Ctrl-C ends
    the rounds: what is whole counts."""
    probe = probe or dict
    results, probes = [], [probe()]
    for number in range(2 * rounds):
        if all(sum(engine.name not in r["void"] for r in results) >= rounds for engine in engines):
            break
        speeds, void = {}, []
        for engine in engines if number % 2 == 0 else reversed(engines):
            say(f"round {number + 1}, {rounds} have to count: {engine.name}")
            try:
                speeds[engine.name] = engine.measure()
                probes.append(probe())
            except KeyboardInterrupt:
                return results, probes
            if difference(probes[-2], probes[-1]) > STEADY:
                void.append(engine.name)
        results.append({"speeds": speeds, "void": void})
    return results, probes


def median_range(values):
    """The 95 % range of the median, by order statistics; the whole range of fewer than six values."""
    ordered, n = sorted(values), len(values)
    below, chance = 0, 2.0 ** -n  # the chance of a median under the smallest value
    while below < n // 2 and 2 * chance <= 0.05:
        below += 1
        chance += math.comb(n, below) * 2.0 ** -n
    cut = max(below - 1, 0)
    return [ordered[cut], ordered[n - 1 - cut]]


def summarise(results, names):
    """By test: the median speed of each engine, and of each peer the median of ours / theirs, round by round."""
    ours, peers = names[0], names[1:]
    keys = sorted({k for r in results for speeds in r["speeds"].values() for k in speeds})
    rows = []
    steady = all(any(name not in r["void"] for r in results) for name in names)
    if not steady:
        results = [{**r, "void": []} for r in results]
    for k in keys:
        sound = {name: [r["speeds"][name][k] for r in results if name not in r["void"] and k in r["speeds"][name]]
                 for name in names}
        row = {"test": k[0], "depth": k[1], "tokens": k[2], "concurrency": k[3],
               "tokens_per_second": {name: statistics.median(v) for name, v in sound.items() if v}, "ratio": {}, "ratio_range": {},
               "rounds": {name: len(v) for name, v in sound.items()}, "steady": steady}
        for peer in peers:
            pairs = [r for r in results if k in r["speeds"][ours] and k in r["speeds"][peer]]
            sound_pairs = [r for r in pairs if not {ours, peer} & set(r["void"])]
            if pairs and not sound_pairs:
                row["steady"] = False
            if pairs:
                ratios = [r["speeds"][ours][k] / r["speeds"][peer][k] for r in sound_pairs or pairs]
                row["ratio"][peer] = statistics.median(ratios)
                row["ratio_range"][peer] = median_range(ratios)
        rows.append(row)
    return rows


def to_text(rows, names):
    lines = [f"{'test':<12}{'depth':>8}{'tokens':>8}{'concurrent':>12}{names[0]:>12}"
             + "".join(f"{name:>16}{'ratio':>8}{'range':>14}" for name in names[1:])]
    for row in rows:
        line = f"{row['test']:<12}{row['depth']:>8}{row['tokens']:>8}{row['concurrency']:>12}"
        for name in names:
            speed = row["tokens_per_second"].get(name)
            line += f"{'-' if speed is None else f'{speed:.1f}':>{12 if name == names[0] else 16}}"
            if name != names[0]:
                ratio = row["ratio"].get(name)
                line += f"{'-' if ratio is None else f'{ratio:.3f}':>8}"
                between = row["ratio_range"].get(name)
                line += f"{'-' if between is None else f'{between[0]:.3f}..{between[1]:.3f}':>14}"
        lines.append(line if row["steady"] else line + "  unsteady")
    return "\n".join(lines)


def without_folder(part):
    return pathlib.Path(part).name if "/" in str(part) else str(part)


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="what sluice loads")
    parser.add_argument("gguf", nargs="?", help="what other engines load: the same weights")
    parser.add_argument("--sluice", default=ROOT / "build" / "sluice", help="the program [build/sluice]")
    parser.add_argument("--before", help="an earlier sluice to compare with")
    parser.add_argument("--llama", help="the folder of llama.cpp's programs")
    parser.add_argument("--ik", help="the folder of ik_llama.cpp's programs")
    for name, default in [("prefill", "512"), ("decode", "64"), ("depth", "0"), ("concurrency", "1")]:
        parser.add_argument(f"--{name}", type=numbers, default=numbers(default), help=f"[{default}]")
    parser.add_argument("--concurrent-prompt", type=int, default=32)
    parser.add_argument("--concurrent-tokens", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--unprobed", action="store_true", help="every round counts")
    parser.add_argument("--ik-step", type=int, default=512, help="rows of a step of ik's sweep")
    for name in ["sluice", "llama", "ik"]:
        parser.add_argument(f"--{name}-flags", default="", help="more flags for its programs")
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args(arguments)
    if not options.llama and not options.ik and not options.before:
        parser.error("no peer: give --llama, --ik or --before")
    if (options.llama or options.ik) and not options.gguf:
        parser.error("--llama and --ik load a GGUF: name it after the model")
    return options


def main(arguments):
    options = parse_options(arguments)
    sluice = Sluice(options)
    engines = [sluice] + [engine(options) for engine, given in [(Llama, options.llama), (Ik, options.ik)] if given]
    if options.before:
        engines.append(Sluice(options, options.before, "before"))
    names = [engine.name for engine in engines]
    results, probes = run_rounds(engines, None if options.unprobed else sluice.probe, options.rounds, lambda text: print(text, file=sys.stderr))
    rows = summarise(results, names)
    print(to_text(rows, names))
    void = sum(len(r["void"]) for r in results)
    if void:
        print(f"{void} of {len(results) * len(engines)} runs had a machine that changed by more than 10 %")
    if options.json:
        flags = {engine.name: [[without_folder(part) for part in command] for command in engine.flags()]
                 for engine in engines}
        report = {**sluice.about, "rounds": options.rounds, "voided": void, "flags": flags, "probes": probes, "rows": rows,
                  "gguf": pathlib.Path(options.gguf or "").name, "model": pathlib.Path(options.model).name}
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
