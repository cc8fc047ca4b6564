"""What README.md says to type: every command of its sh blocks, by bash, as it stands there, and the answers it shows.

The working folder has the project's `run` and, in `build`, the program that is tested; nothing is built, installed or
configured again, as the ninja, cmake and ctest in PATH only write down how they were called. Two things are put in:
a free port, and a folder with a checkpoint. A command that no check here knows fails."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from server_process import BUILD, ROOT, Server, fetch
from smollm2_file import smollm2_path

TINY = "sluice-tiny-v4"
PLACEHOLDER = "/path/to/a/checkpoint"
PORT = "8000"


class Command(NamedTuple):
    text: str
    comment: str  # behind it in the README; of `sluice run` with a known model it is the answer


def readme_commands():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```(\S*)\n(.*?)^```$", text, re.M | re.S)
    assert all(language == "sh" for language, _ in blocks), "what are the other blocks of README.md?"
    lines = [line for _, block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    parts = [re.fullmatch(r"""((?:'[^']*'|"[^"]*"|[^'"#])+?)\s*(?:# *(.*))?""", line) for line in lines]
    assert all(parts), f"README.md: not understood: {[line for line, part in zip(lines, parts) if not part]}"
    return [Command(part[1], part[2] or "") for part in parts]


COMMANDS = readme_commands()


class Shell:
    def __init__(self, folder):
        self.folder, self.calls = folder / "sluice", folder / "calls"
        (self.folder / "build").mkdir(parents=True)
        (self.folder / "run").symlink_to(ROOT / "run")
        for name in ("sluice", "build.ninja"):
            (self.folder / "build" / name).symlink_to(BUILD / name)
        for name in ("ninja", "cmake", "ctest"):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/bash\necho {name} "$@" >> {self.calls}\n')
            program.chmod(0o755)
        # The Python of the tests has pip; that of the system may have none.
        path = f"{folder / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "SLUICE_NO_INSTALL": "1",
                                         "XDG_CACHE_HOME": str(BUILD / "test-data" / "known-models")}

    def taken_calls(self):
        """How the stand-ins were called since the last time; the working folder is a dot."""
        text = self.calls.read_text() if self.calls.exists() else ""
        self.calls.unlink(missing_ok=True)
        return text.replace(str(self.folder), ".").splitlines()

    def run(self, command, text=None):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, input=text,
                              capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def serve(self, command):
        assert f"--port PORT [{PORT}]" in self.run("build/sluice serve --help")
        words = ["bash", "-c", f"exec {command} --port 0"]
        with Server(command=words, cwd=self.folder, env=self.environment) as server:
            calls = self.taken_calls()
            if command.startswith("./run"):
                assert len(calls) == 1 and re.fullmatch(r"ninja -C \./build .* sluice", calls[0])
            else:
                assert calls == []
            yield server


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return Shell(tmp_path_factory.mktemp("readme"))


@pytest.fixture(scope="module")
def served(shell):
    """The README's first server, which its curl asks."""
    with shell.serve("./run serve") as server:
        yield server


def models(server):
    return [model["id"] for model in fetch(server.url + "/v1/models").json()["data"]]


# --- a check for each command -----------------------------------------------------------------------------------------


def check_run_serve(command, shell, served):
    url, millions = re.fullmatch(r"(http://\S+) with the embedded (\d+)M-parameter model", command.comment).groups()
    assert url == re.sub(r"\d+$", PORT, served.url)
    assert models(served) == [TINY]
    card = (ROOT / "models" / TINY / "MODEL_CARD.md").read_text()  # the layer for multi-token prediction counts
    assert round(float(re.search(r"A ([\d.]+)M-parameter", card)[1])) == int(millions)


def check_run_test(command, shell, served):
    shell.run(command.text)
    configure, build, test = shell.taken_calls()
    assert configure.startswith("cmake -S . --preset release -DSLUICE_TESTS=ON")
    assert re.fullmatch(r"ninja -C \./build .* all", build)
    assert test.startswith("ctest --test-dir ./build ") and " -L " not in test


def check_curl(command, shell, served):
    address = f"http://127.0.0.1:{PORT}"
    assert address in command.text
    answer = json.loads(shell.run(command.text.replace(address, served.url)))
    assert answer["model"] == TINY and re.search(r"\b42\b", answer["choices"][0]["message"]["content"])


def check_run(command, shell, served):
    assert command.comment and shell.run(command.text).startswith(command.comment)


def check_chat(command, shell, served):
    alone = shell.run("build/sluice run -p 'What is 17 + 25?'")
    assert shell.run(command.text, text="What is 17 + 25?\nWhat is 30 + 4?\n").startswith(alone)


def check_serve_checkpoint(command, shell, served):
    with shell.serve(command.text.replace(PLACEHOLDER, str(ROOT / "models" / TINY))) as server:
        assert models(server) == [TINY]


def check_verify(command, shell, served):
    checkpoint = BUILD / "test-data" / "oracles" / "llama-like"
    said = shell.run(command.text.replace(PLACEHOLDER, str(checkpoint)))
    assert "100 schedules" in said and "no difference" in said


def check_help(command, shell, served):
    subcommands = re.findall(r"^  (\w+) ", shell.run(command.text).split("Subcommands:")[1], re.M)
    named = [words[0] for other in COMMANDS if (words := re.findall(r"^build/sluice (\w+)", other.text))]
    for name in [*named, *re.split(", *", command.comment)]:
        assert name in subcommands


def check_serve_smollm2(command, shell, served):
    smollm2_path()  # whatever time that takes
    with shell.serve(command.text) as server:
        assert models(server) == ["smollm2"]


def check_run_smollm2(command, shell, served):
    smollm2_path()
    assert shell.run(command.text) == command.comment + "\n"


CHECKS = {
    r"\./run serve": check_run_serve,
    r"\./run test": check_run_test,
    r"curl -s http://127\.0\.0\.1:\d+/v1/chat/completions .*17 \+ 25.*": check_curl,
    r"build/sluice run -p 'What is 17 \+ 25\?'": check_run,
    r"build/sluice chat": check_chat,
    rf"build/sluice serve {PLACEHOLDER}": check_serve_checkpoint,
    rf"build/sluice verify {PLACEHOLDER}": check_verify,
    r"build/sluice --help": check_help,
    r"\./run serve smollm2": check_serve_smollm2,
    r"build/sluice run smollm2 -p '[^']*'": check_run_smollm2,
}


@pytest.mark.parametrize("command", COMMANDS, ids=[command.text for command in COMMANDS])
def test_command(command, shell, served):
    checks = [check for pattern, check in CHECKS.items() if re.fullmatch(pattern, command.text)]
    assert len(checks) == 1, f"README.md says `{command.text}`, which no check here knows"
    checks[0](command, shell, served)


@pytest.mark.parametrize("pattern", CHECKS)
def test_every_check_has_its_command(pattern):
    assert [command for command in COMMANDS if re.fullmatch(pattern, command.text)]
