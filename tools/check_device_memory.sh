#!/usr/bin/env bash
# check_device_memory.sh [TREE]: the bytes of the cache are read and written by ops and by CacheMemory alone.
#   - in the folders below, nothing that leads to an address in the pools is named: what a row, a plane, a boundary or an
#     open state lies at, and the coders of rows;
#   - but in the files of the list, with the reason.
# Tests are free: those of the cache run over memory that the host cannot touch (kernels/device/deferred_device_testing.h), and
# their models stand for ops. Prints one line per violation and exits 1 if there is any.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

folders=(
  src/cache
  src/engine
  src/bench
  src/model
)
words='(\.|->)(base|open_base|open_in|open_out)\b|(\.|->)(row|boundary|address|open_state)\(|\bRowRef\b|\b(en|de)code_rows?\('
words+='|\b(latent|window)_row\('

# FILE WORDS: what a file may name all the same.
allowed=(
  'src/cache/pages/cache_memory.cc .*'                                  # its purpose
  'src/bench/synthetic_state.cc RowRef|row|encode_rows'         # codes rows in a buffer of the host's
  'src/model/cache_layout.cc base'                                # where a plane's view begins: handed on
  'src/model/ranked_model.cc base|open_base'                      # where a rank's copy of a plane begins: handed on
  'src/model/batch.h row'                                         # an address for ops
  'src/model/deepseek_v4/weights.cc base'                         # a weight's name
  'src/model/deepseek_v4/attention.cc encode_rows'                # the op
  'src/model/deepseek_mla/attention.cc encode_rows'
  'src/model/deepseek_mla/expanded_attention.cc decode_rows'
  'src/model/decoder/attention.cc encode_rows'
)

# Whether everything that a line names is allowed in its file.
is_allowed() { # FILE LINE
  local entry file may
  for entry in "${allowed[@]}"; do
    file=${entry%% *} may=${entry#* }
    [ "$1" = "$file" ] || continue
    grep -oE "$words" <<<"$2" | grep -qvE "^(\.|->)?($may)\(?$" || return 0
  done
  return 1
}

status=0
while IFS=: read -r file line text; do
  is_allowed "$file" "${text%%//*}" && continue
  echo "device memory: $file:$line: only ops and CacheMemory touch the cache's bytes:$text" >&2
  status=1
done < <(grep -rnE --include='*.h' --include='*.cc' "^([^/]|/[^/])*($words)" "${folders[@]}" |
  grep -vE '^[^:]*_(test|testing)\.(cc|h):' || true)
exit $status
