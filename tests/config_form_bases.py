"""One complete tiny config.json of each family, as transformers writes them: where the walk of config_forms.py
begins."""

SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 512, "hidden_act": "silu", "initializer_range": 0.02,
         "rms_norm_eps": 1e-5, "use_cache": True, "tie_word_embeddings": False, "attention_bias": False,
         "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None, "rope_theta": 10000.0,
         "rope_scaling": None, "torch_dtype": "float32"}
WINDOWS = {"use_sliding_window": False, "sliding_window": 16, "max_window_layers": 2}
EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2, "norm_topk_prob": True}
LATENT = {"num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16,
          "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 16, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 4, "topk_group": 2,
          "routed_scaling_factor": 1.5, "ep_size": 1}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0}


def family(architecture, model_type, *parts, without=(), **keys):
    """A config of these parts, the later ones winning."""
    config = {"architectures": [architecture], "model_type": model_type}
    for part in (*parts, keys):
        config |= part
    return {key: value for key, value in config.items() if key not in without}


BASES = {
    "llama": family("LlamaForCausalLM", "llama", SIZES, mlp_bias=False, pretraining_tp=1, head_dim=16),
    "mistral": family("MistralForCausalLM", "mistral", SIZES, sliding_window=16, head_dim=16,
                      without=("attention_bias",)),
    "qwen2": family("Qwen2ForCausalLM", "qwen2", SIZES, WINDOWS, without=("attention_bias",)),
    "qwen3": family("Qwen3ForCausalLM", "qwen3", SIZES, WINDOWS, head_dim=32),
    "qwen3_moe": family("Qwen3MoeForCausalLM", "qwen3_moe", SIZES, WINDOWS, EXPERTS, num_experts=8, head_dim=32,
                        decoder_sparse_step=1, mlp_only_layers=[], output_router_logits=False,
                        router_aux_loss_coef=0.001),
    "deepseek_v2": family("DeepseekV2ForCausalLM", "deepseek_v2", SIZES, EXPERTS, LATENT, rope_scaling=YARN,
                          norm_topk_prob=False, n_shared_experts=2, topk_method="group_limited_greedy",
                          scoring_func="softmax", aux_loss_alpha=0.001, seq_aux=True, pretraining_tp=1),
    "deepseek_v3": family("DeepseekV3ForCausalLM", "deepseek_v3", SIZES, EXPERTS, LATENT, rope_scaling=YARN,
                          topk_method="noaux_tc", scoring_func="sigmoid", num_nextn_predict_layers=0,
                          rope_interleave=True, pretraining_tp=1),
    "deepseek_v32": family("DeepseekV32ForCausalLM", "deepseek_v32", SIZES, EXPERTS, LATENT, rope_scaling=YARN,
                           topk_method="noaux_tc", scoring_func="sigmoid", num_nextn_predict_layers=0,
                           index_topk=24, index_head_dim=32, index_n_heads=32),
}
