#!/usr/bin/env python3
"""Keeps the sentence "Used by ..." in the head comment of each header in src, so that a reader knows its callers.

    tools/callers.py [--fix]

The callers are the files that include the header, tests left out: up to three by name, more by folder. The tool prints
each header whose sentence is missing or wrong, and exits 1 if there is any; --fix writes the sentences.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

TEST = re.compile(r"(_test|_testing)\.|/tests/|^tests/")
MOST_NAMED, MOST_FOLDERS, COLUMNS = 4, 5, 120


def joined(names):
    """A, B and C."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def folders_of(paths, depth):
    """The folders that files lie in, down to a depth: serve/api, engine."""
    return sorted({"/".join(path.removeprefix("src/").split("/")[:-1][:depth]) for path in paths})


def sentence_of(header, includers):
    """Who uses it, in one sentence; None if only tests do."""
    if not includers:
        return None
    own = header.removesuffix(".h")
    others = [path for path in includers if os.path.splitext(path)[0] != own]
    if not others:
        return None  # its own source alone: the header declares what the linker or a table finds
    if len(others) <= MOST_NAMED:
        here = os.path.dirname(header)
        names = sorted(os.path.basename(path) if os.path.dirname(path) == here else path.removeprefix("src/")
                       for path in others)
        return f"Used by {joined(names)}."
    for depth in (3, 2, 1):
        folders = folders_of(others, depth)
        if len(folders) <= MOST_FOLDERS:
            return f"Used by {joined(folders)}."
    return f"Used by {len(folders)} folders, among them {joined(folders_of(others, 1)[:MOST_FOLDERS])}."


def lines_of(sentence):
    """The sentence as lines of a comment."""
    lines, line = [], "//"
    for word in sentence.split():
        if len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = "//"
        line += " " + word
    return [*lines, line]


def with_sentence(text, sentence):
    """The header's text with the sentence as the last of its head comment."""
    lines = text.split("\n")
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    head = lines[:end]
    start = next((i for i, line in enumerate(head) if line.startswith("// Used by ")),
                 len(head))
    head = head[:start] + (lines_of(sentence) if sentence else [])
    return "\n".join(head + lines[end:])


def main():
    """Reads the includes of the tree and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = subprocess.check_output(["git", "ls-files", "src", "cli", "bench", "include"], text=True).split()
    files = [path for path in files if re.search(r"\.(h|cc|cu)$", path) and not TEST.search(path)]
    includers = collections.defaultdict(set)
    for path in files:
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r'^#include "([^"]+)"', file.read(), re.MULTILINE):
                for root in ("src/", "cli/", "", os.path.dirname(path) + "/"):
                    includers[root + name].add(path)
    wrong = 0
    for header in files:
        if not header.endswith(".h") or not header.startswith("src/"):
            continue
        with open(header, encoding="utf-8") as file:
            text = file.read()
        sentence = sentence_of(header, sorted(includers[header]))
        expected = with_sentence(text, sentence)
        if expected == text:
            continue
        wrong += 1
        if options.fix:
            with open(header, "w", encoding="utf-8") as file:
                file.write(expected)
        else:
            print(f"{header}: expected the head comment to end with '{sentence}'; tools/callers.py --fix writes it")
    return 1 if wrong and not options.fix else 0


if __name__ == "__main__":
    sys.exit(main())
