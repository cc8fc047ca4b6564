#!/usr/bin/env python3
"""tidy_inputs.py BUILD_DIR: for each source that BUILD_DIR compiles a line "KEY FILE". The key is a hash of what could change
what clang-tidy says of it, found without a preprocessor: its commands, every file of the tree that it could include, whatever
conditions stand around the include, the installed packages and .clang-tidy. So a key that has passed needs no further look
(tools/tidy.sh), and one that has not says nothing yet."""

import collections
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|\w+\(([^)\n]+)\))', re.M)


@functools.cache
def read(path):
    """Its hash, and what it includes: in quotes or brackets, or as the argument of a macro that makes the name."""
    if path.name == "sluice_version.h":  # two strings, of which one is the commit: what writes them counts
        path = ROOT / "cmake" / "version.cmake"
    data = path.read_bytes()
    names = [(plain or bracket, made) for plain, bracket, made in INCLUDE.findall(data)]
    return hashlib.sha256(data).hexdigest(), [(a.decode(), b.decode()) for a, b in names]


def in_tree(path):
    return path.is_relative_to(ROOT) or path.is_relative_to(BUILD)


@functools.cache
def candidates(folder, search, name, made):
    """The files of the tree that an include in `folder` may mean."""
    if made:  # an instruction set's: one of those that have the name
        return tuple(sorted(folder.rglob(made)))
    for place in (folder, *search):
        path = pathlib.Path(os.path.normpath(place / name))
        if path.is_file():
            return (path,) if in_tree(path) else ()
    return ()


def closure(source, search):
    found, todo = {source}, [source]
    while todo:
        at = todo.pop()
        for name, made in read(at)[1]:
            new = set(candidates(at.parent, search, name, made)) - found
            found |= new
            todo += new
    return sorted(found)


def installed():
    """What stands for all headers outside the tree, but for those of a folder that a command names."""
    status = pathlib.Path("/var/lib/dpkg/status")
    return hashlib.sha256(status.read_bytes()).hexdigest() if status.is_file() else None


def inputs_of(source, command, folder):
    words = shlex.split(command)
    named = [word[2:] or following for word, following in zip(words, words[1:] + [""]) if word.startswith("-I")]
    named += [following for word, following in zip(words, words[1:]) if word == "-isystem"]
    search = tuple(folder / name for name in named)
    outside = [f"{place} {place.stat().st_mtime_ns}" for place in search if place.is_dir() and not in_tree(place)]
    return [command, *outside, *(f"{path} {read(path)[0]}" for path in closure(source, search))]


def main():
    packages = installed()
    if packages is None:
        return  # nothing is known without a look
    inputs = collections.defaultdict(lambda: [packages, read(ROOT / ".clang-tidy")[0]])
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if entry["file"].endswith(".cc"):  # an instruction set's has a command for each that it is compiled for
            inputs[entry["file"]] += inputs_of(pathlib.Path(entry["file"]), entry["command"], pathlib.Path(entry["directory"]))
    for source, lines in inputs.items():
        print(hashlib.sha256("\n".join(lines).replace(str(ROOT), "").encode()).hexdigest(), source)


main()
