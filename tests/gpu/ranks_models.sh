#!/usr/bin/env bash
# ranks_models.sh SLUICE OUT PART...: on a machine with two GPUs of one kind, from the root of a checkout. PARTs:
#   digests  the logits of the embedded model and of all oracles are the same file, byte for byte, on one GPU and on two, in
#            profile sm90 and in shared orders, whose files are the CPU's; steps of 512 and 37 rows
#   verify   `sluice verify` on two GPUs: 40 schedules
#   bench    V4-Flash's geometry with 64 experts a layer of their own weights: one sequence, 64, and prompts, on one GPU and on two
#   whole    V4-Flash with all its experts on two GPUs: starts, measures, and says its memory
# It prints a line for each. Nothing else may use the GPUs.
set -uo pipefail
sluice=$1 out=$2
shift 2
folder=$(mktemp -d) failed=0
logits() { # FILE MODEL FLAGS...
  timeout 25 "$sluice" logits "${@:2}" --ids-file "$folder/ids" --greedy 16 --out "$1" --log-level error --collective-timeout 5 >"$folder/log" 2>&1 ||
    echo "   $(tail -n 1 "$folder/log")"
}
same() { # NAME FILE FILE
  if cmp -s "$2" "$3"; then echo "$1: equal"; else echo "$1: DIFFERENT" && failed=1; fi
}
digests() {
  tests/oracles/make.sh "$sluice" "$folder" || exit 1
  for ((i = 0; i < 300; ++i)); do echo $(((i * 7919 + 13) % 251)); done >"$folder/ids"
  for model in models/sluice-tiny-v4 "$folder"/*-like; do
    local name=$(basename "$model")
    logits "$folder/one" "$model" --device cuda --profile sm90 --max-num-batched-tokens 512
    for rows in 512 37; do
      rm -f "$folder/two"
      logits "$folder/two" "$model" --device cuda --profile sm90 --max-num-batched-tokens $rows --tensor-parallel-size 2
      same "$name sm90 $rows, $(sha256sum <"$folder/one" | cut -c1-16)" "$folder/one" "$folder/two"
    done
    logits "$folder/one" "$model" --device cpu
    rm -f "$folder/two"
    logits "$folder/two" "$model" --device cuda --tensor-parallel-size 2
    same "$name default, CPU and two GPUs" "$folder/one" "$folder/two"
  done
}
verify() {
  local start=$SECONDS
  timeout 300 "$sluice" verify --device cuda --profile sm90 --tensor-parallel-size 2 --seed 11 --schedules 40 >"$out/verify.txt" 2>&1 || failed=1
  tail -n 4 "$out/verify.txt"
  echo "verify: $((SECONDS - start)) s"
}
measure() { # NAME FLAGS...
  local start=$SECONDS
  timeout 280 "$sluice" bench "${@:2}" --device cuda --profile sm90 --load-format dummy --max-model-len 16384 --prefill 8192 --decode 64 \
    --depth 4096 --concurrency 64 --concurrent-prompt 1024 --concurrent-tokens 32 --max-num-batched-tokens "${rows:-8192}" --rounds 2 \
    --log-level info >"$out/bench_$1.txt" 2>&1 || { echo "$1 FAILED" && failed=1; }
  echo "== $1, $((SECONDS - start)) s"
  grep -v '^loading\|^runs' "$out/bench_$1.txt" | tail -n 12 | cut -c1-160
}
bench() {
  measure one tests/configs/v4-flash.json --dummy-experts 64
  measure two tests/configs/v4-flash.json --dummy-experts 64 --tensor-parallel-size 2
}
whole() {
  rows=2048 measure whole tests/configs/v4-flash.json --tensor-parallel-size 2
  nvidia-smi --query-gpu=memory.used --format=csv,noheader
}
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
for part in "$@"; do $part; done
nvidia-smi --query-gpu=clocks.sm,power.draw --format=csv,noheader
exit $failed
