#include "verify/law_borders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/test_seed_testing.h"
#include "engine/fake_model_testing.h"

namespace sluice::law_borders_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

PlaneSpec latent(int ratio, int most_read) {
  PlaneSpec plane{.kind = PlaneKind::kLatent, .name = "latent", .format = {}, .initial = {}};
  plane.tokens_per_row = ratio;
  plane.most_read = most_read;
  return plane;
}

CacheLayout layout_of(std::vector<PlaneSpec> planes, int window) {
  CacheLayout layout;
  if (window > 0) {
    PlaneSpec plane{.kind = PlaneKind::kWindow, .name = "window", .format = {}, .initial = {}};
    plane.window_tokens = window;
    planes.push_back(plane);
  }
  layout.planes = std::move(planes);
  return layout;
}

std::vector<Position> lengths(const CacheLayout& layout, const ModelConfig& config) {
  std::vector<Position> lengths;
  for (const LawBorder& border : law_borders(layout, config)) lengths.push_back(border.tokens);
  return lengths;
}

TEST(LawBordersTest, AreThoseOfTheModel) {
  ModelConfig v4;
  v4.max_position_embeddings = 1 << 20;
  v4.compress_rope.yarn = true;
  v4.compress_rope.original_max_position_embeddings = 65536;
  EXPECT_THAT(lengths(layout_of({latent(4, 512), latent(128, 0)}, 128), v4),
              ElementsAre(4, 8, 128, 256, 2048, 2052, 65536, 1 << 20));
  ModelConfig v32;
  v32.max_position_embeddings = 163840;
  v32.rope.yarn = true;
  v32.rope.original_max_position_embeddings = 4096;
  EXPECT_THAT(lengths(layout_of({latent(1, 2048)}, 0), v32), ElementsAre(128, 256, 2048, 2049, 4096, 163840));
  ModelConfig llama;
  llama.max_position_embeddings = 131072;
  llama.rope.llama3 = true;
  llama.rope.original_max_position_embeddings = 8192;
  EXPECT_THAT(lengths(layout_of({latent(1, 0)}, 0), llama), ElementsAre(128, 256, 8192, 131072));
  ModelConfig qwen;  // without rotary scaling its keys count for nothing
  qwen.max_position_embeddings = 32768;
  qwen.rope.original_max_position_embeddings = 4096;
  EXPECT_THAT(lengths(layout_of({latent(1, 0)}, 64), qwen), ElementsAre(64, 128, 256, 32768));
}

TEST(LawBordersTest, NearOnesAreMetTogether) {
  ModelConfig config;
  const auto zones = border_zones(law_borders(layout_of({latent(4, 64), latent(128, 0)}, 128), config));
  std::vector<std::pair<Position, Position>> ranges;
  for (const BorderZone& zone : zones) ranges.emplace_back(zone.first(), zone.last());
  EXPECT_THAT(ranges, ElementsAre(Pair(1, 17), Pair(119, 137), Pair(247, 269)));
  EXPECT_THAT(zones[2].text(), HasSubstr("260 tokens (attention reads 64 entries of 4 at most)"));
}

// Every length of a zone is where a step ends by itself, and is straddled by drafts, right ones and wrong ones.
TEST(LawBordersTest, EveryLengthIsMetAlone) {
  constexpr std::array kThreads{1, 2};
  for (const Position border : {1, 4, 128, 2048, 1024}) {
    const BorderZone zone{{{border, "it"}}};
    const int most = border == 1024 ? 1024 : 6000, tokens = border_prompt_tokens(zone, most);
    const LawSchedule schedule = border_schedule(zone, 0, tokens, most, kThreads);
    std::set<Position> ends, by_right, by_wrong;
    std::set<int> threads;
    std::vector<Position> at(schedule.sequences.size());
    for (const LawStep& step : schedule.steps) {
      ASSERT_EQ(step.pieces.size(), 1U);
      threads.insert(step.threads);
      const LawPiece& piece = step.pieces[0];
      Position& first = at[static_cast<std::size_t>(piece.sequence)];
      ASSERT_GT(piece.end, first) << border;
      ASSERT_LT(piece.right, piece.end - first);
      ASSERT_LE(piece.end + piece.drafts - piece.right, most);
      if (piece.drafts == 0) ends.insert(piece.end);
      for (Position n = piece.end - piece.right; n < piece.end; ++n) by_right.insert(n);
      for (Position n = piece.end; n < piece.end + piece.drafts - piece.right; ++n) by_wrong.insert(n);
      first = piece.end;
      if (piece.after == LawEvent::kFork) at[static_cast<std::size_t>(piece.argument)] = first;
    }
    EXPECT_THAT(threads, ElementsAre(1, 2));
    const Position last = std::min<Position>(zone.last(), tokens);
    for (Position n = zone.first(); n <= last; ++n) {
      EXPECT_TRUE(ends.contains(n)) << border << ": no step ends at " << n;
      EXPECT_TRUE(n == last || n < 9 || by_right.contains(n)) << border << ": no right drafts over " << n;
      EXPECT_TRUE(n == last || n < 6 || by_wrong.contains(n)) << border << ": no wrong drafts over " << n;
    }
  }
}

// A step that ends just after a border is wrong if it is alone: together with a longer sequence nothing shows.
TEST(LawBordersTest, AFaultOfLoneStepsIsFound) {
  for (const bool faulty : {false, true}) {
    bool wrong = false;
    EngineSetup options;
    options.machine.threads = 1;
    options.scheduler.max_num_seqs = 12;
    options.scheduler.max_num_batched_tokens = 1024;
    options.cache.kv_cache_memory = 8 << 20;
    options.audit = true;
    options.speculation = {.speculative = Speculative::kNgram, .num_speculative_tokens = kMostDrafts};
    auto model = std::make_unique<FakeModel>(FakeModel::Settings{
        .experts = 8,
        .on_step = [&](const StepTables& step) { wrong = faulty && step.end > 128 && step.end <= 130; },
        .on_logits = [&](TokenId, Position p, float* logits) { logits[0] += wrong && p == 127 ? 1.0F : 0.0F; }});
    const auto runner = Runner::create(std::move(model), nullptr, options).value();
    std::vector<LawBorder> borders = law_borders(runner->model().cache_layout(), runner->model().config());
    std::erase_if(borders, [](const LawBorder& border) { return border.tokens > 1000; });
    const std::vector<BorderZone> zones = border_zones(borders);
    LawOptions laws;
    laws.seed = test_seed();
    laws.chooses_from = 200;
    const auto report = check_borders(*runner, zones, laws);
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_EQ(report->difference.has_value(), faulty) << report->difference->text;
    EXPECT_GT(report->drafts, 100);
    if (!faulty) {
      EXPECT_EQ(report->schedules, static_cast<int>(zones.size()));
      EXPECT_GT(report->in_flight, 10) << "the scheduler's half";
      continue;
    }
    EXPECT_EQ(report->difference->position, 127);
    EXPECT_THAT(report->difference->text, HasSubstr("at the border of 128 tokens (a block ends"));
  }
}

// A fault that only the scheduler meets at a border: a step with a second one in flight.
TEST(LawBordersTest, TheSchedulerMeetsThemToo) {
  int steps = 0;
  EngineSetup options;
  options.machine.threads = 1;
  options.scheduler.max_num_seqs = 12;
  options.scheduler.max_num_batched_tokens = 1024;
  options.cache.kv_cache_memory = 8 << 20;
  options.speculation = {.speculative = Speculative::kNgram, .num_speculative_tokens = kMostDrafts};
  bool late = false;
  auto model = std::make_unique<FakeModel>(FakeModel::Settings{
      .experts = 8,
      .on_step = [&](const StepTables& step) { late = step.id_slots != nullptr, steps += late; },
      .on_logits = [&](TokenId, Position p, float* logits) { logits[0] += late && p == 127 ? 1.0F : 0.0F; }});
  const auto runner = Runner::create(std::move(model), nullptr, options).value();
  const std::vector<BorderZone> zones{{{{128, "it"}}}};
  const auto report = check_borders(*runner, zones, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(steps, 0);
  ASSERT_TRUE(report->difference.has_value());
  EXPECT_THAT(report->difference->text, HasSubstr("at the border of 128 tokens (it), "));
}

}  // namespace
}  // namespace sluice::law_borders_test
