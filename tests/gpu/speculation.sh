#!/usr/bin/env bash
# speculation.sh SLUICE OUT [SCHEDULES]: tests speculation on a machine with a GPU, from the root of a checkout. It
# compares answers of the embedded model on the CPU without drafts, and on the GPU with drafts of each kind, token by
# token. Then come the laws with drafts on the GPU, and the faults of speculation that `verify` has to find there. It
# prints a line for each. Nothing else may use the GPU.
set -uo pipefail
sluice=$1 out=$2 schedules=${3:-60} model=models/sluice-tiny-v4
folder=$(mktemp -d)
tar xJf tests/evals/sluice-tiny-v4.tar.xz -C "$folder"
say() { echo "$*" | tee -a "$out/speculation.txt"; }
failed=0
evaluate() { # JSON TASK FLAGS...
  local json=$1 task=$2
  shift 2
  "$sluice" eval "$model" --task "$folder/$task.jsonl" --limit 20 --json "$json" --log-level error "$@" >"$folder/eval.txt" 2>&1
}
same() { # prints how many drafts were right; fails if an item differs
  python3 - "$folder/cpu.json" "$folder/gpu.json" <<'P'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print(sum(b["accepted_by_depth"]), "of", sum(b["drafted_by_depth"]), "drafts right,", b["steps"], "steps", end="")
sys.exit(0 if a["items"] and a["items"] == b["items"] else 1)
P
}
for task in arithmetic lists recall tools; do
  evaluate "$folder/cpu.json" $task --speculative off
  for flags in "--speculative off" "--speculative mtp --num-speculative-tokens 1" "--speculative mtp --num-speculative-tokens 3" \
    "--speculative mtp --num-speculative-tokens 8 --concurrency 8" "--speculative ngram --num-speculative-tokens 8"; do
    start=$SECONDS
    # shellcheck disable=SC2086
    evaluate "$folder/gpu.json" $task --device cuda --no-speculative-adaptive $flags
    if drafts=$(same); then
      say "$task $flags: equal, $drafts, $((SECONDS - start)) s"
    else
      say "$task $flags: DIFFERENT $(tail -n 1 "$folder/eval.txt")"
      failed=1
    fi
  done
done
for half in rows scheduling; do
  "$sluice" verify "$model" --device cuda --half $half --schedules "$schedules" --log-level error >"$folder/verify.txt" 2>&1 || failed=1
  say "verify $half: $(tail -n 5 "$folder/verify.txt" | tr '\n' ' ')"
done
for fault in state-of-drafts:rows state-of-drafts:scheduling inserted-drafts:rows token-after-end:scheduling; do
  "$sluice" verify "$model" --device cuda --half "${fault#*:}" --schedules 24 --inject "${fault%:*}" --log-level error >"$folder/fault.txt" 2>&1 && failed=1
  say "fault $fault: $(grep -o 'A DIFFERENCE.*\|no difference' "$folder/fault.txt" | head -n 1 | cut -c1-120)"
done
exit $failed
