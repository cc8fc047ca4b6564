// Splits answers of DeepSeek V3, R1 and V3.1 into content and tool calls while they stream.
//
//   {content}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
//   ```json
//   {"k": 1}
//   ```<｜tool▁call▁end｜>
//   <｜tool▁call▁begin｜>...<｜tool▁calls▁end｜>                                          (V3, R1)
//   {content}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"k": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//   (V3.1)
//
// The word before the separator says which of the two it is: "function" followed by a name is V3's. Malformed answers:
// a missing marker is implied by the next one. A call without a name is content. Arguments are completed to JSON
// wherever they break off; other text before the end of the call is content, except a fence. A call whose name is not
// complete at the end of the answer is dropped. Thread safety: belongs to one answer.
// Used by chat_parsers.cc.
#pragma once

#include <string>

#include "grammar/call_markup.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"
#include "text/chat/parsers/json_prefix.h"

namespace sluice {

inline constexpr CallMarkup kDeepSeekV3Calls = {.begins = "<｜tool▁call",
                                                .at_start = "",
                                                .open = "<｜tool▁calls▁begin｜>",
                                                .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                                                .name_end = "\n```json\n",
                                                .call_end = "\n```<｜tool▁call▁end｜>",
                                                .between = "\n",
                                                .close = "<｜tool▁calls▁end｜>",
                                                .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"}};
inline constexpr CallMarkup kDeepSeekV31Calls = {.begins = "<｜tool▁call",
                                                 .at_start = "",
                                                 .open = "<｜tool▁calls▁begin｜>",
                                                 .call = "<｜tool▁call▁begin｜>",
                                                 .name_end = "<｜tool▁sep｜>",
                                                 .call_end = "<｜tool▁call▁end｜>",
                                                 .between = "",
                                                 .close = "<｜tool▁calls▁end｜>",
                                                 .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"}};

class DeepSeekV3OutputParser final : public ChatOutputParser {
 public:
  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish(AnswerEnd end) override;
  bool had_tool_calls() const override { return sink_.has_whole_calls(); }

 private:
  enum class State {
    kContent,
    kBlock,      // between calls
    kType,       // after a call's opening, up to the separator
    kName,       // after the separator, up to the arguments
    kArguments,  // the JSON
    kTail,       // after the JSON, up to the end of the call
    kDone,
  };

  bool step();
  bool step_content();
  bool step_block();
  bool step_header();
  bool step_arguments();
  bool step_tail();
  // Takes a marker that ends a call.
  void take_end(std::string_view marker);
  // The call that the header names; false if it names none.
  bool start_call();
  void give_up_header();

  State state_ = State::kContent;
  DeltaSink sink_;
  std::string pending_;  // not yet understood
  std::string type_;     // what stood before the separator
  std::string name_;     // what stood after it, before the arguments
  std::string tail_;     // what stood after the arguments
  JsonPrefix arguments_;
};

}  // namespace sluice
