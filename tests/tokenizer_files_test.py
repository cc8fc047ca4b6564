"""Vocabularies that are not in a tokenizer.json: tokenizer.model against `transformers`, tiktoken.model against `tiktoken`'s
rule, and GGUF's llama against SentencePiece's, each id by id. The files are written here.

The seed is fresh, or in SLUICE_TEST_SEED."""

import base64
import json
import pathlib
import random
import re
import struct
import sys

import gguf
import pytest
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_strings  # noqa: E402
from seed import SEED  # noqa: E402
from tokenizer_forms import KIMI, LLAMA_DECODER, TEXTS, base_of_characters, metaspace, sequence, split  # noqa: E402
from tokenizer_test import Sluice, first_difference  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def texts():
    return TEXTS + tokenizer_strings.texts(SEED, 150, ["<s>", "<tag>", "</s>"])


def pieces(user_defined=()):
    """(text, score, type) of each id: special tokens, user-defined ones, bytes, and a trained vocabulary, in the order of
    its merges, with some scores out of order and some equal."""
    words = [text for text in base_of_characters()["model"]["vocab"] if not re.fullmatch(r"<.*>", text)]
    made = sorted((text for text in words if len(text) > 1), key=words.index)
    rng = random.Random(SEED)
    scores = {text: -float(i) if rng.random() < 0.8 else -float(rng.randrange(len(made))) for i, text in enumerate(made)}
    return ([("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
            + [(text, 0.0, USER_DEFINED) for text in user_defined]
            + [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
            + [(text, scores[text], NORMAL) for text in made]
            + [(text, -1e4, NORMAL) for text in words if len(text) == 1])


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def sentencepiece_bytes(vocabulary, model_type=2, byte_fallback=True, **normalizer):
    spec = {"charsmap": b"", "dummy_prefix": 1, "remove": 0, "escape": 1} | normalizer
    out = b"".join(field(1, field(1, text) + field(2, score) + (field(3, kind) if kind != NORMAL else b""))
                   for text, score, kind in vocabulary)
    out += field(2, field(3, model_type) + field(35, int(byte_fallback)) + field(40, 0) + field(41, 1) + field(42, 2))
    return out + field(3, b"".join(field(2 + i, value) for i, value in enumerate(spec.values()) if value != b""))


def check(folder, reference, asked, modes=(("- -", False), ("a -", True))):
    with Sluice(folder) as sluice:
        for mode, adds in modes:
            for text, ours in zip(asked, sluice.ask("encode " + mode, asked)):
                expected = reference.encode(text, add_special_tokens=adds).ids
                assert ours == expected, first_difference(text, ours, expected, reference)
        ids = [reference.encode(text, add_special_tokens=True).ids for text in asked]
        for one, answer in zip(ids, sluice.ask("decode - -", [" ".join(map(str, i)) for i in ids])):
            assert bytes.fromhex(answer).decode("utf-8", "replace") == reference.decode(one, skip_special_tokens=False)


CONFIGS = [{}, {"tokenizer_class": "LlamaTokenizer"}, {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True},
           {"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": False, "add_bos_token": True, "add_eos_token": True},
           {"tokenizer_class": "SomeTokenizer", "legacy": False, "add_bos_token": True}]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: " ".join(map(str, config.values())) or "none")
@pytest.mark.parametrize("normalizer", [{}, {"remove": 1}, {"dummy_prefix": 0}], ids=str)
@pytest.mark.parametrize("user_defined", [(), ("<tag>", "cat", "a.b|c")], ids=str)
def test_tokenizer_model_as_transformers_reads_it(config, normalizer, user_defined, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece_bytes(pieces(user_defined), **normalizer))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    check(tmp_path, AutoTokenizer.from_pretrained(tmp_path)._tokenizer, texts())


def spm_pieces(text, scores):
    """SentencePiece's rule: of all neighbours that make a piece the best score merges, the leftmost of equals."""
    parts = list(text)
    while True:
        found = [(-scores[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in scores]
        if not found:
            return parts
        at = min(found)[1]
        parts[at:at + 2] = [parts[at] + parts[at + 1]]


def spm_ids(text, vocabulary, adds_space=True):
    """llama.cpp's way with a text: special tokens first, a space before each part between them."""
    ids = {piece: i for i, (piece, _, _) in enumerate(vocabulary)}
    scores = {piece: score for piece, score, kind in vocabulary if kind == NORMAL}
    specials = [piece for piece, _, kind in vocabulary if kind in (UNKNOWN, CONTROL, USER_DEFINED)]
    out = []
    for part in re.split("(" + "|".join(map(re.escape, specials)) + ")", text):
        if part in specials:
            out.append(ids[part])
        elif part:
            for piece in spm_pieces(((" " if adds_space else "") + part).replace(" ", "▁"), scores):
                out += [ids[piece]] if piece in scores else [ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
    return out


def write_gguf(path, vocabulary, edit=lambda writer: None):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in vocabulary])
    writer.add_token_scores([score for _, score, _ in vocabulary])
    writer.add_token_types([kind for _, _, kind in vocabulary])
    edit(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("adds_space", [None, True, False])
def test_gguf_of_sentencepiece(adds_space, tmp_path):
    vocabulary = pieces(("<tag>", "cat", "  "))
    path = tmp_path / "t.gguf"
    write_gguf(path, vocabulary, lambda writer: adds_space is None or writer.add_add_space_prefix(adds_space))
    asked = [text for text in texts() if len(text) < 300]
    with Sluice(path) as sluice:
        for text, ours in zip(asked, sluice.ask("encode - -", asked)):
            assert ours == spm_ids(text, vocabulary, adds_space is not False), f"seed {SEED}: {text!r}"
        plain = sluice.ask("encode - n", ["<s>"])[0]  # a client's text
        assert 1 not in plain
        assert sluice.ask("encode a -", ["a"]) == [[1] + spm_ids("a", vocabulary, adds_space is not False)]
        for text, ids in (("Hello <tag> é", [1] + spm_ids("Hello <tag> é", vocabulary)),):
            expected = "<s> Hello <tag> é" if adds_space is not False else None
            answer = bytes.fromhex(sluice.ask("decode - -", [" ".join(map(str, ids))])[0]).decode()
            assert expected is None or answer.replace("  ", " ") == expected
        ids = spm_ids("ab 猫", vocabulary)
        line = " ".join(map(str, ids))
        streamed = "".join(bytes.fromhex(piece).decode() for piece in sluice.ask("stream - -", [line])[0])
        assert streamed == " ab 猫"  # within a text nothing is stripped
        assert bytes.fromhex(sluice.ask("decode - -", [line])[0]).decode() == ("ab 猫" if adds_space is not False else " ab 猫")


def tiktoken_vocabulary():
    """Ranks of byte strings: the bytes in some order, then what merges make of them."""
    rng = random.Random(SEED)
    tokens = [bytes([byte]) for byte in range(256)]
    rng.shuffle(tokens)
    known = set(tokens)
    for text in [*tokenizer_strings.WORDS, *TEXTS[4:], "  ", "    ", "的一是", "안녕"]:
        data = text.encode()
        for size in (2, 3, 4, 6):
            for at in range(0, max(0, len(data) - size), 2):
                piece = data[at:at + size]
                if piece not in known and len(tokens) < 2500:
                    known.add(piece)
                    tokens.append(piece)
    return {token: rank for rank, token in enumerate(tokens)}


def tiktoken_ids(word, ranks):
    """tiktoken's rule: a word that is a token stays whole; else the pair whose token has the lowest rank merges."""
    if word in ranks:
        return [ranks[word]]
    parts = [bytes([byte]) for byte in word]
    while True:
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            return [ranks[part] for part in parts]
        at = min(found)[1]
        parts[at:at + 2] = [parts[at] + parts[at + 1]]


def write_tiktoken(folder, ranks, config):
    (folder / "tiktoken.model").write_bytes(b"".join(base64.b64encode(t) + f" {r}\n".encode() for t, r in ranks.items()))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_tiktoken_model(tmp_path):
    ranks = tiktoken_vocabulary()
    size = len(ranks)
    write_tiktoken(tmp_path, ranks, {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
                                     "added_tokens_decoder": {
                                         str(size): {"content": "[BOS]", "special": True},
                                         str(size + 1): {"content": "[EOS]", "special": True},
                                         str(size + 5): {"content": "<|tool|>", "special": False}}})
    specials = {"[BOS]": size, "[EOS]": size + 1, "<|tool|>": size + 5,
                f"<|reserved_token_{size + 2}|>": size + 2, f"<|reserved_token_{size + 257}|>": size + 257}
    words = tokenizers.pre_tokenizers.Split(tokenizers.Regex(KIMI), "isolated")
    asked = [text for text in texts() if len(text) < 300] + ["a[BOS] b<|tool|>c" + text for text in specials]
    with Sluice(tmp_path) as sluice:
        assert sluice.hello["vocab_size"] == size + 258
        for text, ours in zip(asked, sluice.ask("encode - -", asked)):
            expected = []
            for part in re.split("(" + "|".join(map(re.escape, specials)) + ")", text):
                if part in specials:
                    expected.append(specials[part])
                elif part:
                    for word, _ in words.pre_tokenize_str(part):
                        expected += tiktoken_ids(word.encode(), ranks)
            assert ours == expected, f"seed {SEED}: {text!r}"


def test_every_word_of_kimi_is_where_the_package_has_it(tmp_path):
    """Each code point, in a vocabulary that shows where words end."""
    form = base_of_characters() | {"pre_tokenizer": sequence("pretokenizers", split(KIMI), metaspace("always", False)),
                                   "normalizer": None, "decoder": LLAMA_DECODER}
    (tmp_path / "tokenizer.json").write_text(json.dumps(form))
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    random.Random(SEED).shuffle(points)
    asked = ["a".join(points[i:i + 256]) for i in range(0, len(points), 256)]
    check(tmp_path, tokenizers.Tokenizer.from_str(json.dumps(form)), asked, modes=(("- -", False),))


@pytest.mark.parametrize("name, data, config, says", [
    ("tokenizer.model", sentencepiece_bytes([("a", 0.0, 1)], model_type=1), {}, "expected BPE, the only supported kind, found unigram"),
    ("tokenizer.model", sentencepiece_bytes([("a", 0.0, 1)], charsmap=b"x"), {}, "precompiled_charsmap"),
    ("tokenizer.model", b"\x0a\xff", {}, "expected a SentencePiece model"),
    ("tokenizer.model", b"version https://git-lfs", {}, "git lfs pull"),
    ("tiktoken.model", b"YQ== 0\n", {"tokenizer_class": "Other"}, "key 'tokenizer_class': expected TikTokenTokenizer"),
    ("tiktoken.model", b"YQ== 0\n!! 1\n", {"tokenizer_class": "TikTokenTokenizer"}, "line 2: expected a token"),
    ("tiktoken.model", b"YQ== x\n", {"tokenizer_class": "TikTokenTokenizer"}, "line 1: expected a rank"),
], ids=lambda value: "")
def test_what_cannot_be_read_is_named(name, data, config, says, tmp_path):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    sluice = Sluice(tmp_path)
    sluice.process.stdin.close()
    assert sluice.process.wait() == 0
    assert name.split(".")[0] in sluice.hello["error"] and says in sluice.hello["error"]
