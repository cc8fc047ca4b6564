#!/usr/bin/env bash
# Plants one violation of each kind in a small tree and sees that check_layering.sh reports it.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check_layering.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{include/sluice,src/{base,files,config,text,kernels/{cpu/avx2,tests},model,engine}}
echo '#include <vector>' >"$tree/include/sluice/status.h"
printf '#include "sluice/status.h"\n#include "base/good.h"\n' >"$tree/src/base/good.h"
printf '#include "kernels/op.h"\n#include "config/c.h"\n#include "files/f.h"\n' >"$tree/src/model/good.cc"
printf '#include <immintrin.h>\n#include "kernels/cpu/kernel_table.h"\n' >"$tree/src/kernels/cpu/avx2/op.cc"
echo '#include "kernels/cpu/kernel_table.h"' >"$tree/src/kernels/tests/op_test.cc"
"$check" "$tree" || { echo "check_layering_test: a good tree was refused" >&2; exit 1; }

planted=0
# plant FILE TEXT REPORT: with TEXT in FILE the check fails and says REPORT.
plant() {
  mkdir -p "$(dirname "$tree/$1")"
  echo "$2" >"$tree/$1"
  if output=$("$check" "$tree" 2>&1) || [[ $output != *"${1%/*}"*"$3"* ]]; then
    echo "check_layering_test: not caught: $1 with $2; output: $output" >&2
    exit 1
  fi
  rm "$tree/$1"
  planted=$((planted + 1))
}
plant src/base/bad.cc '#include "model/good.h"' 'src/base may not use "model/good.h"'
plant src/config/bad.cc '#include "kernels/op.h"' 'src/config may not use'
plant src/model/bad.cc '#include "text/chat/chat.h"' 'src/model may not use'
plant src/kernels/bad.h '#  include <files/f.h>' 'src/kernels may not use <files/f.h>'
plant src/model/bad.cc '#include "../engine/x.h"' 'climbs'
plant src/engine/bad.cc '#include "cli/flags.h"' 'is above src/'
plant src/engine/bad_test.cc '#include "tests/law.h"' 'is above src/'
plant src/base/bad.cc '#include "good.h"' 'is not a file of src/ or include/'
plant include/sluice/bad.h '#include "base/good.h"' 'a public header may include only'
plant include/sluice/bad.h '#include <fmt/format.h>' 'a public header may include only'
plant src/model/bad.cc 'auto x = _mm512_setzero_ps();' 'processor-specific code'
plant src/kernels/bad.cc '#include "kernels/cpu/kernel_table.h"' "of the CPU's ops alone"
plant src/kernels/ref/bad.cc '#include "kernels/cpu/kernel_table.h"' "of the CPU's ops alone"
plant src/engine/bad_test.cc '#include "kernels/cpu/linear/tiles.h"' "of the CPU's ops alone"
plant cli/bad.cc '#include "kernels/cpu/kernel_table.h"' "of the CPU's ops alone"
plant src/kernels/cpu/bad.cc '#ifdef __AVX512F__' 'processor-specific code'
mkdir "$tree/src/extra"
plant src/extra/a.h "#include <vector>" "has no place in the table"
echo "check_layering_test: $planted planted violations, all caught"
