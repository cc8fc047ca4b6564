// tiktoken.model: a vocabulary of bytes as OpenAI's tiktoken has it, one token a line, in base64, with its rank.
//
// It is turned into an equivalent tokenizer.json. Words and special tokens are not in the file but in the class of the
// tokenizer; known is TikTokenTokenizer of Kimi and Moonlight. Thread safety: pure functions.
// Used by tokenizer_files.cc.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// `text` is the whole file, `config` tokenizer_config.json.
Result<boost::json::value> tiktoken_tokenizer_json(std::string_view text, const boost::json::object& config);

}  // namespace sluice
