#!/usr/bin/env python3
"""Keeps the sentence "Used by ..." at the end of the head comment of each header and source in src.

    tools/callers.py [--fix]

A reader of one file shall know who calls it. The callers of a header are the files that include it, tests left out: up
to four by name, more by folder. The callers of an op (src/kernels/ops) are the files that call it by name. Those of a
source are its header's. The tool prints each file whose sentence is missing or wrong, and exits 1 if there is any;
--fix writes the sentences.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

TEST = re.compile(r"(_test|_testing)\.|/tests/|^tests/")
MOST_NAMED, MOST_FOLDERS, COLUMNS = 4, 5, 120
OP = re.compile(r"^void \w+\(const Exec& \w+, const \w+Args& ", re.MULTILINE)
OP_CALLERS = ("src/model/", "src/kernels/composed/", "src/engine/", "src/bench/", "bench/")
OPENING = re.compile(r"(?:^//|(?<=[.])) (?:Used by|Called through the table of ops)\b")


def joined(names):
    """A, B and C."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def place_of(path):
    """A path as the sentences name it: below src, but for src/bench, as there is a folder bench, too."""
    return path if path.startswith("src/bench/") else path.removeprefix("src/")


def folders_of(paths, depth):
    """The folders that files lie in, down to a depth: serve/api, engine."""
    return sorted({"/".join(place_of(path).split("/")[:-1][:depth + path.startswith("src/bench/")]) for path in paths})


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
        names = sorted(os.path.basename(path) if os.path.dirname(path) == here else place_of(path)
                       for path in others)
        return f"Used by {joined(names)}."
    for depth in (3, 2, 1):
        folders = folders_of(others, depth)
        if len(folders) <= MOST_FOLDERS:
            return f"Used by {joined(folders)}."
    return f"Used by many folders, among them {joined(folders[:3])}."


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
    """The file's text with the sentence as the last of its head comment."""
    lines = text.split("\n")
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    head = lines[:end]
    for number, line in enumerate(head):
        if found := OPENING.search(line):  # in the middle of a line where clang-format moved words
            head = head[:number] + ([line[:found.start()]] if line[:found.start()].strip("/ ") else [])
            break
    head += lines_of(sentence) if sentence else []
    return "\n".join(head + lines[end:])


class Tree:
    """The sources, and who includes what."""

    def __init__(self):
        files = subprocess.check_output(["git", "ls-files", "src", "cli", "bench", "include"], text=True).split()
        self.texts = {}
        for path in files:
            if re.search(r"\.(h|cc|cu)$", path) and not TEST.search(path):
                with open(path, encoding="utf-8") as file:
                    self.texts[path] = file.read()
        self.includers = collections.defaultdict(set)
        for path in self.texts:
            for header in self.included_by(path):
                self.includers[header].add(path)

    def included_by(self, path):
        """The headers of the tree that a file includes, in their order."""
        names = re.findall(r'^#include "([^"]+)"', self.texts[path], re.MULTILINE)
        found = [[root + name for root in ("src/", "cli/", "", os.path.dirname(path) + "/") if root + name in self.texts]
                 for name in names]
        return [paths[0] for paths in found if paths]

    def users_of(self, header):
        """The files that include it; for an op those that call it."""
        if not header.startswith("src/kernels/ops/") or header.endswith("/ops.h"):
            return self.includers[header]
        names = re.findall(r"^void (\w+)\(const Exec", self.texts[header], re.MULTILINE)
        if not names:
            return self.includers[header]
        call = re.compile(r"(?<![\w:.>&])(?:sluice::)?(?:" + "|".join(names) + r")\((?!const Exec)")
        callers = {path for path, text in self.texts.items()
                   if path.endswith((".cc", ".cu")) and path.startswith(OP_CALLERS) and call.search(text)}
        return callers or self.includers[header]

    def header_of(self, source):
        """The header that declares what a source defines; None: it has none."""
        own = os.path.splitext(source)[0].removesuffix(".isa") + ".h"
        if own in self.texts:
            return own
        first = (self.included_by(source) or [""])[0]
        return first if os.path.dirname(first) == os.path.dirname(source) and first.endswith(".h") else None

    def sentence_of(self, path):
        """The sentence that a file has to have; None: none."""
        if path.endswith(".h"):
            return sentence_of(path, sorted(self.users_of(path)))
        if (header := self.header_of(path)) is not None:
            users = sorted(self.users_of(header) - {path})
            return sentence_of(path, users)
        if path.startswith("src/kernels/") and OP.search(self.texts[path]):
            return "Called through the table of ops (kernels/ops/ops.h)."
        return None


def main():
    """Compares the sentences with the tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    tree, wrong = Tree(), 0
    for path, text in tree.texts.items():
        if not path.startswith("src/"):
            continue
        sentence = tree.sentence_of(path)
        expected = with_sentence(text, sentence)
        if expected == text:
            continue
        wrong += 1
        if options.fix:
            with open(path, "w", encoding="utf-8") as file:
                file.write(expected)
        else:
            print(f"{path}: expected the head comment to end with '{sentence}'; tools/callers.py --fix writes it")
    return 1 if wrong and not options.fix else 0


if __name__ == "__main__":
    sys.exit(main())
