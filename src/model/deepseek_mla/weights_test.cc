// Tests of the weight table's messages about checkpoints that lack something.
#include "model/deepseek_mla/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_paths_testing.h"
#include "kernels/device/isa.h"
#include "model/checks/changed_checkpoint_testing.h"

namespace sluice::weights_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MlaWeightsTest : public ::testing::Test {
 protected:
  // The notes of loading v3-like with another config, or the error.
  std::vector<std::string> load(const ConfigEdit& edit) {
    const ChangedCheckpoint folder(test_data_dir() + "/oracles/v3-like", edit);
    LoadReport report;
    const auto model = load_model({&pool_, &scalar_kernels()}, folder.path(), {}, {}, &report);
    return model.ok() ? report.notes : std::vector<std::string>{model.status().message()};
  }
  ThreadPool pool_{1};
};

TEST_F(MlaWeightsTest, APredictionLayerThatIsDeclaredAndAbsentIsNotMissed) {
  EXPECT_THAT(load([](boost::json::object&) {}), IsEmpty());
  EXPECT_THAT(load([](boost::json::object& config) { config["num_nextn_predict_layers"] = 0; }), IsEmpty());
}

TEST_F(MlaWeightsTest, MissingAndSpareLayersAreErrors) {
  EXPECT_THAT(load([](boost::json::object& config) {
                config["num_hidden_layers"] = 5;
                config["num_nextn_predict_layers"] = 0;
              }),
              ElementsAre(HasSubstr("model.layers.4.input_layernorm.weight [128]")));
  EXPECT_THAT(load([](boost::json::object& config) {
                config["num_hidden_layers"] = 3;
                config["num_nextn_predict_layers"] = 0;
              }),
              ElementsAre(HasSubstr("it is of layer 3, and 'num_hidden_layers' is 3")));
}

TEST_F(MlaWeightsTest, AShapeThatTheConfigDoesNotMeanIsNamed) {
  EXPECT_THAT(load([](boost::json::object& config) { config["v_head_dim"] = 16; }),
              ElementsAre(HasSubstr("kv_b_proj.weight")));
}

}  // namespace
}  // namespace sluice::weights_test
