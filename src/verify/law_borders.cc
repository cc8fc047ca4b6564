// Used by verify.cc.
#include "verify/law_borders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "cache/pages/page_geometry.h"

namespace sluice {
namespace {

constexpr int kBehind = 31;              // tokens of a prompt after the last that is met
constexpr Position kCheapPrompts = 600;  // up to this border prompts that end there are met, too
constexpr int kForkDistance = 3;         // tokens between the places where the walks begin

// One sequence after the other, each alone in its steps, all of them over one prompt.
class BorderWalks {
 public:
  BorderWalks(const BorderZone& zone, int prompt, int tokens, int most, std::span<const int> thread_counts)
      : zone_(zone), prompt_(prompt), last_(std::min(zone.last(), tokens)), most_(most), threads_(thread_counts) {}

  LawSchedule make() {
    begin();
    while (at_[0] < last_) step(0, 1, 0, 0);
    for (const int walk : {1, 2, 3}) {
      while (at_[static_cast<std::size_t>(walk)] < last_) step(walk, 1 + kMostDrafts, kMostDrafts, kMostDrafts);
    }
    for (int right = 0; at_[4] < last_; right = (right + 1) % kMostDrafts) step(4, 1 + right, kMostDrafts, right);
    while (at_[5] < last_) step(5, 1, kMostDrafts, 0);
    while (at_[6] < last_) step(6, 5, 0, 0);
    if (zone_.last() <= kCheapPrompts) add_prompts();
    return std::move(schedule_);
  }

 private:
  static constexpr int kWalks = 7;

  // Every walk begins a little further than the one before, forked from the first; those of a short prompt at its
  // start.
  void begin() {
    for (int walk = 0; walk < kWalks; ++walk) add_sequence();
    const Position base = zone_.first() - kForkDistance * kWalks;
    if (base < 1) {
      for (int walk = 1; walk < kWalks; ++walk) step(walk, std::min(walk, last_), 0, 0);
      return;
    }
    for (int walk = 1; walk < kWalks; ++walk) {
      step(0, walk == 1 ? base : kForkDistance, 0, 0);
      LawPiece& piece = schedule_.steps.back().pieces[0];
      piece.after = LawEvent::kFork;
      piece.argument = walk;
      at_[static_cast<std::size_t>(walk)] = at_[0];
    }
  }

  void add_prompts() {
    std::vector<Position> ends;
    for (const LawBorder& border : zone_.borders) {
      for (const Position end : {border.tokens - 1, border.tokens, border.tokens + 1, border.tokens + kBorderRows}) {
        if (end >= 1 && end <= last_) ends.push_back(end);
      }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (const Position end : ends) step(add_sequence(), end, 0, 0);
  }

  int add_sequence() {
    schedule_.sequences.push_back({.prompt = prompt_});
    at_.push_back(0);
    return static_cast<int>(at_.size()) - 1;
  }

  // Adds a step of the next `rows` tokens, the last `right` of them as drafts, and then wrong drafts up to `drafts`.
  void step(int walk, int rows, int drafts, int right) {
    Position& at = at_[static_cast<std::size_t>(walk)];
    rows = std::min(rows, last_ - at);
    if (rows < 1) return;
    LawPiece piece{.sequence = walk, .end = at + rows};
    piece.right = std::min(right, rows - 1);
    piece.drafts = std::min(drafts - right, most_ - piece.end) + piece.right;
    const int threads = threads_[static_cast<std::size_t>(walk) % threads_.size()];
    schedule_.steps.push_back({.threads = threads, .pieces = {piece}});
    at = piece.end;
  }

  const BorderZone& zone_;
  const int prompt_;
  const Position last_;
  const int most_;
  std::span<const int> threads_;
  LawSchedule schedule_;
  std::vector<Position> at_;  // [sequence]
};

void add(std::vector<LawBorder>* borders, std::int64_t tokens, std::string what) {
  if (tokens < 1 || tokens > INT32_MAX) return;
  const auto at = std::lower_bound(borders->begin(), borders->end(), tokens,
                                   [](const LawBorder& b, std::int64_t t) { return b.tokens < t; });
  if (at == borders->end() || at->tokens != tokens) {
    borders->insert(at, {static_cast<Position>(tokens), std::move(what)});
  } else if (at->what.find(what) == std::string::npos) {
    at->what += ", " + what;
  }
}

void add_rope(std::vector<LawBorder>* borders, const RopeConfig& rope) {
  if (!rope.yarn && !rope.llama3 && !rope.longrope()) return;
  add(borders, rope.original_max_position_embeddings, "the original length of its positions");
}

}  // namespace

std::string LawBorder::text() const {
  return fmt::format("{} tokens ({})", tokens, what);
}

Position BorderZone::first() const {
  return std::max<Position>(1, borders.front().tokens - kBorderRows);
}

std::string BorderZone::text() const {
  std::vector<std::string> texts;
  for (const LawBorder& border : borders) texts.push_back(border.text());
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<LawBorder> law_borders(const CacheLayout& layout, const ModelConfig& config) {
  std::vector<LawBorder> borders;
  for (const int blocks : {1, 2}) add(&borders, std::int64_t{blocks} * kBlockTokens, "a block ends");
  for (const PlaneSpec& plane : layout.planes) {
    if (plane.kind == PlaneKind::kWindow) add(&borders, plane.window_tokens, "the attention window slides");
    if (plane.kind != PlaneKind::kLatent) continue;
    const std::int64_t ratio = plane.tokens_per_row;
    for (const int entries : {1, 2}) {
      if (ratio > 1) add(&borders, entries * ratio, fmt::format("an entry of {} tokens closes", ratio));
    }
    if (plane.most_read == 0) continue;
    const std::string what = fmt::format("attention reads {} entries of {} at most", plane.most_read, ratio);
    for (const int beyond : {0, 1}) add(&borders, (std::int64_t{plane.most_read} + beyond) * ratio, what);
  }
  add_rope(&borders, config.rope);
  add_rope(&borders, config.compress_rope);
  add(&borders, config.max_position_embeddings, "the longest context");
  return borders;
}

std::vector<BorderZone> border_zones(std::span<const LawBorder> borders) {
  std::vector<BorderZone> zones;
  for (const LawBorder& border : borders) {
    if (zones.empty() || border.tokens - kBorderRows > zones.back().last() + 1) zones.emplace_back();
    zones.back().borders.push_back(border);
  }
  return zones;
}

int border_prompt_tokens(const BorderZone& zone, int most) {
  return std::min(zone.last() + kBehind, most);
}

LawSchedule border_schedule(const BorderZone& zone, int prompt, int tokens, int most,
                            std::span<const int> thread_counts) {
  return BorderWalks(zone, prompt, tokens, most, thread_counts).make();
}

Workload border_workload(const BorderZone& zone, int prompt, int tokens, int most, BorderDrafts drafts) {
  Workload work;
  EngineSetup& o = work.options;
  o.scheduler.max_num_batched_tokens = 512;
  o.scheduler.async_scheduling = drafts == BorderDrafts::kNone ? AsyncScheduling::kOn : AsyncScheduling::kOff;
  o.speculation = {.speculative = drafts == BorderDrafts::kNone ? Speculative::kOff : Speculative::kAuto,
                   .num_speculative_tokens = kMostDrafts,
                   .speculative_adaptive = false};
  work.right_drafts = drafts == BorderDrafts::kGiven;
  work.requests.push_back({.prompt = prompt, .exports = true});
  work.requests[0].max_tokens = std::min(zone.last() + kMostDrafts, most) - tokens;
  return work;
}

namespace {

// Random tokens, always the same.
std::vector<TokenId> random_prompt(int tokens, std::size_t vocab) {
  std::mt19937 random(20260131);
  std::vector<TokenId> prompt(static_cast<std::size_t>(tokens));
  for (TokenId& id : prompt) id = static_cast<TokenId>(random() % vocab);
  return prompt;
}

}  // namespace

Result<LawReport> check_borders(Runner& runner, std::span<const BorderZone> zones, const LawOptions& options) {
  const int most = runner.limits().max_model_len, count = static_cast<int>(zones.size());
  LawOptions laws = options;
  laws.first_schedule = laws.long_prompts = 0;
  laws.schedules = count;
  laws.seconds = 0;
  laws.every_row = false;  // rows near the borders, and some others
  std::vector<std::vector<TokenId>> prompts, cut_prompts;
  for (const BorderZone& zone : zones) {
    laws.border_rows.emplace_back(zone.first() - kBorderRows, zone.last() + kBehind);
    prompts.push_back(random_prompt(border_prompt_tokens(zone, most), runner.limits().vocab_size));
    cut_prompts.push_back(prompts.back());
    cut_prompts.back().resize(static_cast<std::size_t>(std::max(1, zone.first() - 1)));
  }
  const auto length = [](const std::vector<TokenId>& prompt) { return static_cast<int>(prompt.size()); };
  struct Answer {
    int zone = 0;
    BorderDrafts drafts = BorderDrafts::kGiven;
  };
  std::vector<Answer> answers;
  for (int zone = 0; zone < count; ++zone) {
    answers.push_back({zone, BorderDrafts::kGiven});
    if (zones[static_cast<std::size_t>(zone)].last() > kCheapPrompts) continue;
    answers.push_back({zone, BorderDrafts::kOwn});
    answers.push_back({zone, BorderDrafts::kNone});
  }
  const auto named = [&](LawReport report, int zone) {
    const std::string text = zones[static_cast<std::size_t>(zone)].text();
    report.difference->text.insert(0, fmt::format("at the border of {}, ", text));
    return report;
  };
  SLUICE_ASSIGN_OR_RETURN(LawReport report, check_schedules(runner, prompts, laws, [&](int number) {
                            const auto i = static_cast<std::size_t>(number);
                            return border_schedule(zones[i], number, length(prompts[i]), most, laws.thread_counts);
                          }));
  if (report.difference) {
    const int zone = report.difference->schedule;
    return named(std::move(report), zone);
  }
  laws.schedules = static_cast<int>(answers.size());
  laws.progress = nullptr;
  const auto answer = [&](int number) { return answers[static_cast<std::size_t>(number)]; };
  SLUICE_ASSIGN_OR_RETURN(const LawReport of_answers, check_workloads(runner, cut_prompts, laws, [&](int number) {
                            const auto [zone, drafts] = answer(number);
                            const auto i = static_cast<std::size_t>(zone);
                            return border_workload(zones[i], zone, length(cut_prompts[i]), most, drafts);
                          }));
  report.add(of_answers);
  report.schedules = count;
  if (!report.difference) return report;
  const int zone = answer(report.difference->schedule).zone;
  return named(std::move(report), zone);
}

}  // namespace sluice
