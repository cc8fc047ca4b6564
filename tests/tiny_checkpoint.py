"""Tiny checkpoints whose weights follow from the tensors' names alone, and what `sluice logits` makes of them.

Every machine makes the same bytes, so that expected values can be stored and the weights need not be. Needs numpy only.
"""

import hashlib
import json
import os
import pathlib
import subprocess

import numpy as np

BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", pathlib.Path(__file__).parent.parent / "build"))
SLUICE = BUILD / "sluice"
VOCABULARY = 96


def some_ids(count):
    """The token ids over which logits are compared."""
    return [(7 * i * i + 3 * i + 1) % VOCABULARY for i in range(count)]


def values(name, shape):
    """The tensor of this name: float32 values that bf16 holds exactly, large enough that attention is far from
    uniform."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    out = np.random.Generator(np.random.Philox(key=seed)).standard_normal(shape, dtype=np.float32)
    if len(shape) == 1:
        out = np.float32(1) + np.float32(0.2) * out if "norm" in name else np.float32(0.3) * out
    elif "embed" not in name:
        out *= np.float32(1.6 / shape[-1] ** 0.5)
    return as_bf16(np.clip(out, -8, 8))


def as_bf16(array):
    """The same values, cut to what bf16 holds."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def encode(array, dtype):
    """The bytes of a tensor of this dtype of safetensors."""
    if dtype == "BF16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    return array.astype({"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}[dtype]).tobytes()


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(data for _, _, data in tensors.values())


def read_shapes(path):
    """The shapes in a file of safetensors, by name."""
    raw = pathlib.Path(path).read_bytes()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def write_checkpoint(folder, config, shapes, dtype="F32", data=None):
    """config.json and model.safetensors; `data` holds arrays by name that replace the values of their names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    arrays = {name: (data or {}).get(name, None) for name in shapes}
    write_safetensors(folder / "model.safetensors", {
        name: (dtype, shape, encode(values(name, shape) if arrays[name] is None else arrays[name], dtype))
        for name, shape in shapes.items()})


class Refused(Exception):
    """The program refused the model with exit code 2; the text is its message."""


def sluice_logits(program, model, ids, threads=1):
    """The rows of `sluice logits --profile plain`; raises Refused, or AssertionError for any other end."""
    out = pathlib.Path(model).parent / (pathlib.Path(model).name + ".logits")
    done = subprocess.run(
        [program, "logits", model, "--ids", ",".join(map(str, ids)), "--out", out, "--profile", "plain", "--threads",
         str(threads), "--no-speculative-adaptive", "--no-pack-cache"],
        capture_output=True, text=True, errors="replace", timeout=120)
    if done.returncode == 2:
        raise Refused(done.stderr.strip())
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr.strip()}"
    raw = out.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8:begin])["logits"]
    first, last = entry["data_offsets"]
    return np.frombuffer(raw[begin + first:begin + last], "<f4").reshape(entry["shape"])
