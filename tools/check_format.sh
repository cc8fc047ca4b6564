#!/usr/bin/env bash
# Every C++ file is as clang-format-19 with .clang-format writes it. `tools/check_format.sh --fix` rewrites the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
find include src cli bench tests examples \( -name '*.cc' -o -name '*.h' \) -print0 |
  xargs -0 -r -n 20 -P "$(nproc)" clang-format-19 "${mode[@]}" ||
  { echo "check_format: run tools/check_format.sh --fix" >&2; exit 1; }
