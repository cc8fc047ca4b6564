"""A small tokenizer of bytes and a few words, as tokenizer.json and as the metadata of GGUF files."""

import base64

WORDS = ["hello", " world", " the", " and", "user", "system"]
SPECIALS = ["<|bos|>", "<|eos|>", "<|user|>", "<|end|>"]
BOS, EOS, USER, END = range(320, 324)
SIZE = 384
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def alphabet():
    """The letter that stands for each byte in byte-level vocabularies."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printed else next(others)) for byte in range(256)]


def merges():
    """The words' letters, joined from the left."""
    out, letters = [], alphabet()
    for word in WORDS:
        text = [letters[byte] for byte in word.encode()]
        for n in range(1, len(text)):
            if (pair := ("".join(text[:n]), text[n])) not in out:
                out.append(pair)
    return out


def vocabulary():
    tokens = alphabet() + [left + right for left, right in merges()]
    return tokens + [f"<unused{n}>" for n in range(len(tokens), BOS)]


def added(token_id, content, special=True):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def tokenizer_json():
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(BOS + n, text) for n, text in enumerate(SPECIALS)], "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}, "post_processor": None,
            "decoder": level, "model": {
                "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                "vocab": {token: n for n, token in enumerate(vocabulary())},
                "merges": [" ".join(pair) for pair in merges()]}}


def gguf_metadata(renamed):
    """{key: [type, value]} of the same vocabulary, but for these tokens' texts."""
    tokens = vocabulary() + SPECIALS + [f"<unused{n}>" for n in range(END + 1, SIZE)]
    types = [1 if not token.startswith("<unused") else 5 for token in tokens]
    for n in range(BOS, END + 1):
        types[n] = 3
    tokens = [renamed.get(token, token) for token in tokens]
    return {"tokenizer.ggml.model": ["string", "gpt2"], "tokenizer.ggml.pre": ["string", "llama-bpe"],
            "tokenizer.ggml.tokens": ["array", tokens], "tokenizer.ggml.token_type": ["array", types],
            "tokenizer.ggml.merges": ["array", [" ".join(pair) for pair in merges()]]}


# --- SentencePiece, as Llama 2 has it, and tiktoken, as Kimi-K2 has it ------------------------------------------------

SENTENCE_WORDS = ["▁hello", "▁world", "▁the", "▁and"]


def sentence_merges():
    return [(word[:n], word[n]) for word in SENTENCE_WORDS for n in range(1, len(word))]


def sentence_vocabulary():
    letters = sorted({letter for word in SENTENCE_WORDS for letter in word} | set("abcdefghijklmnopqrstuvwxyz,.!"))
    pieces = dict.fromkeys(left + right for left, right in sentence_merges())
    return ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + letters + list(pieces)


def sentence_json():
    """tokenizer.json as transformers converts a tokenizer.model of Llama 2."""
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = [{"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB")]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(n, token) for n, token in enumerate(["<unk>", "<s>", "</s>"])],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [bos, text[0]], "pair": [bos, *text],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: n for n, token in enumerate(sentence_vocabulary())},
                      "merges": [" ".join(pair) for pair in sentence_merges()]}}


def sentence_gguf_metadata():
    tokens = sentence_vocabulary()
    ranks = {left + right: n for n, (left, right) in reversed(list(enumerate(sentence_merges())))}
    scores = [-float(ranks.get(token, 1000)) if n >= 259 else 0.0 for n, token in enumerate(tokens)]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    unused = [f"<unused{n}>" for n in range(len(tokens), SIZE)]
    return {"tokenizer.ggml.model": ["string", "llama"], "tokenizer.ggml.pre": ["string", "default"],
            "tokenizer.ggml.tokens": ["array", tokens + unused],
            "tokenizer.ggml.scores": ["array", scores + [-10000.0] * len(unused)],
            "tokenizer.ggml.token_type": ["array", types + [5] * len(unused)],
            "tokenizer.ggml.add_bos_token": ["bool", True], "tokenizer.ggml.unknown_token_id": ["uint32", 0]}


def tiktoken_ranks():
    """The tokens' bytes, by rank."""
    words = dict.fromkeys(word.encode()[:n] for word in WORDS for n in range(2, len(word) + 1))
    tokens = [bytes([byte]) for byte in range(256)] + list(words)
    return tokens + [f"\x00{n}".encode() for n in range(len(tokens), BOS)]


def tiktoken_model():
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tiktoken_ranks()))
