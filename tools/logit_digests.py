#!/usr/bin/env python3
"""Digests of logits, to see that a change moves no bit: models x instruction sets x profiles, each in steps of several
sizes (by the row law all sizes give the same digest; one that does not is reported).

  tools/logit_digests.py build/sluice --models FOLDER... --json before.json
  tools/logit_digests.py build/sluice --models FOLDER... --compare before.json
"""
import argparse
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

PROFILES = {
    "default": [],
    "amx": ["--profile", "amx"],
    "plain": ["--profile", "plain"],
    "ref": ["--profile", "ref"],
    "bf16": ["--compute-dtype", "bf16", "--kv-cache-dtype", "bf16"],
}


def token_ids(model, count):
    vocab = json.loads((model / "config.json").read_text())["vocab_size"]
    draw = random.Random(vocab * 1000 + count)
    return ",".join(str(draw.randrange(vocab)) for _ in range(count))


def digest(program, model, isa, flags, rows, count, out):
    command = [program, "logits", str(model), "--ids", token_ids(model, count), "--isa", isa, "--out", str(out),
               "--max-num-batched-tokens", str(rows), "--log-level", "error", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return "refused: " + done.stderr.strip().splitlines()[-1]
    return hashlib.sha256(out.read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--models", nargs="+", type=pathlib.Path, required=True)
    parser.add_argument("--isa", nargs="+", default=["scalar", "avx2", "avx512", "avx512vbmi"])
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--rows", nargs="+", type=int, default=[512, 37])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    given = parser.parse_args()
    found, bad = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for model in given.models:
            for isa in given.isa:
                for profile, flags in PROFILES.items():
                    name = f"{model.name} {isa} {profile}"
                    of_rows = {digest(given.program, model, isa, flags, rows, given.tokens, pathlib.Path(folder) / "x")
                               for rows in given.rows}
                    if len(of_rows) > 1:
                        bad += 1
                        print(f"{name}: differs by the rows of a step", file=sys.stderr)
                    found[name] = sorted(of_rows)[0]
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    computed = sum(not d.startswith("refused") for d in found.values())
    if given.compare:
        before = json.loads(given.compare.read_text())
        different = [name for name in found if found[name] != before.get(name)]
        for name in different:
            print(f"{name}: was {before.get(name)}, is {found[name]}", file=sys.stderr)
        print(f"{len(found) - len(different)} of {len(found)} as before ({computed} digests, the others refused)")
        bad += len(different)
    else:
        print(f"{computed} digests, {len(found) - computed} refused")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
