#!/usr/bin/env bash
# run_all.sh [OUT [CASES [PARTS]]]: runs the parts of gpu_test, which lies next to this script, on GPU 0; reports as
# JSON and text are in OUT (.). PARTS (all of them): ops, CASES (400) random cases of each; official, in the shapes of
# published models; repeats, each case 1,000 times; speed; fault; sanitize. Ops are tested by several processes at once,
# with cases of their own. It prints a line for each part and at the end all that was measured as JSON, and exits 1 if
# any part has failed.
set -uo pipefail
out=$(realpath "${1:-.}") cases=${2:-400} parts=${3:-ops official repeats speed fault sanitize}
cd "$(dirname "${BASH_SOURCE[0]}")"
processes=$(($(nproc) < 16 ? $(nproc) : 16)) failed=0

part() { # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  [[ " $parts " == *" $name "* ]] || return 0
  if "$@" >"$out/$name.txt" 2>&1; then
    echo "$name: passed in $((SECONDS - start)) s"
  else
    echo "$name: FAILED in $((SECONDS - start)) s"
    grep -v '^\[' "$out/$name.txt" | tail -n 25
    failed=1
  fi
}

share() { # NAME PROCESSES SECONDS FLAGS...
  local name=$1 count=$2 seconds=$3 jobs=() status=0 i
  shift 3
  for ((i = 0; i < count; ++i)); do
    timeout "$seconds" ./gpu_test "$@" --json "$out/${name}_$i.json" >"$out/${name}_$i.txt" 2>&1 &
    jobs+=($!)
  done
  for i in "${jobs[@]}"; do wait "$i" || status=1; done
  cat "$out/${name}"_*.txt
  return $status
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
part ops share ops "$processes" 90 --part 1 --cases $(((cases + processes - 1) / processes))
part speed timeout 60 ./gpu_test --part 2 --json "$out/speed.json"
part official share official "$processes" 90 --part 1 --sizes official --cases 1 --gtest_filter='Cuda/GpuOps*'
part fault timeout 20 ./gpu_test --part 3 --json "$out/fault.json"
part repeats share repeats 4 60 --part 4 --cases 2 --repeat 1000
part sanitize ./sanitize.sh "$out" 2 100
grep -hE 'GB/s| us$' "$out/speed.txt" 2>/dev/null
cat "$out/sanitize.txt" 2>/dev/null
python3 - "$out" <<'P'
import collections, glob, json, os, sys
out, totals = sys.argv[1], collections.defaultdict(lambda: {"cases": 0, "failures": 0, "seconds": 0.0})
measured = {}
for path in sorted(glob.glob(os.path.join(out, "*.json"))):
    part = os.path.basename(path)[:-5].split("_")[0]
    if part == "summary":
        continue
    report = json.load(open(path))
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            total = totals[part]
            total["cases"] += int(test.get("cases", 0))
            total["failures"] += len(test.get("failures", []))
            total["seconds"] = round(total["seconds"] + float(test["time"].rstrip("s")), 1)
            if part == "speed":
                known = ("name", "file", "line", "status", "result", "timestamp", "time", "classname", "failures")
                measured.update({key: value for key, value in test.items() if key not in known})
summary = {"parts": totals, "measured": measured}
json.dump(summary, open(os.path.join(out, "summary.json"), "w"), indent=1)
print(json.dumps(summary))
P
tar cJf "$out/gpu_test.tar.xz" -C "$out" --remove-files $(cd "$out" && ls ./*.json ./*.txt)
exit $failed
