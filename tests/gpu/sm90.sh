#!/usr/bin/env bash
# sm90.sh SLUICE GPU_TEST OUT [SCHEDULES [PARTS]]: tests the profile sm90 on a machine with an H100 or H200, from the
# root of a checkout. PARTS (all of them): products, attention with the indexer, every kernel against the plain one;
# speed; models, the start, SCHEDULES (100) random schedules of the embedded model and of small ones; accuracy,
# evaluations and prose against ref; digests of logits. It prints a line for each, and exits 1 if any has failed.
# Nothing else may use the GPU.
set -uo pipefail
sluice=$1 gpu_test=$2 out=$3 schedules=${4:-100} parts=${5:-products attention speed models accuracy digests}
model=models/sluice-tiny-v4 folder=$(mktemp -d) failed=0
cuda=(--device cuda --profile sm90 --log-level error)
has() { [[ " $parts " == *" $1 "* ]]; }
say() { echo "$*" | tee -a "$out/sm90.txt"; }
check() { # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  if timeout 240 "$@" >"$folder/log" 2>&1; then
    say "$name: passed in $((SECONDS - start)) s: $(grep -v '^\[\|^$' "$folder/log" | tail -n 1 | cut -c1-160)"
  else
    say "$name: FAILED in $((SECONDS - start)) s"
    tail -n 25 "$folder/log" | tee -a "$out/sm90.txt"
    failed=1
  fi
}
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader | tee -a "$out/sm90.txt"
if has products; then
  check products "$gpu_test" --part 1 --gtest_filter='GpuStrips*:GpuShares*' --json "$out/products.json"
  cp "$folder/log" "$out/products.txt"
  check "products in FP8" "$gpu_test" --part 1 --gtest_filter='GpuFp8*' --json "$out/fp8.json"
fi
if has attention; then
  check attention "$gpu_test" --part 1 --gtest_filter='GpuHyper*:GpuAttention*:GpuListAttention*:GpuIndex*' --json "$out/attention.json"
  grep 'f64' "$folder/log" | tee -a "$out/sm90.txt"
fi
if has speed; then
  check speed "$gpu_test" --part 2 --gtest_filter='GpuSpeedStrips*:GpuSpeedFp8*:GpuSpeedHyper*:GpuSpeedAttention*:GpuSpeedListAttention*:GpuSpeedIndex*'
  grep 'TFLOP\|copy ' "$folder/log" | tee "$out/speed.txt"
  nvidia-smi --query-gpu=clocks.sm,power.draw --format=csv,noheader | tee -a "$out/sm90.txt"
fi
tests/oracles/make.sh "$sluice" "$folder" || exit 1
if has models; then
  check "verify, the embedded model" "$sluice" verify "$model" "${cuda[@]}" --schedules "$schedules"
  for variant in "--compute-dtype fp8" "--expert-dtype int8" "--compute-dtype fp8 --expert-dtype int8"; do
    check "verify, the embedded model, $variant" "$sluice" verify "$model" "${cuda[@]}" $variant --schedules "$((schedules / 4))"
  done
  for kind in v4-flash-like v4-pro-like v32-like v3-like v2-lite-like llama-like qwen2-swa-like; do
    check "verify, $kind" "$sluice" verify "$folder/$kind" "${cuda[@]}" --schedules "$((schedules / 4))"
  done
fi
if has accuracy; then
  tar xJf tests/evals/sluice-tiny-v4.tar.xz -C "$folder"
  right() { # TASK PROFILE: how many items are
    "$sluice" eval "$model" --task "$1" --device cuda --profile "$2" --concurrency 8 --log-level error 2>&1 | awk 'END { print $3 }'
  }
  for task in "$folder"/*.jsonl; do
    name=$(basename "$task" .jsonl) ref=$(right "$task" ref) ours=$(right "$task" sm90)
    if [[ $ref =~ ^[0-9]+$ && $ours =~ ^[0-9]+$ && $((ours - ref)) -ge -1 && $((ours - ref)) -le 1 ]]; then
      say "evaluation $name: $ours right, ref $ref"
    else
      say "evaluation $name: FAILED: '$ours' right, ref '$ref'"
      failed=1
    fi
  done
  check "prose against ref" "$sluice" eval "$model" --perplexity tests/evals/prose.txt "${cuda[@]}" --against ref --kv-cache-memory 1GB
  tee -a "$out/sm90.txt" <"$folder/log"
  for variant in "--compute-dtype fp8" "--expert-dtype int8"; do
    check "prose against ref, $variant" "$sluice" eval "$model" --perplexity tests/evals/prose.txt "${cuda[@]}" $variant --against ref --kv-cache-memory 1GB
    tee -a "$out/sm90.txt" <"$folder/log"
  done
fi
if has digests; then
  for ((i = 0; i < 300; ++i)); do echo $(((i * 7919 + 13) % 251)); done >"$folder/ids"
  for of in "$model" "$folder"/*-like; do
    for rows in 512 37 3; do
      "$sluice" logits "$of" "${cuda[@]}" --ids-file "$folder/ids" --max-num-batched-tokens $rows --out "$folder/logits" >"$folder/log" 2>&1 || tail -n 2 "$folder/log"
      say "logits of $(basename "$of"), steps of $rows: $(sha256sum <"$folder/logits" | cut -c1-16)"
    done
  done
fi
exit $failed
