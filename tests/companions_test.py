"""The files beside a tokenizer.json against AutoTokenizer of `transformers`, id by id: random folders, in which
tokenizer_config.json, special_tokens_map.json, added_tokens.json and tokenizer.json name, add and change tokens, and
vocab.json and merges.txt stand in for the last.

The seed is fresh, or in SLUICE_TEST_SEED, the number of folders in SLUICE_TEST_FOLDERS."""

import json
import os
import pathlib
import random
import sys

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
from tokenizers import pre_tokenizers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_test import SEED, Sluice  # noqa: E402

FOLDERS = int(os.environ.get("SLUICE_TEST_FOLDERS", 40))
NAMES = ["<|extra|>", "<|new|>", "<|far|>", "<tool>", "<|pad|>", "<|none|>", "<|bos|>", "<|eos|>", "<|endoftext|>",
         "ab", "he"]
TEXTS = ["Hello he's 123 ab days", "<tool> <tool>x <|extra|> <|new|> <|far|> <|none|>", "A  \n<|bos|>e\u0301 <|eos|> x",
         "  <tool>ab <tool>b<|pad|> <|endoftext|>  zz "]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")


def vocabulary():
    words = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["ab", "he", "el", "ll"]
    return {text: i for i, text in enumerate(words)}, ["a b", "h e", "e l", "l l"]


def tokenizer_json(added, **more):
    vocab, merges = vocabulary()
    pre = [{"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
           {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre}, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}} | more


def flags(rng):
    return {"lstrip": rng.random() < .3, "rstrip": rng.random() < .3, "normalized": rng.random() < .4,
            "single_word": rng.random() < .2, "special": rng.random() < .6}


def random_config(rng, first):
    config = {}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token", "image_token"):
        kind = rng.random()
        if kind < .3:
            config[key] = rng.choice(NAMES)
        elif kind < .4 and key != "image_token":
            config[key] = {"__type": "AddedToken", "content": rng.choice(NAMES)} | flags(rng)
        elif kind < .45:
            config[key] = None
    name = rng.choice([None, None, "PreTrainedTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "GPT2Tokenizer",
                       "TokenizersBackend", "NoSuchTokenizer"])
    if name:
        config["tokenizer_class"] = name
    if rng.random() < .5:
        config["added_tokens_decoder"] = {
            str(first + rng.randrange(-3, 200)): {"content": rng.choice(NAMES)} | flags(rng)
            for _ in range(rng.randrange(5))}
    if rng.random() < .4:
        config[rng.choice(["additional_special_tokens", "extra_special_tokens"])] = rng.sample(NAMES, 2)
    for key in ("add_prefix_space", "add_bos_token", "add_eos_token"):
        if rng.random() < .3:
            config[key] = rng.random() < .5
    return config


def random_folder(rng):
    first = len(vocabulary()[0])
    config = random_config(rng, first)
    added = [{"id": first + i, "content": text} | flags(rng) for i, text in enumerate(rng.sample(NAMES, rng.randrange(5)))]
    files = {"config.json": {"model_type": rng.choice(["llama", "qwen2", "qwen3", "deepseek_v3", "mistral"])}}
    if rng.random() < .2:
        files["vocab.json"], merges = vocabulary()
        files["merges.txt"] = "#version: 0.2\n" + "\n".join(merges) + "\n"
    else:
        files["tokenizer.json"] = tokenizer_json(added)
        if rng.random() < .3:
            files["tokenizer.json"]["padding"] = {"strategy": "BatchLongest", "direction": "Right",
                                                  "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                                                  "pad_token": rng.choice(NAMES)}
    if rng.random() < .85:
        files["tokenizer_config.json"] = config
    if rng.random() < .3:
        names = {key: value for key, value in config.items() if key in ("bos_token", "eos_token") and value}
        files["special_tokens_map.json"] = json.loads(json.dumps(names).replace('"__type": "AddedToken", ', ""))
        if rng.random() < .4:
            files["special_tokens_map.json"]["additional_special_tokens"] = rng.sample(NAMES, 2)
    if rng.random() < .3:
        files["added_tokens.json"] = {text: first + i for i, text in enumerate(rng.sample(NAMES[:6], 2))}
    return files


def write(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def check(folder):
    try:
        theirs = AutoTokenizer.from_pretrained(folder)
    except Exception:  # many kinds, for files that no class of the library reads
        theirs = None
    if theirs is None:
        return 0
    with Sluice(folder) as sluice:
        ours = sluice.ask("encode a -", TEXTS)
        for text, ids in zip(TEXTS, ours):
            assert ids == theirs(text)["input_ids"], (text, sorted(p.name for p in folder.iterdir()))
    return 1


def test_random_folders(tmp_path):
    print("seed", SEED)
    read = 0
    for i in range(FOLDERS):
        write(tmp_path / str(i), random_folder(random.Random(f"{SEED} {i}")))
        read += check(tmp_path / str(i))
    assert read > FOLDERS / 2


@pytest.mark.parametrize("files", [
    {"tokenizer_config.json": {"added_tokens_decoder": {"900": {"content": "<tool>", "special": True}}}},
    {"added_tokens.json": {"<tool>": 260, "<|far|>": 900}},
    {"special_tokens_map.json": {"additional_special_tokens": ["<|far|>"], "eos_token": "<tool>"}},
    {"tokenizer_config.json": {"eos_token": "<|none|>"}},
], ids=["decoder", "added_tokens", "map", "unknown_eos"])
def test_one_file(tmp_path, files):
    write(tmp_path / "model", {"config.json": {"model_type": "llama"}, "tokenizer.json": tokenizer_json([])} | files)
    assert check(tmp_path / "model") == 1
