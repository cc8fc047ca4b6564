// The paths of the tree and of its reference data, for tests. tests/test_paths.cc alone is compiled with the two paths,
// so that the tests' objects are the same in every checkout.
#pragma once

#include <string>

namespace sluice {

std::string source_dir();     // the checkout
std::string test_data_dir();  // cmake/test_data.cmake unpacks into it

}  // namespace sluice
