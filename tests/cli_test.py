"""The program `sluice`: usage, text, logits and inspection on the embedded model, and every exit code.

`synth` is in synth_test.py; `bench`, `simulate` and `eval` are in printed_reports_test.py.
"""

import json
import re
import shutil
import signal
import subprocess
import urllib.request

import numpy
import pytest

from program import BUILD, MODEL, QUESTION, ROOT, SLUICE, TINY, fails, few, logits, sluice


# --- usage ------------------------------------------------------------------------------------------------------------


def test_help_and_version():
    commands = ["serve", "run", "chat", "logits", "score", "eval", "bench", "inspect", "kernels", "synth"]
    text = sluice("--help").stdout
    assert "Exit codes: 0 success" in text
    for command in commands:
        assert command in text
        assert "Exit codes" in sluice(command, "--help").stdout
    for command in ["serve", "run", "chat", "logits", "eval", "inspect"]:
        text = sluice(command, "--help").stdout
        for flag in ["--isa", "--kernels", "--profile", "--compute-dtype", "--expert-dtype",
                     "--kv-cache-dtype", "--index-cache-dtype",
                     "--mla-prefill", "--attn-prefill-chunk-size", "--threads",
                     "--max-num-batched-tokens", "--max-num-seqs", "--max-model-len", "--kv-cache-memory",
                     "--log-level", "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-chunked-prefill",
                     "--no-enable-chunked-prefill", "--enable-mixed-prefill-decode", "--no-enable-mixed-prefill-decode",
                     "--long-prefill-token-threshold", "--scheduling-policy", "--swap-space", "--swap-dir", "--audit",
                     "--force-preempt-every"]:
            assert flag in text, (command, flag)
        assert "--inject" not in text, "a flag for tests only"
    version = sluice("--version").stdout
    assert version.startswith("sluice 0.") and "profile  default int8 kv=fp8 index=fp4" in version


def test_every_command_and_flag_is_documented():
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in re.findall(r"^  (\w+) ", sluice("--help").stdout.split("Subcommands:")[1], re.M):
        assert f"\n| `{command}" in page, command
        for flag in re.findall(r"^  (?:-\w,)?--(?:no-)?([a-z-]+)", sluice(command, "--help").stdout, re.M):
            assert re.search(rf"--(\[no-\])?{flag}\b", page), (command, flag)


def test_the_documented_defaults_are_those_of_the_program():
    page = (ROOT / "docs" / "cli.md").read_text()
    shown = {}  # by flag, in the help of any command
    for command in ["verify", "run"]:
        text = sluice(command, "--help").stdout
        shown |= dict(re.findall(r"^  (?:-\w,)?(--[a-z-]+)(?: [^\s\[]\S*)? \[([^\]]*)\]", text, re.M))
    rows = re.findall(r"^\| `(--(?:\[no-\])?[a-z-]+)[^|]*\| ([^|]*?) ?\| [^|]", page, re.M)
    compared = 0
    for flag, default in rows:
        flag = flag.replace("[no-]", "")
        if flag in shown and default != "needs" and not default.startswith("a "):
            assert default == shown[flag], flag
            compared += 1
    assert compared >= 30, (compared, shown)


def test_wrong_usage():
    fails(says="sluice: error: expected a command; see sluice --help\n")
    fails("frobnicate", says="sluice: error: 'frobnicate': no such command; see sluice --help\n")
    fails("run", says="sluice: error: --prompt is required; see sluice run --help\n")
    fails("run", "--frobnicate", says="'--frobnicate': no such flag; see sluice run --help")
    fails("run", "-p", "x", "--frobnicate", says="'--frobnicate': no such flag; see sluice run --help")
    fails("run", "a", "b", "-p", "x", says="'b': one argument too many; see sluice run --help")
    fails("run", "--prompt", says="--prompt: expected a value, found none; see sluice run --help")
    fails("bench", "serve", says="url is required; see sluice bench serve --help")
    fails("run", "-p", "x", "--profile", "fancy",
          says="--profile: expected one of default, amx, plain, ref, sm90, found 'fancy'; see sluice run --help")
    fails("run", "-p", "x", "--temperature", "warm", says="--temperature: expected a number, found 'warm'")
    fails("simulate", "--out", "x", "--acceptance", "1.5", says="--acceptance: expected 0 to 1, found 1.5")
    fails("run", "-p", "x", "--profile", "sm90", says="H100 and H200, found --device cpu")
    fails("run", "-p", "x", "--threads", "many", says="--threads: expected a whole number, found 'many'")
    fails("run", "-p", "x", "--kv-cache-memory", "3 potatoes",
          says="--kv-cache-memory: expected a size such as 512MiB or 4GB, found the unit 'potatoes'")
    fails("run", "-p", "x", "--log-level", "loud", says=["loud", "trace"])
    fails("run", "-p", "x", "--temperature", "-1", says="temperature")
    fails("run", "-p", "x", "--max-tokens", "0", says="--max-tokens")
    fails("run", "-p", "x", "--raw", "--thinking", says="--raw")
    fails("run", "-p", "x", "--threads", "-1", says="--threads")
    fails("run", "-p", "x", "--scheduling-policy", "lifo", says=["--scheduling-policy", "fair", "fcfs", "priority"])
    fails("run", "-p", "x", "--swap-space", "3 potatoes", says="--swap-space")
    fails("run", "-p", "x", "--enable-prefix-caching", "--no-enable-prefix-caching", says="--no-enable-prefix-caching")
    fails("run", "-p", "x", "--long-prefill-token-threshold", "-1", says="--long-prefill-token-threshold")
    fails("run", "-p", "x", "--force-preempt-every", "-1", says="--force-preempt-every")
    fails("run", "-p", "x", "--inject", "gremlins", says=["--inject", "gremlins"])
    fails("serve", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "64", "--max-model-len", "4096",
          says=["--max-num-batched-tokens", "64", "--max-model-len", "4096"])
    fails("serve", "--port", "65536", says="--port")
    fails("serve", "--drain-timeout", "-1", says="--drain-timeout")


def test_bad_models(tmp_path):
    fails("run", tmp_path / "nowhere", "-p", "x", says=["nowhere", "no such folder", "(known: smollm2)"])
    fails("run", MODEL / "config.json", "-p", "x", says="a JSON file, which has no weights")
    fails("run", tmp_path, "-p", "x", says="found an empty folder")
    shutil.copy(MODEL / "config.json", tmp_path)
    fails("run", tmp_path, "-p", "x", says="beside config.json, found none; without one only token ids work")
    fails("logits", tmp_path, "--ids", "1", "--out", tmp_path / "x", says=["safetensors", "--load-format dummy"])
    assert "loaded" not in fails("score", tmp_path / "none.jsonl", tmp_path / "x", says="none.jsonl: no such file").stderr
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}')
    fails("inspect", tmp_path, says="vocab_size")


def test_kernels():
    table = sluice("kernels").stdout
    lines = table.splitlines()
    assert lines[0].startswith("machine  ") and lines[1].startswith("absent   ") and lines[2].startswith("chosen   ")
    isas, features = lines[0].removeprefix("machine  ").split(":")
    isas = isas.split(", ")
    assert isas[-1] == "scalar" and lines[2].split()[1] == isas[0]
    # A target is absent if the machine lacks a feature that it is named after; no test can run its kernels here.
    for target, feature in {"avx512_amx": "amx", "avx512_bf16": "bf16_dot", "avx512vbmi": "avx512vbmi", "avx2": "avx2"}.items():
        assert (f" {target} (" not in lines[1]) == (feature in features.split()), lines[1]
    rows = [line.split() for line in lines[5:]]
    assert {"linear", "attend", "rms_norm"} <= {row[0] for row in rows}
    assert any(row[:3] == ["linear", "mxfp4", "int8"] for row in rows)
    scalar = sluice("kernels", "--isa", "scalar").stdout
    assert "forced" in scalar and "scalar_linear" in scalar
    fails("kernels", "--isa", "mmx", says=["mmx", "scalar"])
    for isa in {"avx2", "avx512", "avx512vbmi"} - set(isas):
        fails("kernels", "--isa", isa, says="this machine lacks it")
    whole_of = {isa: sluice("kernels", "--isa", isa).stdout for isa in isas}
    for feature in few(features.split(), 2):
        # If the best level has no kernels for a feature, a lower one has (AVX-VNNI against AVX-512).
        changed = 0
        for isa, whole in whole_of.items():
            without = sluice("kernels", "--isa", isa, "--kernels", f"-{feature}").stdout
            assert "forced" in without
            changed += without.splitlines()[5:] != whole.splitlines()[5:]
        assert changed, feature
    if "avx2" in features.split():
        assert sluice("kernels", "--kernels", "-avx2").stdout.splitlines()[5:] == scalar.splitlines()[5:]
    fails("kernels", "--kernels", "-mmx", says=["-mmx", "avx2", "amx"])
    fails("run", "-p", "x", "--kernels", "avx2", says="expected - or +")


# --- text -------------------------------------------------------------------------------------------------------------


def test_run(tmp_path):
    done = sluice("run", "-p", QUESTION, cwd=tmp_path, measured=True)
    assert "42" in done.stdout and done.stdout.endswith("\n") and "tokens/s" in done.stderr
    assert sluice("run", MODEL, "-p", "-", "--log-level", "error", text=QUESTION).stdout == done.stdout
    assert sluice("run", "-p", QUESTION, "--log-level", "off").stderr == ""
    thinking = sluice("run", "-p", QUESTION, "--thinking", "--log-level", "off")
    assert "42" in thinking.stdout and "17" in thinking.stderr  # the reasoning
    prompt = f"<｜begin▁of▁sentence｜><｜User｜>{QUESTION}<｜Assistant｜></think>"
    assert sluice("run", "--raw", "-p", prompt).stdout == done.stdout
    assert len(sluice("run", "-p", QUESTION, "--max-tokens", "1").stdout) < len(done.stdout)
    sampled = [sluice("run", "--raw", "-p", "In the beginning", "--temperature", "1", "--seed", seed, "--max-tokens",
                      "30").stdout for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]
    scheduled = ["--no-enable-prefix-caching", "--no-enable-mixed-prefill-decode", "--scheduling-policy", "fcfs", "--audit",
                 "--long-prefill-token-threshold", "3", "--force-preempt-every", "2", "--swap-space", "8MiB",
                 "--swap-dir", tmp_path]
    assert sluice("run", "-p", QUESTION, *scheduled).stdout == done.stdout
    assert list(tmp_path.iterdir()) == [], "nothing stays in the swap folder"
    fails("run", "--raw", "-p", "", "--log-level", "error", says="prompt")
    fails("run", "-p", "x " * 200, "--max-model-len", "64", "--log-level", "error", says="64")


def test_chat():
    first, second = QUESTION, "Add 10 to 5."
    alone = sluice("run", "-p", first).stdout
    script = f"{first}\n/reset\n{first}\n{second}\n/thinking on\n/nonsense\n/exit\nnever asked\n"
    done = sluice("chat", "--log-level", "error", text=script, measured=True)
    assert done.stdout.startswith(alone * 2)
    assert len(done.stdout) > len(alone * 2)
    assert "/nonsense: no such command" in done.stderr and "/reset" in done.stderr


# The scalar kernels are slow enough that no answer is through before the signal arrives.
@pytest.mark.parametrize("command", [["run", "--raw", "-p", "In the beginning God created the"], ["chat"]])
def test_ctrl_c_stops_an_answer(command):
    process = subprocess.Popen([SLUICE, *command, "--max-tokens", "20000", "--isa", "scalar"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if command == ["chat"]:
        process.stdin.write(b"Tell me a story.\n")
        process.stdin.flush()
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == (0 if command == ["chat"] else 130)
    assert out.endswith(b"\n")


def test_serve(tmp_path):
    process = subprocess.Popen([SLUICE, "serve", "--port", "0", "--served-model-name", "tiny"], cwd=tmp_path,
                               stderr=subprocess.PIPE, text=True)
    try:
        url = next(line.split()[-1] for line in process.stderr if line.startswith("Serving tiny on "))
        body = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}).encode()
        request = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = json.load(answer)["choices"][0]["message"]["content"]
        assert content + "\n" == sluice("run", "-p", QUESTION).stdout
        port = url.rsplit(":", 1)[1]
        fails("serve", "--port", port, "--log-level", "error", says=[port, "in use"], code=3)
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


# --- logits -----------------------------------------------------------------------------------------------------------


def test_logits(tmp_path):
    ids = [0, 5, 700, 4095, 17, 3, 3, 42] * 20
    (tmp_path / "ids.txt").write_text("\n".join(map(str, ids)))
    every = logits(tmp_path, "--ids", ",".join(map(str, ids)), measured=True)
    assert every["logits"].dtype == numpy.float32 and every["logits"].shape == (len(ids), TINY["vocab_size"])
    assert every["positions"].dtype == numpy.int64 and every["positions"].tolist() == list(range(len(ids)))
    assert "greedy" not in every and numpy.isfinite(every["logits"]).all()
    some = logits(tmp_path, MODEL, "--ids-file", tmp_path / "ids.txt", "--positions", "130,0 7",
                  "--max-num-batched-tokens", "13", "--threads", "3", "--greedy", "6")
    assert some["positions"].tolist() == [0, 7, 130]
    assert (some["logits"] == every["logits"][[0, 7, 130]]).all()  # bit by bit, in other chunks
    # The greedy tokens are what the logits of the longer text say, and end tokens do not end it.
    greedy = some["greedy"].tolist()
    assert some["greedy"].dtype == numpy.int64 and len(greedy) == 6
    longer = logits(tmp_path, "--ids", " ".join(map(str, ids + greedy)))["logits"]
    assert longer[len(ids) - 1:-1].argmax(axis=1).tolist() == greedy
    after_the_end = logits(tmp_path, "--ids", "0,1", "--greedy", "3")
    assert len(after_the_end["greedy"]) == 3
    plain = logits(tmp_path, "--ids", "0,5,700", "--profile", "plain")["logits"]
    assert (plain != every["logits"][:3]).any()


def test_expanded_prefill(tmp_path):
    latent = [BUILD / "test-data" / "oracles" / "v2-lite-like", "--ids", "5 77 300 9 " * 100, "--profile", "plain"]
    absorbed = logits(tmp_path, *latent)["logits"]
    expanded = logits(tmp_path, *latent, "--mla-prefill", "expanded")["logits"]
    chunks = [logits(tmp_path, *latent, "--mla-prefill", "expanded", "--attn-prefill-chunk-size", size,
                     "--max-num-batched-tokens", "150")["logits"] for size in ["30", "0"]]
    for other in [expanded, *chunks]:
        assert (other != absorbed).any() and numpy.abs(other - absorbed).max() < 1e-3
    assert (chunks[0] != chunks[1]).any()
    one = ["logits", *latent, "--out", tmp_path / "none"]
    fails(*one, "--attn-prefill-chunk-size", "64", says="--mla-prefill expanded")
    fails(*one, "--mla-prefill", "expanded", "--attn-prefill-chunk-size", "-1", says=["expected 0 to", "found -1"])
    fails(*one, "--mla-prefill", "unfolded", says="unfolded")
    for command in [("run", "-p", "x"), ("serve",), ("eval", "--perplexity", ROOT / "README.md"), ("inspect",)]:
        fails(*command, "--mla-prefill", "expanded", says=["--mla-prefill expanded", "no latent attention"])
    v32 = BUILD / "test-data" / "oracles" / "v32-like"
    fails("logits", v32, "--ids", "1", "--mla-prefill", "expanded", "--out", tmp_path / "none", says="indexer chooses")


def test_bad_logits(tmp_path):
    out = tmp_path / "out"
    fails("logits", "--ids", "1", says="--out")
    fails("logits", "--out", out, says=["--ids", "--ids-file"])
    fails("logits", "--ids", "1", "--ids-file", "f", "--out", out, says="--ids")
    fails("logits", "--ids", "1,two", "--out", out, says="two")
    fails("logits", "--ids", "1,-2", "--out", out, says="-2")
    fails("logits", "--ids", ", ", "--out", out, says="at least one")
    fails("logits", "--ids", "1,2", "--positions", "2", "--out", out, says=["[0, 2)", "found 2"])
    fails("logits", "--ids", "1,2", "--positions", "0,1,0", "--out", out, says="twice")
    fails("logits", "--ids", "1,4096", "--out", out, says=["4096", "[0, 4096)"])
    fails("logits", "--ids", "1,2,3", "--greedy", "-1", "--out", out, says="--greedy")
    fails("logits", "--ids", "1,2,3", "--max-model-len", "2", "--out", out, says="at most 2")
    fails("logits", "--ids", "1,2,3", "--greedy", "3", "--max-model-len", "4", "--out", out, says="at most 4")
    fails("logits", "--ids", "1", "--kv-cache-memory", "1KiB", "--out", out, says="--kv-cache-memory")
    fails("logits", "--ids", "7 " * 6000, "--kv-cache-memory", "2MB", "--out", out, "--log-level", "error", code=3,
          says=["cache pages", "more memory"])
    fails("logits", "--ids-file", tmp_path / "none", "--out", out, says="none")
    fails("logits", "--ids", "1", "--out", tmp_path / "no" / "folder", says="folder")
    assert not out.exists()


# --- inspect ----------------------------------------------------------------------------------------------------------


def test_inspect():
    text = sluice("inspect", "--kv-cache-memory", "256MiB").stdout
    for words in ["DeepseekV4ForCausalLM", "1322 tensors, 22952988 bytes", "default int8 kv=fp8 index=fp4", "layers.8 ",
                  "mtp.0 ", "256.00 MiB", "a token costs"]:
        assert words in text, words
    # 4 CSA planes of a 200-byte row for 4 tokens, 4 of the indexer's 68 bytes, 3 HCA planes at 1:128,
    # whose pages of one row are padded to 208 bytes.
    assert "a token costs %.2f bytes" % (4 * 200 / 4 + 4 * 68 / 4 + 3 * 208 / 128) in text
    wide = sluice("inspect", "--kv-cache-dtype", "f32", "--index-cache-dtype", "bf16").stdout
    assert "a token costs %.2f bytes" % (4 * 512 / 4 + 4 * 256 / 4 + 3 * 512 / 128) in wide
    line = next(line for line in sluice("inspect", "--tensors").stdout.splitlines() if ".experts.0.w1.weight" in line)
    assert line.split() == ["layers.0.ffn.experts.0.w1.weight", "I8", "16384", "[128,", "128]"]
    flash = sluice("inspect", ROOT / "tests" / "configs" / "v4-flash.json").stdout
    assert "43 + 1 for multi-token prediction" in flash and "ffn" not in flash
    table = [line.split() for line in flash.splitlines()]
    assert ["fp8", "fp8", "3851.50", "7642112"] in table and ["bf16", "bf16", "6880.00", "12485632"] in table
    v3 = sluice("inspect", ROOT / "tests" / "configs" / "v3.json").stdout
    assert "671026419200 parameters, 37552297472 active" in v3 and "bf16       -                70272.00  0" in v3
    fails("inspect", ROOT / "tests" / "configs" / "v3.json", "--index-cache-dtype", "fp4", says="--index-cache-dtype")
    fails("inspect", ROOT / "nothing.json", says="nothing.json")


# --- installation -----------------------------------------------------------------------------------------------------


def test_installed(tmp_path):
    """The embedded model is found beside the installed program; without it the error says where it was looked for."""
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path / "usr"], check=True, capture_output=True)
    program = tmp_path / "usr" / "bin" / "sluice"
    done = subprocess.run([program, "run", "-p", QUESTION], cwd="/", capture_output=True, text=True, check=True)
    assert "42" in done.stdout and str(tmp_path / "usr" / "share" / "sluice" / "models") in done.stderr
    shutil.rmtree(tmp_path / "usr" / "share")
    done = subprocess.run([program, "run", "-p", QUESTION], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and str(tmp_path / "usr" / "models" / "sluice-tiny-v4") in done.stderr
