"""The tokenizer.json and tokenizer_config.json of the families of models, all but the vocabulary: written key by key as
the files that come with the models have them (older files lack keys, or have empty lists for null)."""

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK_V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
               r" ?[\p{P}\p{S}]+[" + "\r\n" + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+")
# DeepSeek-V2 lists cased letters by hand. Escaped are those that Unicode's composition would replace.
CASED = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ"
         "Ὗ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛ"
         "Ꜣ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(add_prefix_space, trim_offsets, use_regex):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets,
            "use_regex": use_regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


DIGITS = {"type": "Digits", "individual_digits": True}
NO_NORMALIZERS = {"type": "Sequence", "normalizers": []}
MODEL = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
         "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False}


def bos_template(name, token_id):
    """The post-processor of Llama 3."""
    special = {"SpecialToken": {"id": name, "type_id": 0}}
    first, second = ({"Sequence": {"id": part, "type_id": i}} for i, part in enumerate("AB"))
    return {"type": "Sequence", "processors": [byte_level(True, False, True), {
        "type": "TemplateProcessing", "single": [special, first],
        "pair": [special, first, {"SpecialToken": {"id": name, "type_id": 1}}, second],
        "special_tokens": {name: {"id": name, "ids": [token_id], "tokens": [name]}}}]}


# specials: the special tokens, at the first ids or behind the vocabulary; the first is BOS, the second EOS.
# bos: who asks for BOS, the "template" (post_processor) or the "config" (tokenizer_config.json).
FAMILIES = {
    "gpt2": {
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {"dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False},
        "specials": ["<|endoftext|>"], "bos": None},
    "smollm2": {
        "normalizer": None,
        "pre_tokenizer": sequence(DIGITS, byte_level(False, True, True)),
        "post_processor": None,
        "decoder": byte_level(True, True, True),
        "model": MODEL,
        "specials": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>"],
        "bos": None},
    "llama3": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(LLAMA3), byte_level(False, True, False)),
        "post_processor": "template",
        "decoder": byte_level(True, True, True),
        "model": MODEL | {"ignore_merges": True},
        "specials": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "bos": "template"},
    "qwen2": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": sequence(split(QWEN2), byte_level(False, False, False)),
        "post_processor": byte_level(False, False, False),
        "decoder": byte_level(False, False, False),
        "model": MODEL | {"continuing_subword_prefix": "", "end_of_word_suffix": "", "ignore_merges": False},
        "specials": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "bos": None},
    "deepseek_v2": {
        "normalizer": NO_NORMALIZERS,
        "pre_tokenizer": sequence(
            split("[\r\n]"), split(rf"\s?[{CASED}]+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"),
            split("[一-龥ࠀ-一가-\ud7ff]+"), DIGITS, byte_level(False, True, False)),
        "post_processor": byte_level(True, False, True),
        "decoder": byte_level(True, True, True),
        "model": MODEL,
        "specials": ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], "bos": "config"},
    "deepseek_v3": {
        "normalizer": NO_NORMALIZERS,
        "pre_tokenizer": sequence(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK_V3),
                                  byte_level(False, True, False)),
        "post_processor": byte_level(True, False, True),
        "decoder": byte_level(True, True, True),
        "model": MODEL,
        "specials": ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<｜User｜>", "<｜tool▁calls▁begin｜>"],
        "bos": "config"},
}


def added_token(token_id, content, special=False, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special} | flags


def tokenizer_json(family, vocabulary, merges, added):
    """The whole file; `added` begins with the family's own special tokens."""
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    file |= {key: family[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")}
    if file["post_processor"] == "template":
        file["post_processor"] = bos_template(added[0]["content"], added[0]["id"])
    return file | {"model": family["model"] | {"vocab": vocabulary, "merges": merges}}


def tokenizer_config(family):
    """DeepSeek writes its tokens as objects, the others as texts or not at all."""
    specials = family["specials"]
    name = {"template": specials[0], None: None}.get(family["bos"])
    if family["bos"] == "config":
        name = {"__type": "AddedToken", "content": specials[0], "lstrip": False, "normalized": True, "rstrip": False,
                "single_word": False}
    config = {"bos_token": name, "eos_token": specials[min(1, len(specials) - 1)], "unk_token": None}
    if family["bos"] == "config":
        config["tokenizer_class"] = "LlamaTokenizerFast"  # DeepSeek's, whose flag counts
    return config | ({"add_bos_token": family["bos"] == "config", "add_eos_token": False}
                     if family["bos"] != "template" else {})
