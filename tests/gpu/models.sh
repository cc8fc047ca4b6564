#!/usr/bin/env bash
# models.sh SLUICE OUT: on a machine with a GPU, from the root of a checkout: logits of the embedded model and of the checkpoints in
# tests/oracles on the CPU and on the GPU, byte by byte, in four profiles and steps of two sizes. A line for each.
set -uo pipefail
sluice=$1 out=$2
folder=$(mktemp -d)
for archive in tests/oracles/*.tar.xz; do tar xJf "$archive" -C "$folder"; done
failed=0
ids=$(for ((i = 0; i < 300; ++i)); do printf '%s%d' "$([ "$i" = 0 ] || echo ,)" $(((i * 7919 + 13) % 251)); done)
same() { # NAME FLAGS...
  local name=$1 start=$SECONDS
  shift
  "$sluice" logits "$@" --ids "$ids" --out "$folder/cpu" --log-level error >"$folder/cpu.txt" 2>&1 || { echo "$name: CPU: $(tail -n 1 "$folder/cpu.txt")"; return; }
  for rows in 512 37; do
    if ! "$sluice" logits "$@" --ids "$ids" --device cuda --max-num-batched-tokens $rows --out "$folder/gpu" --log-level error >"$folder/gpu.txt" 2>&1; then
      echo "$name, $rows rows: FAILED: $(tail -n 1 "$folder/gpu.txt")"
      failed=1
    elif cmp -s "$folder/cpu" "$folder/gpu"; then
      echo "$name, $rows rows: equal, $((SECONDS - start)) s"
    else
      echo "$name, $rows rows: DIFFERENT"
      failed=1
    fi
  done
}
for model in models/sluice-tiny-v4 "$folder"/*/; do
  for flags in "" "--profile plain" "--profile ref" "--compute-dtype bf16 --kv-cache-dtype bf16"; do
    same "$(basename "$model") ${flags:-default}" "$model" $flags
  done
done >"$out/models.txt" 2>&1
cat "$out/models.txt"
exit $failed
