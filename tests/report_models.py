"""Models of the cases in tests/reports and of popular_models.py: small folders and GGUF files. Needs numpy, and gguf
for these.

build(case, folder) -> (model's path, {tensor: the values that its files stand for}). The keys of a case:

    "family", "set", "drop"   a form of config.json, as config_forms.py has them
    "shapes"                  all tensors, folded as in stored forms, where they are not those of the complete config
    "tensors"                 {name: shape}: more tensors, {pattern: [shape, indices...]}, or null: none of this name
    "weights"                 "F32" (by itself), "BF16", "F16", "F64"; {"fp8": [rows, columns], "scales": "BF16"};
                              {"gguf": type of rows of 256, "narrow": type of other rows, "last": type of embeddings
                              and head, "metadata": {key: [type, value]}, "renamed": {token: text}}
    "answer"                  a token that the model writes whatever it reads
    "scores"                  {token: logit}: the logits at every position; all other tokens have -1
    "tokenizer"               merged into the small tokenizer.json (tiny_tokenizer.py) as RFC 7396 says; "sentence":
                              one of SentencePiece's kind; "tiktoken": a tiktoken.model alone
    "files"                   {name: JSON or text}: what else lies in the folder; null: the file of this name does not
"""

import json
import pathlib
import re

import numpy as np

import config_forms
import stored_forms
import tiny_checkpoint
import tiny_tokenizer


def merged(base, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    out = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def shapes_of(case, config):
    """The case's "shapes", or those of the family's complete config with this vocabulary; and the case's own
    tensors."""
    out = stored_forms.unfold(case["shapes"]) if "shapes" in case else dict(stored_forms.base_shapes(case["family"]))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in out:
            out[name] = [config["vocab_size"], out[name][1]]
    for name, shape in case.get("tensors", {}).items():
        out |= stored_forms.unfold({name: shape}) if shape and isinstance(shape[0], list) else {name: shape}
    return {name: shape for name, shape in out.items() if shape is not None}


def always(shapes, scores):
    """Weights of a model that has these logits {token: logit} whatever it reads."""
    out = {}
    for name, shape in shapes.items():
        fill = 1.0 if "embed" in name or "norm" in name else 0.0
        out[name] = np.full(shape, fill, np.float32)
    head = out["lm_head.weight"]
    head[:] = -1 / head.shape[1]
    for token, score in scores.items():
        head[int(token)] = score / head.shape[1]
    return out


def e4m3_values():
    codes = np.arange(127)
    exponents, fractions = codes >> 3, (codes & 7) / 8
    return np.where(exponents == 0, fractions * 2.0**-6, (1 + fractions) * 2.0 ** (exponents - 7.0)).astype(np.float32)


def fp8(array, block, dtype):
    """(codes, scales, values): e4m3 with a scale for each block; the scales are exact in their dtype."""
    table, (rows, columns) = e4m3_values(), block
    grid = tuple(-(-size // step) for size, step in zip(array.shape, block))
    scales = np.zeros(grid, np.float32)
    for i, j in np.ndindex(*grid):
        part = np.abs(array[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 400
        scales[i, j] = np.float16(part) if dtype == "F16" else tiny_checkpoint.as_bf16(part.reshape(1))[0]
    spread = np.repeat(np.repeat(scales, rows, 0), columns, 1)[:array.shape[0], :array.shape[1]]
    wanted = np.abs(array) / spread
    upper = np.clip(np.searchsorted(table, wanted), 1, 126)
    codes = np.where(wanted - table[upper - 1] <= table[upper] - wanted, upper - 1, upper)
    values = np.where(array < 0, -1, 1) * table[codes] * spread
    return (codes + 128 * (array < 0)).astype(np.uint8), scales, values.astype(np.float32)


def write_fp8(path, arrays, form):
    """Projections and experts in e4m3, the rest BF16; returns the values."""
    tensors, values = {}, {}
    for name, array in arrays.items():
        if not re.search(r"_proj\.weight$|kv_a_proj_with_mqa\.weight$", name):
            tensors[name], values[name] = ("BF16", array.shape, tiny_checkpoint.encode(array, "BF16")), array
            continue
        codes, scales, values[name] = fp8(array, form["fp8"], form["scales"])
        tensors[name] = ("F8_E4M3", array.shape, codes.tobytes())
        tensors[name + "_scale_inv"] = (form["scales"], scales.shape, tiny_checkpoint.encode(scales, form["scales"]))
    tiny_checkpoint.write_safetensors(path, tensors)
    return values


def random_blocks(array, kind):
    """Blocks of a type that the gguf package reads and does not write: random codes, and scales of the usual size."""
    import gguf

    size, bytes_each = gguf.GGML_QUANT_SIZES[kind]
    draw = np.random.Generator(np.random.Philox(key=abs(int(array.flat[0] * 1e6)) + array.size))
    out = draw.integers(0, 256, (array.size // size, bytes_each), np.uint8)
    fields = {"Q2_K": {80: 0.01, 82: 0.01}, "Q3_K": {108: 0.003}, "Q4_K": {0: 0.0004, 2: 0.003},
              "Q5_K": {0: 0.0002, 2: 0.003}, "Q6_K": {208: 0.00006}}[kind.name]
    for at, scale in fields.items():
        out[:, at:at + 2] = (draw.uniform(0.5, 1.5, len(out)) * scale).astype("<f2").view(np.uint8).reshape(-1, 2)
    return out.reshape(*array.shape[:-1], -1)


def write_gguf(case, folder, path):
    import gguf

    from gguf_models import write_gguf_model

    form = case["weights"]
    kinds = gguf.GGMLQuantizationType

    def choose(name, array):
        if array.ndim < 2 or "ffn_gate_inp" in name:
            return kinds.F32
        if form["gguf"].endswith("_K") and array.shape[-1] % 256:
            return kinds[form["narrow"]]
        return kinds[form.get("last", form["gguf"]) if name in ("output.weight", "token_embd.weight") else form["gguf"]]

    def quantize(array, kind):
        return random_blocks(array, kind) if kind.name.endswith("_K") else gguf.quants.quantize(array, kind)

    def edit(writer):
        metadata = form.get("metadata", {})
        if "tokenizer" in case:
            sentence = case["tokenizer"] == "sentence"
            made = (tiny_tokenizer.sentence_gguf_metadata() if sentence
                    else tiny_tokenizer.gguf_metadata(form.get("renamed", {})))
            metadata = made | metadata
        for key, entry in metadata.items():
            if entry is not None:
                getattr(writer, "add_" + entry[0])(key, entry[1])

    return write_gguf_model(folder, path, choose=choose, quantize=quantize, edit=edit)


def write_tokenizer(case, model):
    tokenizer = case.get("tokenizer")
    if tokenizer == "tiktoken":
        (model / "tiktoken.model").write_text(tiny_tokenizer.tiktoken_model())
    elif tokenizer == "sentence":
        (model / "tokenizer.json").write_text(json.dumps(tiny_tokenizer.sentence_json()))
    elif tokenizer is not None:
        (model / "tokenizer.json").write_text(json.dumps(merged(tiny_tokenizer.tokenizer_json(), tokenizer)))


def build(case, folder):
    folder = pathlib.Path(folder)
    config = config_forms.apply(case["family"], {"set": case.get("set", {}), "drop": case.get("drop", [])})
    shapes = shapes_of(case, config)
    scores = {case["answer"]: 30.0} if "answer" in case else case.get("scores")
    arrays = always(shapes, scores) if scores else {
        name: tiny_checkpoint.values(name, shape) for name, shape in shapes.items()}
    weights = case.get("weights", "F32")
    model = folder / "model"
    tiny_checkpoint.write_checkpoint(model, config, shapes, weights if isinstance(weights, str) else "F32", arrays)
    if isinstance(weights, dict) and "fp8" in weights:
        arrays = write_fp8(model / "model.safetensors", arrays, weights)
    if isinstance(weights, dict) and "gguf" in weights:
        return folder / "model.gguf", write_gguf(case, model, folder / "model.gguf")
    write_tokenizer(case, model)
    for name, content in case.get("files", {}).items():
        path = model / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return model, arrays
