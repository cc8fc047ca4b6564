"""The tokenizers in GGUF files against the `tokenizers` package, id by id: for each pre-tokenizer a vocabulary is trained
and written both ways.

The seed is fresh, or in SLUICE_TEST_SEED, the number of texts per tokenizer in SLUICE_TEST_TEXTS."""

import functools
import json
import pathlib
import random
import sys

import gguf
import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_strings  # noqa: E402
from tokenizer_test import SEED, TEXTS, Sluice, byte_level, first_difference, split  # noqa: E402

LLAMA_BPE = (r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
             r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The letters of DeepSeek-V2's tokenizer.json. Escaped are those that Unicode's composition would replace.
CASED = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ"
         "Ὗ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛ"
         "Ꜣ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
PRE = {
    "llama-bpe": [split(Regex(LLAMA_BPE)), byte_level()],
    "qwen2": [split(Regex(LLAMA_BPE.replace(r"\p{N}{1,3}", r"\p{N}"))), byte_level()],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), byte_level(use_regex=True)],
    "deepseek-llm": [split(Regex("[\r\n]")), split(Regex(rf"\s?[{CASED}]+")),
                     split(Regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+")), split(Regex(r"\s+$")),
                     split(Regex("[一-龥ࠀ-一가-\ud7ff]+")), pre_tokenizers.Digits(individual_digits=True), byte_level()],
    "deepseek-v3": [split(Regex(r"\p{N}{1,3}")), split(Regex("[一-龥぀-ゟ゠-ヿ]+")),
                    split(Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                                r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")), byte_level()],
    "deepseek-coder": [split(Regex("[\r\n]")), split(Regex(r"\s?\p{L}+")), split(Regex(r"\s?\p{P}+")),
                       split(Regex("[一-龥ࠀ-一가-\ud7ff]+")), pre_tokenizers.Digits(individual_digits=True),
                       byte_level()],
    "kimi-k2": [split(Regex(
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+")), byte_level()],
    "gpt-2": [byte_level(use_regex=True)],
}
ADDS_BOS = {"llama-bpe", "deepseek-llm", "deepseek-v3", "deepseek-coder"}
# Other names of the same.
ALIASES = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "deepseek-r1-qwen": "qwen2"}
SPECIALS = ["<|begin|>", "<|end|>", "<|e", "<｜User｜>"]
PLAIN = ["<think>", "</think>", "[MASK]"]


@functools.cache
def train(pre):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(PRE[pre])
    tokenizer.decoder = decoders.ByteLevel()
    corpus = tokenizer_strings.texts(SEED + 1000, 3000, [])
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=2500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIALS])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in PLAIN])
    return tokenizer


def write(path, tokenizer, pre, drop_merges=0, edit=lambda writer: None):
    model = json.loads(tokenizer.to_str())["model"]
    size = tokenizer.get_vocab_size()
    kinds = {t: gguf.TokenType.CONTROL for t in SPECIALS} | {t: gguf.TokenType.USER_DEFINED for t in PLAIN}
    tokens = [tokenizer.id_to_token(i) for i in range(size)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(t, gguf.TokenType.NORMAL) for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]][drop_merges:])
    writer.add_bos_token_id(tokens.index("<|begin|>"))
    writer.add_eos_token_id(tokens.index("<|end|>"))
    edit(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check(path, reference, texts, prefix=(), modes=2):
    with Sluice(path) as sluice:
        assert sluice.hello["vocab_size"] == reference.get_vocab_size()
        for flags, as_text, before in (("- -", False, []), ("a n", True, list(prefix)))[:modes]:
            reference.encode_special_tokens = as_text
            theirs = [before + e.ids for e in reference.encode_batch(texts, add_special_tokens=False)]
            for text, a, b in zip(texts, sluice.ask("encode " + flags, texts), theirs):
                assert a == b, first_difference(text, a, b, reference)
        rng = random.Random(SEED)
        streams = [[rng.randrange(sluice.hello["vocab_size"]) for _ in range(20)] for _ in range(500)]
        for ids, answer in zip(streams, sluice.ask("decode s -", [" ".join(map(str, i)) for i in streams])):
            assert bytes.fromhex(answer).decode("utf-8", "replace") == reference.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("pre", PRE)
def test_trained_tokenizer(pre, tmp_path):
    tokenizer = train(pre)
    write(tmp_path / "t.gguf", tokenizer, pre)
    prefix = [tokenizer.token_to_id("<|begin|>")] if pre in ADDS_BOS else []
    check(tmp_path / "t.gguf", tokenizer, tokenizer_strings.texts(SEED, max(TEXTS // 5, 100), SPECIALS + PLAIN), prefix)


@pytest.mark.parametrize("name", ALIASES)
def test_other_names(name, tmp_path):
    tokenizer = train(ALIASES[name])
    write(tmp_path / "t.gguf", tokenizer, name)
    prefix = [tokenizer.token_to_id("<|begin|>")] if ALIASES[name] in ADDS_BOS else []
    check(tmp_path / "t.gguf", tokenizer, tokenizer_strings.texts(SEED, 20, SPECIALS + PLAIN), prefix)


def test_odd_ids_and_repeated_tokens_pass(tmp_path):
    """Ids of no token name none; of two tokens with a text it becomes the last that is used; files may name no words."""
    tokenizer = train("smollm")
    size = tokenizer.get_vocab_size()

    def edit(writer):
        data = writer.kv_data[0]
        data["tokenizer.ggml.bos_token_id"].value = 0xFFFFFFFF
        writer.add_pad_token_id(1 << 20)
        tokens, types = data["tokenizer.ggml.tokens"].value, data["tokenizer.ggml.token_type"].value
        data["tokenizer.ggml.tokens"].value = tokens + ["a", "<think>", "b", ""]
        data["tokenizer.ggml.token_type"].value = types + [5, 4, 1, 1]
    write(tmp_path / "t.gguf", tokenizer, "smollm", edit=edit)
    with Sluice(tmp_path / "t.gguf") as sluice:
        assert sluice.hello["vocab_size"] == size + 4
        assert sluice.ask("encode a -", ["a<think> b", "b"]) == [
            [tokenizer.token_to_id("a"), size + 1] + tokenizer.encode(" b").ids, [size + 2]]
        assert bytes.fromhex(sluice.ask("decode s -", [f"{size} {size + 1} {size + 2} {size + 3}"])[0]) == b"a<think>b"

    def drop(writer):
        del writer.kv_data[0]["tokenizer.ggml.pre"]
    write(tmp_path / "t.gguf", tokenizer, "smollm", edit=drop)
    with Sluice(tmp_path / "t.gguf") as sluice:
        assert sluice.ask("encode - -", ["a"]) == [[tokenizer.token_to_id("a")]]


@pytest.mark.parametrize("pre", ["smollm", "deepseek-llm"])  # the others' classes are in tokenizer_test.py
def test_every_code_point(pre, tmp_path):
    tokenizer = train(pre)
    write(tmp_path / "t.gguf", tokenizer, pre)
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    random.Random(SEED).shuffle(points)
    glue = ["", " ", "a", "1", "!", " a", "\n"]
    texts = ["".join(c + glue[(i + j) % len(glue)] for j, c in enumerate(points[i:i + 128]))
             for i in range(0, len(points), 128)]
    check(tmp_path / "t.gguf", tokenizer, texts, modes=1)


def test_a_word_that_is_a_token_stays_whole_in_llama_bpe_only(tmp_path):
    """Without the last merges their tokens are out of reach, but for ignore_merges."""
    for pre in ("llama-bpe", "qwen2"):
        tokenizer = train(pre)
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        words = [m.replace(" ", "") if isinstance(m, str) else "".join(m) for m in merges]
        at, word = next((i, w) for i, w in enumerate(words) if w.replace("Ġ", "").isascii())  # a text of its own
        text = word.replace("Ġ", " ")
        write(tmp_path / f"{pre}.gguf", tokenizer, pre, drop_merges=at + 1)
        with Sluice(tmp_path / f"{pre}.gguf") as sluice:
            ids = sluice.ask("encode - -", [text])[0]
        assert (ids == [tokenizer.token_to_id(word)]) == (pre == "llama-bpe"), (pre, text, ids)


def test_bos_and_eos_as_the_file_says(tmp_path):
    tokenizer = train("smollm")
    begin, end = tokenizer.token_to_id("<|begin|>"), tokenizer.token_to_id("<|end|>")
    for pre, bos, eos, expected in (("smollm", None, None, []), ("smollm", True, True, [begin, end]),
                                    ("llama-bpe", False, None, []), ("llama-bpe", None, True, [begin, end])):
        def edit(writer, bos=bos, eos=eos):
            if bos is not None:
                writer.add_add_bos_token(bos)
            if eos is not None:
                writer.add_add_eos_token(eos)
        write(tmp_path / "t.gguf", tokenizer, pre, edit=edit)
        with Sluice(tmp_path / "t.gguf") as sluice:
            assert sluice.ask("encode a -", [""]) == [expected]


def error_of(path):
    with pytest.raises(AssertionError) as failure:
        with Sluice(path):
            pass
    return str(failure.value)


def test_what_cannot_be_read_is_refused(tmp_path):
    tokenizer = train("smollm")
    path = tmp_path / "t.gguf"

    def error(pre="smollm", **changes):
        def edit(writer):
            for key, value in changes.items():
                data = writer.kv_data[0]
                if value is None:
                    del data["tokenizer.ggml." + key]
                else:
                    data["tokenizer.ggml." + key].value = value
        write(path, tokenizer, pre, edit=edit)
        return error_of(path)

    assert "pre-tokenizer (llama-bpe, llama3, llama-v3," in error(pre="no-such") and "\"no-such\"" in error(pre="no-such")
    assert "key 'tokenizer.ggml.model': expected one of the supported gpt2" in error(model="bert")
    assert "key 'tokenizer.ggml.scores'" in error(model="llama")
    assert "key 'tokenizer.ggml.tokens': expected an array of strings, found nothing" in error(tokens=None)
    assert "key 'tokenizer.ggml.merges': expected an array of strings" in error(merges=[1, 2])
    assert "expected an array of" in error(token_type=[1, 2, 3])
    assert "a token for every printable byte" in error(tokens=["a"] * tokenizer.get_vocab_size())
    assert "expected tokens that are in 'vocab'" in error(merges=["zzz qqq"])
