// The post-processor of a tokenizer.json, as far as it concerns a single text: the tokens put before and after it.
// Thread safety: pure functions.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

// Reads the value of the key "post_processor": null, ByteLevel (which changes no ids), TemplateProcessing, or a
// Sequence of these, and appends to `prefix` and `suffix`. `what` names the value in messages; `is_token` says which
// ids exist.
Status parse_post_processor(const boost::json::value& value, const std::string& what,
                            const std::function<bool(std::int32_t)>& is_token, std::vector<std::int32_t>& prefix,
                            std::vector<std::int32_t>& suffix);

}  // namespace sluice
