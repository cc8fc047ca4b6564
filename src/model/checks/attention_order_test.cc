// The order in which a model of every family attends is that of its profile (AttendArgs of kernels/ops/attention.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_paths_testing.h"
#include "kernels/device/isa.h"
#include "kernels/ops/ops.h"
#include "model/checks/recording_testing.h"

namespace sluice::attention_order_test {
namespace {

struct Order {
  bool bf16, tiles;
};
std::vector<Order> seen;

TEST(AttentionOrder, IsThatOfTheProfile) {
  OpTable watched = cpu_op_table();
  watched.attend = [](const Exec& exec, const AttendArgs& args) {
    seen.push_back({args.bf16, args.tiles});
    cpu_op_table().attend(exec, args);
  };
  ThreadPool pool(2);
  const Exec exec{.pool = &pool, .kernels = select_kernels("auto").value(), .ops = &watched};
  for (const char* name : {"v4-flash-like", "v3-like", "llama-like", "qwen3moe-like"}) {
    for (const char* profile : {"default", "amx", "plain"}) {
      SCOPED_TRACE(testing::Message() << name << " " << profile);
      EngineSetup options;
      options.numerics.profile = profile;
      auto model = load_model(exec, test_data_dir() + "/oracles/" + name, options, {}, nullptr);
      ASSERT_TRUE(model.ok()) << model.status().message();
      seen.clear();
      const Recording run(**model, exec, std::vector<TokenId>{1, 2, 3, 5, 8}, 3);
      EXPECT_FALSE(seen.empty());
      for (const Order& order : seen) {
        EXPECT_EQ(order.bf16, profile != std::string("plain"));
        EXPECT_EQ(order.tiles, profile == std::string("amx"));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::attention_order_test
