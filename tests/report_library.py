"""Fills in what is null under "expect" of lines like those of tests/reports, with what the reference libraries compute.

    python report_library.py FILE.jsonl       rewrites the file: "logits": null, and the ids in "tokens": [[text, null]]

Logits are those of transformers in fp32 with the values that the file's weights stand for; "shapes" are added where
the case changes them. Ids are those of AutoTokenizer, so of all files in the folder. Needs torch and transformers 5.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import config_form_library as library  # noqa: E402
import config_forms  # noqa: E402
import report_models  # noqa: E402
import stored_forms  # noqa: E402
import tiny_checkpoint  # noqa: E402
import tiny_tokenizer  # noqa: E402


# The patterns by which Kimi-K2 cuts texts into words: runs of Han, then words as GPT-4o cuts them, without Han.
UPPER, LOWER = (rf"[{letters}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]" for letters in (r"\p{Lu}\p{Lt}", r"\p{Ll}"))
BEFORE, AFTER = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join([r"[\p{Han}]+", f"{BEFORE}{UPPER}*{LOWER}+{AFTER}", f"{BEFORE}{UPPER}+{LOWER}*{AFTER}", r"\p{N}{1,3}",
                 r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def config_of(case):
    return config_forms.apply(case["family"], {"set": case.get("set", {}), "drop": case.get("drop", [])})


def add_shapes(case):
    with tempfile.TemporaryDirectory() as folder:
        shapes = library.shapes_of(config_of(case) | {"quantization_config": None}, folder)
    if shapes != report_models.shapes_of({k: v for k, v in case.items() if k != "tensors"}, config_of(case)):
        case["shapes"] = stored_forms.fold(shapes)


def logits(case, config=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        values = report_models.build(case, folder)[1]
        config = dict(config or config_of(case), torch_dtype="float32")
        config.pop("quantization_config", None)
        shapes = {name: list(array.shape) for name, array in values.items()}
        tiny_checkpoint.write_checkpoint(folder / "plain", config, shapes, "F32", values)
        rows = library.logits_of(folder / "plain", stored_forms.IDS)
        exact = library.logits_of(folder / "plain", stored_forms.IDS, "float64")
    assert np.abs(rows - exact).max() < 1e-3, f"rounding decides: {np.abs(rows - exact).max()}"
    return np.rint(rows[np.ix_(stored_forms.POSITIONS, stored_forms.COLUMNS)] / stored_forms.UNIT).astype(int).tolist()


def tokens(case, texts):
    _, transformers = library.import_library()
    if case["tokenizer"] == "tiktoken":
        import tiktoken

        ranks = {token: rank for rank, token in enumerate(tiny_tokenizer.tiktoken_ranks())}
        encoding = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={
            text: tiny_tokenizer.BOS + n for n, text in enumerate(tiny_tokenizer.SPECIALS)})
        return [[text, encoding.encode(text, allowed_special="all")] for text, _ in texts]
    with tempfile.TemporaryDirectory() as folder:
        report_models.build(case, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(pathlib.Path(folder) / "model")
        return [[text, tokenizer(text)["input_ids"] if ids is None else ids] for text, ids in texts]


def fill(line):
    case, expect = line["case"], line["expect"]
    if "logits" in expect and expect["logits"] is None:
        add_shapes(case)
        expect["logits"] = logits(case)
    if any(ids is None for _, ids in expect.get("tokens", [])):
        expect["tokens"] = tokens(case, expect["tokens"])
    return line


def main():
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        lines = [fill(json.loads(text)) for text in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


if __name__ == "__main__":
    main()
