#!/usr/bin/env bash
# decoders.sh OUT ROUNDS SLUICE...: measures models of grouped-query attention and latents in the profile sm90, on a
# machine with an H100 or H200. Weights are made up from configs alone. It measures one sequence and 64 at 1,024 tokens,
# and prompts of 2,048 and 8,192 after 1,024. Each program is measured in turn, in this one run. GEOMETRIES (llama qwen
# v2) and SEQUENCES (64), from the environment, choose what is measured. Nothing else may use the GPU.
set -uo pipefail
out=$1 rounds=$2
shift 2
configs=$(mktemp -d)
geometry() { # NAME JSON
  mkdir -p "$configs/$1"
  echo "$2" >"$configs/$1/config.json"
}
geometry llama '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": false,
  "attention_bias": false, "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001}'
geometry qwen '{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
  "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
  "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu", "tie_word_embeddings": false,
  "attention_bias": false, "torch_dtype": "bfloat16", "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
  "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "bos_token_id": 151643, "eos_token_id": 151645}'
geometry v2 "$(cat tests/configs/v2-lite.json)"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader
for name in ${GEOMETRIES:-llama qwen v2}; do
  for sluice in "$@"; do
    start=$SECONDS
    timeout 240 "$sluice" bench "$configs/$name" --device cuda --profile sm90 --load-format dummy --max-model-len 16384 --prefill 2048,8192 \
      --decode 64 --depth 1024 --concurrency "${SEQUENCES:-64}" --concurrent-prompt 1024 --concurrent-tokens 32 --max-num-batched-tokens 8192 \
      --rounds "$rounds" --log-level error >"$out/bench_${name}_$(basename "$sluice").txt" 2>&1 || echo "$name FAILED"
    echo "== $name, $(basename "$sluice"), $((SECONDS - start)) s"
    grep -v '^loading\|^runs' "$out/bench_${name}_$(basename "$sluice").txt" | tail -n 9 | cut -c1-120
  done
done
nvidia-smi --query-gpu=clocks.sm,power.draw --format=csv,noheader
