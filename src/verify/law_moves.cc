// Used by verify.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "verify/law_check.h"
#include "verify/law_runner.h"

namespace sluice {
namespace {

class Mover {
 public:
  Mover(Runner& runner, Runner& cpu, std::span<const std::vector<TokenId>> prompts, const LawOptions& options)
      : runners_{&runner, &cpu}, prompts_(prompts), options_(options), references_(prompts.size()) {}

  // Adds to report().
  Status run(int number);
  LawReport& report() { return report_; }

 private:
  struct Sequence {
    std::size_t prompt = 0, at = 0;  // tokens so far
    std::size_t side = 0;            // index of the runner that has it
    StateSlot slot;
    std::array<std::unique_ptr<BlockChain>, 2> chains;  // one for each runner
    std::vector<int> rows;                              // compared rows of its span
    std::string text;
  };

  const std::vector<TokenId>& ids(const Sequence& s) const { return prompts_[s.prompt]; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  Status begin();
  Status step(std::size_t side);
  Status move(Sequence& sequence);
  Result<std::vector<std::uint64_t>> digests(Runner& runner, std::span<const StepSpan> spans);
  Status compare(std::span<const Sequence* const> stepped, const std::vector<std::uint64_t>& found);
  std::vector<int> compared_rows(std::size_t first, std::size_t rows) const;

  std::array<Runner*, 2> runners_;
  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  std::vector<std::vector<std::uint64_t>> references_;  // [prompt][position]; empty: not computed yet
  std::vector<Sequence> sequences_;
  std::mt19937_64 random_;
  int number_ = 0;
  LawReport report_;
};

std::vector<int> Mover::compared_rows(std::size_t first, std::size_t rows) const {
  std::vector<int> compared;
  for (std::size_t i = 0; i < rows; ++i) {
    if (compared_row(options_, static_cast<Position>(first + i))) compared.push_back(static_cast<int>(i));
  }
  return compared;
}

Result<std::vector<std::uint64_t>> Mover::digests(Runner& runner, std::span<const StepSpan> spans) {
  SLUICE_RETURN_IF_ERROR(runner.run_step(spans));
  std::size_t rows = 0;
  for (const StepSpan& span : spans) rows += span.logit_rows.size();
  std::vector<std::uint64_t> found;
  for (std::size_t row = 0; row < rows; ++row) found.push_back(bit_digest(runner.logits().at_row(row)));
  SLUICE_RETURN_IF_ERROR(runner.exec().device->status());
  return found;
}

Status Mover::begin() {
  Runner& cpu = *runners_[1];
  std::size_t rows = 0;
  sequences_.clear();
  while (static_cast<int>(sequences_.size()) < options_.max_sequences &&
         (sequences_.size() < 2 || rows < static_cast<std::size_t>(options_.min_rows))) {
    Sequence& s = sequences_.emplace_back();
    s.prompt = below(prompts_.size());
    rows += ids(s).size();
    s.side = below(2);
    for (std::size_t side = 0; side < 2; ++side) {
      s.chains[side] = std::make_unique<BlockChain>(runners_[side]->cache().root(""));
      s.chains[side]->extend(ids(s));
    }
    SLUICE_ASSIGN_OR_RETURN(s.slot, runners_[s.side]->sequences().open());
    std::vector<std::uint64_t>& reference = references_[s.prompt];
    if (!reference.empty()) continue;
    SLUICE_ASSIGN_OR_RETURN(const StateSlot alone, cpu.sequences().open());
    const std::vector<int> compared = compared_rows(0, ids(s).size());
    const StepSpan span{.sequence = alone, .ids = ids(s), .logit_rows = compared};
    const auto found = digests(cpu, {&span, 1});
    cpu.sequences().close(alone);
    SLUICE_RETURN_IF_ERROR(found.status());
    reference.resize(ids(s).size());
    for (std::size_t i = 0; i < compared.size(); ++i) reference[static_cast<std::size_t>(compared[i])] = (*found)[i];
  }
  return {};
}

// A piece of some of the sequences that the runner has.
Status Mover::step(std::size_t side) {
  constexpr std::array<std::size_t, 7> kMostRows{1, 3, 9, 64, 127, 129, 700};
  std::vector<StepSpan> spans;
  std::vector<const Sequence*> stepped;
  std::size_t budget = static_cast<std::size_t>(options_.max_step_rows);
  for (Sequence& s : sequences_) {
    const std::size_t left = ids(s).size() - s.at;
    if (s.side != side || left == 0 || budget == 0 || below(3) == 0) continue;
    const std::size_t rows = std::min({1 + below(kMostRows[below(kMostRows.size())]), left, budget});
    budget -= rows;
    s.rows = compared_rows(s.at, rows);
    spans.push_back({.sequence = s.slot,
                     .ids = std::span(ids(s)).subspan(s.at, rows),
                     .logit_rows = s.rows,
                     .chain = s.chains[side].get()});
    stepped.push_back(&s);
  }
  if (spans.empty()) return {};
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> found, digests(*runners_[side], spans));
  SLUICE_RETURN_IF_ERROR(compare(stepped, found));
  for (std::size_t i = 0; i < spans.size(); ++i) {
    Sequence& s = sequences_[static_cast<std::size_t>(stepped[i] - sequences_.data())];
    s.at += spans[i].ids.size();
    s.text += fmt::format(" to {} on {};", s.at, side == 0 ? "the device" : "the CPU");
  }
  return runners_[side]->sequences().audit();
}

Status Mover::compare(std::span<const Sequence* const> stepped, const std::vector<std::uint64_t>& found) {
  std::size_t row = 0;
  for (const Sequence* s : stepped) {
    for (const int i : s->rows) {
      const std::size_t position = s->at + static_cast<std::size_t>(i);
      ++report_.comparisons;
      if (static_cast<Position>(position) >= options_.chooses_from) ++report_.choosing_rows;
      if (found[row++] == references_[s->prompt][position] || report_.difference) continue;
      report_.difference = LawDifference{
          .schedule = number_,
          .prompt = static_cast<int>(s->prompt),
          .position = static_cast<Position>(position),
          .first_value = "logits",
          .text = fmt::format("schedule {}: the logits of token {} of prompt {} on {}, computed{} differ from those of "
                              "the prompt alone on the CPU\n",
                              number_, position, s->prompt, s->side == 0 ? "the device" : "the CPU", s->text)};
    }
  }
  return {};
}

Status Mover::move(Sequence& s) {
  Runner &from = *runners_[s.side], &to = *runners_[1 - s.side];
  SLUICE_ASSIGN_OR_RETURN(const SwapHandle left, from.sequences().swap_out(s.slot));
  ++report_.swaps;
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::byte> image, from.cache().swap_space().take(left));
  SLUICE_ASSIGN_OR_RETURN(const SwapHandle arrived, to.cache().swap_space().store(std::move(image)));
  s.side = 1 - s.side;
  SLUICE_ASSIGN_OR_RETURN(s.slot, to.sequences().swap_in(arrived, static_cast<Position>(s.at), s.chains[s.side].get()));
  ++report_.swaps_restored;
  return to.sequences().audit();
}

Status Mover::run(int number) {
  number_ = number;
  random_.seed(options_.seed + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15U);
  for (Runner* runner : runners_) runner->cache().prefix_cache().reset();
  SLUICE_RETURN_IF_ERROR(begin());
  const auto done = [this](const Sequence& s) { return s.at == ids(s).size(); };
  while (!report_.difference && !std::all_of(sequences_.begin(), sequences_.end(), done)) {
    SLUICE_RETURN_IF_ERROR(step(below(2)));
    for (Sequence& s : sequences_) {
      if (!done(s) && s.at > 0 && below(4) == 0) SLUICE_RETURN_IF_ERROR(move(s));
    }
  }
  for (Sequence& s : sequences_) {
    runners_[s.side]->sequences().close(s.slot);
    for (const std::uint64_t row : references_[s.prompt]) report_.digest = mixed(report_.digest, row);
  }
  for (const Runner* runner : runners_) SLUICE_RETURN_IF_ERROR(check_at_rest(*runner));
  ++report_.schedules;
  return {};
}

}  // namespace

Result<LawReport> check_moves(Runner& runner, Runner& cpu, std::span<const std::vector<TokenId>> prompts,
                              const LawOptions& options) {
  Mover mover(runner, cpu, prompts, options);
  const LawClock clock(options);
  for (int done = 0; clock.goes_on(done) && !mover.report().difference; ++done) {
    const int number = options.first_schedule + done;
    const Status status = mover.run(number);
    if (status.code() == StatusCode::kInternal) {  // the auditor
      mover.report().difference = LawDifference{.schedule = number, .first_value = "audit", .text = status.message()};
      break;
    }
    SLUICE_RETURN_IF_ERROR(status);
    if (options.progress) options.progress(done + 1);
  }
  mover.report().thread_counts = {runner.threads().count()};
  return mover.report();
}

}  // namespace sluice
