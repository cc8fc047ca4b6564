// Used by verify.
#include "verify/law_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "verify/law_runner.h"
#include "verify/law_schedule.h"

namespace sluice {
namespace {

constexpr int kMaxShrinkRuns = 400;

struct Mismatch {
  std::size_t step = 0;
  int sequence = 0;
  Position position = 0;
};

using Values = std::vector<std::pair<std::string, std::uint64_t>>;  // name, digest of one row, in order of computation

class Checker {
 public:
  Checker(Runner& runner, std::span<const std::vector<TokenId>> prompts, const LawOptions& options, LawReport* report)
      : runner_(runner), prompts_(prompts), options_(options), report_(*report) {}

  // The first mismatch in step order, if any. With `values`, those of the row at `watched` while it is computed.
  Result<std::optional<Mismatch>> run(const LawSchedule& schedule, const Mismatch* watched = nullptr,
                                      Values* values = nullptr);
  Result<LawSchedule> shrink(LawSchedule schedule, Mismatch* mismatch);
  Result<LawDifference> shrink_failure(LawSchedule schedule, Status failure, int number);
  Result<std::string> first_value(const LawSchedule& schedule, const Mismatch& mismatch);
  void add_digest(const LawSchedule& schedule);

 private:
  struct Live {
    bool begun = false, aborted = false;
    StateSlot slot;
    SwapHandle swapped;
    Position swapped_at = 0;
    int hit_limit = 0;
    int pieces_left = 0;
    std::unique_ptr<BlockChain> chain;
    std::vector<TokenId> wrong;  // tokens to be forgotten
    std::vector<TokenId> drafts;
    int kept = 0;  // rows of its span
    std::vector<int> logit_rows;
    Position first = 0;               // first position of its piece in this step
    Position apart_from = INT32_MAX;  // from here on its tokens are not those of the sequence it was forked from
  };

  Status compute_reference(int prompt);
  Status run_steps(const LawSchedule& schedule, const Mismatch* watched, Values* values,
                   std::optional<Mismatch>* found);
  Status run_step(const LawSchedule& schedule, std::size_t step, const Observer* observer);
  Status prepare(const LawSchedule& schedule, const LawPiece& piece, int* budget);
  void make_drafts(const LawPiece& piece, const std::vector<TokenId>& prompt, Live* l);
  Status begin(const LawSchedule& schedule, int sequence);
  Status after(const LawSchedule& schedule, const LawPiece& piece);
  Status fork(const LawSchedule& schedule, const LawPiece& piece);
  void end(Live& live);
  void start_over(const LawSchedule& schedule);
  bool give_room();
  std::optional<Mismatch> compare(const LawSchedule& schedule, std::size_t step);
  std::vector<int> compared_rows(Position first, int rows) const;
  Observer watch(const LawSchedule& schedule, const Mismatch& watched, Values* values);

  Live& live(int sequence) { return live_[static_cast<std::size_t>(sequence)]; }
  static const LawSequence& spec(const LawSchedule& schedule, int sequence) {
    return schedule.sequences[static_cast<std::size_t>(sequence)];
  }
  const std::vector<TokenId>& prompt_of(const LawSchedule& schedule, int sequence) const {
    return prompts_[static_cast<std::size_t>(spec(schedule, sequence).prompt)];
  }

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  LawReport& report_;
  std::vector<std::vector<std::uint64_t>> references_;  // [prompt][position]; empty: not computed yet
  std::vector<Live> live_;                              // [sequence]
  std::size_t steps_begun_ = 0;                         // steps of the last run
  StateSlot occupied_;                                  // holds the pages that the schedule does without
  std::vector<StepSpan> spans_;
  std::vector<int> span_sequences_;  // [span]
};

std::vector<int> Checker::compared_rows(Position first, int rows) const {
  std::vector<int> compared;
  for (int i = 0; i < rows; ++i) {
    if (compared_row(options_, first + i)) compared.push_back(i);
  }
  return compared;
}

Status Checker::compute_reference(int prompt) {
  references_.resize(prompts_.size());
  auto& digests = references_[static_cast<std::size_t>(prompt)];
  if (!digests.empty()) return {};
  const auto& ids = prompts_[static_cast<std::size_t>(prompt)];
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner_.sequences().open());
  const std::vector<int> rows = compared_rows(0, static_cast<int>(ids.size()));
  const StepSpan span{.sequence = slot, .ids = ids, .logit_rows = rows};
  const Status status = runner_.run_step({&span, 1});
  runner_.sequences().close(slot);
  SLUICE_RETURN_IF_ERROR(status);
  digests.resize(ids.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    digests[static_cast<std::size_t>(rows[row])] = bit_digest(runner_.logits().at_row(row));
  }
  return {};
}

// Empties the cache: pages of earlier schedules have no part in this one.
void Checker::start_over(const LawSchedule& schedule) {
  runner_.cache().prefix_cache().reset();
  if (schedule.free_pages > 0) {
    const Result<StateSlot> occupied = runner_.sequences().occupy_all_but(schedule.free_pages);
    if (occupied.ok()) occupied_ = *occupied;
  }
  live_.clear();
  live_.resize(schedule.sequences.size());
  for (std::size_t s = 0; s < live_.size(); ++s) live_[s].hit_limit = schedule.sequences[s].hit_limit;
  for (const LawStep& step : schedule.steps) {
    for (const LawPiece& piece : step.pieces) ++live(piece.sequence).pieces_left;
  }
}

Result<std::optional<Mismatch>> Checker::run(const LawSchedule& schedule, const Mismatch* watched, Values* values) {
  for (const LawSequence& sequence : schedule.sequences) SLUICE_RETURN_IF_ERROR(compute_reference(sequence.prompt));
  start_over(schedule);
  const std::uint64_t evicted = evictions(runner_);
  std::optional<Mismatch> mismatch;
  const Status status = run_steps(schedule, watched, values, &mismatch);
  for (Live& l : live_) end(l);
  give_room();
  report_.evictions += static_cast<std::int64_t>(evictions(runner_) - evicted);
  SLUICE_RETURN_IF_ERROR(status);
  if (!mismatch) SLUICE_RETURN_IF_ERROR(check_at_rest(runner_));
  return mismatch;
}

Status Checker::run_steps(const LawSchedule& schedule, const Mismatch* watched, Values* values,
                          std::optional<Mismatch>* found) {
  for (std::size_t step = 0; step < schedule.steps.size() && !*found; ++step) {
    steps_begun_ = step + 1;
    Observer observer;
    if (watched != nullptr && step == watched->step) observer = watch(schedule, *watched, values);
    SLUICE_RETURN_IF_ERROR(run_step(schedule, step, observer ? &observer : nullptr));
    *found = compare(schedule, step);
    if (*found) return {};
    SLUICE_RETURN_IF_ERROR(runner_.sequences().audit());
    for (const LawPiece& piece : schedule.steps[step].pieces) SLUICE_RETURN_IF_ERROR(after(schedule, piece));
    SLUICE_RETURN_IF_ERROR(runner_.sequences().audit());
  }
  return {};
}

Status Checker::run_step(const LawSchedule& schedule, std::size_t step, const Observer* observer) {
  const LawStep& s = schedule.steps[step];
  SLUICE_RETURN_IF_ERROR(use_threads(runner_, s.threads));
  report_.thread_counts.insert(runner_.threads().count());
  spans_.clear();
  span_sequences_.clear();
  int budget = options_.max_step_rows;
  for (const LawPiece& piece : s.pieces) SLUICE_RETURN_IF_ERROR(prepare(schedule, piece, &budget));
  if (spans_.empty()) return {};
  Status status = runner_.begin(spans_, observer);
  if (status.code() == StatusCode::kResourceExhausted && give_room()) status = runner_.begin(spans_, observer);
  SLUICE_RETURN_IF_ERROR(status);
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    runner_.sequences().commit(spans_[i].sequence, live(span_sequences_[i]).kept, spans_[i].chain);
  }
  return {};
}

// Makes the drafts of a span: right ones are the sequence's own tokens, the first wrong one is not, and the others may
// be anything.
void Checker::make_drafts(const LawPiece& piece, const std::vector<TokenId>& prompt, Live* l) {
  const auto own = static_cast<std::size_t>(l->first + l->kept - piece.right);
  l->drafts.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(piece.drafts); ++i) {
    TokenId id = prompt[(own + i) % prompt.size()];
    if (static_cast<int>(i) == piece.right) id = (id + 1) % static_cast<TokenId>(runner_.limits().vocab_size);
    l->drafts.push_back(id);
  }
  report_.drafts += piece.drafts;
  report_.drafts_rejected += piece.drafts - piece.right;
}

// The schedule needs more pages than it was given. False when it has them all.
bool Checker::give_room() {
  if (!occupied_) return false;
  runner_.sequences().close(std::exchange(occupied_, {}));
  return true;
}

// The span of a piece, if it has rows to compute.
Status Checker::prepare(const LawSchedule& schedule, const LawPiece& piece, int* budget) {
  Live& l = live(piece.sequence);
  --l.pieces_left;
  if (l.aborted) return {};
  SLUICE_RETURN_IF_ERROR(begin(schedule, piece.sequence));
  const auto& prompt = prompt_of(schedule, piece.sequence);
  l.first = runner_.sequences().position(l.slot);
  const int rows = std::min(std::min(piece.end, static_cast<int>(prompt.size())) - l.first, *budget);
  if (rows <= 0) return {};
  *budget -= rows;
  // A piece may begin elsewhere than it was planned to.
  LawPiece drafted = piece;
  drafted.right = std::min(piece.right, rows - 1);
  drafted.drafts = std::min(piece.drafts, drafted.right + *budget);
  *budget -= drafted.drafts - drafted.right;
  l.kept = piece.keep ? rows : 0;
  make_drafts(drafted, prompt, &l);
  std::span<const TokenId> ids =
      std::span(prompt).subspan(static_cast<std::size_t>(l.first), static_cast<std::size_t>(rows - drafted.right));
  if (!piece.keep) {
    l.wrong.assign(ids.rbegin(), ids.rend());
    l.wrong[0] = prompt[(static_cast<std::size_t>(l.first) + prompt.size() / 2) % prompt.size()];
    ids = l.wrong;
    ++report_.forgotten_spans;
  }
  l.logit_rows = piece.keep ? compared_rows(l.first, rows) : std::vector<int>{};
  spans_.push_back({.sequence = l.slot,
                    .ids = ids,
                    .logit_rows = l.logit_rows,
                    .chain = spec(schedule, piece.sequence).cached ? l.chain.get() : nullptr,
                    .drafts = l.drafts});
  span_sequences_.push_back(piece.sequence);
  return {};
}

// The sequence has a state: a new one, from the prefix cache, or from the swap space.
Status Checker::begin(const LawSchedule& schedule, int sequence) {
  Live& l = live(sequence);
  const bool cached = spec(schedule, sequence).cached;
  if (l.slot) return {};
  if (l.swapped) {
    if (runner_.cache().pools().latents().free() <= blocks_for(l.swapped_at)) give_room();
    SLUICE_ASSIGN_OR_RETURN(l.slot, runner_.sequences().swap_in(std::exchange(l.swapped, {}), l.swapped_at,
                                                                cached ? l.chain.get() : nullptr));
    ++report_.swaps_restored;
    return {};
  }
  if (!l.chain) {
    l.chain = std::make_unique<BlockChain>(runner_.cache().root("laws"));
    l.chain->extend(prompt_of(schedule, sequence));
    std::vector<int> blocks(static_cast<std::size_t>(spec(schedule, sequence).keeps_all ? l.chain->blocks() : 0));
    std::iota(blocks.begin(), blocks.end(), 0);
    l.chain->set_kept_blocks(std::move(blocks));
  }
  report_.preemptions += std::exchange(l.begun, true);
  SLUICE_ASSIGN_OR_RETURN(l.slot, runner_.sequences().open());
  if (!cached || l.hit_limit < 1) return {};
  const PrefixHit hit = runner_.cache().prefix_cache().lookup(*l.chain, l.hit_limit);
  if (hit.shared > 0) runner_.sequences().resume(l.slot, *l.chain, hit);
  report_.hits += hit.resume > 0;
  report_.resumed_tokens += hit.resume;
  return {};
}

Status Checker::after(const LawSchedule& schedule, const LawPiece& piece) {
  Live& l = live(piece.sequence);
  if (!l.slot) return {};
  const BlockChain* chain = spec(schedule, piece.sequence).cached ? l.chain.get() : nullptr;
  switch (piece.after) {
    case LawEvent::kNone:
      break;
    case LawEvent::kDrop:
      runner_.sequences().close(std::exchange(l.slot, {}), chain);
      l.hit_limit = piece.argument;
      break;
    case LawEvent::kSwap: {
      l.swapped_at = runner_.sequences().position(l.slot);
      SLUICE_ASSIGN_OR_RETURN(l.swapped, runner_.sequences().swap_out(l.slot));
      l.slot = {};
      ++report_.swaps;
      break;
    }
    case LawEvent::kTruncate: {
      const Position at = runner_.sequences().truncate(l.slot, piece.argument, chain);
      if (at > std::max<Position>(piece.argument, 0)) {
        return internal_error(fmt::format("truncate({}) went to {}", piece.argument, at));
      }
      ++report_.truncations;
      break;
    }
    case LawEvent::kFork:
      SLUICE_RETURN_IF_ERROR(fork(schedule, piece));
      break;
    case LawEvent::kAbort:
      end(l);
      l.aborted = true;
      ++report_.aborts;
      return {};
  }
  if (l.pieces_left == 0) end(l);
  return {};
}

Status Checker::fork(const LawSchedule& schedule, const LawPiece& piece) {
  if (piece.argument >= static_cast<int>(live_.size())) return {};
  Live& child = live(piece.argument);
  const Live& parent = live(piece.sequence);
  const auto& own = prompt_of(schedule, piece.argument);
  const auto& other = prompt_of(schedule, piece.sequence);
  const int common = common_tokens(own, other);
  if (child.begun || child.pieces_left == 0 || common < runner_.sequences().position(parent.slot)) return {};
  SLUICE_ASSIGN_OR_RETURN(child.slot, runner_.sequences().fork(parent.slot));
  child.begun = true;
  child.chain = std::make_unique<BlockChain>(runner_.cache().root("laws"));
  child.chain->extend(own);
  if (common < static_cast<int>(std::min(own.size(), other.size()))) child.apart_from = common;
  ++report_.forks;
  return {};
}

void Checker::end(Live& l) {
  if (l.slot) runner_.sequences().close(std::exchange(l.slot, {}), l.chain.get());
  if (l.swapped) runner_.cache().swap_space().drop(std::exchange(l.swapped, {}));
}

std::optional<Mismatch> Checker::compare(const LawSchedule& schedule, std::size_t step) {
  std::size_t row = 0;
  for (const int sequence : span_sequences_) {
    Live& l = live(sequence);
    const auto& reference = references_[static_cast<std::size_t>(spec(schedule, sequence).prompt)];
    for (const int i : l.logit_rows) {
      ++report_.comparisons;
      const Position p = l.first + i;
      if (bit_digest(runner_.logits().at_row(row++)) != reference[static_cast<std::size_t>(p)]) {
        return Mismatch{step, sequence, p};
      }
      report_.choosing_rows += p >= options_.chooses_from;
      if (p < l.apart_from) continue;
      l.apart_from = INT32_MAX;
      ++report_.forks_apart;
    }
  }
  return std::nullopt;
}

// Adds the digests of its prompts alone, which equal the schedule's results.
void Checker::add_digest(const LawSchedule& schedule) {
  for (const LawSequence& sequence : schedule.sequences) {
    for (const std::uint64_t row : references_[static_cast<std::size_t>(sequence.prompt)]) {
      report_.digest = mixed(report_.digest, row);
    }
  }
}

// The smallest schedule after which the auditor still finds something.
Result<LawDifference> Checker::shrink_failure(LawSchedule schedule, Status failure, int number) {
  int runs = 0;
  for (bool smaller = options_.shrink; smaller && runs < kMaxShrinkRuns;) {
    smaller = false;
    schedule.steps.resize(std::min(schedule.steps.size(), steps_begun_));
    for (LawSchedule& candidate : smaller_schedules(schedule)) {
      if (++runs > kMaxShrinkRuns) break;
      if (!check_at_rest(runner_).ok()) SLUICE_RETURN_IF_ERROR(runner_.clear_cache());
      const Result<std::optional<Mismatch>> found = run(candidate);
      if (found.status().code() != StatusCode::kInternal) continue;
      schedule = std::move(candidate);
      failure = found.status();
      smaller = true;
      break;
    }
  }
  LawDifference difference;
  difference.schedule = number;
  difference.first_value = "audit";
  difference.text = fmt::format("seed {} schedule {}: {}; the smallest schedule found:\n{}", options_.seed, number,
                                failure.message(), schedule.text());
  return difference;
}

Result<LawSchedule> Checker::shrink(LawSchedule schedule, Mismatch* mismatch) {
  int runs = 0;
  for (bool smaller = options_.shrink; smaller && runs < kMaxShrinkRuns;) {
    smaller = false;
    schedule.steps.resize(mismatch->step + 1);  // later steps have no part in it
    for (LawSchedule& candidate : smaller_schedules(schedule)) {
      if (++runs > kMaxShrinkRuns) break;
      SLUICE_ASSIGN_OR_RETURN(const std::optional<Mismatch> found, run(candidate));
      if (!found) continue;
      schedule = std::move(candidate);
      *mismatch = *found;
      smaller = true;
      break;
    }
  }
  return schedule;
}

// Digests of the watched row in every value that has a row for each row of the batch.
Observer Checker::watch(const LawSchedule& schedule, const Mismatch& watched, Values* values) {
  return [this, &schedule, watched, values](std::string_view name, const float* data, int rows, int columns) {
    int row = -1, total = 0;
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (span_sequences_[i] == watched.sequence) row = total + watched.position - live(watched.sequence).first;
      total += spans_[i].rows();
    }
    if (row < 0 || rows != total) return;
    std::span<const float> of_row{data + static_cast<std::ptrdiff_t>(row) * columns, static_cast<std::size_t>(columns)};
    // Index scores are as wide as the longest sequence of the step needs: zeros follow a row's own.
    while (!of_row.empty() && std::bit_cast<std::uint32_t>(of_row.back()) == 0)
      of_row = of_row.first(of_row.size() - 1);
    values->emplace_back(name, bit_digest(of_row));
    static_cast<void>(schedule);
  };
}

Result<std::string> Checker::first_value(const LawSchedule& schedule, const Mismatch& mismatch) {
  Values scheduled, alone;
  SLUICE_RETURN_IF_ERROR(run(schedule, &mismatch, &scheduled).status());
  LawSchedule single;
  single.sequences = {{.prompt = spec(schedule, mismatch.sequence).prompt}};
  single.steps = {
      {.threads = 1,
       .pieces = {{.sequence = 0, .end = static_cast<int>(prompt_of(schedule, mismatch.sequence).size())}}}};
  const Mismatch same{.step = 0, .sequence = 0, .position = mismatch.position};
  SLUICE_RETURN_IF_ERROR(run(single, &same, &alone).status());
  for (std::size_t i = 0; i < std::min(scheduled.size(), alone.size()); ++i) {
    if (scheduled[i] != alone[i]) return scheduled[i].first;
  }
  return std::string("logits");
}

}  // namespace

Result<LawReport> check_row_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                const LawOptions& options) {
  return check_schedules(runner, prompts, options,
                         [&](int number) { return make_law_schedule(prompts, options, number); });
}

Result<LawReport> check_schedules(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                  const LawOptions& options, const std::function<LawSchedule(int)>& make) {
  LawReport report;
  Checker checker(runner, prompts, options, &report);
  const LawClock clock(options);
  while (clock.goes_on(report.schedules)) {
    const int number = options.first_schedule + report.schedules;
    const auto named = [&](const Status& status) {
      return status.with_context(fmt::format("seed {} schedule {}", options.seed, number));
    };
    LawSchedule schedule = make(number);
    Result<std::optional<Mismatch>> found = checker.run(schedule);
    ++report.schedules;
    if (options.progress) options.progress(report.schedules);
    if (found.status().code() == StatusCode::kInternal) {  // the auditor
      SLUICE_ASSIGN_OR_RETURN(report.difference, checker.shrink_failure(std::move(schedule), found.status(), number));
      return report;
    }
    if (!found.ok()) return named(found.status());
    if (!*found) {
      checker.add_digest(schedule);
      continue;
    }
    Mismatch mismatch = **found;
    SLUICE_ASSIGN_OR_RETURN(schedule, checker.shrink(std::move(schedule), &mismatch));
    SLUICE_ASSIGN_OR_RETURN(std::string first, checker.first_value(schedule, mismatch));
    const int prompt = schedule.sequences[static_cast<std::size_t>(mismatch.sequence)].prompt;
    report.difference = LawDifference{
        .schedule = number, .prompt = prompt, .position = mismatch.position, .first_value = first, .text = {}};
    report.difference->text = fmt::format(
        "seed {} schedule {}: the logits of prompt {} at position {} (sequence {}, step {}) are not those of the "
        "prompt alone in one piece; the first value that differs is {}; the smallest schedule found:\n{}",
        options.seed, number, prompt, mismatch.position, mismatch.sequence, mismatch.step, first, schedule.text());
    return report;
  }
  return report;
}

}  // namespace sluice
