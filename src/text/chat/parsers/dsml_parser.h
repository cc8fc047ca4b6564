// Splits answers of DeepSeek V3.2 and V4 into reasoning, content and tool calls while they stream
// (docs/models/deepseek_v4.md §14.2). They differ in the name of the block: function_calls in V3.2, tool_calls in V4.
//
//   {reasoning}</think>{content}\n\n<｜DSML｜tool_calls>
//   <｜DSML｜invoke name="f">
//   <｜DSML｜parameter name="k" string="true">{text}</｜DSML｜parameter>
//   </｜DSML｜invoke>
//   </｜DSML｜tool_calls>
//
// The arguments come as one JSON object, {"k": "text", "n": 1}: a parameter with string="true" streams as it arrives,
// any other is passed on when it is complete, as it stands if it is JSON, else as a JSON string.
//
// Malformed answers are read so:
// - Text without </think> is reasoning to its end, calls included: a model that still thinks calls nothing.
// - A block's opening tag that no call follows is content; at the end of the answer it is dropped, as are unfinished
//   tags inside a block. An unfinished tag outside is content.
// - Text between the tags of a block is content, white space aside. Inside a call it follows the call, unless it is a
//   JSON object and the call has no parameters: then it is the arguments.
// - A call without a name is such text. Of two parameters of one name the first counts.
// - A missing closing tag is implied by the next tag that cannot stand where it is, or by the model ending the
//   answer. So the arguments of every call are JSON, unless a stop string or the limit of tokens cuts them off: those
//   lack their closing brace.
// Used by chat_parsers.cc, text/chat/deepseek_v32_chat.cc, text/chat/deepseek_v4_chat.cc and text/chat/dsml_calls.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/call_markup.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"

namespace sluice {

// The tags around the calls.
struct DsmlBlock {
  std::string_view open;
  std::string_view close;
};
inline constexpr DsmlBlock kDeepSeekV32Block = {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"};
inline constexpr DsmlBlock kDeepSeekV4Block = {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"};

inline constexpr CallMarkup dsml_calls(std::string_view open, const DsmlBlock& block) {
  return {.begins = "<｜DSML｜",
          .at_start = "",
          .open = open,
          .call = "<｜DSML｜invoke name=\"",
          .name_end = "\">\n",
          .call_end = "\n</｜DSML｜invoke>\n",
          .between = "",
          .close = block.close,
          .parameter = "<｜DSML｜parameter name=\"",
          .is_text = "\" string=\"true\">",
          .is_json = "\" string=\"false\">",
          .parameter_end = "</｜DSML｜parameter>",
          .parameters_between = "\n",
          .ends_parameter = {"</｜DSML｜parameter>", "<｜DSML｜parameter", "</｜DSML｜invoke>", block.close},
          .tokens = {"｜DSML｜"}};
}
inline constexpr CallMarkup kDeepSeekV32Calls = dsml_calls("<｜DSML｜function_calls>\n", kDeepSeekV32Block);
inline constexpr CallMarkup kDeepSeekV4Calls = dsml_calls("<｜DSML｜tool_calls>\n", kDeepSeekV4Block);

class DsmlOutputParser final : public ChatOutputParser {
 public:
  // The texts of `block` must outlive the parser. `reads_calls` false: what looks like a call is content.
  DsmlOutputParser(const DsmlBlock& block, bool starts_with_reasoning, bool reads_calls = true);

  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish(AnswerEnd end) override;
  bool had_tool_calls() const override { return sink_.has_whole_calls(); }

 private:
  enum class State {
    kReasoning,
    kContent,
    kOpening,          // after a block's opening tag, until it is clear that a call follows
    kBlock,            // between calls
    kInvokeHeader,     // inside an invoke tag
    kInvoke,           // between parameters
    kParameterHeader,  // inside a parameter tag
    kValue,            // inside a parameter
    kDone,
  };

  // One step in the current state; false if it takes more text.
  bool step();
  bool step_reasoning();
  bool step_content();
  bool step_opening();
  bool step_block();
  bool step_header();
  bool step_invoke();
  bool step_value();

  void begin_header(State header, std::string_view tag);
  void end_header(bool too_long);
  void begin_call(std::string name);
  void end_call(State next);
  void finish_value(AnswerEnd end);
  void finish_invoke(AnswerEnd end);
  void cut_call();
  void begin_parameter(std::string name, bool is_string);
  void append_value(std::string_view text);
  void end_parameter();

  std::string_view rest() const { return std::string_view(pending_).substr(consumed_); }

  const DsmlBlock block_;
  const bool reads_calls_;
  State state_;
  std::string pending_;  // text not yet understood, from consumed_ on
  std::size_t consumed_ = 0;
  DeltaSink sink_;

  std::string markup_;      // kOpening: the opening tag with the white space around it; headers: the tag so far
  bool in_quotes_ = false;  // headers
  std::vector<std::string> parameters_;  // names in the current call
  std::string stray_;                    // text between the tags of the current call
  bool is_string_ = false;               // the current parameter
  bool is_duplicate_ = false;            // the current parameter
  std::string value_;                    // the current parameter unless it streams
};

}  // namespace sluice
