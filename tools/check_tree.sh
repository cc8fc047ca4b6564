#!/usr/bin/env bash
# Rules for the tracked files: Source files have at most 500 lines, folders under 31 files. Nothing names a place on a
# developer's machine, and no unfinished business is left in comments. All tracked files together stay under 35.50 MB.
# Needs a git checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_lines=500
# These are still longer.
longer_files='^src/kernels/cuda/sm90/(sm90_hyper_connection|attend_cluster|index_scores|pair_experts)\.cu$'
max_files=30
max_bytes=$((35500 * 1000))
status=0
violation() {
  echo "tree: $*" >&2
  status=1
}

# The checkout may belong to another user, in a container for one.
git() { command git -c safe.directory="$PWD" "$@"; }
git rev-parse --git-dir >/dev/null || { echo "check_tree: this is not a git checkout" >&2; exit 1; }
files() { git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@"; }
existing() { while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done; }

while read -r lines file; do
  [ "$file" = total ] || [ "$lines" -le $max_lines ] || [[ $file =~ $longer_files ]] ||
    violation "$file has $lines lines, more than $max_lines: split it"
done < <(files '*.cc' '*.h' '*.cu' '*.cuh' '*.py' | existing | xargs -0 -r wc -l)

# The folders of the GPU's kernels are cut when these are written anew.
while read -r count folder; do
  [ "$count" -le $max_files ] || [[ $folder =~ ^src/kernels/cuda/(shared|sm90)$ ]] ||
    violation "$folder has $count files, more than $max_files: give some a folder of their own"
done < <(files src cli bench include | existing | xargs -0 -r dirname | sort | uniq -c)

while IFS= read -r hit; do
  violation "$hit: a path of somebody's machine"
done < <(files ':!models' ':!tests/data' ':!tests/goldens' | existing |
  xargs -0 -r grep -nHIoE '(^|[^A-Za-z0-9_.)}-])/(home|root|work|Users)/[A-Za-z0-9_.-]*' || true)

while IFS= read -r hit; do
  violation "$hit: finish it or write down the limit in the documentation"
done < <(files '*.cc' '*.h' '*.cmake' '*.txt' '*.sh' '*.py' run | existing |
  xargs -0 -r grep -nHIoE '\b(TO[D]O|FIX[M]E|XX[X])\b' || true)

bytes=$(git ls-files -z | existing | du -bc --files0-from=- | tail -n 1 | cut -f 1)
[ "$bytes" -lt $max_bytes ] || violation "the tracked files have $bytes bytes together, more than $max_bytes"
exit $status
