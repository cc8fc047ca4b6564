"""Forms of tokenizer.json: for each key the kinds that the `tokenizers` package reads, alone and in random combinations,
over two small trained vocabularies, one of bytes and one of characters (SentencePiece's)."""

import functools
import json
import random

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

import tokenizer_strings

TEXTS = [
    "", " ", "\n", "a", "Hello world! it's 12345 days", "  leading and trailing  ", "a <tag>b<tag>  c <|sp|>  d\n<|sp|> e",
    "cat concat cat, cat_x cat's (cat) 猫cat catécat", "café cafe\u0301 n\u0303 e\u0301x ñ é", "A\u030aﬁ ① ² Ａ ½ ㋿",
    "tab\t\ttwo\r\nline\r\r\n\n end", "1,234,567.89 007 ١٢٣ 四五", "你好世界 こんにちは カタカナ 안녕 Привет", "WE'LL They'RE it'S I'D",
    "emoji 👩‍👩‍👧 🇩🇪 e\u20dd", "…\u2028x\u2029y\u0085z\u00a0w\u3000v\u180e", "don't.stop,now ;) [x]{y}", "▁▁a ▁b▁ c▁",
    "<0x41> <s> <unk> </s>", "\x00\x01\x7f ab", "𝒳 𐍈 😀x \U000e0100", "Ünïcödé ß ẞ ŉ İ ǅ Σς K", "क्षि தமிழ் ก็ \u0958 \u1e9b\u0323",
    "HTTPServer camelCase snake_case x1y2", "   \n  \n\n \t ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b",
    "def f(x):\n    return x**2 # ok\n", "word\u200dword \u200c \ufeff \u00ad \u2e43 \u166d \ua7cb \U00010d50",
]

KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = [
    KIMI, r"\w+", r"\W", r"[\w]+", r"[^\w\s]+", r"[\W\d]+", r"\b", r"\B", r"\b\w", r"\h+", r"[^\h]", r"\H", r"\R", r"\X", r"\A.",
    r".\z", r"\A\s+", r"\s+\Z", r"^.|.$", r"[[:alpha:]]+", r"[[:^alpha:]]+", r"[[:punct:]]", r"[[:upper:][:digit:]]",
    r"[[:alnum:]_]+", r"[[:space:]]+", r"[[:word:]]+", r"[[:print:]]+", r"[[:graph:]]+", r"[[:cntrl:][:blank:]]", r"\p{Letter}+",
    r"\p{Uppercase_Letter}\p{^Lu}*", r"\P{^N}", r"\p{alnum}+", r"[a-z&&[^aeiou]]+", r"[^a-m&&[a-z]]", r"[\p{L}&&[^\p{Lu}]&&[^a]]+",
    r"[a-c[x-z]\d]+", r"[^[^a-z]]+", r"(?=\p{Lu})", r"(?<=[a-z])(?=[A-Z])", r"(?<![\s'])'", r"a{,2}b?", r"\p{L}{2,3}?", r"\p{N}{2,}",
    r"{|}", r"(?m:a.)", r"(?<n>cat)", r"(?i:CAT)", r"(?>\s+)\S", r"\N+", r"\O{4}", r"[\x20-\x{2F}]", r"[\]\[\-^]", r"[a\-c]+",
    r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+", r"\p{Cyrillic}", r"[^\p{Latin}]+", r"x*", r"\s?+\S++",
]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def metaspace(scheme="first", splits=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": splits}


PRE_TOKENIZERS = [{"type": "WhitespaceSplit"}, {"type": "Whitespace"}, {"type": "BertPreTokenizer"},
                  {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
                  {"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 3},
                  *({"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS),
                  split("a", "MergedWithNext", kind="String"), *(metaspace(s) for s in ("always", "first", "never"))]


def replaces(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


NORMALIZERS = [*({"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")),
               {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Strip", "strip_left": False, "strip_right": True},
               replaces("a", "bb"), replaces(r"\s+", " ", "Regex"), replaces(r"\A +| +\z", "", "Regex"), replaces(r"x*", "-", "Regex"),
               replaces(" {2,}", "▁", "Regex"), {"type": "Prepend", "prepend": "▁"}, {"type": "Prepend", "prepend": "ab "}]
DECODERS = [{"type": "Fuse"}, replaces("▁", " "), replaces(r"▁+", "_", "Regex"), {"type": "ByteFallback"}, BYTE_LEVEL,
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Strip", "content": "a", "start": 2, "stop": 1},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}]
LLAMA_DECODER = {"type": "Sequence", "decoders": [
    replaces("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
LEGACY = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replaces(" ", "▁")]}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def words(*parts):
    """A pre-tokenizer for the vocabulary of bytes."""
    return sequence("pretokenizers", *parts, BYTE_LEVEL)


def added(token_id, content, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False} | flags


def whole(model, tokens, **parts):
    ids = dict(model["vocab"])
    for text, _ in tokens:
        ids.setdefault(text, len(ids))
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [added(ids[text], text, **flags) for text, flags in tokens],
            "model": model} | parts


def train(pre_tokenizer, size, alphabet):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    corpus = [text.lower() for text in tokenizer_strings.texts(7, 400, []) if len(text) < 500] + TEXTS
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, limit_alphabet=300,
                                                              show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


@functools.cache
def base_of_bytes():
    model = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 700, sorted(pre_tokenizers.ByteLevel.alphabet()))
    return whole(model, [("<|sp|>", {"special": True}), ("<tag>", {"normalized": True}), ("<s>", {"special": True})],
                 pre_tokenizer=words(split(r"\s+\S+|\S+")), decoder=BYTE_LEVEL)


@functools.cache
def base_of_characters():
    model = train(pre_tokenizers.Metaspace(), 600, sorted(set("abcdefghijklmnopqrstuvwxyz0123456789.,▁")))
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    model["vocab"] = {text: i for i, text in enumerate(names + list(model["vocab"]))}
    model |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    return whole(model, [(text, {"special": True}) for text in names[:3]] + [("<|sp|>", {"special": True}), ("<tag>", {})],
                 normalizer=LEGACY, pre_tokenizer=None, decoder=LLAMA_DECODER, post_processor={
                     "type": "TemplateProcessing", "pair": [],
                     "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                     "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})


def fixed_forms():
    """(name, tokenizer.json) of each kind alone."""
    of_bytes, of_characters = base_of_bytes(), base_of_characters()
    for i, pattern in enumerate(PATTERNS):
        yield f"split {pattern}", of_bytes | {"pre_tokenizer": words(split(pattern, BEHAVIORS[i % 5], i % 3 == 2))}
        yield f"isolated {pattern}", of_bytes | {"pre_tokenizer": words(split(pattern))}
    for pre in PRE_TOKENIZERS:
        yield f"bytes {pre}", of_bytes | {"pre_tokenizer": words(pre)}
        yield f"characters {pre}", of_characters | {"pre_tokenizer": pre, "normalizer": None}
    for normalizer in NORMALIZERS:
        yield f"bytes {normalizer}", of_bytes | {"normalizer": normalizer}
        yield f"characters {normalizer}", of_characters | {"normalizer": sequence("normalizers", normalizer, *LEGACY["normalizers"])}
    for decoder in DECODERS:
        yield f"decoder {decoder}", of_characters | {"decoder": decoder}
    yield "decoder bytes, fuse", of_bytes | {"decoder": sequence("decoders", BYTE_LEVEL, {"type": "Fuse"})}
    yield "prefix space", of_bytes | {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}}
    for kind in ("RobertaProcessing", "BertProcessing"):
        processor = {"type": kind, "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False}
        yield kind, of_characters | {"post_processor": processor}
        yield f"{kind} twice", of_bytes | {"post_processor": sequence("processors", processor, BYTE_LEVEL, processor)}
    for flags in ({}, {"unk_token": None}, {"byte_fallback": False}, {"byte_fallback": False, "fuse_unk": False},
                  {"byte_fallback": False, "unk_token": None}, {"ignore_merges": True}):
        for splits in (metaspace("first", False), metaspace("always", False), metaspace("always"), None):
            changes = {"pre_tokenizer": splits, "normalizer": LEGACY if splits is None else None}
            yield f"model {flags} {splits}", of_characters | changes | {"model": of_characters["model"] | flags}
    some = {text.replace("<0xE", "<0yE"): i for text, i in of_characters["model"]["vocab"].items()}
    yield "some bytes missing", of_characters | {"model": of_characters["model"] | {"vocab": some}}


def random_form(rng):
    def some(choices, most, key, *last):
        picked = [rng.choice(choices) for _ in range(rng.randint(0, most))] + list(last)
        return rng.choice([sequence(key, *picked), picked[0]]) if len(picked) == 1 else sequence(key, *picked) if picked else None

    splits = PRE_TOKENIZERS + [split(rng.choice(PATTERNS), rng.choice(BEHAVIORS), rng.random() < 0.3) for _ in range(8)]
    if rng.random() < 0.5:
        form = base_of_bytes() | {"pre_tokenizer": some(splits, 3, "pretokenizers", BYTE_LEVEL | {
            "use_regex": rng.random() < 0.3, "add_prefix_space": rng.random() < 0.3})}
    else:
        form = base_of_characters() | {"pre_tokenizer": some(splits, 3, "pretokenizers")}
        form["model"] = form["model"] | {key: rng.random() < 0.5 for key in ("byte_fallback", "fuse_unk", "ignore_merges")}
        if rng.random() < 0.4:
            form["decoder"] = sequence("decoders", *(rng.choice(DECODERS) for _ in range(rng.randint(1, 4))))
    if "first" not in json.dumps(form["pre_tokenizer"]):  # the package's idea of a changed text's start is its own
        form["normalizer"] = some(NORMALIZERS, 3, "normalizers")
    else:
        form["normalizer"] = None
    form["added_tokens"] = [token | {"special": False} | {flag: rng.random() < 0.3 for flag in (
        "lstrip", "rstrip", "single_word", "normalized", "special")} for token in form["added_tokens"]]
    for token in form["added_tokens"]:
        token["normalized"] = token["normalized"] and not token["special"]  # such are never skipped by the package
    return form


def forms(seed, count):
    """`count` forms, the same for the same arguments."""
    rng = random.Random(seed)
    fixed = list(fixed_forms())
    if count < len(fixed):
        return rng.sample(fixed, count)
    return fixed + [(f"random {i}", random_form(rng)) for i in range(count - len(fixed))]
