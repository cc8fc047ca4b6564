// Used by cli/loaded_model.cc.
#include "text/tokenizer/stand_in_tokenizer.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

namespace json = boost::json;

}  // namespace

Result<std::unique_ptr<Tokenizer>> stand_in_tokenizer(int vocab_size, std::int32_t bos_id,
                                                      std::span<const std::int32_t> eos_ids) {
  std::vector<bool> taken(static_cast<std::size_t>(vocab_size));
  json::array added;
  json::object config;
  const auto add = [&](std::int32_t id, const std::string& text, const char* role) {
    if (id < 0 || id >= vocab_size || taken[static_cast<std::size_t>(id)]) return;
    taken[static_cast<std::size_t>(id)] = true;
    added.push_back({{"id", id}, {"content", text}, {"special", true}});
    if (!config.contains(role)) config[role] = text;
  };
  add(bos_id, "<|begin|>", "bos_token");
  for (const std::int32_t id : eos_ids) add(id, fmt::format("<|end {}|>", id), "eos_token");
  json::object words;
  int byte = 0;
  for (int id = 0; id < vocab_size; ++id) {
    if (taken[static_cast<std::size_t>(id)]) continue;
    if (byte < 256) {
      words[alphabet_character(static_cast<unsigned char>(byte++))] = id;
    } else {
      words[alphabet_character(' ') + std::to_string(id)] = id;
    }
  }
  if (byte < 256) {
    return invalid_argument(fmt::format(
        "config.json: without a tokenizer.json, expected a vocab_size with room for the 256 bytes, found {}",
        vocab_size));
  }
  const json::object bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json::object tokenizer{{"added_tokens", std::move(added)},
                               {"normalizer", nullptr},
                               {"pre_tokenizer", bytes},
                               {"post_processor", nullptr},
                               {"decoder", {{"type", "ByteLevel"}}},
                               {"model", {{"type", "BPE"}, {"vocab", std::move(words)}, {"merges", json::array()}}}};
  return Tokenizer::from_json(json::serialize(tokenizer), json::serialize(config));
}

}  // namespace sluice
