#!/usr/bin/env bash
# Plants one violation of each kind in a small tree and sees that check_device_memory.sh reports it.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check_device_memory.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/src/{cache/pages,engine,bench,model}
echo 'RowRef at = view.row(page, r);' >"$tree/src/cache/pages/cache_memory.cc"
echo '.state_in = committed().value,' >"$tree/src/cache/sequence_state.cc"
echo 'const std::byte b = span.open_in[0];  // a model of its own' >"$tree/src/cache/toy_model_testing.h"
echo '// an address as of view.row(page, 0)' >"$tree/src/engine/good.h"
echo 'pools.memory().write_rows(rows, bytes); at_row(3); logits_row(2); database(1);' >"$tree/src/engine/good.cc"
"$check" "$tree" || { echo "check_device_memory_test: a good tree was refused" >&2; exit 1; }

planted=0
# plant FILE TEXT: with TEXT as its second line in FILE the check fails and names the place.
plant() {
  printf '#include "cache/cache_pools.h"\n%s\n' "$2" >"$tree/$1"
  if output=$("$check" "$tree" 2>&1) || [[ $output != *"$1:2: only ops and CacheMemory"* ]]; then
    echo "check_device_memory_test: not caught: $1 with $2; output: $output" >&2
    exit 1
  fi
  rm "$tree/$1"
  planted=$((planted + 1))
}
plant src/cache/bad.cc '  std::memcpy(view.base + at, from, bytes);'
plant src/cache/bad.h 'std::byte* at = plane->base;'
plant src/engine/bad.cc 'const RowRef row = make(1);'
plant src/engine/bad.cc '*pools.view()[id].row(page, 0).data = x;'
plant src/engine/bad.cc 'std::copy_n(cache.boundary(id, page), 8, to);'
plant src/engine/bad.h 'auto x = span.open_out[0];'
plant src/bench/bad.cc 'auto* at = pools.memory().address(state);'
plant src/bench/bad.cc 'auto* at = pools->open_state(slot, 0);'
plant src/bench/bad.cc 'kernels->encode_rows(format, x, ldx, rows, 1);'
plant src/bench/bad.cc 'load(latent_row(span, view, e).data);'
plant src/bench/bad.cc 'auto* at = view.open_base + 64;'
plant src/model/bad.cc 'w.rows.push_back(latent_row(span, plane, p));'
plant src/model/bad.h 'std::memcpy(cache.view().open_base, from, 8);'
# A file that may name one thing may not name another.
plant src/cache/sequence_state.cc '.open_in = view.base,'
plant src/bench/synthetic_state.cc 'refs.push_back(view.row(0, r)); auto* at = view.base;'
echo "check_device_memory_test: $planted planted violations, all caught"
