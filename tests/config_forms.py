"""Forms of config.json: a random walk from a complete config, in steps that people, tools and versions of libraries
take.

    draw(random) -> (family, config)          a form; its keys are dropped, moved, doubled, null or of another family
    difference(family, config) -> form        {"set": {path: value}, "drop": [path]} against the family's base
    apply(family, form) -> config

tests/config_form_library.py asks transformers for the right values of forms, config_forms_test.py compares stored ones.
"""

import copy

from config_form_bases import BASES, YARN

# Their defaults make models that are no longer tiny.
SIZES = {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "n_routed_experts", "num_experts",
         "moe_intermediate_size"}
IDENTITY = {"architectures", "model_type"}
# Left out, as DeepSeek's own code and transformers differ: norm_topk_prob true of V2 and moe_layer_freq but 1.
LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_v32")
WINDOWED = ("mistral", "qwen2", "qwen3", "qwen3_moe")


def rope_block(config):
    """The dictionary of rope options that there is, or None."""
    return config.get("rope_parameters") or config.get("rope_scaling")


def rope_dims(config):
    return config.get("qk_rope_head_dim") or config.get("head_dim") or 16


# --- steps: each takes (random, config, family) and changes the config ------------------------------------------------


def drop_key(random, config, _):
    block = rope_block(config)
    if block and random.random() < 0.4:
        block.pop(random.choice(sorted(block)))
    elif keys := [key for key in config if key not in SIZES | IDENTITY]:
        config.pop(random.choice(keys))


def null_key(random, config, _):
    config[random.choice([key for key in config if key not in SIZES | IDENTITY])] = None


def move_rope(random, config, _):
    """Between the top, rope_scaling and rope_parameters."""
    block = rope_block(config)
    which = random.randrange(5)
    if which == 0 and "rope_theta" in config:
        theta = config.pop("rope_theta")
        config["rope_parameters"] = {"rope_type": "default"} | (config.pop("rope_scaling", None) or {}) | {
            "rope_theta": theta}
    elif which == 1 and config.get("rope_scaling"):
        config["rope_parameters"] = config.pop("rope_scaling")
    elif which == 2 and block and "original_max_position_embeddings" in block:
        config["original_max_position_embeddings"] = block.pop("original_max_position_embeddings")
    elif block and {"type", "rope_type"} & set(block):
        old = "type" if "type" in block else "rope_type"
        block["rope_type" if old == "type" else "type"] = block.pop(old)
    else:
        config.pop("rope_scaling", None)
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta", 500.0)}


def double_rope(random, config, _):
    """One thing said in two places, with two values."""
    block = rope_block(config)
    if block is None:
        block = config["rope_parameters"] = {"rope_type": "default"}
    which = random.randrange(4)
    if which == 0:
        block["rope_theta"] = random.choice([500.0, 1000000.0])
        config["rope_theta"] = 10000.0
    elif which == 1:
        block["original_max_position_embeddings"] = random.choice([32, 128])
        config["original_max_position_embeddings"] = random.choice([64, 256])
    elif which == 2:
        config["rope_scaling"] = {"rope_type": "linear", "factor": 2.0}
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 500.0}
    else:
        block["type"] = "linear"
        block["rope_type"] = block.get("rope_type", "default")
        block["factor"] = block.get("factor", 4.0)


def yarn_options(random, _):
    out = copy.deepcopy(YARN)
    out["factor"] = random.choice([1.0, 2, 4.0, 40])
    out["original_max_position_embeddings"] = random.choice([32, 64, 128])
    for key, choices in {"beta_fast": [None, 8, 64], "beta_slow": [None, 2, 0.5], "mscale": [None, 0.707, 1.2, 0],
                         "mscale_all_dim": [None, 0.707, 0.5, 0], "truncate": [True, False],
                         "attention_factor": [None, 1.0, 1.3], "finetuned": [True], "rope_theta": [500.0]}.items():
        if random.random() < 0.3:
            out[key] = random.choice(choices)
        elif key in out and random.random() < 0.3:
            del out[key]
    return out


def rope_kind(random, config, _):
    """Another type, with its options."""
    kind = random.choice(["default", "linear", "dynamic", "yarn", "yarn", "yarn", "longrope", "llama3", "none"])
    half = rope_dims(config) // 2
    block = {"type": kind}
    if kind in ("linear", "dynamic"):
        block["factor"] = random.choice([1.0, 2.0, 4, 8.0])
    elif kind == "yarn":
        block = yarn_options(random, config)
    elif kind == "longrope":
        block |= {"short_factor": [1.0 + 0.1 * i for i in range(half)], "long_factor": [2.0 + i for i in range(half)],
                  "original_max_position_embeddings": random.choice([64, 256])}
        if random.random() < 0.5:
            block["factor"] = 2.0
    elif kind == "llama3":
        block |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": random.choice([4.0, 2]),
                  "original_max_position_embeddings": random.choice([32, 64])}
    if "type" in block and random.random() < 0.5:
        block["rope_type"] = block.pop("type")
    config.pop("rope_parameters", None)
    config.pop("rope_scaling", None)
    if kind != "none":
        config[random.choice(["rope_scaling", "rope_parameters"])] = block


def rope_value(random, config, _):
    key, choices = random.choice([("rope_theta", [500.0, 1000000.0, 10000]), ("partial_rotary_factor", [0.5, 1.0]),
                                  ("max_position_embeddings", [128, 4096]), ("rope_interleave", [False, True])])
    block = rope_block(config)
    inner = block is not None and key in ("rope_theta", "partial_rotary_factor") and random.random() < 0.5
    (block if inner else config)[key] = random.choice(choices)


def windows(random, config, _):
    layers = config["num_hidden_layers"]
    kinds = ["full_attention", "sliding_attention"]
    for key, choices in {"use_sliding_window": [True, True, False], "sliding_window": [8, 24, None, 4096],
                         "max_window_layers": [0, 1, 2, 28],
                         "layer_types": [[random.choice(kinds) for _ in range(layers)], None]}.items():
        chance = random.random()
        if chance < 0.45:
            config[key] = random.choice(choices)
        elif chance < 0.6:
            config.pop(key, None)


def other_family(random, config, family):
    """A key that another family has."""
    other = BASES[random.choice([name for name in BASES if name != family])]
    keys = [key for key in other if key not in config and key not in IDENTITY]
    if keys:
        key = random.choice(keys)
        config[key] = copy.deepcopy(other[key])


def foreign_key(random, config, _):
    """A key of models that none of the families is."""
    key, value = random.choice([
        ("logit_scale", 0.0625), ("final_logit_softcapping", 30.0), ("attn_logit_softcapping", 50.0),
        ("embedding_multiplier", 12.0), ("residual_multiplier", 0.22), ("no_rope_layers", [1, 1, 0]),
        ("use_qk_norm", True), ("qk_norm", True), ("clip_qkv", 8.0), ("attention_chunk_size", 16), ("n_head", 4),
        ("rope_pct", 0.5), ("use_mla", True), ("model_max_length", 77), ("tensor_parallel", 2)])
    config[key] = value


def moe_value(random, config, family):
    choices = {"n_group": [1, 2, 8, None], "topk_group": [1, 4, None], "norm_topk_prob": [False, True],
               "routed_scaling_factor": [1.0, 2.5, 16], "n_shared_experts": [1, 2, 0, None],
               "first_k_dense_replace": [0, 2, 3], "num_experts_per_tok": [1, 3, 8],
               "topk_method": ["greedy", "group_limited_greedy", "noaux_tc", None],
               "scoring_func": ["softmax", "sigmoid"]}
    if family == "qwen3_moe":
        choices = {"decoder_sparse_step": [1, 2, 3], "mlp_only_layers": [[0], [1, 2], [0, 1, 2], None],
                   "norm_topk_prob": [False], "num_experts_per_tok": [1, 4, 8], "num_experts": [4, 2],
                   "n_shared_experts": [1], "routed_scaling_factor": [2.5], "first_k_dense_replace": [1]}
    for key in random.sample(sorted(choices), random.choice([1, 1, 2])):
        if (family, key) != ("deepseek_v2", "norm_topk_prob"):
            config[key] = random.choice(choices[key])


def move_experts(random, config, _):
    """The count of experts under another name, or the dense layers as a list."""
    names = ("n_routed_experts", "num_experts", "num_local_experts")
    held = [name for name in names if name in config]
    layers, dense = config["num_hidden_layers"], config.get("first_k_dense_replace")
    if dense is not None and random.random() < 0.3:
        config["mlp_layer_types"] = ["dense" if i < dense else "sparse" for i in range(layers)]
        if random.random() < 0.5:
            del config["first_k_dense_replace"]
    elif held:
        other = random.choice([name for name in names if name != held[0]])
        config[other] = config.pop(held[0]) if random.random() < 0.5 else 4


def flags(random, config, family):
    """Biases, tied embeddings and what takes the family's bare name."""
    choices = {"attention_bias": [True], "mlp_bias": [True], "tie_word_embeddings": [True],
               "attention_dropout": [0.1], "qkv_bias": [True], "use_bias": [True]}
    key = random.choice(sorted(choices))
    config[key] = random.choice(choices[key])


def geometry(random, config, family):
    choices = {"num_key_value_heads": [1, 4, None], "head_dim": [8, 32, None], "num_attention_heads": [8, 2],
               "intermediate_size": [88, 128], "num_hidden_layers": [1, 2]}
    if family in LATENT:
        choices = {"q_lora_rank": [None, 32], "kv_lora_rank": [16], "qk_nope_head_dim": [24], "qk_rope_head_dim": [16],
                   "v_head_dim": [24, 8], "head_dim": [8, 16, None], "num_key_value_heads": [1, 2, None],
                   "num_hidden_layers": [2, 1]}
    key = random.choice(sorted(choices))
    config[key] = random.choice(choices[key])


def token_ids(random, config, _):
    for key in random.sample(["bos_token_id", "eos_token_id", "pad_token_id"], random.choice([1, 1, 2])):
        config[key] = random.choice([-1, 0, 95, 96, 128000, 2**32 - 1, None])
        if key == "eos_token_id" and random.random() < 0.4:
            config[key] = random.choice([[2, 5], [2, 400], [-1], []])


def identity(random, config, family):
    """architectures and model_type that are absent or do not belong together."""
    other = random.choice([name for name in BASES if name != family])
    bare = config["architectures"][0].replace("ForCausalLM", "Model") if config.get("architectures") else "Model"
    which = random.randrange(4)
    if which == 0:
        config["architectures"] = list(BASES[other]["architectures"])
    elif which == 1:
        config["architectures"] = [bare]
    elif which == 2:
        config["architectures"] = random.choice([None, [], ["FooForCausalLM"]])
    else:
        config.pop(random.choice(["architectures", "model_type"]), None)


def harmless(random, config, _):
    """Spellings and keys on which no logit depends, or which say the same in other words."""
    key, value = random.choice([
        ("hidden_act", "swish"), ("hidden_act", "gelu"), ("rms_norm_eps", 0.1), ("rms_norm_eps", 1e-12),
        ("torch_dtype", "half"), ("torch_dtype", "float8_e4m3fn"), ("dtype", "bfloat16"), ("use_cache", False),
        ("initializer_range", 0.5), ("quantization_config", None), ("transformers_version", "9.9.9"),
        ("_name_or_path", ""), ("auto_map", {"AutoConfig": "x.Y"}),
        ("ignored", {"a": [1, None]}), ("pretraining_tp", 2),
        ("num_nextn_predict_layers", 1), ("num_mtp_layers", 1), ("output_attentions", True), ("layer_norm_eps", 0.3)])
    if key == "dtype":
        config.pop("torch_dtype", None)
    config[key] = value


STEPS = {drop_key: 14, null_key: 6, move_rope: 9, double_rope: 7, rope_kind: 12, rope_value: 6, windows: 9,
         other_family: 8, foreign_key: 2, moe_value: 7, move_experts: 3, flags: 6, geometry: 5, token_ids: 5,
         identity: 4, harmless: 6}


def allowed(step, family):
    if step in (moe_value, move_experts):
        return family in (*LATENT, "qwen3_moe")
    return True


def draw(random):
    """A family and a config one to three steps away from its base, which differs from the base."""
    family = random.choice(sorted(BASES))
    steps = [step for step in STEPS if allowed(step, family)]
    while True:
        config = copy.deepcopy(BASES[family])
        for _ in range(random.choice([1, 1, 1, 2, 2, 3])):
            random.choices(steps, [STEPS[step] for step in steps])[0](random, config, family)
        if config != BASES[family] and within(family, config):
            return family, config


def within(family, config):
    """Neither of the two keys of which official code and transformers make different things."""
    v2_norm = family == "deepseek_v2" and config.get("norm_topk_prob")
    return not v2_norm and config.get("moe_layer_freq", 1) in (1, None) and config.get("num_hidden_layers", 3) <= 3


# --- forms as differences ---------------------------------------------------------------------------------------------


def walk(base, config, at, form):
    for key in base.keys() - config.keys():
        form["drop"].append(at + key)
    for key, value in config.items():
        if key not in base or not (isinstance(value, dict) and isinstance(base[key], dict)):
            if key not in base or base[key] != value or type(base[key]) is not type(value):
                form["set"][at + key] = value
        else:
            walk(base[key], value, at + key + ".", form)


def difference(family, config):
    form = {"set": {}, "drop": []}
    walk(BASES[family], config, "", form)
    return {"set": form["set"], "drop": sorted(form["drop"])}


def apply(family, form):
    config = copy.deepcopy(BASES[family])
    for path in form["drop"]:
        *folders, key = path.split(".")
        place = config
        for folder in folders:
            place = place[folder]
        del place[key]
    for path, value in form["set"].items():
        *folders, key = path.split(".")
        place = config
        for folder in folders:
            place = place[folder]
        place[key] = copy.deepcopy(value)
    return config


ALIASES = [{"num_experts", "num_local_experts", "n_routed_experts"}, {"torch_dtype", "dtype"}]


def changed_keys(form):
    """The names of the form's keys, of which a refusal has to say one."""
    names = {part for path in [*form["set"], *form["drop"]] for part in path.split(".")}
    for value in form["set"].values():
        names |= set(value) if isinstance(value, dict) else set()
    return names.union(*(group for group in ALIASES if group & names))
