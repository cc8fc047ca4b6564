#include "sim/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/storage/temp_folder_testing.h"

namespace sluice::cost_model_test {
namespace {

using testing::HasSubstr;

StepPlan plan_of(std::vector<Span> spans) {
  StepPlan plan;
  plan.spans = std::move(spans);
  for (const Span& span : plan.spans) plan.rows += span.rows;
  return plan;
}

TEST(CostModelTest, AddsItsTerms) {
  // Rows 0..3 after 100 tokens and one row after 7: R = 5, S = 2, C = 100 + 101 + 102 + 103 + 7, D = 107.
  const StepPlan plan = plan_of({{SequenceId(0), 100, 4, false}, {SequenceId(1), 7, 1, true}});
  EXPECT_DOUBLE_EQ(CostModel{.step = 3}.step_seconds(plan), 3);
  EXPECT_DOUBLE_EQ((CostModel{.weights = 12, .half_rows = 15}.step_seconds(plan)), 3);
  EXPECT_DOUBLE_EQ(CostModel{.row = 2}.step_seconds(plan), 10);
  EXPECT_DOUBLE_EQ(CostModel{.span = 2}.step_seconds(plan), 4);
  EXPECT_DOUBLE_EQ(CostModel{.context = 1}.step_seconds(plan), 413);
  EXPECT_DOUBLE_EQ(CostModel{.read = 1}.step_seconds(plan), 107);
  EXPECT_DOUBLE_EQ((CostModel{.step = 1, .row = 1, .read = 1}.step_seconds(plan)), 113);
}

TEST(CostModelTest, ReadsPresetsTermsAndFiles) {
  const Result<CostModel> preset = parse_cost("v4-pro-8gpu");
  ASSERT_TRUE(preset.ok());
  EXPECT_DOUBLE_EQ(preset->half_rows, 124);
  const Result<CostModel> terms = parse_cost("step=0.5,row=1e-3");
  ASSERT_TRUE(terms.ok()) << terms.status().message();
  EXPECT_EQ(*terms, (CostModel{.step = 0.5, .row = 1e-3}));
  EXPECT_EQ(*parse_cost(terms->text()), *terms);
  EXPECT_EQ(*parse_cost(preset->text()), *preset);
  const TempFolder folder;
  const Result<CostModel> file = parse_cost(folder.write("c.json", "{\"step\": 0.5, \"row\": 0.001}"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file, *terms);
}

TEST(CostModelTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(parse_cost("stp=1").status().message(), HasSubstr("found 'stp=1'"));
  EXPECT_THAT(parse_cost("step=1x").status().message(), HasSubstr("found 'step=1x'"));
  EXPECT_THAT(parse_cost("step").status().message(), HasSubstr("found 'step'"));
  EXPECT_THAT(parse_cost("step=-1").status().message(), HasSubstr("step: expected 0 to"));
  EXPECT_THAT(parse_cost("step=nan").status().message(), HasSubstr("step: expected 0 to"));
  EXPECT_THAT(parse_cost("").status().message(), HasSubstr("expected a term above 0"));
  EXPECT_THAT(parse_cost("no/such/file").status().message(), HasSubstr("found 'no/such/file'"));
  const TempFolder folder;
  EXPECT_THAT(parse_cost(folder.write("c.json", "{\"step\": \"a\"}")).status().message(), HasSubstr("key 'step'"));
}

TEST(CostModelTest, AFitFindsTheTermsOfItsSamples) {
  const CostModel truth{
      .step = 2e-3, .weights = 5e-3, .half_rows = 16, .row = 4e-5, .span = 2e-4, .context = 1e-8, .read = 3e-8};
  std::vector<CostSample> samples;
  for (const int rows : {1, 2, 4, 16, 64, 256, 512}) {
    for (const int before : {0, 1000, 4000}) {
      for (const int sequences : {1, 8}) {
        StepPlan plan;
        for (int i = 0; i < sequences; ++i) plan.spans.push_back({SequenceId(i), before, rows, true});
        plan.rows = rows * sequences;
        CostSample sample{.rows = static_cast<double>(plan.rows), .spans = static_cast<double>(sequences)};
        sample.read = before * sequences;
        sample.context = plan.rows * (before + (rows - 1) / 2.0);
        sample.seconds = truth.step_seconds(plan);
        samples.push_back(sample);
      }
    }
  }
  const CostModel fit = fit_cost(samples);
  EXPECT_LT(cost_error(truth, samples), 1e-12);
  EXPECT_LT(cost_error(fit, samples), 0.01);
  EXPECT_NEAR(fit.row / truth.row, 1, 0.1);
  EXPECT_NEAR(fit.context / truth.context, 1, 0.1);
}

}  // namespace
}  // namespace sluice::cost_model_test
