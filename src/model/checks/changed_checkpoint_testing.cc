#include "model/checks/changed_checkpoint_testing.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"

namespace sluice {

ChangedCheckpoint::ChangedCheckpoint(const std::string& folder, const ConfigEdit& edit) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() == "config.json") continue;
    std::filesystem::create_symlink(entry.path(), std::filesystem::path(path()) / entry.path().filename());
  }
  const std::string file = folder + "/config.json";
  boost::json::value config = parse_json(read_text_file(file).value(), file).value();
  edit(config.as_object());
  folder_.write("config.json", dump_json(config));
}

std::vector<float> plain_logits(const std::string& folder) {
  ThreadPool pool(2);
  const Exec exec{&pool, select_kernels("auto").value()};
  EngineSetup options;
  options.numerics.profile = "plain";
  auto model = load_model(exec, folder, options, {}, nullptr);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  std::vector<TokenId> ids;
  for (int i = 0; i < 150; ++i) ids.push_back(static_cast<TokenId>(i * 37 % (*model)->config().vocab_size));
  const int wanted[] = {0, 40, 149};
  return run_prompt(**model, exec, ids, wanted, 100);
}

}  // namespace sluice
