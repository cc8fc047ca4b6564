"""A small tokenizer of bytes and a few words, as tokenizer.json and as the metadata of GGUF files."""

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


def gguf_metadata():
    """{key: [type, value]} of the same vocabulary."""
    tokens = vocabulary() + SPECIALS + [f"<unused{n}>" for n in range(END + 1, SIZE)]
    types = [1 if not token.startswith("<unused") else 5 for token in tokens]
    for n in range(BOS, END + 1):
        types[n] = 3
    return {"tokenizer.ggml.model": ["string", "gpt2"], "tokenizer.ggml.pre": ["string", "llama-bpe"],
            "tokenizer.ggml.tokens": ["array", tokens], "tokenizer.ggml.token_type": ["array", types],
            "tokenizer.ggml.merges": ["array", [" ".join(pair) for pair in merges()]]}
