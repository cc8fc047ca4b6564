#!/usr/bin/env python3
"""The goldens of the oracles (tests/oracles/README.md): what PyPI's transformers computes over the weights that
tests/synth_oracle.cc makes. By hand, where torch, safetensors and transformers 5.23 or later are installed:

  tools/oracle_goldens.py write NAME... [--build build] [--config FILE]   writes tests/oracles/NAME.tar.xz
  tools/oracle_goldens.py check FOLDER...                                 recomputes what these folders hold

`write` takes config.json from the archive that is there, or for a new kind from --config, and pins the digest of the
weights in tests/oracles/SHA256SUMS. `check` says how far each folder's golden.safetensors is from the library's values
over its own model.safetensors; values of `write` are rounded to a multiple of QUANTUM.
"""
import argparse
import hashlib
import io
import lzma
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save  # noqa: E402

ORACLES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "oracles"
SUMS = ORACLES / "SHA256SUMS"
LENGTHS = [1, 3, 4, 5, 127, 128, 129, 260]
LONGER = {"deepseek_v4": [700]}  # compressed entries of 128 tokens, of which there have to be some
IDS = 700
PROMPT, CONTINUATION = 50, 24
QUANTUM = 2.0 ** -19  # a seventh of the strictest bound of src/model/checks/oracle_test.cc, or less


def topk(values, k, dim=-1, largest=True, sorted=True):
    """torch.topk with sluice's order among equal scores: the lower entry first, and -0 equals 0. The indexer's ReLU makes
    exact ties, and torch's own order among them is not said."""
    assert largest
    ordered, entries = torch.sort(values + 0.0, dim=dim, descending=True, stable=True)
    return torch.return_types.topk((ordered.narrow(dim, 0, k), entries.narrow(dim, 0, k)))


def load(folder, dtype):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    left = {what: names for what, names in report.items() if names}
    assert not left, f"{folder}: {left}"  # a tensor that the library did not take, or missed, would be random
    return model.eval()


def logits(model, ids):
    """Of the whole sequence at once, without a cache."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def positions(length):
    return sorted({*range(0, length, 37), *range(max(0, length - 8), length)})


def goldens(folder, ids):
    model = load(folder, torch.float32)
    found = {"input_ids": torch.tensor(ids)}
    for length in LENGTHS + LONGER.get(model.config.model_type, []):
        rows = positions(length)
        found[f"len{length}.positions"] = torch.tensor(rows)
        found[f"len{length}.logits"] = logits(model, ids[:length])[rows]
    tokens, margins = ids[:PROMPT], []
    for _ in range(CONTINUATION):
        (best, second), (token, _) = topk(logits(model, tokens)[-1], 2)
        margins.append(best - second)
        tokens = [*tokens, int(token)]
    return found | {"greedy50.tokens": torch.tensor(tokens), "greedy50.margin": torch.stack(margins)}


def of_rounding(folder, found):
    """How far fp64 is from the logits: much more than 1e-5 says that a near tie of experts or entries decides."""
    model, ids = load(folder, torch.float64), found["input_ids"].tolist()
    lengths = [int(name[3:-7]) for name in found if name.endswith(".logits")]
    return max(float((logits(model, ids[:n])[found[f"len{n}.positions"]] - found[f"len{n}.logits"]).abs().max())
               for n in lengths)


def check(folders):
    for folder in folders:
        stored = load_file(folder / "golden.safetensors")
        found = goldens(folder, stored["input_ids"].tolist())
        worst = {kind: max(float((found[name] - values).abs().max()) for name, values in stored.items()
                           if name in found and name.endswith(kind)) for kind in ("logits", "margin")}
        others = [name for name in found if not name.endswith((".logits", ".margin"))
                  and not (name in stored and torch.equal(found[name], stored[name].long()))]
        print(f"{folder.name}: worst logit {worst['logits']:.1e}, worst margin {worst['margin']:.1e}, "
              f"{'other than stored: ' + ', '.join(others) if others else 'ids, positions and tokens equal'}", flush=True)


def packed(files):
    """A tar of these files, by lzma with whichever parameters make it smallest."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    forms = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": pb}
             for lc in (0, 1, 2) for lp in (0, 2) for pb in (0, 2)]
    return min((lzma.compress(tar.getvalue(), filters=[form]) for form in forms), key=len)


def config_in(name):
    with tarfile.open(ORACLES / f"{name}.tar.xz") as archive:
        return archive.extractfile(f"{name}/config.json").read()


def pin(name, digest):
    lines = dict(reversed(line.split()) for line in SUMS.read_text().splitlines()) if SUMS.exists() else {}
    lines[f"{name}/model.safetensors"] = digest
    SUMS.write_text("".join(f"{digest}  {file}\n" for file, digest in sorted(lines.items())))


def write(names, build, config):
    for name in names:
        text = config.read_bytes() if config else config_in(name)
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "config.json").write_bytes(text)
            subprocess.run([build / "tests" / "synth_oracle", folder], check=True)
            vocabulary = transformers.AutoConfig.from_pretrained(folder).vocab_size
            draw = random.Random(name)
            found = goldens(folder, [draw.randrange(vocabulary) for _ in range(IDS)])
            rounding = of_rounding(folder, found)
            spread = float(found["len260.logits"].std())
            for key in found:
                if key.endswith(".logits"):
                    found[key] = torch.round(found[key] / QUANTUM) * QUANTUM
            pin(name, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
        data = packed({f"{name}/config.json": text, f"{name}/golden.safetensors": save(found)})
        (ORACLES / f"{name}.tar.xz").write_bytes(data)
        print(f"{name}: {len(data)} bytes, logits of standard deviation {spread:.2f}, {rounding:.1e} from fp64",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("names", nargs="+")
    writing.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    writing.add_argument("--config", type=pathlib.Path)
    commands.add_parser("check").add_argument("folders", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.topk = torch.Tensor.topk = topk
    transformers.utils.logging.disable_progress_bar()
    if given.command == "check":
        return check(given.folders)
    return write(given.names, given.build.resolve(), given.config)


if __name__ == "__main__":
    sys.exit(main())
