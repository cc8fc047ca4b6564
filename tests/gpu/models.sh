#!/usr/bin/env bash
# models.sh SLUICE OUT: compares logits on the CPU and on the GPU byte by byte, in four profiles and steps of two sizes.
# They are logits of the embedded model (also of the prompts in tests/goldens, with the 64 likeliest next tokens) and of
# the checkpoints in tests/oracles. Run it on a machine with a GPU, from the root of a checkout. It prints a line for
# each. Nothing else may use the GPU.
set -uo pipefail
sluice=$1 out=$2
folder=$(mktemp -d)
tests/oracles/make.sh "$sluice" "$folder" || exit 1
failed=0
for ((i = 0; i < 300; ++i)); do echo $(((i * 7919 + 13) % 251)); done >"$folder/ids"
same() { # NAME FLAGS...
  local name=$1 start=$SECONDS
  shift
  "$sluice" logits "$@" --ids-file "$folder/ids" --out "$folder/cpu" --log-level error >"$folder/cpu.txt" 2>&1 || { echo "$name: CPU: $(tail -n 1 "$folder/cpu.txt")"; return; }
  for rows in 512 37; do
    if ! "$sluice" logits "$@" --ids-file "$folder/ids" --device cuda --max-num-batched-tokens $rows --out "$folder/gpu" --log-level error >"$folder/gpu.txt" 2>&1; then
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
in_profiles() { # NAME MODEL FLAGS...
  local flags
  for flags in "" "--profile plain" "--profile ref" "--compute-dtype bf16 --kv-cache-dtype bf16"; do
    same "$1 ${flags:-default}" "$2" $flags "${@:3}"
  done
}
prompts() { # FOLDER: the prompts of tests/goldens, a file of ids each
  mkdir "$1"
  tar xJOf tests/goldens/sluice-tiny-v4.tar.xz sluice-tiny-v4/goldens.safetensors >"$1/goldens"
  python3 - "$1" <<'P'
import json, struct, sys
data = open(sys.argv[1] + "/goldens", "rb").read()
(size,) = struct.unpack_from("<Q", data)
for name, tensor in json.loads(data[8 : 8 + size]).items():
    if name.endswith(".prompt_ids"):
        begin, end = tensor["data_offsets"]
        ids = struct.unpack(f"<{(end - begin) // 4}i", data[8 + size + begin : 8 + size + end])
        open(f"{sys.argv[1]}/{name[: -len('.prompt_ids')]}.ids", "w").write("\n".join(map(str, ids)))
P
}
{
  for model in models/sluice-tiny-v4 "$folder"/*/; do in_profiles "$(basename "$model")" "$model"; done
  prompts "$folder/prompts"
  for prompt in "$folder"/prompts/*.ids; do
    cp "$prompt" "$folder/ids"
    in_profiles "golden $(basename "$prompt" .ids)" models/sluice-tiny-v4 --greedy 64
  done
} >"$out/models.txt" 2>&1
cat "$out/models.txt"
exit $failed
