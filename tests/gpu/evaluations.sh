#!/usr/bin/env bash
# evaluations.sh SLUICE OUT: compares the answers of the embedded model to every item of the evaluations, on the CPU
# alone and on the GPU eight at a time, token by token; then the faults that `verify` has to find. Run it on a machine
# with a GPU, from the root of a checkout. It prints a line for each.
set -uo pipefail
sluice=$1 out=$2 model=models/sluice-tiny-v4
folder=$(mktemp -d)
tar xJf tests/evals/sluice-tiny-v4.tar.xz -C "$folder"
say() { echo "$*" | tee -a "$out/evaluations.txt"; }
failed=0
for task in "$folder"/*.jsonl; do
  name=$(basename "$task" .jsonl) start=$SECONDS
  "$sluice" eval "$model" --task "$task" --json "$folder/cpu.json" --log-level error >/dev/null 2>&1
  "$sluice" eval "$model" --task "$task" --device cuda --concurrency 8 --json "$folder/gpu.json" --log-level error >"$folder/gpu.txt" 2>&1
  if python3 - "$folder/cpu.json" "$folder/gpu.json" <<'P'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
items = lambda r: sorted((i["id"], json.dumps({k: v for k, v in i.items() if "second" not in k and "time" not in k})) for i in r["items"])
sys.exit(0 if items(a) and items(a) == items(b) else 1)
P
  then say "$name: equal, $(tail -n 1 "$folder/gpu.txt"), $((SECONDS - start)) s"
  else
    say "$name: DIFFERENT: $(tail -n 1 "$folder/gpu.txt")"
    failed=1
  fi
done
for fault in skipped-write early-insertion stale-hash leaked-reference ignored-salt chunk-reduction; do
  "$sluice" verify "$model" --device cuda --schedules 24 --inject "$fault" --log-level error >"$folder/fault.txt" 2>&1
  code=$?
  say "fault $fault: exit $code, $(grep -o 'A DIFFERENCE.*\|no difference' "$folder/fault.txt" | head -n 1 | cut -c1-120)"
done
exit $failed
