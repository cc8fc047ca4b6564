// JsonPrefix: reads one JSON value while it is being written, and passes on no more of it than can still be closed.
//
//   JsonPrefix json;
//   std::size_t used = json.push("{\"a\": \"x");   // used == 8; json.take() == "{\"a\": \"x"
//   json.completion()                               // "\"}": what makes JSON of all that was taken
//
// A key, a comma, a number, an escape and the like are held back until what was taken so far, they and a completion are
// certain to be JSON. So the arguments of a tool call can be streamed, and are JSON even if the answer ends or goes
// wrong in the middle. Thread safety: belongs to one parser.
// Used by deepseek_v3_parser.h and json_call.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class JsonPrefix {
 public:
  static constexpr std::size_t kMaxDepth = 100;

  enum class Status : std::uint8_t {
    kOpen,      // more may come; a number at the top is open until something else follows, or finish()
    kComplete,  // the value has ended
    kBroken,    // the next byte cannot follow
  };

  // Reads as long as it is JSON; returns how many bytes belong to the value.
  std::size_t push(std::string_view text);
  // Nothing more comes: a number at the top is complete.
  void finish();

  Status status() const { return status_; }
  // Nothing but white space was read.
  bool is_empty() const { return state_ == State::kValue && open_.empty(); }
  // Returns the text that may be passed on since the last call.
  std::string take();
  // Returns the text that was read and cannot be closed; it follows the text that take() gave.
  const std::string& held_back() const { return held_; }
  // Returns the text that closes all that take() gave so far; "null" for nothing at all.
  std::string completion() const;

 private:
  enum class State : std::uint8_t {
    kValue,       // a value must follow
    kValueOrEnd,  // after [
    kKeyOrEnd,    // after {
    kKey,         // after a comma in an object
    kColon,
    kString,
    kEscape,        // after a backslash
    kUnicode,       // within \uXXXX
    kLowSurrogate,  // after \uD800 to \uDBFF: another half must follow
    kNumber,
    kWord,  // true, false, null
    kAfterValue,
    kDone,
  };

  bool take_byte(char c);  // false if the byte is not of the value
  bool take_value_byte(char c);
  bool take_string_byte(char c);
  bool take_escape_byte(char c);
  bool take_after_value(char c);
  bool close(char bracket);
  void end_value();
  void pass_on();
  bool number_is_complete() const;

  Status status_ = Status::kOpen;
  State state_ = State::kValue;
  std::string open_;              // closing brackets of what is open
  std::string token_;             // the number or word so far; the digits of \uXXXX
  bool is_key_ = false;           // the current string
  std::uint32_t unit_ = 0;        // the last \uXXXX
  bool after_high_half_ = false;  // the last escape was the first half of a surrogate pair
  std::string held_;              // read, not passed on
  std::string ready_;             // to be passed on
  bool passed_any_ = false;
  bool passed_open_string_ = false;  // what was passed on ends within a string
};

}  // namespace sluice
