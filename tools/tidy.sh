#!/usr/bin/env bash
# tidy.sh BUILD_DIR [--all | FILE...]: clang-tidy-19, as .clang-tidy says, over the compiled files other than tests, over all
# compiled files, or over those given.
# A file that passed leaves a stamp in BUILD_DIR/tidy, named by the hash of all that could change the result: what the
# compiler sees after preprocessing, its flags, .clang-tidy and clang-tidy's version. A file with a stamp is not read again.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# One file: called by xargs below with the build folder, the hash of the configuration, and the file.
if [ "${1:-}" = --one ]; then
  build=$2 configuration=$3 file=$4
  # The compile command of the file: the line before its "file" line, with the JSON escapes undone.
  command=$(grep -F -B 1 "\"file\": \"$file\"" "$build/compile_commands.json" | head -n 1 |
    sed -E 's/^ *"command": "(.*)",$/\1/; s/\\(["\\])/\1/g; s/ -o [^ ]+ -c / /')
  hash=$({ echo "$configuration $command"; cd "$build" && eval "$command -E -C"; } | sha256sum | cut -d ' ' -f 1)
  [ ! -e "$build/tidy/$hash" ] || exit 0
  output=$(clang-tidy-19 --quiet -p "$build" "$file" 2>&1) || { printf '%s\n' "$output" >&2; exit 1; }
  touch "$build/tidy/$hash"
  exit 0
fi

build=$(cd "${1:?usage: tidy.sh BUILD_DIR [FILE...]}" && pwd)
shift
mkdir -p "$build/tidy"
configuration=$({ cat "$root/.clang-tidy"; clang-tidy-19 --version; } | sha256sum | cut -d ' ' -f 1)
compiled() { sed -nE 's/^ *"file": "(.*)",?$/\1/p' "$build/compile_commands.json" | sort -u; }
if [ $# = 0 ]; then
  mapfile -t files < <(compiled | grep -vE '_(test|testing)\.cc$|/tests/')
elif [ "$1" = --all ]; then
  mapfile -t files < <(compiled)
else
  mapfile -t files < <(realpath "$@")
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "${BASH_SOURCE[0]}" --one "$build" "$configuration" ||
  { echo "tidy: see above; NOLINT(check-name) with a reason where clang-tidy is wrong" >&2; exit 1; }
echo "tidy: ${#files[@]} files, no findings"
