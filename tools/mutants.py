#!/usr/bin/env python3
"""mutants.py: plants the faults of tests/mutants one at a time in a copy of the tree; a test has to notice each.

    tools/mutants.py [NAME...]            all of them, or some
    tools/mutants.py --sample N [--seed S]  some at random, of those that this machine can try without a sanitizer
    tools/mutants.py --check              only sees that every file is complete and still fits the tree

A fault is a file NAME.patch: lines "key: value", an empty line, and a unified diff that `git apply` takes too.
  layer  the folder of src/ that it is in
  fault  what goes wrong
  user   what a user would see
  test   the command, in the build folder, that has to fail: a test program of it, or ctest
  build  what to build for that; by itself the program
  isa    an instruction set that it needs; skipped elsewhere
  lane   asan or tsan: the build in which the test notices it
Hunks are found by their lines, which must occur exactly once in their file; line numbers count for nothing.

The copy and its build are build-mutants/tree, the tests' output build-mutants/logs, the results
build-mutants/mutants.json. Seeds of tests are fixed, so that the answer is the same each time; SLUICE_TEST_SEED chooses
others. Exit code 1: a fault survived, or could not be planted, built or tried.
"""

import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import mutants_report

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "tests" / "mutants"
PLACE = ROOT / "build-mutants"
COPY = PLACE / "tree"
RESULTS = PLACE / "mutants.json"
LEAST_MUTANTS = 40
TEST_SECONDS = 300  # a test that runs longer hangs
REQUIRED, OPTIONAL = ("layer", "fault", "user", "test"), ("build", "isa", "lane")
CPU_FLAGS = {"avx2": {"avx2", "fma", "f16c"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}


class BadMutant(Exception):
    pass


@dataclasses.dataclass
class Hunk:
    old: list[str]
    new: list[str]


@dataclasses.dataclass
class Mutant:
    name: str
    fields: dict[str, str]
    hunks: dict[str, list[Hunk]]  # by file
    digest: str

    @property
    def command(self):
        return shlex.split(self.fields["test"])

    @property
    def targets(self):
        return self.fields["build"].split() if "build" in self.fields else [pathlib.Path(self.command[0]).name]

    @property
    def lane(self):
        return self.fields.get("lane", "release")

    @property
    def build(self):
        return COPY / ("build" if self.lane == "release" else "build-" + self.lane)

    def missing_isa(self):
        isa = self.fields.get("isa")
        return isa if isa and not CPU_FLAGS[isa] <= cpu_flags() else None


# --- reading ----------------------------------------------------------------------------------------------------------


def parse(name, text):
    head, blank, diff = text.partition("\n\n")
    if not blank:
        raise BadMutant("expected an empty line between the fields and the diff")
    fields = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or not value.strip() or key in fields or key not in REQUIRED + OPTIONAL:
            raise BadMutant(f"expected one each of {', '.join(REQUIRED + OPTIONAL)} as 'key: value', found '{line}'")
        fields[key] = value
    if missing := [key for key in REQUIRED if key not in fields]:
        raise BadMutant(f"{', '.join(missing)}: expected, and not there")
    if not (ROOT / "src" / fields["layer"]).is_dir():
        raise BadMutant(f"layer: expected a folder of src/, found '{fields['layer']}'")
    if fields.get("isa", "avx2") not in CPU_FLAGS or fields.get("lane", "asan") not in ("asan", "tsan"):
        raise BadMutant(f"isa, lane: expected one of {', '.join(CPU_FLAGS)}, and asan or tsan")
    if fields["test"].split()[0] == "ctest" and "build" not in fields:
        raise BadMutant("build: expected the targets that ctest needs")
    return Mutant(name, fields, parse_diff(diff), hashlib.sha256(text.encode()).hexdigest())


def parse_diff(diff):
    files, hunks = {}, None
    for line in diff.splitlines():
        if line.startswith("--- "):
            hunks = None
        elif line.startswith("+++ b/"):
            hunks = files.setdefault(line.removeprefix("+++ b/").strip(), [])
        elif line.startswith("@@ ") and hunks is not None:
            hunks.append(Hunk([], []))
        elif hunks and line[:1] in (" ", "-", "+", ""):
            if line[:1] != "+":
                hunks[-1].old.append(line[1:])
            if line[:1] != "-":
                hunks[-1].new.append(line[1:])
        else:
            raise BadMutant(f"expected a unified diff of files that stay, found '{line}'")
    if not files or any(hunk.old == hunk.new for hunks in files.values() for hunk in hunks):
        raise BadMutant("expected a unified diff that changes something")
    return files


def load(names):
    """The mutants called so, or all, by name; and what is wrong with the rest."""
    mutants, wrong = {}, {}
    paths = [MUTANTS / (name + ".patch") for name in names] or sorted(MUTANTS.glob("*.patch"))
    for path in paths:
        try:
            mutants[path.stem] = parse(path.stem, path.read_text())
        except FileNotFoundError:
            wrong[path.stem] = f"there is no {path.relative_to(ROOT)}"
        except BadMutant as error:
            wrong[path.stem] = str(error)
    return mutants, wrong


# --- planting ---------------------------------------------------------------------------------------------------------


def changed_text(text, hunks, file):
    lines = text.split("\n")
    for hunk in hunks:
        size = len(hunk.old)
        places = [i for i in range(len(lines) - size + 1) if lines[i : i + size] == hunk.old]
        if len(places) != 1:
            shown = next((line for line in hunk.old if line.strip()), "")
            raise BadMutant(f"{file} has the lines of a hunk {len(places)} times, expected once: '{shown.strip()}'...")
        lines[places[0] : places[0] + size] = hunk.new
    return "\n".join(lines)


def changes(mutant, tree):
    """File -> what it becomes."""
    result = {}
    for file, hunks in mutant.hunks.items():
        try:
            result[tree / file] = changed_text((tree / file).read_text(), hunks, file)
        except FileNotFoundError:
            raise BadMutant(f"there is no {file}") from None
    return result


def check():
    mutants, wrong = load([])
    for mutant in mutants.values():
        try:
            changes(mutant, ROOT)
        except BadMutant as error:
            wrong[mutant.name] = str(error)
    for name, why in sorted(wrong.items()):
        print(f"tests/mutants/{name}.patch: {why}", file=sys.stderr)
    count = len(mutants) + len(wrong)
    if count < LEAST_MUTANTS:
        print(f"tests/mutants: {count} mutants, expected at least {LEAST_MUTANTS}", file=sys.stderr)
    return 1 if wrong or count < LEAST_MUTANTS else 0


# --- the copy and its builds ------------------------------------------------------------------------------------------


def make_copy():
    """build-mutants/tree is this tree as it lies here; files that are the same keep their time, so they stay built."""
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(git + ["--exclude-standard", "--deduplicate"], check=True, capture_output=True, text=True)
    wanted = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        source, target = ROOT / name, COPY / name
        if not target.is_file() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for folder, folders, files in os.walk(COPY):
        if pathlib.Path(folder) == COPY:
            folders[:] = [name for name in folders if name != "build" and not name.startswith("build-")]
        for file in files:
            path = pathlib.Path(folder) / file
            if str(path.relative_to(COPY)) not in wanted:
                path.unlink()


class Builder:
    def __init__(self, python, jobs):
        self.jobs = jobs
        self.environment = dict(os.environ)
        # The objects of the tree's own build serve the copy, whose paths are other ones.
        self.environment.setdefault("CCACHE_BASEDIR", str(ROOT))
        self.environment.setdefault("CCACHE_NOHASHDIR", "1")
        self.arguments = ["-DSLUICE_TESTS=ON", f"-DSLUICE_TEST_PYTHON={python}"]
        self.configured = set()

    def run(self, command):
        done = subprocess.run(command, cwd=COPY, env=self.environment, stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            raise BadMutant(f"{shlex.join(command[:4])} ...: exit code {done.returncode}\n{done.stdout[-3000:]}")

    def build(self, mutant):
        """Seconds that it took."""
        start = time.monotonic()
        if mutant.lane not in self.configured:
            self.run(["cmake", "-S", ".", "--preset", mutant.lane, *self.arguments])
            self.configured.add(mutant.lane)
        self.run(["ninja", "-C", mutant.build.name, "--quiet", "-j", str(self.jobs), *mutant.targets])
        return time.monotonic() - start


# --- trying -----------------------------------------------------------------------------------------------------------

FAILED = re.compile(r"^\[  FAILED  \] (\w+(?:/\w+)*\.\w+(?:/[\w.]+)*)|^FAILED (\S+::\S+)")
BEGUN = re.compile(r"^\[ RUN      \] (\S+)")
NOTHING_RUN = re.compile(r"^\[==========\] Running 0 tests|^No tests were found")


@dataclasses.dataclass
class Trial:
    passed: bool
    hung: bool
    empty: bool  # no test has this name
    tests: list[str]
    seconds: float  # until the first test had failed, or all had passed


def try_test(mutant, log):
    environment = {"SLUICE_TEST_SEED": "1", **os.environ, "GTEST_FAIL_FAST": "1", "PYTEST_ADDOPTS": "-x",
                   "CTEST_OUTPUT_ON_FAILURE": "1", "TSAN_OPTIONS": "halt_on_error=1"}
    command = mutant.command
    if command[0] != "ctest":
        command[0] = "./" + command[0]
    log.parent.mkdir(parents=True, exist_ok=True)
    start, hung = time.monotonic(), threading.Event()
    tests, running, first, empty = [], None, None, False
    with open(log, "w", encoding="utf-8") as output, subprocess.Popen(
        command, cwd=mutant.build, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as process:

        def give_up():
            hung.set()
            os.killpg(process.pid, signal.SIGKILL)

        watch = threading.Timer(TEST_SECONDS, give_up)
        watch.start()
        try:
            for line in process.stdout:
                output.write(line)
                empty = empty or NOTHING_RUN.match(line) is not None
                if begun := BEGUN.match(line):
                    running = begun[1]
                if failed := FAILED.match(line):
                    name = failed[1] or failed[2]
                    first = first or time.monotonic() - start
                    if name not in tests:
                        tests.append(name)
            code = process.wait()
        finally:
            watch.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if code != 0 and not tests:
        end = "hung" if hung.is_set() else "ended" if code > 0 else f"killed by signal {-code}"
        tests = [f"{running} ({end})" if running else f"{mutant.fields['test']} ({end})"]
    return Trial(code == 0, hung.is_set(), empty, tests, first or time.monotonic() - start)


def try_mutant(mutant, builder):
    """A record for mutants.json."""
    record = {"patch": mutant.digest, "date": datetime.date.today().isoformat(), **mutant.fields}
    try:
        planted = changes(mutant, COPY)
        before = {path: path.read_text() for path in planted}
        try:
            for path, text in planted.items():
                path.write_text(text)
            record["build_seconds"] = round(builder.build(mutant), 1)
            trial = try_test(mutant, PLACE / "logs" / (mutant.name + ".log"))
        finally:
            for path, text in before.items():
                path.write_text(text)
    except BadMutant as error:
        return record | {"result": "broken", "why": str(error)}
    result = "survived" if trial.passed else "hung" if trial.hung else "found"
    return record | {"result": result, "tests": trial.tests, "seconds": round(trial.seconds, 1)}


def try_unchanged(mutants, builder):
    """Every test command passes on the tree as it is; else that a test fails would say nothing. What does not pass."""
    wrong, tried = {}, {}
    for mutant in mutants:
        key = (mutant.lane, mutant.fields["test"])
        if key not in tried:
            builder.build(mutant)
            number = len(tried)
            trial = try_test(mutant, PLACE / "logs" / f"unchanged-{number}.log")
            if trial.empty:
                tried[key] = f"there is no test {mutant.fields['test']}"
            elif not trial.passed:
                failed = ", ".join(trial.tests)
                tried[key] = f"the test fails on the unchanged tree: {failed} (logs/unchanged-{number}.log)"
            else:
                tried[key] = None
            say(f"unchanged: {mutant.fields['test']}: {tried[key] or 'passes'}, {trial.seconds:.1f} s")
        if tried[key]:
            wrong[mutant.name] = tried[key]
    return wrong


def say(text):
    print(text, flush=True)


def cpu_flags():
    try:
        found = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return set(found[1].split()) if found else set()


def describe(record):
    if record["result"] in ("broken", "skipped"):
        return f"{record['result']}: {record['why']}"
    if record["result"] == "survived":
        return f"SURVIVED {record['test']} ({record['seconds']} s)"
    return f"{record['result']}: {record['tests'][0]}, {record['seconds']} s (built in {record['build_seconds']} s)"


def run(mutants, builder):
    records = {}
    mutants = sorted(mutants, key=lambda m: (m.lane, m.targets, m.name))  # one program after the other: fewer links
    for mutant in mutants:
        if isa := mutant.missing_isa():
            why = f"this machine has no {isa}"
            records[mutant.name] = {"patch": mutant.digest, **mutant.fields, "result": "skipped", "why": why}
            say(f"{mutant.name}: skipped: {why}")
    tried = [mutant for mutant in mutants if mutant.name not in records]
    say("Copying and building the tree as it is")
    make_copy()
    wrong = try_unchanged(tried, builder)
    for number, mutant in enumerate(tried, 1):
        if mutant.name in wrong:
            record = {"patch": mutant.digest, **mutant.fields, "result": "broken", "why": wrong[mutant.name]}
        else:
            record = try_mutant(mutant, builder)
        records[mutant.name] = record
        say(f"[{number}/{len(tried)}] {mutant.name}: {describe(record)}")
        keep(records)
    keep(records)
    return records


# --- results ----------------------------------------------------------------------------------------------------------


def kept():
    try:
        return json.loads(RESULTS.read_text())["mutants"]
    except (FileNotFoundError, ValueError, KeyError):
        return {}


def keep(records):
    """Beside those of runs before."""
    content = {"machine": f"{cpu_model()}, {os.cpu_count()} cores", "mutants": dict(sorted((kept() | records).items()))}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


def cpu_model():
    try:
        found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def main():
    parser = argparse.ArgumentParser(prog="mutants", description="Plants faults one at a time: a test must find each.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file of tests/mutants without .patch; none: all")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn at random")
    parser.add_argument("--seed", type=int, help="of the sample; printed")
    parser.add_argument("--check", action="store_true", help="only see that every mutant fits the tree")
    parser.add_argument("--python", default="python3", help="of the tests, with tests/requirements.txt")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.check:
        return check()
    mutants, wrong = load(args.names)
    for name, why in wrong.items():
        print(f"{name}: {why}", file=sys.stderr)
    if wrong:
        return 1
    chosen = list(mutants.values())
    if args.sample is not None:
        seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
        possible = [mutant for mutant in chosen if not mutant.missing_isa() and mutant.lane == "release"]
        chosen = random.Random(seed).sample(possible, min(args.sample, len(possible)))
        say(f"a sample of {len(chosen)}: --sample {args.sample} --seed {seed}: {' '.join(m.name for m in chosen)}")
    try:
        records = run(chosen, Builder(args.python, args.jobs))
    except BadMutant as error:
        print(f"the tree as it is: {error}", file=sys.stderr)
        return 1
    say("")
    for line in mutants_report.table(records) + [""] + mutants_report.summary(records):
        say(line)
    return 1 if any(record["result"] in ("survived", "broken") for record in records.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
