"""The most fetched files of the families, each remade small (popular_models.jsonl): it loads with the right logits,
tokenises as its library does, and ends at its end token.

A line says the file's name and form; "end" is the token at which its answers end. The other keys are those of
tests/reports. `python report_library.py popular_models.jsonl` fills in right values.
"""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import report_checks  # noqa: E402

LINES = [json.loads(text) for text in (pathlib.Path(__file__).parent / "popular_models.jsonl").read_text().splitlines()]


def ending(case, end):
    """The same form with weights that always answer the end token, stored without loss."""
    weights = case.get("weights", "BF16")
    if isinstance(weights, dict):
        weights = {key: value for key, value in weights.items() if key in ("metadata", "renamed")} | {"gguf": "F16"} \
            if "gguf" in weights else "BF16"
    keys = {key: value for key, value in case["set"].items()
            if key not in ("quantization_config", "tie_word_embeddings")}
    head = {"lm_head.weight": [keys["vocab_size"], keys.get("hidden_size", 64)]}
    return case | {"set": keys, "weights": weights, "answer": end, "tensors": head}


def test_there_are_twenty():
    assert len({line["name"] for line in LINES}) >= 20


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["name"])
def test_popular(line, tmp_path):
    found = report_checks.complaints(line["case"], line["expect"], tmp_path / "values")
    want = {"to": "hello", "text": "", "tokens": 1, "reason": "stop"}
    found += report_checks.complaints(ending(line["case"], line["end"]), {"answer": want}, tmp_path / "end")
    assert not found, f"{line['name']} ({line['form']})\n" + "\n".join(found).replace(str(tmp_path), "")
