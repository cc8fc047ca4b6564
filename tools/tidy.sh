#!/usr/bin/env bash
# tidy.sh BUILD_DIR [--all | --record | FILE...]: clang-tidy-19, as .clang-tidy says, over what BUILD_DIR compiles, tests
# left out (a group of sources is read at once: cmake/layers.cmake), or over the FILEs, each with its group.
#
# A source that passed leaves a stamp in ~/.cache/sluice/tidy (or below XDG_CACHE_HOME), named by the hash of all that
# could change the result: what the compiler sees after preprocessing, its flags, .clang-tidy and clang-tidy's version.
# A source with a stamp is not read again, in any checkout; --all reads everything, the tests too. --record writes the
# stamps of this tree to tools/tidy_passed.txt, so that another machine reads only what changed since. As preprocessing
# everything takes a minute, there is a second stamp, of this machine only, named by the files that it would begin from
# (tools/tidy_inputs.py).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
recorded=$root/tools/tidy_passed.txt
stamps=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sluice/tidy

# One translation unit: called by xargs below with the build folder, the hash of the configuration, the file and its key.
if [ "${1:-}" = --one ]; then
  build=$2 configuration=$3 file=$4 key=$5
  # The compile command of the file: the line before its "file" line, with the JSON escapes undone; without the launcher.
  command=$(grep -F -B 1 "\"file\": \"$file\"" "$build/compile_commands.json" | head -n 1 |
    sed -E 's/^ *"command": "(.*)",$/\1/; s/\\(["\\])/\1/g; s/ -o [^ ]+ -c / /')
  hash=$({ echo "$configuration ${command//$root/}"; cd "$build" && eval "$command -E -C -P" | sed "s#$root/##g"; } | sha256sum | cut -d ' ' -f 1)
  echo "$hash" >>"$SLUICE_TIDY_SEEN"
  passed() { touch "$stamps/$hash" "$stamps/${key:-$hash}"; }
  [ -z "${SLUICE_TIDY_ALL:-}" ] && { [ -e "$stamps/$hash" ] || grep -qxF "$hash" "$recorded"; } && passed && exit 0
  start=$SECONDS
  output=$(clang-tidy-19 --quiet -p "$build" "$file" 2>&1) || { printf '%s\n' "$output" >&2; exit 1; }
  passed
  echo "tidy: ${file#"$root"/} read in $((SECONDS - start)) s"
  exit 0
fi

build=$(cd "${1:?usage: tidy.sh BUILD_DIR [--all | FILE...]}" && pwd)
shift
mkdir -p "$stamps"
configuration=$({ cat "$root/.clang-tidy"; clang-tidy-19 --version; } | sha256sum | cut -d ' ' -f 1)
# Kernels for GPUs are nvcc's, whose flags and headers clang-tidy does not know; g++ warns about them in kernels_test.
compiled() { sed -nE 's/^ *"file": "(.*\.cc)",?$/\1/p' "$build/compile_commands.json" | sort -u; }
if [ $# = 0 ] || [ "$1" = --record ]; then
  mapfile -t files < <(compiled | grep -vE '_(test|testing)\.cc$|/tests/|/groups/[a-z]+_test_[0-9]+\.cc$')
elif [ "$1" = --all ]; then
  export SLUICE_TIDY_ALL=1
  mapfile -t files < <(compiled)
else
  mapfile -t files < <(realpath "$@" | while IFS= read -r file; do
    # Itself, or the group that it is compiled in; a header in neither.
    grep -qF "\"file\": \"$file\"" "$build/compile_commands.json" && echo "$file" && continue
    grep -lF -e "\"${file#"$root"/src/}\"" -e "\"${file#"$root"/}\"" "$build"/groups/*.cc ||
      echo "tidy: $file: expected a source that $build compiles, found none" >&2
  done | sort -u)
  [ ${#files[@]} -gt 0 ] || exit 1
fi
SLUICE_TIDY_SEEN=$(mktemp)
export SLUICE_TIDY_SEEN
trap 'rm -f "$SLUICE_TIDY_SEEN"' EXIT
declare -A keys=()
while read -r key file; do keys[$file]=$key; done < <("$root/tools/tidy_inputs.py" "$build")
# The largest first, so that no core is left with one of them at the end.
ls -S -- "${files[@]}" | while IFS= read -r file; do
  key=${keys[$file]:-}
  case ${1:-} in --all | --record) ;; *) [ -z "$key" ] || [ ! -e "$stamps/$key" ] || continue ;; esac
  printf '%s\0' "$file" "$key"
done |
  xargs -0 -r -n 2 -P "$(nproc)" "${BASH_SOURCE[0]}" --one "$build" "$configuration" ||
  { echo "tidy: see above; NOLINT(check-name) with a reason where clang-tidy is wrong" >&2; exit 1; }
[ "${1:-}" != --record ] || LC_ALL=C sort -u "$SLUICE_TIDY_SEEN" >"$recorded"
echo "tidy: ${#files[@]} translation units, no findings"
