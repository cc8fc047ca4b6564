"""The program `sluice`: every command on the embedded model and on small random ones, and every exit code."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import urllib.request
import xml.etree.ElementTree

import gguf
import numpy
import pytest
import safetensors.numpy
import tokenizers

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
SLUICE = BUILD / "sluice"
MODEL = ROOT / "models" / "sluice-tiny-v4"
TINY = json.loads((MODEL / "config.json").read_text())
QUESTION = "What is 17 + 25?"


def sluice(*arguments, code=0, text=None, **options):
    """Runs the program; checks its exit code; returns the finished process."""
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


# --- usage ------------------------------------------------------------------------------------------------------------


def test_help_and_version():
    commands = ["serve", "run", "chat", "logits", "eval", "bench", "inspect", "kernels", "synth"]
    text = sluice("--help").stdout
    assert "Exit codes: 0 success" in text
    for command in commands:
        assert command in text
        assert "Exit codes" in sluice(command, "--help").stdout
    for command in ["serve", "run", "chat", "logits", "eval", "inspect"]:
        text = sluice(command, "--help").stdout
        for flag in ["--isa", "--profile", "--compute-dtype", "--kv-cache-dtype", "--index-cache-dtype",
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


def test_wrong_usage():
    fails(says="subcommand")
    fails("frobnicate", says="frobnicate")
    fails("run", says="--prompt")
    fails("run", "-p", "x", "--frobnicate", says="--frobnicate")
    fails("run", "-p", "x", "--profile", "fancy", says="fancy")
    fails("run", "-p", "x", "--threads", "many", says="many")
    fails("run", "-p", "x", "--kv-cache-memory", "3 potatoes", says="--kv-cache-memory")
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
    fails("run", tmp_path / "nowhere", "-p", "x", says=["nowhere", "no such folder"])
    fails("run", MODEL / "config.json", "-p", "x", says="expected a folder")
    fails("run", tmp_path, "-p", "x", says="config.json")
    shutil.copy(MODEL / "config.json", tmp_path)
    fails("logits", tmp_path, "--ids", "1", "--out", tmp_path / "x", says="safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}')
    fails("inspect", tmp_path, says="vocab_size")


def test_kernels():
    lines = sluice("kernels").stdout.splitlines()
    assert lines[0].startswith("machine  ") and lines[1].startswith("chosen   ")
    isas = [isa.strip() for isa in lines[0].removeprefix("machine  ").split(",")]
    assert isas[-1] == "scalar" and lines[1].split()[1] == isas[0]
    assert any(line.startswith("linear ") for line in lines)
    assert "forced" in sluice("kernels", "--isa", "scalar").stdout
    fails("kernels", "--isa", "mmx", says=["mmx", "scalar"])
    for isa in {"avx2", "avx512"} - set(isas):
        fails("kernels", "--isa", isa, says="this machine lacks it")


# --- text -------------------------------------------------------------------------------------------------------------


def test_run(tmp_path):
    done = sluice("run", "-p", QUESTION, cwd=tmp_path)
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
    done = sluice("chat", "--log-level", "error", text=script)
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
    every = logits(tmp_path, "--ids", ",".join(map(str, ids)))
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


# --- random checkpoints -----------------------------------------------------------------------------------------------

SMALL = TINY | {"vocab_size": 300, "hidden_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4, "o_groups": 2,
                "q_lora_rank": 96, "o_lora_rank": 64, "index_n_heads": 2, "n_routed_experts": 5, "index_topk": 8,
                "num_experts_per_tok": 3, "moe_intermediate_size": 96, "num_hash_layers": 1, "head_dim": 128,
                "compress_ratios": [0, 4, 128, 4, 0]}
GEOMETRIES = {
    "fp8 and fp4": SMALL,
    "f32 scales": SMALL | {"quantization_config": SMALL["quantization_config"] | {"scale_fmt": ""},
                           "expert_dtype": "fp8"},
    "not quantised": {k: v for k, v in SMALL.items() if k != "quantization_config"} | {"num_nextn_predict_layers": 0,
                      "compress_ratios": [0, 4, 128, 4]},
}


def cut(name, **changes):
    """An official config with fewer layers and smaller ones."""
    config = json.loads((ROOT / "tests" / "configs" / f"{name}.json").read_text())
    return config | {"vocab_size": 300, "num_hidden_layers": 3, "hidden_size": 160, "intermediate_size": 200,
                     "moe_intermediate_size": 96, "num_attention_heads": 4, "first_k_dense_replace": 1,
                     "bos_token_id": 0, "eos_token_id": 1} | changes


# Widths that are no multiple of 128, so that the last blocks of FP8 are parts.
GEOMETRIES |= {
    "v2-lite": cut("v2-lite", n_routed_experts=8, num_experts_per_tok=3),
    "v2": cut("v2", n_routed_experts=16, q_lora_rank=72),
    "v3 with MTP": cut("v3", n_routed_experts=16, n_group=4, topk_group=2, num_experts_per_tok=4, q_lora_rank=200,
                       kv_lora_rank=192),
    "v3.2": cut("v3.2", n_routed_experts=16, n_group=4, topk_group=2, num_experts_per_tok=4, q_lora_rank=200,
                index_n_heads=4, index_topk=40),
}
# Its own routing: 384 experts in one group, 64 heads.
KIMI_K2 = cut("kimi-k2", num_hidden_layers=4, hidden_size=256, moe_intermediate_size=64, num_attention_heads=64,
              q_lora_rank=96, kv_lora_rank=64)


@pytest.mark.parametrize("geometry", ["v2-lite", "v3 with MTP", "kimi-k2"])
def test_expanded_prefill_of_any_width(tmp_path, geometry):
    config, model = tmp_path / "geometry.json", tmp_path / "model"
    odd = {"qk_nope_head_dim": 20, "qk_rope_head_dim": 6, "v_head_dim": 23}
    config.write_text(json.dumps((GEOMETRIES | {"kimi-k2": KIMI_K2})[geometry] | odd))
    sluice("synth", config, model)
    some = [model, "--ids", "5 77 200 9 " * 80, "--positions", "0 127 128 200 319", "--profile", "plain",
            "--max-num-batched-tokens", "160"]
    absorbed = logits(tmp_path, *some)["logits"]
    expanded = logits(tmp_path, *some, "--mla-prefill", "expanded", "--attn-prefill-chunk-size", "50")["logits"]
    assert (expanded != absorbed).any() and numpy.abs(expanded - absorbed).max() < 1e-3


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_synth(tmp_path, geometry):
    config, model = tmp_path / "geometry.json", tmp_path / "model"
    config.write_text(json.dumps(GEOMETRIES[geometry]))
    assert "seed 7" in sluice("synth", config, model, "--seed", "7", "--shard-size", "1MB").stdout
    assert json.loads((model / "config.json").read_text()) == GEOMETRIES[geometry]
    assert len(list(model.glob("*.safetensors"))) > 1

    # Its tensors are those that the config alone promises, and the loader takes them all.
    def table(path):
        lines = sluice("inspect", path, "--tensors", "--kv-cache-memory", "64MiB").stdout.splitlines()
        return sorted(line.split(maxsplit=3) for line in lines if line.startswith("  ") and line.endswith("]"))
    assert table(model) == table(config)

    ids = ",".join(str(i * 7 % 300) for i in range(150))
    for profile in ("plain", "default"):
        done = sluice("logits", model, "--ids", ids, "--profile", profile, "--greedy", "20", "--out", tmp_path / "l")
        assert "warning" not in done.stderr
        result = safetensors.numpy.load_file(tmp_path / "l")
        assert numpy.isfinite(result["logits"]).all()
        assert 0.05 < result["logits"].std() < 20
        assert len(set(result["logits"].argmax(axis=1).tolist())) > 10  # not the same answer to everything

    again = tmp_path / "again"
    sluice("synth", model, again, "--seed", "7", "--shard-size", "1MB")
    for file in model.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes()
    other = tmp_path / "other"
    sluice("synth", model, other, "--seed", "8", "--shard-size", "1MB")
    assert any((other / f.name).read_bytes() != f.read_bytes() for f in model.glob("*.safetensors"))


@pytest.mark.parametrize("geometry", ["f32 scales", "v2", "v3 with MTP", "v3.2", "kimi-k2"])
def test_synth_store_f32(tmp_path, geometry):
    """The same values as float32: the same `plain` logits, bit by bit (each weight meets its scale before the dot)."""
    config = tmp_path / "geometry.json"
    config.write_text(json.dumps(KIMI_K2 if geometry == "kimi-k2" else GEOMETRIES[geometry]))
    ids = ",".join(str(i * 7 % 300) for i in range(100))
    found = []
    for store in ("official", "f32"):
        sluice("synth", config, tmp_path / store, "--seed", "5", "--store", store)
        sluice("logits", tmp_path / store, "--ids", ids, "--profile", "plain", "--out", tmp_path / "l")
        found.append(safetensors.numpy.load_file(tmp_path / "l")["logits"])
    assert (found[0].view(numpy.int32) == found[1].view(numpy.int32)).all()
    dtypes = {t["dtype"] for t in header(tmp_path / "f32" / "model.safetensors").values()}
    assert dtypes <= {"F32", "I64"}
    fails("synth", config, tmp_path / "x", "--store", "f16", says="--store")


def test_synth_magnitudes(tmp_path):
    """Weights have a standard deviation of about 1 / sqrt(row length), whatever they are stored in."""
    sluice("synth", MODEL, tmp_path / "model", "--tokenizer", MODEL)
    assert (tmp_path / "model" / "tokenizer.json").read_bytes() == (MODEL / "tokenizer.json").read_bytes()
    tensors = raw_tensors(tmp_path / "model" / "model.safetensors")
    e2m1 = numpy.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
    packed, scales = (tensors[f"layers.0.ffn.experts.3.w1.{part}"] for part in ("weight", "scale"))
    values = e2m1[numpy.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)]
    values *= numpy.repeat(2.0 ** (scales.astype(int) - 127), 32, axis=1)
    assert 0.5 < values.std() * values.shape[1] ** 0.5 < 2 and abs(values.mean()) < 0.01
    ids = tensors["layers.0.ffn.gate.tid2eid"]
    assert ids.min() == 0 and ids.max() == TINY["n_routed_experts"] - 1
    assert all(len(set(row)) == TINY["num_experts_per_tok"] for row in ids.tolist())
    assert "\n" in sluice("run", tmp_path / "model", "-p", "Hello", "--max-tokens", "5").stdout
    fails("synth", MODEL, tmp_path / "model", says="weights")
    fails("synth", tmp_path / "none.json", tmp_path / "x", says="none.json")
    fails("synth", MODEL, tmp_path / "x", "--tokenizer", tmp_path, says="tokenizer.json")


@pytest.mark.parametrize("tokenizer", [False, True])
def test_synth_gguf(tmp_path, tokenizer):
    """One file, its matrices in Q4_0, that the `gguf` package reads and the engine runs."""
    config, model = tmp_path / "geometry.json", tmp_path / "model.gguf"
    geometry = GEOMETRIES["v2"] | {"vocab_size": 5000, "bos_token_id": 0, "eos_token_id": 1}
    if "rope_scaling" in geometry:
        geometry["rope_scaling"] = geometry["rope_scaling"] | {"mscale": 0.7, "mscale_all_dim": 0.7}
    config.write_text(json.dumps(geometry))
    options = ["--tokenizer", MODEL] if tokenizer else []
    sluice("synth", config, model, "--gguf", "q4_0", "--seed", "3", *options)
    tensors = {t.name: t for t in gguf.GGUFReader(model).tensors}
    for name, tensor in tensors.items():
        matrix = len(tensor.shape) > 1 and not name.endswith("gate_inp.weight") and tensor.shape[0] % 32 == 0
        assert tensor.tensor_type.name == ("Q4_0" if matrix else "F32"), name
    assert list(tensors["blk.1.ffn_up_exps.weight"].shape) == [geometry["hidden_size"], geometry["moe_intermediate_size"],
                                                               geometry["n_routed_experts"]]
    up = tensors["token_embd.weight"]
    values = gguf.quants.dequantize(up.data, up.tensor_type)
    assert 0.6 < values.std() * values.shape[1] ** 0.5 < 1.5 and abs(values.mean()) < 0.01
    sluice("logits", model, "--ids", "5 77 200 9 " * 8, "--out", tmp_path / "l")
    found = safetensors.numpy.load_file(tmp_path / "l")["logits"]
    assert numpy.isfinite(found).all() and 0.05 < found.std() < 20
    text = sluice("run", model, "--raw", "-p", "hello", "--max-tokens", "3").stdout
    assert text
    fails("synth", config, model, "--gguf", "q4_0", says="new file")
    fails("synth", config, tmp_path / "x.gguf", "--gguf", "q4_0", "--store", "f32", says="--store")
    fails("synth", MODEL, tmp_path / "x.gguf", "--gguf", "q4_0", says="DeepSeek-V2")


def header(path):
    data = path.read_bytes()
    entries = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return {name: entry for name, entry in entries.items() if name != "__metadata__"}


def raw_tensors(path):
    """A safetensors file with every byte-sized dtype as uint8."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    types = {"F32": numpy.float32, "I64": numpy.int64, "BF16": numpy.uint16}
    return {name: numpy.frombuffer(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]],
                                   types.get(t["dtype"], numpy.uint8)).reshape(t["shape"])
            for name, t in json.loads(data[8:8 + length]).items() if name != "__metadata__"}


# --- inspect ----------------------------------------------------------------------------------------------------------


def test_inspect():
    text = sluice("inspect", "--kv-cache-memory", "256MiB").stdout
    for words in ["DeepseekV4ForCausalLM", "1322 tensors, 22952988 bytes", "default int8 kv=fp8 index=fp4", "layers.8 ",
                  "mtp.0 ", "256.00 MiB", "a token costs"]:
        assert words in text, words
    # 4 CSA streams of a 200-byte row for 4 tokens, 4 of the indexer's 68 bytes, 3 HCA streams at 1:128.
    assert "a token costs %.2f bytes" % (4 * 200 / 4 + 4 * 68 / 4 + 3 * 200 / 128) in text
    wide = sluice("inspect", "--kv-cache-dtype", "f32", "--index-cache-dtype", "bf16").stdout
    assert "a token costs %.2f bytes" % (4 * 512 / 4 + 4 * 256 / 4 + 3 * 512 / 128) in wide
    line = next(line for line in sluice("inspect", "--tensors").stdout.splitlines() if ".experts.0.w1.weight" in line)
    assert line.split() == ["layers.0.ffn.experts.0.w1.weight", "I8", "16384", "[128,", "128]"]
    flash = sluice("inspect", ROOT / "tests" / "configs" / "v4-flash.json").stdout
    assert "43 + 1 for multi-token prediction" in flash and "ffn" not in flash
    table = [line.split() for line in flash.splitlines()]
    assert ["fp8", "fp8", "3850.25", "7642112"] in table and ["bf16", "bf16", "6880.00", "12485632"] in table
    v3 = sluice("inspect", ROOT / "tests" / "configs" / "v3.json").stdout
    assert "671026419200 parameters, 37552297472 active" in v3 and "bf16       -                70272.00  0" in v3
    fails("inspect", ROOT / "tests" / "configs" / "v3.json", "--index-cache-dtype", "fp4", says="--index-cache-dtype")
    fails("inspect", ROOT / "nothing.json", says="nothing.json")


# --- bench ------------------------------------------------------------------------------------------------------------

SMALL_BENCH = ["--rounds", 1, "--probe-size", "1MB", "--threads", 2, "--kv-cache-memory", "64MB"]


def test_bench(tmp_path):
    out = tmp_path / "bench.json"
    done = sluice("bench", "--prefill", "16,32", "--decode", 2, "--depth", "0,256", "--concurrency", "1,3",
                  "--concurrent-prompt", 8, "--concurrent-tokens", 4, *SMALL_BENCH, "--json", out)
    report = json.loads(out.read_text())
    shapes = [(r["test"], r["depth"], r["tokens"], r["concurrency"]) for r in report["rows"]]
    assert shapes == [("prefill", 0, 16, 1), ("prefill", 0, 32, 1), ("prefill", 256, 16, 1), ("prefill", 256, 32, 1),
                      ("decode", 0, 2, 1), ("decode", 256, 2, 1), ("concurrent", 0, 4, 3)]
    for row in report["rows"]:
        assert row["state"] == ("synthetic" if row["depth"] else "none")
        assert row["tokens_per_second"] > 0 and row["floor_tokens_per_second"] > 0
        assert row["percent_of_floor"] > 0 and len(row["runs"]) == row["rounds"] == 1
        assert 0 < row["cache_bytes_per_token"] < row["bytes_per_token"] <= row["used_bytes_per_token"] * 1.5
    decode, deep, together = (row["bytes_per_token"] for row in report["rows"][4:])
    weights = sum(file.stat().st_size for file in MODEL.glob("*.safetensors"))
    assert together < decode < deep < weights, "rows share weights, and one token uses a part of the experts"
    assert report["model"] == "sluice-tiny-v4" and report["machine"]["cores"] >= 1
    assert report["flags"]["threads"] == 2 and report["commit"] and report["probe"]["read_gbytes"] > 0
    assert "a synthetic state" in done.stdout and "concurrent" in done.stdout
    assert xml.etree.ElementTree.parse(out.with_suffix(".svg")).getroot().tag.endswith("svg")
    probe = json.loads(sluice("bench", "--probe-only", "--probe-size", "1MB").stdout)
    assert probe.keys() == {"read_gbytes", "f32_gflops", "bf16_gflops", "int8_gops"}


def test_bad_bench(tmp_path):
    fails("bench", "--prefill", "512,many", says="many")
    fails("bench", "--prefill", "0", "--decode", "0", says="nothing to measure")
    fails("bench", "--depth", "-1", says=["--depth", "-1"])
    fails("bench", "--concurrency", "0", says=["--concurrency", "found 0"])
    fails("bench", "--rounds", "0", says="--rounds")
    fails("bench", "--json", tmp_path / "no" / "where.json", says="--json")
    fails("bench", tmp_path / "nothing", says="nothing")
    longest = TINY["max_position_embeddings"]
    fails("bench", "--depth", longest, *SMALL_BENCH, says=["tokens of one sequence", str(longest)])
    fails("bench", "--prefill", "0", "--depth", "20000", *SMALL_BENCH[:-1], "8MB", code=3, says="--kv-cache-memory")


# --- simulate ---------------------------------------------------------------------------------------------------------


def simulate(tmp_path, *arguments, **options):
    out = tmp_path / "out"
    done = sluice("simulate", *arguments, "--out", out, "--kv-cache-memory", "2GB", **options)
    return json.loads((out / "summary.json").read_text()), done.stdout, out


def test_simulate(tmp_path):
    flags = ("--requests", 300, "--cost", "step=0.01,row=1e-4", "--policies", "fair,fcfs,decode-first")
    summary, text, out = simulate(tmp_path, *flags)
    assert [run["policy"] for run in summary["runs"]] == ["fair", "fcfs", "decode-first"]
    for run in summary["runs"]:
        assert run["requests"] == 300 and run["refused"] == 0
        assert 0 < run["ttft"]["p50"] <= run["ttft"]["p99"] <= run["ttft"]["max"]
    assert summary["runs"][1]["seconds"] == summary["runs"][2]["seconds"]
    for name in ("latency.svg", "load.svg", "summary.svg"):
        assert xml.etree.ElementTree.parse(out / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    again, _, _ = simulate(tmp_path, *flags)
    assert again == summary
    assert "300 requests" in text


def test_simulate_a_trace_and_a_calibrated_cost(tmp_path):
    trace = tmp_path / "trace.jsonl"  # so far apart that the slowest machine has ended one before the next
    lines = [{"timestamp": 1_000_000 * i, "input_length": 1000, "output_length": 5, "hash_ids": [7, i]} for i in range(3)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary, text, _ = simulate(tmp_path, "--trace", trace)
    run = summary["runs"][0]
    assert run["requests"] == 3
    # The second request wants to resume behind the common block, which is kept from then on; the third does.
    assert run["hit_rate"] == pytest.approx(512 / 3000)
    assert "cost of a step: " in text
    assert run["ttft"]["max"] > 0


def test_bad_simulate(tmp_path):
    config = ROOT / "tests" / "configs" / "v4-flash.json"
    fails("simulate", says="--out")
    fails("simulate", config, "--out", tmp_path, says="a config.json has no weights")
    fails("simulate", "--cost", "stp=1", "--out", tmp_path, says="found 'stp=1'")
    cost = ("--cost", "step=1", "--out", tmp_path)
    fails("simulate", *cost, "--without-retention", "nothing", says="there is no rule 'nothing'")
    fails("simulate", *cost, "--trace", tmp_path / "none.jsonl", says="none.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n{"timestamp": 1}\n')
    fails("simulate", *cost, "--trace", tmp_path / "bad.jsonl", says="bad.jsonl line 2: key 'input_length'")
    fails("simulate", *cost, "--requests", 0, says="--requests: expected 1 to")
    fails("simulate", *cost, "--kv-cache-memory", 1000, says="--kv-cache-memory")
    fails("simulate", "--cost", "step=1", "--out", tmp_path / "bad.jsonl", says="cannot be made")


# --- eval -------------------------------------------------------------------------------------------------------------

HASHES = 'the number after the last "####" equals expected_answer'
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city.",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def item(name, question, check, mode="chat", **keys):
    return {"id": name, "mode": mode, "messages": [{"role": "user", "content": question}], "check": check} | keys


def evaluate(tmp_path, items, *flags, **options):
    (tmp_path / "task.jsonl").write_text("".join(json.dumps(i) + "\n" for i in items))
    return sluice("eval", "--task", tmp_path / "task.jsonl", "--json", tmp_path / "out.json", *flags, **options)


def test_eval(tmp_path):
    age = "Tom is 28 years old. Wendy is 3 years younger than Tom. What is the total of their ages?"
    sort = "Sort these words alphabetically: spoon, daisy, robot, queen, sheep, piano, stone"
    tokyo, rome = ([{"name": "get_weather", "arguments": {"city": city}}] for city in ("Tokyo", "Rome"))
    as_text = [{"name": "get_weather", "arguments": json.dumps({"city": "Tokyo"})}]
    equals, occurs = "content equals expected_answer", "expected_answer occurs in the answer (after </think>)"
    ask, same_calls = "What is the weather in Tokyo?", "tool name and arguments are equal"
    right = [item("sum", age, HASHES, expected_answer="53.0"),
             item("sort", sort, equals, expected_answer="daisy, piano, queen, robot, sheep, spoon, stone"),
             item("think", age, occurs, mode="thinking", expected_answer="53"),
             item("tool", ask, same_calls, tools=TOOLS, expected_tool_calls=tokyo),
             item("text", ask, same_calls, tools=TOOLS, expected_tool_calls=as_text)]
    wrong = [item("sum", age, HASHES, expected_answer="5"),
             item("sort", sort, equals, expected_answer="daisy, piano, queen, robot, sheep, spoon"),
             item("think", age, occurs, mode="thinking", expected_answer="28 - 3"),  # it is in the reasoning
             item("tool", ask, same_calls, tools=TOOLS, expected_tool_calls=rome),
             item("more", ask, same_calls, tools=TOOLS, expected_tool_calls=tokyo * 2)]
    items = [i for pair in zip(right, wrong) for i in pair]
    done = evaluate(tmp_path, items)
    assert done.stdout.split()[-4:] == ["task", "10", "5", "50.00"]
    results = json.loads((tmp_path / "out.json").read_text())
    assert (results["n"], results["correct"]) == (10, 5)
    assert [i["id"] for i in results["items"]] == [i["id"] for i in items]
    assert [i["correct"] for i in results["items"]] == [True, False] * 5
    assert results["items"][0]["output_ids"] == results["items"][1]["output_ids"] != []
    evaluate(tmp_path, items, "--concurrency", "3", "--threads", "1")
    assert json.loads((tmp_path / "out.json").read_text()) == results  # the same tokens, whatever runs beside
    evaluate(tmp_path, items, "--limit", "3")
    limited = json.loads((tmp_path / "out.json").read_text())
    assert limited == {"n": 3, "correct": 2, "items": results["items"][:3]}
    evaluate(tmp_path, items[:1], "--max-tokens", "2")
    assert len(json.loads((tmp_path / "out.json").read_text())["items"][0]["output_ids"]) == 2


@pytest.mark.parametrize("broken, says", [
    ({"check": "looks right"}, ["looks right", "content equals expected_answer", "line 2"]),
    ({"mode": "loud"}, ["mode", "loud"]),
    ({"messages": "hi"}, ["messages"]),
    ({"expected_answer": None}, ["expected_answer"]),
    ({"id": 7}, ["id"]),
])
def test_bad_task(tmp_path, broken, says):
    good = item("a", "Hi", HASHES, expected_answer="1")
    done = evaluate(tmp_path, [good, good | broken], code=2)
    for words in says:
        assert words in done.stderr


def test_bad_eval(tmp_path):
    task = tmp_path / "task.jsonl"
    fails("eval", says="--task")
    fails("eval", "--task", tmp_path / "none", says="none")
    task.write_text("\n")
    fails("eval", "--task", task, says="at least one item")
    task.write_text("{")
    fails("eval", "--task", task, says="line 1")
    task.write_text(json.dumps(item("a", "Hi", HASHES, expected_answer="1")))
    fails("eval", "--task", task, "--concurrency", "0", says="--concurrency")
    fails("eval", "--task", task, "--limit", "-1", says="--limit")


def test_perplexity(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("What is 17 + 25? The sum of seventeen and twenty-five is forty-two. " * 16)
    out = tmp_path / "out.json"
    done = sluice("eval", "--perplexity", text, "--window", "64", "--json", out, "--profile", "plain")
    found = json.loads(out.read_text())
    assert found["window"] == 64 and found["windows"] >= 3
    assert found["scored"] == found["windows"] * 31
    assert found["perplexity"] == pytest.approx(numpy.exp(found["nll"]))
    assert f"over {found['windows']} windows" in done.stdout
    sluice("eval", "--perplexity", text, "--window", "64", "--json", out, "--max-num-batched-tokens", "7",
           "--profile", "plain")
    assert json.loads(out.read_text()) == found  # chunks change nothing
    # One window, by its logits.
    ids = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json")).encode(text.read_text(),
                                                                              add_special_tokens=False).ids
    assert len(ids) // 64 == found["windows"]
    nll = []
    for window in range(found["windows"]):
        piece = ids[64 * window:64 * window + 64]
        values = logits(tmp_path, "--ids", " ".join(map(str, piece)), "--profile", "plain")["logits"].astype("float64")
        for t in range(33, 64):
            row = values[t - 1]
            nll.append(numpy.log(numpy.exp(row - row.max()).sum()) + row.max() - row[piece[t]])
    assert found["nll"] == pytest.approx(numpy.mean(nll), rel=1e-9)


def test_bad_perplexity(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Too short.")
    fails("eval", "--perplexity", text, says="at least one window of 512 tokens")
    fails("eval", "--perplexity", text, "--window", "2", says="--window")
    fails("eval", "--perplexity", tmp_path / "none", says="none")


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
