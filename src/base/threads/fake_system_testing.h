// A folder like /sys/devices/system, for tests of base/threads/cpu_topology.h and what is built on it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "base/storage/temp_folder_testing.h"

namespace sluice {

class FakeSystem {
 public:
  void cpu(int number, const std::string& siblings) const {
    write(fmt::format("cpu/cpu{}/topology", number), "thread_siblings_list", siblings);
  }
  void online_cpus(const std::string& list) const { write("cpu", "online", list); }
  void nodes(const std::string& list) const { write("node", "has_memory", list); }
  void node(int number, const std::string& cpus) const { write(fmt::format("node/node{}", number), "cpulist", cpus); }
  void online_nodes(const std::string& list) const { write("node", "online", list); }
  const std::string& path() const { return folder_.path(); }

 private:
  void write(const std::string& folder, const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_.file(folder));
    std::ignore = folder_.write(folder + "/" + name, text + "\n");
  }
  TempFolder folder_;
};

}  // namespace sluice
