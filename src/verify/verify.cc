// Used by cli/commands/model_commands.h and cli/commands/verify_command.cc.
#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "cache/memory_plan.h"
#include "config/model_config.h"
#include "engine/engine_options.h"
#include "engine/runner/runner.h"
#include "model/model_plan.h"
#include "verify/law_borders.h"
#include "verify/law_check.h"

namespace sluice {
namespace {

constexpr int kLongestPrompt = 730, kLongestAnswer = 150;
constexpr int kTypicalTokens = 2048;
constexpr int kSequences = 12;  // sequences of a schedule, or of a workload with all its choices
constexpr int kRowsThatChoose = 250, kLatestChoice = 6000;
constexpr Position kLongestBriefBorder = 300;
constexpr int kLargeVocabulary = 1 << 14;  // from here on, comparing every row would take longer than computing it

std::vector<int> thread_counts(int threads) {
  std::vector<int> counts{1, 2, threads};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

// Random prompts, always the same.
class PromptList {
 public:
  explicit PromptList(std::size_t vocab) : vocab_(vocab) {}

  void add(std::size_t n) {
    auto& prompt = prompts_.emplace_back(n);
    for (TokenId& id : prompt) id = static_cast<TokenId>(random_() % vocab_);
  }
  // The same up to a token in the middle of a block, then others.
  void branch(std::size_t of, std::size_t common, std::size_t n) {
    add(n);
    std::copy_n(prompts_[of].begin(), common, prompts_.back().begin());
    TokenId& first = prompts_.back()[common];
    if (first == prompts_[of][common]) first = static_cast<TokenId>((static_cast<std::size_t>(first) + 1) % vocab_);
  }
  std::vector<std::vector<TokenId>> take() { return std::move(prompts_); }

 private:
  std::size_t vocab_;
  std::mt19937 random_{20240607};
  std::vector<std::vector<TokenId>> prompts_;
};

}  // namespace

std::vector<std::vector<TokenId>> law_prompts(std::size_t vocab, int long_tokens) {
  PromptList list(vocab);
  for (const std::size_t n : {1, 4, 5, 127, 128, 129, 255, 260, 390, 512, 600, kLongestPrompt}) list.add(n);
  list.branch(10, 400, 490);
  list.branch(8, 250, 300);
  list.branch(11, 131, 270);
  if (long_tokens > 0) list.add(static_cast<std::size_t>(long_tokens));
  return list.take();
}

std::vector<std::vector<TokenId>> brief_law_prompts(std::size_t vocab) {
  PromptList list(vocab);
  for (const std::size_t n : {1, 4, 5, 63, 127, 128, 129, 150, 255, 260, 300}) list.add(n);
  list.branch(10, 250, 270);
  list.branch(9, 131, 200);
  return list.take();
}

void make_brief(LawOptions* laws) {
  laws->min_rows = 300;
  laws->max_sequences = 5;
  laws->blocks_to_evict = 2;
  laws->long_prompts = 0;
  laws->seconds = 0;
}

Position chooses_from(const CacheLayout& layout) {
  Position from = 0;
  for (const PlaneSpec& plane : layout.planes) {
    if (plane.kind != PlaneKind::kLatent || plane.most_read == 0) continue;
    const Position first = (plane.most_read + 1) * plane.tokens_per_row - 1;
    from = from == 0 ? first : std::min(from, first);
  }
  return from;
}

int long_prompt_tokens(const CacheLayout& layout) {
  const Position from = chooses_from(layout);
  return from + kRowsThatChoose <= kLongestPrompt || from > kLatestChoice ? 0 : from + kRowsThatChoose;
}

std::span<const std::string_view> option_words(VerifyHalf /*half*/) {
  static constexpr std::string_view kWords[] = {"both", "borders", "rows", "scheduling", "moves"};
  return kWords;
}

Result<EngineSetup> law_options(EngineSetup options, const CacheLayout& layout, int border_tokens) {
  const int longest = std::max(kLongestPrompt, long_prompt_tokens(layout));
  options.scheduler.max_num_seqs = kSequences;
  options.scheduler.max_num_batched_tokens =
      std::max({1024, longest, border_tokens});  // each prompt alone is one piece
  options.model.max_model_len = std::max(longest + kLongestAnswer, border_tokens);
  options.audit = true;
  options.speculation = {.speculative = options.mtp ? Speculative::kMtp : Speculative::kNgram,
                         .num_speculative_tokens = kMostDrafts,
                         .speculative_adaptive = false};
  MemoryRequest request{.budget_bytes = 1,
                        .max_seqs = options.scheduler.max_num_seqs,
                        .max_batched_tokens = options.scheduler.max_num_batched_tokens,
                        .max_model_len = options.model.max_model_len,
                        .draft_tokens = kMostDrafts};
  // The least memory that holds that many sequences of 2,048 tokens, or the longest one: nothing else brings pages into
  // other hands.
  const int pages = layout.latent_page_bytes() == 0
                        ? 0
                        : std::max(kSequences * blocks_for(std::min(options.model.max_model_len, kTypicalTokens)),
                                   blocks_for(options.model.max_model_len) + 1);
  const auto enough = [&](std::size_t bytes) {
    request.budget_bytes = bytes;
    const Result<MemoryPlan> plan = plan_memory(layout, request);
    return plan.ok() && plan->sequences == kSequences && plan->latent_pages >= pages;
  };
  std::size_t low = 0, high = 1 << 20;
  while (!enough(high)) high *= 2;
  while (high - low > 4096) {
    const std::size_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  options.cache.kv_cache_memory = static_cast<std::int64_t>(high);
  const std::size_t state =
      static_cast<std::size_t>(blocks_for(options.model.max_model_len)) * layout.latent_page_bytes() +
      8 * layout.window_page_bytes() + layout.open_bytes();
  options.cache.swap_space = static_cast<std::int64_t>(kSequences * state);
  return options;
}

namespace {

LawOptions laws_of(const VerifyOptions& options, const Runner& runner, Position chooses_from) {
  LawOptions laws;
  laws.seed = options.seed;
  laws.seconds = options.half == VerifyHalf::kBoth ? options.seconds / 2 : options.seconds;
  laws.min_rows = options.min_rows;
  laws.few_long_answers = options.brief_schedules > 0;  // a suite's, brief or not
  laws.shrink = options.shrink;
  laws.every_row = runner.limits().vocab_size <= kLargeVocabulary;
  if (chooses_from > 0) laws.chooses_from = chooses_from;
  return laws;
}

// The zones of the model that this run meets. Reports the borders that it meets, and the others.
std::vector<BorderZone> zones_of(const VerifyOptions& options, const CacheLayout& layout, const ModelConfig& config,
                                 VerifyReport* report) {
  if (options.half != VerifyHalf::kBoth && options.half != VerifyHalf::kBorders) return {};
  const Position longest =
      options.schedules > 0 ? options.longest_border : std::min(kLongestBriefBorder, options.longest_border);
  std::vector<LawBorder> met;
  for (const LawBorder& border : law_borders(layout, config)) {
    const bool is_met = border.tokens <= longest;
    (is_met ? report->borders_met : report->borders_beyond).push_back(border.text());
    if (is_met) met.push_back(border);
  }
  return border_zones(met);
}

}  // namespace

Result<VerifyReport> verify(const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SLUICE_RETURN_IF_ERROR(validate(options.engine));
  if (options.engine.numerics.mla_prefill == MlaPrefill::kExpanded) {
    return invalid_argument(
        "--mla-prefill expanded: gives up the row law, which is what there is to verify: a row is computed in another "
        "order in a long span than in a short one, so its logits depend on how the prompt was cut; leave out the flag");
  }
  const bool moves = options.half == VerifyHalf::kMoves;
  const VerifyHalf half = options.half;
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(options.engine.model.folder));
  EngineSetup given = options.engine;
  if (given.speculation.speculative != Speculative::kOff) {
    SLUICE_ASSIGN_OR_RETURN(given.mtp, has_mtp(given.model));
  }
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(config, given));
  VerifyReport report;
  const std::vector<BorderZone> zones = zones_of(options, plan.cache_layout, config, &report);
  const int border_tokens = zones.empty() ? 0 : border_prompt_tokens(zones.back(), config.max_position_embeddings);
  SLUICE_ASSIGN_OR_RETURN(const EngineSetup engine, law_options(given, plan.cache_layout, border_tokens));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));
  if (moves && !computes_later(runner->exec())) {
    return invalid_argument("--half moves: moves sequences between a device and the CPU: expected another --device");
  }
  if (moves && runner->model().cache_layout().differs_by_rank) {
    return invalid_argument(
        "--half moves: each of several ranks caches keys of its own heads, which a CPU cannot take over: expected "
        "--tensor-parallel-size 1");
  }

  report.profile = runner->model().profile().text();
  report.isa = isa_name(runner->exec());
  report.threads = runner->threads().count();
  report.chooses_from = chooses_from(runner->model().cache_layout());
  const int long_tokens = long_prompt_tokens(runner->model().cache_layout());
  std::vector<std::vector<TokenId>> prompts = law_prompts(runner->limits().vocab_size, long_tokens);
  LawOptions laws = laws_of(options, *runner, report.chooses_from);
  laws.thread_counts = thread_counts(resolve_threads(engine));
  laws.long_prompts = long_tokens > 0 ? 1 : 0;
  const bool both = half == VerifyHalf::kBoth;
  const auto run = [&](int schedules, const auto& check, LawReport* part) -> Status {
    if (schedules == 0 || !report.sound()) return {};
    laws.schedules = schedules;
    const int before = report.borders.schedules + report.laws.schedules;
    const int all = static_cast<int>(zones.size()) +
                    (half == VerifyHalf::kBorders ? 0 : options.schedules + options.brief_schedules);
    if (options.progress) laws.progress = [&, before, all](int done) { options.progress(before + done, all); };
    SLUICE_ASSIGN_OR_RETURN(const LawReport found, check(*runner, prompts, laws));
    part->add(found);
    report.laws.add(found);
    return {};
  };
  const auto run_halves = [&](int schedules) -> Status {
    const int of_scheduler = both ? schedules / 2 : options.half == VerifyHalf::kRows ? 0 : schedules;
    SLUICE_RETURN_IF_ERROR(run(schedules - of_scheduler, check_row_law, &report.rows));
    return run(of_scheduler, check_scheduling_law, &report.scheduling);
  };
  if (moves) {
    EngineSetup on_cpu = engine;
    on_cpu.machine.device = "cpu", on_cpu.machine.tensor_parallel_size = 1;
    on_cpu.testing.inject_fault.clear();
    SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> cpu, Runner::load(on_cpu));
    const auto check = [&](Runner& device, const auto& of_laws, const LawOptions& how) {
      return check_moves(device, *cpu, of_laws, how);
    };
    SLUICE_RETURN_IF_ERROR(run(options.schedules, check, &report.rows));
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }
  if (!zones.empty()) {
    const auto check = [&](Runner& over, const auto&, const LawOptions& how) {
      return check_borders(over, zones, how);
    };
    SLUICE_RETURN_IF_ERROR(run(static_cast<int>(zones.size()), check, &report.borders));
    if (half == VerifyHalf::kBoth && report.sound())
      report.laws.schedules = 0, report.laws.digest = 0;  // these count random schedules alone
  }
  if (half != VerifyHalf::kBorders) SLUICE_RETURN_IF_ERROR(run_halves(options.schedules));
  prompts = brief_law_prompts(runner->limits().vocab_size);
  make_brief(&laws);
  const bool sound = report.sound();
  if (half != VerifyHalf::kBorders) SLUICE_RETURN_IF_ERROR(run_halves(options.brief_schedules));
  if (sound && !report.sound()) report.laws.difference->text.insert(0, "among brief ones, ");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace sluice
