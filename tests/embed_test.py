"""The installed library from outside: examples/embed.cc finds it by find_package(sluice), is built and answers as the
program does; the reference of the headers has every function."""

import re
import subprocess
import sys

import pytest

from program import BUILD, MODEL, ROOT, logits

PROMPT = [0, 31, 7, 200]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def embed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    run("cmake", "--install", BUILD, "--component", "development", "--prefix", folder / "prefix")
    run("cmake", "-G", "Ninja", "-S", ROOT / "examples", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")
    run("cmake", "--build", folder / "build")
    return folder / "build" / "embed"


def test_it_answers_as_the_program_does(embed, tmp_path):
    ids = [int(line) for line in run(embed, MODEL, *PROMPT).split()]
    greedy = logits(tmp_path, "--ids", ",".join(map(str, PROMPT)), "--greedy", "16")["greedy"].tolist()
    assert ids and ids == greedy[:len(ids)]  # the program's go on behind an end token


def test_what_is_wrong_is_told(embed):
    for words, says in (((MODEL,), "expected a model's folder"), ((ROOT / "nowhere", 1), "nowhere"), ((MODEL, 99999), "99999")):
        done = subprocess.run([embed, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 1 and says in done.stderr, done


def test_another_version_is_not_found(embed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\nfind_package(sluice 0.2 REQUIRED)\n")
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={embed.parent.parent / 'prefix'}"],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "considered but not accepted" in done.stderr, done.stderr


def test_the_reference_has_every_function():
    page = run(sys.executable, ROOT / "tools" / "api_reference.py")
    engine = (ROOT / "include" / "sluice" / "engine.h").read_text()
    for name in re.findall(r"^  virtual .*?(\w+)\(", engine, re.M):
        assert f"{name}(" in page, name
    for header in (ROOT / "include" / "sluice").glob("*.h"):
        assert f"## {header.name}" in page
