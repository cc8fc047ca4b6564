"""The program `sluice` and the embedded model, for the tests of its commands."""

import json
import os
import pathlib
import subprocess

import safetensors.numpy

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
SLUICE = BUILD / "sluice"
MODEL = ROOT / "models" / "sluice-tiny-v4"
TINY = json.loads((MODEL / "config.json").read_text())
QUESTION = "What is 17 + 25?"
# True in the lanes: a call for each kind of file or flag finds there what all combinations would.
SANITIZED = bool(os.environ.get("SLUICE_SANITIZE"))


def few(cases, under_sanitizers):
    """All cases, or in the lanes of the sanitizers so many of them, the first."""
    return list(cases)[:under_sanitizers] if SANITIZED else list(cases)


# A start that measures no speeds: with the embedded model that takes ten times as long as what most tests ask for.
QUICK_START = ["--threads", "2", "--no-speculative-adaptive"]


def sluice(*arguments, code=0, text=None, measured=False, **options):
    """Runs the program; checks its exit code; returns the finished process. `measured`: with all that a start measures."""
    of_model = arguments and arguments[0] in ("run", "chat", "logits", "eval")
    if of_model and not measured and not {"--threads", "--speculative"} & set(arguments):
        arguments = [arguments[0], *QUICK_START, *arguments[1:]]
    done = subprocess.run([str(a) for a in (SLUICE, *arguments)], input=text, capture_output=True, text=True,
                          timeout=120, **options)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def fails(*arguments, says, code=2, **options):
    """Expects an error: its exit code, nothing on stdout, and a message with the given words."""
    done = sluice(*arguments, code=code, **options)
    assert done.stdout == ""
    for words in [says] if isinstance(says, str) else says:
        assert words in done.stderr, done.stderr
    return done


def logits(tmp_path, *arguments, **options):
    out = tmp_path / "logits.safetensors"
    sluice("logits", *arguments, "--out", out, **options)
    return safetensors.numpy.load_file(out)
