// JsonCallReader: reads a tool call that is written as a JSON object, {"name": "f", "arguments": {...}}, while it is
// being written. "parameters" stands for "arguments" too, and the keys may come in any order.
//
// The call starts as soon as its name and the beginning of its arguments are known; from then on the arguments stream.
// Arguments that are no object are passed on when they are complete: a string that holds an object as that object, null
// and nothing as {}. Thread safety: belongs to one parser.
// Used by json_calls_parser.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat/parsers/delta_sink.h"
#include "text/chat/parsers/json_prefix.h"

namespace sluice {

class JsonCallReader {
 public:
  enum class Status : std::uint8_t { kOpen, kComplete, kBroken };

  // Deltas go to `sink`, which must outlive it. With `needs_arguments` an object without them is no call.
  JsonCallReader(DeltaSink& sink, bool needs_arguments) : sink_(sink), needs_arguments_(needs_arguments) {}

  // Reads as far as it is a call; how many bytes belong to it.
  std::size_t push(std::string_view text);
  // No more comes, or something else: completes the arguments of a call that has started, or says that they are cut.
  void finish(AnswerEnd end);

  Status status() const { return status_; }
  bool has_started() const { return started_; }
  // Returns whether what was read so far has nothing that a call has not.
  bool may_be_call() const;

 private:
  enum class State : std::uint8_t { kObject, kKeyOrEnd, kKey, kKeyText, kColon, kValue, kAfterValue };

  bool push_sign(char c);
  std::size_t push_key(std::string_view text);
  std::size_t push_value(std::string_view text);
  void begin(State state);
  void end_value();
  void start();
  void pass_on_arguments();
  void end_object();

  DeltaSink& sink_;
  const bool needs_arguments_;
  Status status_ = Status::kOpen;
  State state_ = State::kObject;
  JsonPrefix json_;        // the text of the key or value being read
  std::string raw_;        // its text
  std::string key_;        // the value's key
  std::string name_;       // the function's name, "" if not known
  std::string arguments_;  // complete arguments that wait for the name
  bool has_arguments_ = false;
  bool has_other_keys_ = false;
  bool is_streaming_ = false;  // the value being read is passed on as it comes
  bool started_ = false;
};

}  // namespace sluice
