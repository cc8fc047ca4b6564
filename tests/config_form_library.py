"""What transformers makes of forms of config.json (config_forms.py): stored for the tests, or compared with sluice at
once.

    python config_form_library.py --write [--count 300] [--seed N]       writes tests/config_forms.jsonl.xz anew
    python config_form_library.py --count 1000 [--seed N] [--verbose]    compares so many fresh forms; SLUICE_BUILD_DIR

This needs torch and transformers 5, which tests/requirements.txt does not bring. Logits are those of fp32 with eager
attention. A form whose logits in fp64 are others (experts or keys of nearly equal score) says nothing of anybody, and
is drawn again.
"""

import argparse
import json
import logging
import os
import pathlib
import random
import sys
import tempfile
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"
import config_forms  # noqa: E402
import stored_forms  # noqa: E402
import tiny_checkpoint  # noqa: E402

STABLE = 2e-4


class LibraryRefused(Exception):
    pass


def import_library():
    import torch
    import transformers

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


def shapes_of(config, folder):
    """The names and shapes that the library saves for this config."""
    torch, transformers = import_library()
    folder = pathlib.Path(folder)
    (folder / "config.json").write_text(json.dumps(config))
    read = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(read, dtype=torch.float32, attn_implementation="eager")
    model.save_pretrained(folder)
    return tiny_checkpoint.read_shapes(folder / "model.safetensors")


def logits_of(folder, ids, dtype="float32"):
    torch, transformers = import_library()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype),
                                                              attn_implementation="eager",
                                                              experts_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def repaired(family, config):
    """The form as sluice may read one that the library refuses: null is no value where the library's types ask for one,
    padding is never used, a missing model_type follows from architectures, and latent attention asks for neither
    head_dim nor a number of key heads, and head_dim has a default in Mistral with layer_types, too. None where that
    changes nothing."""
    transformers = import_library()[1]
    types = transformers.CONFIG_MAPPING[family].__annotations__
    out = {key: value for key, value in config.items()
           if value is not None or "None" in str(types.get(key, "" if key == "rope_theta" else "None"))}
    pad = out.get("pad_token_id")
    if pad is not None and not 0 <= pad < tiny_checkpoint.VOCABULARY:
        out["pad_token_id"] = None
    if "model_type" not in out and out.get("architectures") == config_forms.BASES[family]["architectures"]:
        out["model_type"] = family
    if family in config_forms.LATENT:
        out.pop("head_dim", None)
        out["num_key_value_heads"] = out.get("num_attention_heads")
    if family == "mistral" and "layer_types" in out and not out.get("head_dim"):  # its other class has no default
        out["head_dim"] = out["hidden_size"] // (out.get("num_attention_heads") or 32)
    return None if out == config else out


def ask(family, config):
    """(shapes, rows) of the library, rows float64; rows are None where they depend on rounding; raises
    LibraryRefused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            shapes = shapes_of(config, folder)
            tiny_checkpoint.write_checkpoint(folder, config, shapes)
            rows = logits_of(folder, stored_forms.IDS)
            exact = logits_of(folder, stored_forms.IDS, "float64")
        except Exception as error:  # whatever the library raises
            words = " ".join(str(error).replace(folder, "the folder").split())[:160]
            raise LibraryRefused(f"{type(error).__name__}: {words}") from error
    stable = np.isfinite(rows).all() and np.abs(rows - exact).max() < STABLE
    return shapes, rows if stable else None


def base_shapes(family):
    if family not in base_shapes.known:
        base_shapes.known[family] = ask(family, config_forms.BASES[family])[0]
    return base_shapes.known[family]


base_shapes.known = {}


def forms(seed, count):
    """So many different forms, with what the library makes of them: (family, form, shapes, rows or None, refusal).
    Both rows and a refusal are there where the repaired form alone has values."""
    draws, seen = random.Random(seed), set()
    for family in sorted(config_forms.BASES):
        yield family, {"set": {}, "drop": []}, *ask(family, config_forms.BASES[family]), None
    while count:
        family, config = config_forms.draw(draws)
        form = config_forms.difference(family, config)
        if (key := family + json.dumps(form, sort_keys=True)) in seen:
            continue
        seen.add(key)
        try:
            shapes, rows = ask(family, config)
            if rows is None:
                continue
            yield family, form, shapes, rows, None
        except LibraryRefused as error:
            shapes, rows = base_shapes(family), None
            if (instead := repaired(family, config)) is not None:
                try:
                    shapes, rows = ask(family, instead)
                except LibraryRefused:
                    pass
            yield family, form, shapes, rows, str(error)
        count -= 1


def write(seed, count):
    store = stored_forms.Writer()
    for family, form, shapes, rows, refusal in forms(seed, count):
        store.add(family, form, shapes, rows, refusal)
    size = store.write()
    print(f"{count} forms, {size} bytes")


def compare(seed, count, verbose):
    print(f"seed {seed}")
    tally, faults = {}, 0
    for number, (family, form, shapes, rows, refusal) in enumerate(forms(seed, count)):
        case = stored_forms.Form(number, family, form, shapes, rows, refusal)
        verdict, text = stored_forms.judge(case, tiny_checkpoint.SLUICE)
        tally[verdict] = tally.get(verdict, 0) + 1
        faults += verdict in stored_forms.FAULTS
        if verbose or verdict in stored_forms.FAULTS:
            print(f"{verdict}: {family} {json.dumps(form)}: {text}", flush=True)
    print(json.dumps(tally))
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        return write(20260901 if arguments.seed is None else arguments.seed, arguments.count)
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    return compare(seed, arguments.count, arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
