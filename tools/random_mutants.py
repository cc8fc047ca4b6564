#!/usr/bin/env python3
"""random_mutants.py: plants random faults in the code that serves; a test has to notice each.

    tools/random_mutants.py --random N [--seed S] [--layers cache,sched]   N more, drawn from the seed
    tools/random_mutants.py --again [FILE:LINE...]   these once more, or all that are undecided or survived unargued
    tools/random_mutants.py --survivors     those that nothing found and nobody has argued away; exit code 1 if any
    tools/random_mutants.py --summary       how many were found, by layer

A fault is one change of one line of a production file of src/cache, src/sched, src/engine or src/serve: an operator
swapped, a bound moved by one, a condition negated, two arguments swapped, a statement left out. All faults of a run are
compiled into one build, each behind a switch of its own (SLUICE_MUTANT), so that the build is paid for once; what does
not compile is dropped, and recorded as that. Each is then tried by itself: the layer's test program, and if that
passes the whole-system tests of LAYERS, until one fails or hangs.

Results are tests/mutants/random.jsonl, a line for each fault, written as they come: a run that is killed goes on where
it was. Of several lines of one fault the last one counts, and those that are decided are not tried again. Who argues a
survivor away, because no behaviour changes, adds "argument": "why" to its line; who writes the missing test asks for the
fault --again, with all tests. The tree is planted in a copy (build-mutants/random/tree), never where it lies.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import mutants

ROOT = mutants.ROOT
PLACE = ROOT / "build-mutants" / "random"
COPY = PLACE / "tree"
RESULTS = ROOT / "tests" / "mutants" / "random.jsonl"
SWITCH = "src/base/mutant_switch.h"
LEAST_SECONDS, TIMES_AS_LONG = 40, 4  # until a test counts as hung, against what it takes on the unchanged tree

# The layer's own tests, then those of the whole system that are about it; a name with .py is pytest's.
LAYERS = {
    "cache": ["cache_test", "engine_test", "tests/laws_test --gtest_filter=*flash_default:*v2_lite_default",
              "tests/soak_test"],
    "sched": ["sched_test", "engine_test", "tests/laws_test --gtest_filter=*flash_default:*v2_lite_default",
              "tests/soak_test"],
    "engine": ["engine_test", "verify_test --gtest_filter=-*Emulated*",
               "tests/laws_test --gtest_filter=*flash_default:*v3_mtp", "tests/soak_test", "tests/speculation_test.py",
               "tests/server_weights_test.py"],
    "serve": ["serve_test", "tests/server_scores_test.py", "tests/server_constraints_test.py",
              "tests/server_guard_test.py", "tests/server_weights_test.py", "tests/server_test.py", "tests/server_cache_test.py",
              "tests/server_fields_test.py", "tests/server_tools_test.py", "tests/counters_test.py",
              "tests/monitoring_test.py"],
}
SWITCH_TEXT = """// Which fault is awake; 0: none.
#pragma once
#include <cstdlib>
namespace sluice {
inline const int awake_mutant = std::getenv("SLUICE_MUTANT") != nullptr ? std::atoi(std::getenv("SLUICE_MUTANT")) : 0;
}
"""

# --- faults of a line -------------------------------------------------------------------------------------------------

SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * "),
         (" % ", " / "), ("std::min(", "std::max("), ("std::max(", "std::min("), ("true", "false"), ("false", "true"),
         ("++", "--"), ("--", "++"), (" += ", " -= "), (" -= ", " += ")]
NUMBER = re.compile(r"(?<![\w.'])(\d{1,4})(?![\w.'])")
ARGUMENTS = re.compile(r"\((\w+(?:\.\w+)*), (\w+(?:\.\w+)*)\)")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
SKIPPED = re.compile(r"SLUICE_CHECK|SLUICE_DCHECK|log_\w+\(|static_assert|constexpr|\btemplate\b|\busing\b|namespace"
                     r"|#|//|R\"|\bcase\b|SLUICE_ASSIGN|reserve\(|\boperator\b|_error\(|invalid_argument\(|fail_expecting")
STATEMENT = re.compile(r"(?:\+\+|--)?[a-z_]\w*(?:(?:\.|->|::)\w+|\[[^\]]*\]|\(\))*(?:\(.*\)| [-+|&]?= .*|\+\+|--)?;")
DECLARED = re.compile(r"(?:const )?[\w:]+(?:<[^;=]*>)?(?: const)?[ *&]+\w+ = (.*);")
ASSIGNED = re.compile(r"[a-z_][\w.\->\[\]()]* [-+]?= (.*);")


def faults_of(expression):
    """Other expressions, each with one change."""
    masked = LITERAL.sub(lambda m: m[0][0] + "\0" * (len(m[0]) - 2) + m[0][0], expression)
    found = []
    for old, new in SWAPS:
        for m in re.finditer(re.escape(old), masked):
            word = old.isalpha()
            around = masked[max(0, m.start() - 1) : m.start()] + masked[m.end() : m.end() + 1]
            if word and re.search(r"\w", around):
                continue
            found.append(expression[: m.start()] + new + expression[m.end() :])
    for m in NUMBER.finditer(masked):
        for number in (int(m[1]) + 1, int(m[1]) - 1):
            if number >= 0:
                found.append(expression[: m.start()] + str(number) + expression[m.end() :])
    for m in ARGUMENTS.finditer(masked):
        if m[1] != m[2]:
            found.append(expression[: m.start()] + f"({m[2]}, {m[1]})" + expression[m.end() :])
    return found


def balanced(text):
    return text.count("(") == text.count(")") and text.count("{") == text.count("}") and text.count("[") == text.count("]")


def closing(text, start):
    """The place of the bracket that closes the one at `start`; -1: in another line."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def switched(old, new):
    return f"(::sluice::awake_mutant == @ ? ({new}) : ({old}))"


def mutations(line, before):
    """(line with a fault behind switch @, how the line would be without one) for each fault of a line. `before`: the
    line above; a line that goes on from it is no statement."""
    code = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if not code or SKIPPED.search(code):
        return
    if m := re.match(r"(?:\} else )?(?:if|while) \(", code):
        end = closing(code, m.end() - 1)
        condition = code[m.end() : end]
        if end < 0 or ";" in condition or re.match(r"(const )?(auto|std::\w+|[A-Z]\w*)[*& ]", condition):
            return
        for new in [f"!({condition})", *faults_of(condition)]:
            rest = code[end:]
            yield indent + code[: m.end()] + switched(condition, new) + rest, code[: m.end()] + new + rest
        return
    if m := re.match(r"for \(([^;()]*(?:\([^;()]*\))*[^;()]*); (.*); ", code):
        for new in faults_of(m[2]):
            start, end = m.span(2)
            yield indent + code[:start] + switched(m[2], new) + code[end:], code[:start] + new + code[end:]
        return
    ended = before.strip()[-1:] in ("", ";", "{", "}", ":") or before.strip().startswith("//")
    if not code.endswith(";") or not balanced(code) or not ended:
        return
    if m := re.fullmatch(r"return (.*);", code):
        if m[1].startswith("{"):
            return
        for new in faults_of(m[1]):
            yield f"{indent}return {switched(m[1], new)};", f"return {new};"
        return
    if (m := DECLARED.fullmatch(code)) or (m := ASSIGNED.fullmatch(code)):
        if not m[1].startswith(("{", "[")):
            start, end = m.span(1)
            for new in faults_of(m[1]):
                yield indent + code[:start] + switched(m[1], new) + code[end:], code[:start] + new + code[end:]
    if STATEMENT.fullmatch(code) and not code.startswith(("return", "break", "continue", "delete", "throw")):
        yield f"{indent}if (::sluice::awake_mutant != @) {code}", f"(left out) {code}"


def all_faults(layers):
    """(layer, file, number of the line, line with a switch, how it reads), in the order of the tree."""
    found = []
    for layer in layers:
        for path in sorted((ROOT / "src" / layer).rglob("*.cc")):
            if path.name.endswith(("_test.cc", "_testing.cc")):
                continue
            lines = path.read_text().split("\n")
            for number, line in enumerate(lines):
                options = list(mutations(line, lines[number - 1] if number else ""))
                if options:
                    found.append((layer, str(path.relative_to(ROOT)), number, options))
    return found


def draw(layers, count, seed):
    """So many faults of different lines, all layers alike."""
    chosen = random.Random(seed)
    by_layer, lines, drawn = collections.defaultdict(list), set(), []
    for layer, file, number, options in all_faults(layers):
        by_layer[layer] += [(file, number, option) for option in options]
    for faults in by_layer.values():
        chosen.shuffle(faults)
    while len(drawn) < count and any(by_layer.values()):
        layer = layers[len(drawn) % len(layers)]
        file, number, (planted, after) = by_layer[layer].pop()
        if (file, number) in lines:
            continue
        lines.add((file, number))
        before = (ROOT / file).read_text().split("\n")[number].strip()
        drawn.append({"seed": seed, "number": len(drawn) + 1, "layer": layer, "file": file, "line": number + 1,
                      "before": before, "after": after, "planted": planted})
    return drawn


# --- building ---------------------------------------------------------------------------------------------------------


def plant(faults):
    by_file = collections.defaultdict(list)
    for fault in faults:
        by_file[fault["file"]].append(fault)
    for file, of_file in by_file.items():
        lines = (ROOT / file).read_text().split("\n")
        for fault in of_file:
            lines[fault["line"] - 1] = fault["planted"].replace("@", str(fault["number"]))
        text = '#include "base/mutant_switch.h"\n#line 1\n' + "\n".join(lines)
        if (COPY / file).read_text() != text:
            (COPY / file).write_text(text)
    (COPY / SWITCH).write_text(SWITCH_TEXT)


def build(faults, targets, builder, jobs):
    """Those that compile; the others get their result."""
    mutants.make_copy()
    builder.run(["cmake", "-S", ".", "--preset", "release", "-DSLUICE_CUDA=OFF", *builder.arguments])
    while True:
        plant(faults)
        command = ["ninja", "-C", "build", "-k", "0", "-j", str(jobs), *targets]
        done = subprocess.run(command, cwd=COPY, env=builder.environment, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode == 0:
            return faults
        wrong = {(m[1], int(m[2])) for m in re.finditer(r"(src/[\w/]+\.cc):(\d+):\d+: error", done.stdout)}
        # The compiler names files by the way that groups include them.
        wrong |= {("src/" + m[1], int(m[2])) for m in
                  re.finditer(r"^(?:\.\./src/)?(\w+/[\w/]+\.cc):(\d+):\d+: error", done.stdout, re.MULTILINE)}
        bad = [fault for fault in faults if (fault["file"], fault["line"]) in wrong]
        if not bad:
            sys.exit("the planted tree does not build:\n" + done.stdout[-4000:])
        for fault in bad:
            record(fault, "does not compile")
        faults = [fault for fault in faults if fault not in bad]
        for file in {fault["file"] for fault in bad}:
            (COPY / file).write_text((ROOT / file).read_text())


# --- trying -----------------------------------------------------------------------------------------------------------


def first_to_go():
    """A fault that takes all memory ends itself, and nobody else."""
    pathlib.Path("/proc/self/oom_score_adj").write_text("1000")


def run_test(test, number, seconds):
    """(passed, first test that failed, seconds)."""
    environment = {"SLUICE_TEST_SEED": "1", **os.environ, "SLUICE_MUTANT": str(number), "GTEST_FAIL_FAST": "1",
                   "SLUICE_BUILD_DIR": str(COPY / "build"), "SLUICE": str(COPY / "build" / "sluice")}
    words = shlex.split(test)
    if words[0].endswith(".py"):
        command = [PYTHON, "-m", "pytest", "-x", "-q", str(COPY / words[0]), *words[1:]]
    else:
        command = [str(COPY / "build" / words[0]), *words[1:]]
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=COPY / "build", env=environment, stdin=subprocess.DEVNULL, preexec_fn=first_to_go,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    hung = False
    RUNNING.add(process.pid)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    finally:
        RUNNING.discard(process.pid)
        if process.poll() is None:  # the run was ended
            os.killpg(process.pid, signal.SIGKILL)
    took = round(time.monotonic() - start, 1)
    if process.returncode == 0:
        return True, "", took
    names = [m[1] or m[2] for line in output.splitlines() if (m := mutants.FAILED.match(line))]
    begun = [m[1] for line in output.splitlines() if (m := mutants.BEGUN.match(line))]
    end = " (hung)" if hung else f" (ended with {process.returncode})"
    return False, names[0] if names else (begun[-1] if begun else test) + end, took


def end_run(*_):
    """At SIGTERM: no test goes on, and what was about to be recorded is not."""
    RECORDING.acquire(timeout=10)
    for process in list(RUNNING):
        os.killpg(process, signal.SIGKILL)
    os._exit(1)


def usual_seconds(test, times):
    """What it takes with no fault awake, which it has to pass."""
    with TIMING:
        if test not in times:
            passed, name, times[test] = run_test(test, 0, 900)
            if not passed:
                raise SystemExit(f"{test} fails with no fault awake: {name}")
            print(f"no fault awake: {test}: {times[test]} s", flush=True)
        return times[test]


def record(fault, result, **more):
    line = {key: fault[key] for key in ("seed", "layer", "file", "line", "before", "after")} | {"result": result} | more
    with RECORDING, open(RESULTS, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{fault['file']}:{fault['line']}: {fault['after']}: {result} {more.get('by', '')}", flush=True)


def try_fault(fault, tests, times):
    """With those of the tests that it has not passed before."""
    for test in tests:
        if test in fault["passed"]:
            continue
        limit = max(LEAST_SECONDS, TIMES_AS_LONG * usual_seconds(test, times))
        passed, name, seconds = run_test(test, fault["number"], limit)
        fault["seconds"] = round(fault["seconds"] + seconds, 1)
        if not passed:
            fault["done"] = True
            return record(fault, "found", by=name, test=test, seconds=fault["seconds"])
        fault["passed"].append(test)
    fault["done"] = fault["passed"] == LAYERS[fault["layer"]]
    result = "survived" if fault["done"] else "undecided"
    return record(fault, result, passed=fault["passed"], seconds=fault["seconds"])


def try_all(faults, at_once, anew):
    """First with the quick tests of the layers, then those that are left with the slow ones of the whole system. Who is
    argued away meanwhile is left alone."""
    times = {}
    for fault in faults:
        before = {} if anew else known().get(key(fault), {})
        fault |= {"passed": before.get("passed", []), "seconds": before.get("seconds", 0.0), "done": False}
    for last in (1, None):

        def further(fault):
            tests = LAYERS[fault["layer"]][:last]
            if not fault["done"] and not set(tests) <= set(fault["passed"]) and not is_argued(fault):
                try_fault(fault, tests, times)

        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            list(pool.map(further, faults))


# --- results ----------------------------------------------------------------------------------------------------------


def key(fault):
    return fault["file"], fault["before"], fault["after"]


def known():
    """The last line of each fault."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key(r): r for r in map(json.loads, lines)}


def kept():
    return list(known().values())


def is_argued(fault):
    with RECORDING:
        return "argument" in known().get(key(fault), {})


def named_again(names):
    """Faults of the results that the tree still has: those of these places, or all that wait for a verdict."""
    options = {(file, before, after): (layer, number, planted)
               for layer, file, number, found in all_faults(LAYERS)
               for before in [(ROOT / file).read_text().split("\n")[number].strip()]
               for planted, after in found}
    again = []
    for r in kept():
        waits = r["result"] in ("survived", "undecided") and "argument" not in r
        if not (f"{r['file']}:{r['line']}" in names if names else waits):
            continue
        if key(r) not in options:
            sys.exit(f"{r['file']}:{r['line']}: the tree no longer has this line: {r['before']}")
        _, number, planted = options[key(r)]
        again.append(r | {"number": len(again) + 1, "line": number + 1, "planted": planted})
    return again


def survivors():
    left = [r for r in kept() if r["result"] == "survived" and "argument" not in r]
    for r in left:
        print(f"{r['file']}:{r['line']}: {r['before']}\n    {r['after']}")
    return 1 if left else 0


def summary():
    counts = collections.defaultdict(collections.Counter)
    for r in kept():
        kind = "argued away" if "argument" in r else r["result"]
        if r["result"] == "found":
            kind = "found by its layer" if r["test"].split()[0] == r["layer"] + "_test" else "found by others"
        counts[r["layer"]][kind] += 1
    for layer, of_layer in sorted(counts.items()):
        print(f"{layer}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(of_layer.items())))
    return 0


def main():
    global PYTHON
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, metavar="N")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the compiler")
    parser.add_argument("--at-once", type=int, default=1, help="faults that are tried side by side")
    parser.add_argument("--again", nargs="*", metavar="FILE:LINE")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    if given.survivors or given.summary:
        return survivors() if given.survivors else summary()
    layers = given.layers.split(",")
    if (not given.random and given.again is None) or not set(layers) <= set(LAYERS):
        parser.error(f"expected --random N or --again, and layers of {', '.join(LAYERS)}")
    PYTHON = given.python
    signal.signal(signal.SIGTERM, end_run)
    if given.again is not None:
        left = named_again(given.again)
        print(f"{len(left)} faults are to be tried again", flush=True)
    else:
        seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 31)
        faults = draw(layers, given.random, seed)
        final = {name for name, r in known().items() if r["result"] != "undecided"}
        left = [fault for fault in faults if key(fault) not in final]
        print(f"seed {seed}: {len(left)} of {len(faults)} faults are to be tried", flush=True)
    mutants.PLACE, mutants.COPY = PLACE, COPY
    tests = list(dict.fromkeys(test for layer in layers for test in LAYERS[layer]))
    programs = [pathlib.Path(test.split()[0]).name for test in tests]
    targets = ["sluice"] + [name for name in programs if not name.endswith(".py")]
    left = build(left, targets, mutants.Builder(given.python, given.jobs), given.jobs)
    try_all(left, given.at_once, given.again is not None)
    return summary()


PYTHON = sys.executable
TIMING, RECORDING, RUNNING = threading.Lock(), threading.RLock(), set()
if __name__ == "__main__":
    sys.exit(main())
