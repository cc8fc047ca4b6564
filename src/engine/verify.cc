#include "engine/verify.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "cache/memory_plan.h"
#include "engine/engine_options.h"
#include "engine/law_workload.h"
#include "engine/runner.h"
#include "formats/model_config.h"
#include "model/model_plan.h"

namespace sluice {
namespace {

constexpr int kLongestPrompt = 730, kLongestAnswer = 150;
constexpr int kSequences = 12;             // of a schedule, or of a workload with all its choices
constexpr int kLargeVocabulary = 1 << 14;  // from here on, comparing every row would take longer than computing it

void add_up(LawReport* sum, const LawReport& part) {
  sum->schedules += part.schedules;
  sum->comparisons += part.comparisons;
  sum->resumed_tokens += part.resumed_tokens;
  sum->preemptions += part.preemptions;
  sum->swaps += part.swaps;
  sum->truncations += part.truncations;
  sum->forks += part.forks;
  sum->aborts += part.aborts;
  sum->forgotten += part.forgotten;
  if (!sum->difference) sum->difference = part.difference;
}

std::vector<int> thread_counts(int threads) {
  std::vector<int> counts{1, 2, threads};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace

std::vector<std::vector<TokenId>> law_prompts(std::size_t vocab) {
  std::mt19937 random(20240607);
  std::vector<std::vector<TokenId>> prompts;
  for (const std::size_t n : {1, 4, 5, 127, 128, 129, 255, 260, 390, 512, 600, kLongestPrompt}) {
    auto& prompt = prompts.emplace_back(n);
    for (TokenId& id : prompt) id = static_cast<TokenId>(random() % vocab);
  }
  prompts.emplace_back(prompts[10].begin(), prompts[10].begin() + 400).push_back(1);
  return prompts;
}

Result<EngineOptions> law_options(EngineOptions options, const CacheLayout& layout) {
  options.max_num_seqs = kSequences;
  options.max_num_batched_tokens = 1024;
  options.max_model_len = kLongestPrompt + kLongestAnswer;
  options.audit = true;
  MemoryRequest request{.budget_bytes = 1,
                        .max_seqs = options.max_num_seqs,
                        .max_batched_tokens = options.max_num_batched_tokens,
                        .max_model_len = options.max_model_len};
  // The least memory that holds that many sequences: nothing else brings pages into other hands.
  const auto enough = [&](std::size_t bytes) {
    request.budget_bytes = bytes;
    const Result<MemoryPlan> plan = plan_memory(layout, request);
    return plan.ok() && plan->sequences == kSequences;
  };
  std::size_t low = 0, high = 1 << 20;
  while (!enough(high)) high *= 2;
  while (high - low > 4096) {
    const std::size_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  options.kv_cache_memory = static_cast<std::int64_t>(high);
  const std::size_t state = static_cast<std::size_t>(blocks_for(options.max_model_len)) * layout.latent_page_bytes() +
                            8 * layout.window_page_bytes() + layout.open_bytes();
  options.swap_space = static_cast<std::int64_t>(kSequences * state);
  return options;
}

Result<VerifyReport> verify(const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SLUICE_RETURN_IF_ERROR(validate(options.engine));
  if (options.engine.mla_prefill == "expanded") {
    return invalid_argument(
        "--mla-prefill expanded: gives up the row law, which is what there is to verify: a row is computed in another "
        "order in a long span than in a short one, so its logits depend on how the prompt was cut; leave out the flag");
  }
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(options.engine.model_folder));
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(std::move(config), options.engine));
  SLUICE_ASSIGN_OR_RETURN(const EngineOptions engine, law_options(options.engine, plan.cache_layout));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));

  VerifyReport report;
  report.profile = runner->model().profile().text();
  report.isa = runner->isa_name();
  report.threads = runner->threads();
  const std::vector<std::vector<TokenId>> prompts = law_prompts(runner->vocab_size());
  const int halves[2] = {options.schedules - options.schedules / 2, options.schedules / 2};
  for (int half = 0; half < 2 && report.sound(); ++half) {
    LawOptions laws;
    laws.seed = options.seed;
    laws.schedules = halves[half];
    laws.thread_counts = thread_counts(resolve_threads(engine));
    laws.compare_every = runner->vocab_size() > kLargeVocabulary ? 16 : 1;
    const int before = report.laws.schedules;
    if (options.progress) laws.progress = [&](int done) { options.progress(before + done, options.schedules); };
    const auto check = half == 0 ? check_row_law : check_scheduling_law;
    SLUICE_ASSIGN_OR_RETURN(const LawReport part, check(*runner, prompts, laws));
    add_up(&report.laws, part);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace sluice
