#!/usr/bin/env bash
# check_layering.sh [TREE]: the dependencies between the folders of src/ only point down.
#   - a file of src/X includes only folders that the table below gives X, and the public headers of include/sluice;
#   - include/sluice includes only itself and the standard library;
#   - src/kernels/cpu is for itself, for the tests of the kernels, and for benchmarks: everyone else has kernels/device/isa.h and
#     the ops;
#   - nothing in src/ includes cli/ or tests/, and no include path climbs with ..;
#   - only the ISA folders of the kernels, the CPU detection, the thread pool's pause and the loops that measure the
#     machine's peaks know the processor, and the detection alone asks it what it has.
# Prints one line per violation and exits 1 if there is any.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

declare -A may_use=(
  [base]="base"
  [net]="base net"
  [files]="base files"
  [hub]="base net files hub"
  [config]="base files config"
  [jinja]="base files jinja"
  [grammar]="base files grammar"
  [text]="base files jinja grammar text"
  [kernels]="base kernels"
  [model]="base files config kernels model"
  [cache]="base files config kernels model cache"
  [sched]="base files config kernels model cache sched"
  [engine]="base files config kernels model cache sched engine"
  [plot]="base plot"
  [telemetry]="base files telemetry"
  [web_ui]="base web_ui"
  [verify]="base files config kernels model cache sched engine grammar verify"
  [sim]="base files config kernels model cache sched engine plot telemetry sim"
  [loadgen]="base net files config kernels model cache sched engine plot telemetry sim loadgen"
  [bench]="base files config kernels model cache sched engine plot bench"
  [serve]="base net files config kernels model cache sched engine text grammar telemetry web_ui serve"
)
processor_aware='^src/kernels/cpu/avx[a-z0-9_]*/|^(src/kernels/cpu/cpu_features|src/base/threads/thread_pool|src/kernels/device/bare_loops)\.cc$'
processor_words='immintrin\.h|x86intrin\.h|<cpuid\.h>|\b_mm(256|512)?_[a-z]|\b__m(128|256|512)|\b__AVX|__builtin_cpu_|__get_cpuid'

status=0
violation() { # FILE:LINE:TEXT REASON
  echo "layering: $1: $2" >&2
  status=1
}

# Every include of the given folders as FILE:LINE:INCLUDED, quoted or in angle brackets.
includes() {
  grep -rnE --include='*.h' --include='*.cc' '^[[:space:]]*#[[:space:]]*include' "$@" |
    sed -E 's/^([^:]*:[0-9]+):[^"<]*(["<][^">]*[">]).*/\1:\2/' || true
}

for folder in src/*/; do
  layer=$(basename "$folder")
  [ -n "${may_use[$layer]:-}" ] || violation "$folder" "this folder has no place in the table of tools/check_layering.sh"
done

while IFS=: read -r file line included; do
  layer=${file#src/}
  layer=${layer%%/*}
  path=${included:1:-1}
  top=${path%%/*}
  case $path in
    *..*) violation "$file:$line" "$included climbs; includes are relative to src/ or include/" && continue ;;
    cli/* | tests/*) violation "$file:$line" "$included is above src/" && continue ;;
    kernels/cpu/*)
      [[ $file =~ ^src/kernels/(cpu/|[a-z_]+/[a-z_]+_(test|testing)\.) ]] ||
        violation "$file:$line" "$included is of the CPU's ops alone; kernels/device/isa.h and the ops are for everyone"
      ;;
    sluice/*) continue ;;
  esac
  if [ -d "src/$top" ]; then
    [[ " ${may_use[$layer]:-} " == *" $top "* ]] || violation "$file:$line" "src/$layer may not use $included"
  elif [[ $included == \"* && ! ($file == *_test.cc && $top =~ ^g(test|mock)$) ]]; then
    violation "$file:$line" "$included is not a file of src/ or include/ (write <...> for libraries)"
  fi
done < <(includes src)

while IFS=: read -r file line included; do
  [[ $included != \"kernels/cpu/* ]] || violation "$file:$line" "$included is of the CPU's ops alone"
done < <(includes cli tests 2>/dev/null)

while IFS=: read -r file line included; do
  path=${included:1:-1}
  [[ $path == sluice/* || ($included == \<* && $path =~ ^[a-z_]+$) ]] ||
    violation "$file:$line" "a public header may include only sluice/ and the standard library, found $included"
done < <(includes include)

while IFS=: read -r file line text; do
  [[ $file =~ $processor_aware ]] || violation "$file:$line" "processor-specific code outside the ISA folders: $text"
done < <(grep -rnE --include='*.h' --include='*.cc' "$processor_words" include src cli bench tests 2>/dev/null || true)

while IFS=: read -r file line text; do
  [[ $file == src/kernels/cpu/cpu_features.cc ]] || violation "$file:$line" "CpuFeatures alone asks the processor: $text"
done < <(grep -rnE --include='*.h' --include='*.cc' '__builtin_cpu_|__get_cpuid' include src cli bench tests 2>/dev/null || true)

exit $status
