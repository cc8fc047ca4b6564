// The layer for multi-token prediction and the state law (docs/models/deepseek_v4.md §10,
// docs/models/deepseek_v3.md §4). Its keys and its residual are functions of the tokens before them, however these were
// cut into passes, found in a cache, copied or drafted on. Drafts are functions of the sequence's tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/device/emulated_device.h"
#include "kernels/device/isa.h"
#include "kernels/ops/ops.h"
#include "model/checks/cache_testing.h"
#include "model/checks/changed_checkpoint_testing.h"
#include "model/checks/mtp_checkpoint_testing.h"
#include "model/drafter.h"
#include "model/model_plan.h"

namespace sluice::mtp_test {
namespace {

using ::testing::HasSubstr;

std::string tiny() {
  return source_dir() + "/models/sluice-tiny-v4";
}

struct Case {
  const char *model, *profile;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " " << c.profile;
}

class MtpTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kTokens = 300;

  void SetUp() override {
    EngineSetup options;
    options.numerics.profile = GetParam().profile;
    options.mtp = true;
    const std::string kind = GetParam().model;
    if (kind != "tiny") checkpoint_.emplace(test_data_dir() + "/oracles/" + kind);
    model_ = load_model(exec_, checkpoint_ ? checkpoint_->path() : tiny(), options, {}, nullptr).value();
    vocab_ = model_->config().vocab_size;
    ids_.resize(kTokens);
    for (TokenId& id : ids_) id = token();
  }

  const CacheLayout& layout() const { return model_->cache_layout(); }
  TokenId token() { return static_cast<TokenId>(random_() % static_cast<unsigned>(vocab_)); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::span<const TokenId> tokens(Position from, Position to) const {
    return std::span(ids_).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
  }
  // Goes on to `end` in pieces of up to `largest` rows.
  void run_to(TestSequence& sequence, Position end, int largest) {
    while (sequence.position() < end) {
      const Position p = sequence.position();
      sequence.run(*model_, exec_, tokens(p, std::min(p + between(1, largest), end)), {});
    }
  }
  TestSequence computed(Position end, int largest) {
    TestSequence sequence(layout(), kTokens, static_cast<unsigned>(random_()));
    run_to(sequence, end, largest);
    return sequence;
  }
  std::vector<float> draft(TestSequence& sequence, std::span<const TokenId> given) {
    return sequence.draft(*model_, exec_, given);
  }
  // The layer's keys of all slots that are held, and its residual.
  std::vector<std::byte> state_of(const TestSequence& sequence) const {
    std::vector<std::byte> bytes;
    const auto add = [&](const std::byte* from, int count) { bytes.insert(bytes.end(), from, from + count); };
    for (int i = 0; i < static_cast<int>(layout().planes.size()); ++i) {
      const PlaneSpec& plane = layout()[PlaneId(i)];
      if (!plane.name.starts_with("mtp.")) continue;
      if (plane.kind == PlaneKind::kOpen) {
        add(sequence.open_state().data() + layout().open_offset(PlaneId(i)), static_cast<int>(plane.initial.size()));
      }
      for (Position p = 0; plane.kind != PlaneKind::kOpen && p + plane.tokens_per_row <= sequence.position();
           p += plane.tokens_per_row) {
        const int block = p / kBlockTokens;
        const std::int32_t page =
            plane.kind == PlaneKind::kWindow ? sequence.window_page(block).value : sequence.latent_page(block).value;
        const RowRef row = sequence.pages().view()[PlaneId(i)].row(page, p % kBlockTokens / plane.tokens_per_row);
        add(row.data, plane.format.data_bytes);
        add(row.scales, plane.format.scale_bytes);
      }
    }
    return bytes;
  }

  const std::uint32_t seed_ = test_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "SLUICE_TEST_SEED=" + std::to_string(seed_)};
  std::mt19937 random_{seed_};
  ThreadPool pool_{2};
  Exec exec_{&pool_, select_kernels("auto").value()};
  std::optional<MtpCheckpoint> checkpoint_;
  std::unique_ptr<Model> model_;
  int vocab_ = 0;
  std::vector<TokenId> ids_;
};

// This holds also with drafts in between, on tokens that do not stay.
TEST_P(MtpTest, KeysAndResidualDoNotDependOnHowThePromptWasCut) {
  const auto expected = state_of(computed(kTokens, kTokens));
  EXPECT_GT(expected.size(), std::size_t{kTokens} * 128);
  for (const int largest : {1, 5, 200}) {
    EXPECT_TRUE(state_of(computed(kTokens, largest)) == expected) << "pieces of up to " << largest;
    TestSequence drafting(layout(), kTokens);
    while (drafting.position() < kTokens) {
      run_to(drafting, std::min(drafting.position() + between(1, largest), kTokens), largest);
      std::vector<TokenId> wrong(static_cast<std::size_t>(std::min(between(0, 4), kTokens - drafting.position())));
      for (TokenId& id : wrong) id = token();
      draft(drafting, wrong);
    }
    EXPECT_TRUE(state_of(drafting) == expected) << "pieces of up to " << largest << ", with drafts";
  }
}

// However they were computed: at once, row by row, from a block's pages, with wrong drafts before.
TEST_P(MtpTest, DraftsAreThoseOfTheTokensAlone) {
  TestPages pages(layout(), 30, seed_);
  TestSequence donor(&pages, kTokens);
  run_to(donor, kTokens, kTokens);
  for (const Position p : {1, 2, 127, 128, 129, 256, 257, 290}) {
    SCOPED_TRACE(p);
    const auto given = tokens(p, p + 4);
    TestSequence at_once = computed(p, kTokens), row_by_row = computed(p, 1);
    const auto expected = draft(at_once, given);
    EXPECT_TRUE(draft(row_by_row, given) == expected);
    draft(row_by_row, std::vector<TokenId>{given[0], token(), token()});
    EXPECT_TRUE(draft(row_by_row, given) == expected);
    const int block = p / kBlockTokens;
    if (block == 0) continue;
    TestSequence hit = TestSequence::resumed(donor, block, block, kTokens);
    run_to(hit, p, 3);
    EXPECT_TRUE(draft(hit, given) == expected);
  }
}

// A draft of depth 2 is one of depth 1 a token later, had that token left the residual of the first draft's row.
TEST_P(MtpTest, ADeeperDraftGoesOnFromTheResidualOfTheOneBefore) {
  if (std::string(GetParam().profile) != "plain") return;  // elsewhere a committed residual is rounded
  for (const Position p : {1, 127, 200}) {
    TestSequence sequence = computed(p, 100);
    std::vector<std::vector<float>> residuals;
    const Observer observer = [&](std::string_view name, const float* values, int rows, int columns) {
      if (name == (checkpoint_ ? "mtp.0.hidden" : "mtp.0.resid_out"))
        residuals.emplace_back(values, values + std::ptrdiff_t{rows} * columns);
    };
    const auto deep = sequence.draft(*model_, exec_, tokens(p, p + 3), &observer);
    ASSERT_EQ(residuals.size(), 3U);
    for (int d = 1; d < 3; ++d) {
      std::vector<std::byte> state = sequence.open_state();
      const std::vector<float>& residual = residuals[static_cast<std::size_t>(d) - 1];
      const auto plane = std::ranges::find_if(layout().planes,
                                              [](const PlaneSpec& spec) {
                                                return spec.name.starts_with("mtp.") && spec.kind == PlaneKind::kOpen;
                                              }) -
                         layout().planes.begin();
      std::memcpy(state.data() + layout().open_offset(PlaneId(static_cast<std::int32_t>(plane))), residual.data(),
                  residual.size() * sizeof(float));
      CacheView view = sequence.pages().view();
      view.open_base = state.data(), view.open_stride = state.size();
      BatchSpan row = sequence.next_rows(1);
      row.first_position += d;
      const int wanted = 0;
      StepBuilder step(layout().table_shape());
      step.add(row, tokens(p + d, p + d + 1), {&wanted, 1});
      std::vector<float> logits(static_cast<std::size_t>(vocab_));
      model_->draft(exec_, step.finish(), view, 1, logits.data(), nullptr);
      EXPECT_TRUE(std::ranges::equal(
          logits, std::span(deep).subspan(static_cast<std::size_t>(d * vocab_), static_cast<std::size_t>(vocab_))))
          << "position " << p << " depth " << d + 1;
    }
  }
}

// Drafts have a head of their own where the profile rounds: codes of 8 bits, whose logits are near those of the head.
TEST_P(MtpTest, TheHeadOfDraftsIsNarrowerWhereTheProfileRounds) {
  EngineSetup options;
  options.numerics.profile = GetParam().profile;
  options.mtp = true;
  LoadReport report;
  const auto model = load_model(exec_, checkpoint_ ? checkpoint_->path() : tiny(), options, {}, &report).value();
  const auto formats = [&](WeightRole role) {
    std::vector<WeightFormat> found;
    for (const BoundWeight& weight : report.weights) {
      if (weight.role == role && weight.out == vocab_) found.push_back(weight.format);
    }
    return found;
  };
  const bool rounds = std::string(GetParam().profile) == "default";
  const WeightFormat stored = formats(WeightRole::kLogits).front();
  EXPECT_EQ(formats(WeightRole::kDrafted), std::vector{rounds ? WeightFormat::kCodes : stored});
  EXPECT_NE(stored, WeightFormat::kCodes);
  // V4's projection of X, four rows for each of a step's, has that form, too.
  const auto as_codes = [](const BoundWeight& weight) {
    return weight.name == "mtp.0.h_proj.weight" && weight.format == WeightFormat::kCodes;
  };
  EXPECT_EQ(std::ranges::count_if(report.weights, as_codes), rounds && !checkpoint_ ? 1 : 0);
}

// Several sequences at once, each with drafts of its own number, drawn where the logits are: the same as alone, and as
// the logits say that drafts given one by one have.
TEST_P(MtpTest, DraftsOfManySequencesAreThoseOfEach) {
  constexpr int kSequences = 5, kSlots = 8;
  const Position positions[kSequences] = {3, 130, 127, 255, 64};
  const int drafts[kSequences] = {2, 0, 4, 1, 3};
  TestPages pages(layout(), 30, seed_);
  std::vector<TestSequence> sequences;
  std::vector<std::byte> states;
  std::vector<DraftedSequence> drafted;
  for (int s = 0; s < kSequences; ++s) {
    sequences.emplace_back(&pages, kTokens);
    run_to(sequences.back(), positions[s], 50);
    const auto& state = sequences.back().open_state();
    states.insert(states.end(), state.begin(), state.end());
  }
  std::vector<TokenId> first(kSequences * kSlots, -1);
  for (int s = 0; s < kSequences; ++s) {
    DraftedSequence& d = drafted.emplace_back();
    d.span = sequences[static_cast<std::size_t>(s)].next_rows(1 + drafts[s]);
    d.span.state_in = s;
    d.drafts = drafts[s], d.slot = s * kSlots;
    const TokenId newest = ids_[static_cast<std::size_t>(positions[s])];
    (s % 2 == 0 ? d.newest : first[static_cast<std::size_t>(d.slot)]) = newest;
  }
  CacheView view = pages.view();
  view.open_base = states.data(), view.open_stride = layout().open_bytes();
  const SampleRow params{.temperature = 0.8F, .top_k = 50, .seed = 7};
  const auto row_of = [&](int s, int depth, int row) {
    SampleRow of = params;
    of.row = row, of.position = positions[s] + depth, of.slot = s * kSlots + depth;
    return of;
  };
  const auto slots_after = [&](const Exec& exec, DeviceTables* tables) {
    std::vector<TokenId> slots = first;
    std::vector<float> logits(static_cast<std::size_t>(kSequences * vocab_));
    std::vector<std::vector<SampleRow>> draws(8);  // a device reads them later
    std::vector<SampledRow> out(kSequences);
    Drafter drafter(layout().table_shape());
    drafter.run(exec, *model_, view, drafted, slots.data(), logits.data(), tables,
                [&](int depth, std::span<const int> rows) {
                  auto& of_depth = draws[static_cast<std::size_t>(depth)];
                  for (const int s : rows) of_depth.push_back(row_of(s, depth, static_cast<int>(of_depth.size())));
                  sample(exec, {.rows = static_cast<int>(rows.size()),
                                .vocab = vocab_,
                                .logits = logits.data(),
                                .params = of_depth.data(),
                                .out = out.data(),
                                .newest = slots.data()});
                });
    if (exec.device != nullptr) exec.device->wait();
    return slots;
  };
  prepare_for(*model_, kSequences);
  const std::vector<TokenId> slots = slots_after(exec_, nullptr);
  {
    EmulatedDevice device(seed_);
    DeviceTables tables;
    ASSERT_TRUE(model_->prepare(device, 64, kTokens).ok());
    ASSERT_TRUE(tables
                    .reserve(device, layout().table_shape(),
                             {.rows = kSequences, .latent_pages = 3 * kSequences, .window_pages = 3 * kSequences})
                    .ok());
    EXPECT_EQ(slots_after({&pool_, exec_.kernels, &emulated_op_table(), &device}, &tables), slots);
    device.wait();
    prepare_for(*model_, kSequences);  // its memory leaves the device
  }
  for (int s = 0; s < kSequences; ++s) {
    std::vector<TokenId> given{ids_[static_cast<std::size_t>(positions[s])]};
    for (int depth = 1; depth <= drafts[s]; ++depth) {
      const auto alone = draft(sequences[static_cast<std::size_t>(s)], given);
      SampleRow row = row_of(s, depth, depth - 1);
      row.slot = -1;
      SampledRow out;
      sample(exec_, {.rows = 1, .vocab = vocab_, .logits = alone.data(), .params = &row, .out = &out});
      EXPECT_EQ(slots[static_cast<std::size_t>(s * kSlots + depth)], out.token)
          << "sequence " << s << " depth " << depth;
      given.push_back(out.token);
    }
    EXPECT_EQ(slots[static_cast<std::size_t>(s * kSlots + drafts[s] + 1)], -1);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MtpTest,
                         ::testing::Values(Case{"tiny", "default"}, Case{"tiny", "plain"}, Case{"v3-like", "default"},
                                           Case{"v3-like", "plain"}, Case{"v32-like", "default"},
                                           Case{"v32-like", "plain"}),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}", info.param.model, info.param.profile);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class MtpRefused : public ::testing::Test {
 protected:
  static std::string error_of(const std::string& folder) {
    ThreadPool pool(1);
    EngineSetup options;
    options.mtp = true;
    const auto model = load_model({&pool, &scalar_kernels()}, folder, options, {}, nullptr);
    return model.ok() ? "" : model.status().message();
  }
};

TEST_F(MtpRefused, WhatCannotDraftIsNamed) {
  const std::string oracles = test_data_dir() + "/oracles/";
  EXPECT_THAT(error_of(ChangedCheckpoint(tiny(), [](auto& config) { config["dspark_block_size"] = 5; }).path()),
              HasSubstr("DSpark (keys dspark_*): its drafter is not supported yet"));
  EXPECT_THAT(error_of(ChangedCheckpoint(tiny(), [](auto& config) { config["num_nextn_predict_layers"] = 0; }).path()),
              HasSubstr("'num_nextn_predict_layers': expected a layer for multi-token prediction, found 0"));
  EXPECT_THAT(error_of(oracles + "v4-flash-like"), HasSubstr("multi-token prediction"));
  EXPECT_THAT(error_of(ChangedCheckpoint(oracles + "v4-flash-like",
                                         [](auto& config) { config["num_nextn_predict_layers"] = 1; })
                           .path()),
              AllOf(HasSubstr("mtp.0.hc_attn_fn"), HasSubstr("leave speculation with MTP out")));
  EXPECT_THAT(error_of(oracles + "v2-like"), HasSubstr("expected a layer for multi-token prediction, found 0"));
  EXPECT_THAT(
      error_of(
          ChangedCheckpoint(oracles + "v3-like", [](auto& config) { config["num_nextn_predict_layers"] = 1; }).path()),
      HasSubstr("model.layers.4.eh_proj.weight"));
  EXPECT_THAT(error_of(oracles + "llama-like"), HasSubstr("no layer for multi-token prediction"));
}

// Without EngineSetup::mtp nothing of the layer is loaded or cached, or reported missing; with it the cache has two
// streams more.
TEST(Mtp, IsNotThereUnlessItIsWanted) {
  ThreadPool pool(1);
  for (const bool mtp : {false, true}) {
    EngineSetup options;
    options.mtp = mtp;
    LoadReport report;
    const auto model = load_model({&pool, &scalar_kernels()}, tiny(), options, {}, &report).value();
    EXPECT_EQ(model->drafts(), mtp);
    EXPECT_THAT(report.notes, ::testing::IsEmpty());
    const auto of_mtp = [](const auto& named) { return named.name.starts_with("mtp."); };
    EXPECT_EQ(std::ranges::any_of(report.weights, of_mtp), mtp);
    EXPECT_EQ(std::ranges::count_if(model->cache_layout().planes, of_mtp), mtp ? 2 : 0);
    const ModelPlan plan = plan_model(model->config(), options).value();
    EXPECT_EQ(plan.cache_layout.window_page_bytes(), model->cache_layout().window_page_bytes());
    EXPECT_EQ(plan.cache_layout.open_bytes(), model->cache_layout().open_bytes());
  }
}

}  // namespace
}  // namespace sluice::mtp_test
