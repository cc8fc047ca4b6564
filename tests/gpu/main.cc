// gpu_test [--part N] [--cases N] [--sizes any|official] [--repeat N] [--memory pinned|managed] [--early on|off]
// [--json FILE] [GoogleTest's flags]: the CUDA device and its ops, on GPU 0.
//   part 1: the device, and each op in random cases against the reference on the CPU, bit for bit
//   part 2: the time of copies, and products with one row, each called --repeat times
//   part 3: a kernel that fails; nothing runs on the GPU after it in this process
//   part 4: each op in random cases, each of them run --repeat times, to the same bits
//   parts 5, 6, 7: all GPUs as ranks of a group, or two ranks on one: what they gather, how fast, a GPU that fails
// Without --part: part 1. --cases: cases of each op, different ones in each run. --sizes official: shapes of V3 and V4.
// --memory managed: cases are not in one piece of pinned memory, but each array is in managed memory of its own. Then
// compute-sanitizer sees accesses outside of it, and tests of sm90 that would take it minutes are brief. --early off:
// no kernel starts before the one before it has ended. --json: GoogleTest's report. SLUICE_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu_testing.h"

namespace {

constexpr std::array kParts = {"-GpuSpeed*:GpuFault*:*GpuRepeats*:GpuRanks*",
                               "GpuSpeed*",
                               "GpuFault*",
                               "*GpuRepeats*",
                               "GpuRanks.*",
                               "GpuRanksSpeed.*",
                               "GpuRanksFault.*"};
constexpr std::size_t kFirstOfRanks = 5;

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments{argv[0]};
  std::size_t part = 1;
  sluice::GpuTestOptions& options = sluice::gpu_test_options();
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--json" && has_value) {
      arguments.push_back(std::string("--gtest_output=json:") + argv[++i]);
    } else if (argument == "--part" && has_value) {
      part = static_cast<std::size_t>(std::atoi(argv[++i]));
    } else if (argument == "--cases" && has_value) {
      options.cases = std::atoi(argv[++i]);
    } else if (argument == "--repeat" && has_value) {
      options.repeat = std::atoi(argv[++i]);
    } else if (argument == "--sizes" && has_value) {
      options.sizes = argv[++i] == std::string("official") ? sluice::CaseSizes::kOfficial : sluice::CaseSizes::kAny;
    } else if (argument == "--memory" && has_value) {
      options.managed = argv[++i] == std::string("managed");
    } else if (argument == "--early" && has_value) {
      options.early = argv[++i] == std::string("on");
    } else {
      arguments.push_back(argument);
    }
  }
  if (part < 1 || part > kParts.size()) {
    std::printf("--part: expected 1 to %zu\n", kParts.size());
    return 2;
  }
  // With ranks on one GPU, a kernel that is loaded when it first starts would wait for another rank's, which waits for
  // it.
  if (part >= kFirstOfRanks) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  arguments.insert(arguments.begin() + 1, std::string("--gtest_filter=") + kParts[part - 1]);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  ::testing::InitGoogleTest(&count, pointers.data());
  std::printf("%s\n", sluice::gpu().gpu().c_str());
  sluice::gpu().start_kernels_early(options.early);
  return RUN_ALL_TESTS();
}
