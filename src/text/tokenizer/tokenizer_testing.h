// A small tokenizer.json for tests: a token for every byte, and what the test adds.
#pragma once

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_vocabulary.h"

namespace sluice {

// Token b is byte b; tokens 256... are `joined`, each with the merge that splits it at the space: {"a b"} gives "ab".
inline boost::json::object small_tokenizer_json(const std::vector<std::string>& joined = {}) {
  boost::json::object vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[alphabet_character(static_cast<unsigned char>(byte))] = byte;
  boost::json::array merges;
  for (const std::string& pair : joined) {
    const std::size_t space = pair.find(' ');
    const std::int64_t id = static_cast<std::int64_t>(vocab.size());
    vocab[pair.substr(0, space) + pair.substr(space + 1)] = id;
    merges.emplace_back(pair);
  }
  return {{"version", "1.0"},
          {"added_tokens", boost::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}}}};
}

// Sets the key at a path of object keys and array indices ("model/vocab/a", "added_tokens/0/id") to a JSON text; an
// index equal to the array's size appends.
inline void set_json(boost::json::object& root, std::string_view path, std::string_view json_text) {
  boost::json::value whole = root;
  boost::json::value* at = &whole;
  while (!path.empty()) {
    const std::string_view key = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), key.size() + 1));
    if (at->is_array()) {
      const auto index = static_cast<std::size_t>(std::stoul(std::string(key)));
      if (index == at->as_array().size()) at->as_array().emplace_back(nullptr);
      at = &at->as_array()[index];
    } else {
      at = &at->as_object()[key];
    }
  }
  *at = boost::json::parse(json_text);
  root = whole.as_object();
}

}  // namespace sluice
