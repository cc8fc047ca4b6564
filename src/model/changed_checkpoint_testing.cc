#include "model/changed_checkpoint_testing.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "formats/json.h"

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

}  // namespace sluice
