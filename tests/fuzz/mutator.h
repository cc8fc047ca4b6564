// Makes inputs from known ones, by a few changes that readers are known to get wrong.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class Mutator {
 public:
  // Makes at most max_bytes bytes. Both lists must outlive it; `inputs` may grow.
  Mutator(const std::vector<std::string>& inputs, const std::vector<std::string>& words, std::size_t max_bytes,
          std::uint64_t seed)
      : inputs_(inputs), words_(words), max_bytes_(max_bytes), random_(seed) {}

  std::string make();

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit); }
  const std::string& pick();
  std::uint64_t number();
  std::string decimal();
  void change(std::string& input);
  void change_bytes(std::string& input, std::size_t at);
  void change_range(std::string& input, std::size_t at);
  void change_token(std::string& input, std::size_t at);

  const std::vector<std::string>& inputs_;
  const std::vector<std::string>& words_;
  const std::size_t max_bytes_;
  std::mt19937_64 random_;
};

}  // namespace sluice
