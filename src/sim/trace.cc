// Used by loadgen and sim.
#include "sim/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "base/storage/mapped_file.h"
#include "cache/pages/page_geometry.h"
#include "files/json.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

constexpr int kMaxTokens = 1 << 27;  // tokens of one request

void read_hash_ids(JsonFields& fields, int hash_block_tokens, TraceRequest& request) {
  const boost::json::value* value = fields.find("hash_ids");
  if (value == nullptr) return;
  const boost::json::array* array = value->if_array();
  if (array == nullptr) return fields.fail("hash_ids", "an array of integers");
  const std::int64_t tokens = std::int64_t{request.input_length} + request.output_length;
  const std::int64_t most = (tokens + hash_block_tokens - 1) / hash_block_tokens;
  if (static_cast<std::int64_t>(array->size()) > most) {
    return fields.fail("hash_ids",
                       fmt::format("at most {} ids for {} tokens in blocks of {}", most, tokens, hash_block_tokens));
  }
  request.hash_ids.reserve(array->size());
  for (const boost::json::value& id : *array) {
    if (!id.is_int64()) return fields.fail("hash_ids", "an array of integers");
    request.hash_ids.push_back(id.get_int64());
  }
}

Result<TraceRequest> parse_request(const boost::json::value& value, const std::string& what, const Trace& trace,
                                   double earliest_ms) {
  constexpr double kMaxMs = 1e12;
  const int number = static_cast<int>(trace.requests.size());
  TraceRequest request;
  JsonFields fields(value, what);
  if (number > 0) fields.read("after", request.after, 0, number - 1);
  if (number == 0 && fields.has("after")) fields.fail("after", "nothing on the first line");
  fields.require("timestamp", request.arrival_ms, request.after < 0 ? earliest_ms : 0.0, kMaxMs);
  fields.require("input_length", request.input_length, 1, kMaxTokens);
  fields.require("output_length", request.output_length, 1, kMaxTokens);
  fields.read("priority", request.priority);
  constexpr int kMostSteps = std::numeric_limits<int>::max();
  fields.read("step", request.step, 0, kMostSteps);
  fields.read("max_tokens", request.max_tokens, request.output_length, kMaxTokens);
  if (number > 0) fields.read("fork_of", request.fork_of, 0, number - 1);
  fields.read("end_step", request.end_step, request.step, kMostSteps);
  fields.read("message_starts", request.message_starts, 0, request.input_length);
  if (!std::is_sorted(request.message_starts.begin(), request.message_starts.end())) {
    fields.fail("message_starts", "ascending positions");
  }
  fields.read("pauses", request.pauses, 0, kMostSteps);
  if (request.pauses.size() % 2 != 0) fields.fail("pauses", "pairs of numbers");
  read_hash_ids(fields, trace.hash_block_tokens, request);
  SLUICE_RETURN_IF_ERROR(fields.status());
  return request;
}

// A bijection of 64-bit words whose every output bit depends on every input bit (the finaliser of SplitMix64).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;

std::uint64_t shared_key(std::int64_t id) {
  return mix(static_cast<std::uint64_t>(id) * 2 + 1);
}
std::uint64_t own_key(std::size_t request) {
  return mix(static_cast<std::uint64_t>(request) * 2);
}
TokenId token_of(std::uint64_t key, int offset) {
  return static_cast<TokenId>(mix(key + kGolden * static_cast<std::uint64_t>(offset + 1)) % kTraceVocab);
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& what, int hash_block_tokens) {
  Trace trace;
  trace.hash_block_tokens = hash_block_tokens;
  double last_ms = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{} line {}", what, line);
    SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(row, place));
    SLUICE_ASSIGN_OR_RETURN(TraceRequest request, parse_request(value, place, trace, last_ms));
    if (request.after < 0) last_ms = request.arrival_ms;
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty())
    return invalid_argument(fmt::format("{}: expected a request on each line, found none", what));
  return trace;
}

Result<Trace> read_trace(const std::string& path, int hash_block_tokens) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, std::size_t{4} << 30));
  return parse_trace(text, path, hash_block_tokens);
}

TokenId trace_token(const Trace& trace, std::size_t request, Position position) {
  const std::vector<std::int64_t>& ids = trace.requests[request].hash_ids;
  const auto block = static_cast<std::size_t>(position / trace.hash_block_tokens);
  if (block < ids.size()) return token_of(shared_key(ids[block]), position % trace.hash_block_tokens);
  return token_of(own_key(request), position);
}

std::vector<TokenId> trace_prompt(const Trace& trace, std::size_t request) {
  const TraceRequest& record = trace.requests[request];
  std::vector<TokenId> tokens;
  // Room for the answer too, which will be appended.
  tokens.reserve(static_cast<std::size_t>(record.input_length) + static_cast<std::size_t>(record.output_length));
  for (const std::int64_t id : record.hash_ids) {
    const std::uint64_t key = shared_key(id);
    const int left = record.input_length - static_cast<int>(tokens.size());
    for (int i = 0; i < std::min(left, trace.hash_block_tokens); ++i) tokens.push_back(token_of(key, i));
  }
  const std::uint64_t key = own_key(request);
  for (auto p = static_cast<Position>(tokens.size()); p < record.input_length; ++p) tokens.push_back(token_of(key, p));
  return tokens;
}

}  // namespace sluice
