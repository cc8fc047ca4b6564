// A step of a model, recorded on the emulated device and replayed with the tables of later steps: what changes from
// step to step is read from device memory, nothing from what the host knew when the step was recorded.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/device/device_tables.h"
#include "kernels/device/emulated_device.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"

namespace sluice::emulated_test {
namespace {

constexpr int kSequences = 4, kFirst = 40, kSteps = 9, kTokens = kFirst + kSequences + kSteps;

// Sequences of different lengths modulo four, so that as many windows close in each step; one row a step each.
class Decoding {
 public:
  Decoding(Model& model, const Exec& exec, std::uint32_t seed)
      : model_(model), exec_(exec), builder_(model.cache_layout().table_shape()), pages_(model.cache_layout(), 8, 3) {
    std::mt19937 random(seed);
    const std::vector<std::byte> initial = model.cache_layout().initial_state();
    view_ = pages_.view();
    states_.resize(2 * kSequences * initial.size());
    view_.open_base = states_.data(), view_.open_stride = initial.size();
    for (int s = 0; s < kSequences; ++s) {
      std::copy(initial.begin(), initial.end(), view_.state(2 * s));
      latents_.push_back({pages_.take_latent()});
      windows_.push_back({pages_.take_window()});
      for (int i = 0; i < kTokens; ++i) {
        ids_[s].push_back(static_cast<TokenId>(random() % static_cast<unsigned>(model.config().vocab_size)));
      }
    }
  }

  // The tables of the next `rows(s)` rows of every sequence, each of which wants the logits of its last.
  template <class Rows>
  const StepTables& next(const Rows& rows) {
    builder_.begin();
    for (int s = 0; s < kSequences; ++s) {
      const BatchSpan span{.rows = rows(s),
                           .first_position = at_[s],
                           .latents_from = 0,
                           .latent_pages = latents_[static_cast<std::size_t>(s)],
                           .window_pages = windows_[static_cast<std::size_t>(s)],
                           .state_in = 2 * s + copy_,
                           .first_state = 2 * s};
      const int last = span.rows - 1;
      builder_.add(span,
                   std::span(ids_[s]).subspan(static_cast<std::size_t>(at_[s]), static_cast<std::size_t>(span.rows)),
                   {&last, 1});
      at_[s] += span.rows;
    }
    copy_ = 1 - copy_;
    return builder_.finish();
  }
  void forward(const StepTables& tables, float* logits, const Observer* observer = nullptr) {
    model_.forward(exec_, tables, view_, logits, observer);
  }

 private:
  Model& model_;
  const Exec& exec_;
  StepBuilder builder_;
  TestPages pages_;
  CacheView view_;
  std::vector<std::byte> states_;
  std::vector<std::vector<LatentPage>> latents_;
  std::vector<std::vector<WindowPage>> windows_;
  std::vector<TokenId> ids_[kSequences];
  Position at_[kSequences] = {};
  int copy_ = 0;
};

int first_rows(int s) {
  return kFirst + s;
}
int one_row(int) {
  return 1;
}

class EmulatedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EmulatedTest, ARecordedStepIsReplayedWithNewTables) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  ThreadPool pool(2);
  EngineSetup options;
  options.model.folder = test_data_dir() + "/oracles/" + std::string(GetParam());
  const Exec on_cpu{&pool, select_kernels("auto").value()};
  auto model = load_model(on_cpu, options.model.folder, options, {}, nullptr).value();
  const auto vocab = static_cast<std::size_t>(model->config().vocab_size);
  std::vector<std::vector<float>> expected(kSteps + 1, std::vector<float>(kSequences * vocab)), found = expected;

  prepare_for(*model, 256);
  {
    Decoding decoding(*model, on_cpu, seed);
    decoding.forward(decoding.next(first_rows), expected[0].data());
    for (std::size_t step = 1; step <= kSteps; ++step) decoding.forward(decoding.next(one_row), expected[step].data());
  }

  EmulatedDevice device(seed);
  {
    const Exec exec{&pool, on_cpu.kernels, &emulated_op_table(), &device};
    ASSERT_TRUE(model->prepare(device, 256, 4096).ok());
    DeviceTables tables;
    ASSERT_TRUE(tables
                    .reserve(device, model->cache_layout().table_shape(),
                             {.rows = 256, .latent_pages = kSequences, .window_pages = kSequences})
                    .ok());
    Decoding decoding(*model, exec, seed);
    decoding.forward(tables.upload(decoding.next(first_rows)), found[0].data());
    // The place of the logits is fixed too, so they are copied from there after each step.
    std::vector<float> logits(kSequences * vocab);
    EmulatedDevice::Recording recording;
    for (std::size_t step = 1; step <= kSteps; ++step) {
      const StepTables& now = tables.upload(decoding.next(one_row));
      if (step == 1) {
        device.record();
        decoding.forward(now, logits.data());
        recording = device.recorded();
      }
      device.replay(recording);
      device.wait();
      found[step] = logits;
    }
  }
  for (std::size_t step = 0; step <= kSteps; ++step) EXPECT_EQ(found[step], expected[step]) << "step " << step;
  prepare_for(*model, 256);  // its memory leaves the device
}

// The index scores that an observer sees were written by the device.
TEST(EmulatedTaps, IndexScoresAreInDeviceMemory) {
  ThreadPool pool(2);
  EngineSetup options;
  options.model.folder = test_data_dir() + "/oracles/v32-like";
  auto model = load_model({&pool, select_kernels("auto").value()}, options.model.folder, options, {}, nullptr).value();
  static int selections;
  selections = 0;
  {
    EmulatedDevice device(1);
    OpTable ops = emulated_op_table();
    ops.index_select = [](const Exec& exec, const IndexSelectArgs& args) {
      ++selections;
      EXPECT_TRUE(static_cast<EmulatedDevice&>(*exec.device).holds(args.scores));
      emulated_op_table().index_select(exec, args);
    };
    const Exec exec{&pool, select_kernels("auto").value(), &ops, &device};
    ASSERT_TRUE(model->prepare(device, 256, 4096).ok());
    DeviceTables tables;
    ASSERT_TRUE(tables
                    .reserve(device, model->cache_layout().table_shape(),
                             {.rows = 256, .latent_pages = kSequences, .window_pages = kSequences})
                    .ok());
    Decoding decoding(*model, exec, 1);
    std::vector<float> logits(kSequences * static_cast<std::size_t>(model->config().vocab_size));
    int shown = 0;
    const Observer observer = [&](std::string_view name, const float*, int, int) {
      shown += name.ends_with("index_scores");
    };
    decoding.forward(tables.upload(decoding.next(first_rows)), logits.data(), &observer);
    for (std::size_t step = 0; step < kSteps; ++step) {  // until there is something to choose
      decoding.forward(tables.upload(decoding.next(one_row)), logits.data(), &observer);
    }
    device.wait();
    EXPECT_EQ(shown, selections);
    prepare_for(*model, 256);
  }
  EXPECT_GT(selections, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedTest, ::testing::Values("v4-flash-like", "v3-like", "qwen3-yarn-like"));

}  // namespace
}  // namespace sluice::emulated_test
