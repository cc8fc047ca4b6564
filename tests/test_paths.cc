#include "base/test_paths_testing.h"

namespace sluice {

std::string source_dir() {
  return SLUICE_SOURCE_DIR;
}

std::string test_data_dir() {
  return SLUICE_TEST_DATA_DIR;
}

}  // namespace sluice
