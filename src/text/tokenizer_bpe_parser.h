// Reads the "model" of a tokenizer.json: a byte-level BPE vocabulary and its merges.
// Thread safety: pure functions.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sluice/status.h"
#include "text/bpe.h"
#include "text/bpe_vocabulary.h"

namespace sluice {

struct BpeParts {
  std::unique_ptr<BpeVocabulary> vocabulary;
  std::optional<Bpe> bpe;  // points to the vocabulary
  // Tokens written with characters outside the byte alphabet ("<｜User｜>"): no merge can reach them. The keys are
  // views into the JSON value.
  std::unordered_map<std::string_view, std::int32_t> literal_ids;
};

// `what` names the value in messages.
Result<BpeParts> parse_bpe_model(const boost::json::value& value, const std::string& what);

}  // namespace sluice
