"""Weights of a checkpoint in forms that numpy, transformers and other tools write: the logits of the same values in the
official form, bit by bit; and the schemes that are not read, by their names."""

import json

import numpy
import pytest

from forms_test import read_safetensors, write_safetensors
from program import fails, few, logits, sluice
from synth_test import GEOMETRIES, cut

IDS = ["--ids", "5 77 200 9 " * 30, "--positions", "0 3 64 119"]
V3 = GEOMETRIES["v3 with MTP"] | {"num_nextn_predict_layers": 0}
SCALES = "weight_scale_inv"


def made(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))
    sluice("synth", tmp_path, tmp_path / "model")
    return tmp_path / "model"


def changed(folder, change, name="changed"):
    """A copy of the checkpoint whose tensors are what change(name, tensor) gives: (name, tensor) pairs."""
    out = folder.parent / name
    out.mkdir()
    (out / "config.json").write_text((folder / "config.json").read_text())
    tensors = read_safetensors(folder / "model.safetensors")
    write_safetensors(out / "model.safetensors", dict(change(n, t) for n, t in tensors.items()))
    return out


def rounded_to(dtype, data):
    """f32 scales as those of the half type nearest to them: as f32 again, and as they are stored."""
    values = numpy.frombuffer(data, numpy.float32)
    if dtype == "F16":
        half = values.astype(numpy.float16)
        return half.astype(numpy.float32).tobytes(), half.tobytes()
    bits = (values.view(numpy.uint32) + 0x8000) >> 16
    return (bits << 16).astype(numpy.uint32).tobytes(), bits.astype(numpy.uint16).tobytes()


@pytest.mark.parametrize("dtype,ending", few([("BF16", SCALES), ("F16", "weight_scale")], 1))
def test_fp8_scales_in_half_floats(tmp_path, dtype, ending):
    model = made(tmp_path, V3)

    def scales_as(half):
        def change(name, tensor):
            if not name.endswith(SCALES):
                return name, tensor
            assert tensor[0] == "F32"
            f32, stored = rounded_to(dtype, tensor[2])
            ours = (dtype, tensor[1], stored) if half else ("F32", tensor[1], f32)
            return (name.removesuffix(SCALES) + ending if half else name), ours
        return change

    half, whole = changed(model, scales_as(True), "half"), changed(model, scales_as(False), "whole")
    for form in few([["--profile", "plain"], ["--profile", "default"], ["--no-pack"], ["--device", "emulated"]], 2):
        ours, theirs = (logits(tmp_path, m, *IDS, *form)["logits"] for m in (half, whole))
        assert numpy.isfinite(ours).all() and (ours == theirs).all(), form


@pytest.mark.parametrize("config", few([cut("v2-lite", n_routed_experts=8, num_experts_per_tok=3)], 1))
def test_f64_and_mixed_types(tmp_path, config):
    model = made(tmp_path, config)

    def values(data):
        return (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)

    def as_type(kind):
        def change(name, tensor):
            dtype, shape, data = tensor
            if dtype != "BF16":
                return name, tensor
            mixed = ("F64", "F16", "F32")[sum(map(ord, name)) % 3] if kind == "mixed" else kind
            half = values(data).astype(numpy.float16)  # so that every type holds them
            return name, (mixed, shape, half.astype("<f" + str(int(mixed[1:]) // 8)).tobytes())
        return change

    f32 = logits(tmp_path, changed(model, as_type("F32"), "F32"), *IDS)["logits"]
    for kind in few(("F64", "mixed"), 1):
        assert (logits(tmp_path, changed(model, as_type(kind), kind), *IDS)["logits"] == f32).all(), kind


def test_f64_is_rounded_to_f32(tmp_path):
    model = made(tmp_path, cut("v2-lite", n_routed_experts=8, num_experts_per_tok=3))
    random = numpy.random.default_rng(1)
    exact = {}

    def as_f64(name, tensor):
        values = random.normal(0, 0.05, tensor[1])
        exact[name] = ("F32", tensor[1], values.astype(numpy.float32).tobytes())
        return name, ("F64", tensor[1], values.tobytes())

    ours = logits(tmp_path, changed(model, as_f64, "f64"), *IDS)["logits"]
    theirs = logits(tmp_path, changed(model, lambda name, _: (name, exact[name]), "f32"), *IDS)["logits"]
    assert (ours == theirs).all()


@pytest.mark.parametrize("shape_of,says", [
    (lambda rows: [], "per-tensor FP8"), (lambda rows: [1], "per-tensor FP8"),
    (lambda rows: [rows], "per-channel FP8"), (lambda rows: [rows, 1], "per-channel FP8")],
    ids=["scalar", "of one", "rows", "column"])
def test_other_fp8_scales_are_named(tmp_path, shape_of, says):
    model = made(tmp_path, V3)
    rows = {n: t[1][0] for n, t in read_safetensors(model / "model.safetensors").items()}

    def change(name, tensor):
        if not name.endswith(SCALES):
            return name, tensor
        shape = shape_of(rows[name.removesuffix("_scale_inv")])
        return name, ("F32", shape, numpy.ones(shape, numpy.float32).tobytes())

    fails("logits", changed(model, change), *IDS, "--out", tmp_path / "l",
          says=[says, "expected a scale for each block of 128x128", "use a checkpoint of the model in bf16"])


@pytest.mark.parametrize("method", ["awq", "gptq", "bitsandbytes", "compressed-tensors", "mxfp4"])
def test_other_schemes_are_named(tmp_path, method):
    (tmp_path / "config.json").write_text(json.dumps(V3 | {"quantization_config": {"quant_method": method, "bits": 4}}))
    fails("inspect", tmp_path, says=[f'found "{method}"', f"weights quantised by {method} are not read", "GGUF"])
