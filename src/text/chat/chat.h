// Chat: from OpenAI messages to the text of a prompt, and from the text of an answer back to reasoning, content and
// tool calls.
//
//   auto messages = parse_chat_messages(body["messages"]);             // OpenAI JSON -> ChatMessage, checked
//   auto encoding = load_chat_encoding(config.model_type, folder);     // how this model writes a conversation
//   auto prompt = encoding->render({.messages = ..., .tools = ...});   // each byte marked: the model's or the client's
//   auto encoded = tokenizer.encode(prompt->text, prompt->messages);   // ids, and where messages begin
//   auto parser = encoding->make_parser(prompt->reasoning_open, has_tools);
//   parser->push(text) ... parser->finish(end)                         // deltas in the order in which they stream
//
// A family with an encoding of its own adds one file with a ChatEncoding and names it in chat.cc; for all others the
// template that comes with the model is used (chat_template/template_chat.h). Special tokens in a client's text are
// plain text. Thread safety: messages are plain values; a const ChatEncoding may be used from any thread; a
// parser belongs to one answer.
// Used by cli, serve and text.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "grammar/call_markup.h"
#include "sluice/status.h"

namespace sluice {

enum class ChatRole { kSystem, kUser, kDeveloper, kAssistant, kTool, kLatestReminder };

std::string_view to_string(ChatRole role);

// A piece of a message. A content given as a string is one part of type "text".
struct ChatContentPart {
  std::string type = "text";
  std::string text = {};  // empty for every type but "text"
};

struct ChatToolCall {
  std::string id;         // may be empty
  std::string name;       // never empty
  std::string arguments;  // as the client sent them: JSON text of an object, or text that is not JSON
};

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::vector<ChatContentPart> content = {};  // only tool messages may hold parts that are not text
  std::string reasoning_content = {};         // assistant
  std::vector<ChatToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};              // tool
  std::string name = {};
  std::string task = {};                       // DeepSeek-V4's internal tasks, "" for none
  bool wo_eos = false;                         // assistant: the end token is left out, so that the answer can go on
  bool prefix = false;                         // the last message, assistant: the answer goes on with its text
  std::vector<boost::json::value> tools = {};  // system, developer: function objects
  std::optional<boost::json::value> response_format = {};  // system, developer
};

struct ChatRequest {
  std::vector<ChatMessage> messages = {};
  std::vector<boost::json::value> tools = {};              // function objects of the whole request
  std::optional<boost::json::value> response_format = {};  // for the whole request; rendered as it is
  bool format_is_enforced = false;    // the answer is bound to it: an encoding without a place for it leaves it out
  std::optional<bool> thinking = {};  // unset: the encoding's default
  std::optional<std::string> reasoning_effort = {};  // the encoding says which it knows
  boost::json::object template_variables = {};       // more variables for a chat template
  bool drop_thinking = true;                         // leave out the reasoning of earlier turns
  // End by opening a turn of the assistant, even after a message of its own. If the last message is a `prefix`, end
  // with its text: its content, or its reasoning if it has no content.
  bool add_generation_prompt = true;
};

// The texts around reasoning, in all encodings.
inline constexpr std::string_view kReasoningStart = "<think>", kReasoningEnd = "</think>";

// A rendered conversation.
struct ChatPrompt {
  MarkedText text;
  std::vector<std::size_t> messages = {};  // offsets of the tokens that open a message, ascending, without 0
  bool reasoning_open = false;             // the answer begins with reasoning

  // Writes a token that opens a message.
  MarkedText& open_message(std::string_view token) {
    messages.push_back(text.size());
    return text.own(token);
  }
};

// Reads the `messages` array of an OpenAI chat request. Errors name the message and the key:
//   "messages[2]: key 'role': expected one of system, developer, user, ..., found "robot""
// `reasoning` is accepted for `reasoning_content`. Unknown keys of messages and of text parts are refused, or their
// paths ("messages[2].colour") go to `unknown`; empty ones pass.
Result<std::vector<ChatMessage>> parse_chat_messages(const boost::json::value& messages,
                                                     std::vector<std::string>* unknown = nullptr);

// Reads a `tools` array, [{"type": "function", "function": {"name": ...}}], into its function objects, unchanged.
// `what` names the array in errors.
Result<std::vector<boost::json::value>> parse_chat_tools(const boost::json::value& tools,
                                                         std::string_view what = "tools");

// Returns whether the request or one of its messages offers tools.
bool offers_tools(const ChatRequest& request);

// The message that the answer continues (`prefix`); nullptr if there is none. Fails if a message other than a last one
// of the assistant is marked so, or if it has no text to continue.
Result<const ChatMessage*> continued_message(const ChatRequest& request);
// Returns whether that message ends within its reasoning: it has some, and no content.
bool ends_in_reasoning(const ChatMessage& message);

// The text parts joined by `separator`; any other part reads "[Unsupported <type>]".
std::string join_content(const std::vector<ChatContentPart>& content, std::string_view separator);

// For encodings without a template: an error if the request sets template variables, which names the first.
Status check_template_variables(const ChatRequest& request);

// A step of a streamed answer.
struct ChatDelta {
  enum class Kind {
    kReasoning,          // text: more reasoning
    kContent,            // text: more of the answer
    kToolCall,           // a tool call starts; text: the function's name
    kToolCallArguments,  // text: more of the JSON text of the arguments of call `index`
  };
  Kind kind = Kind::kContent;
  std::string text;
  int index = 0;  // the tool call's place within the answer, from 0

  bool operator==(const ChatDelta&) const = default;
};

// Why an answer ends.
enum class AnswerEnd {
  kComplete,  // the model ended it
  kCut,       // the answer ran out of tokens, at any point
};

// Splits an answer while it is generated. Feed it the detokenised text with its special tokens but without the end
// token. Any split of the same text gives the same deltas up to where adjacent texts are cut; text is passed on as soon
// as it cannot be the start of a marker. Malformed output is not an error; each parser's header says what becomes of
// it.
class ChatOutputParser {
 public:
  virtual ~ChatOutputParser() = default;

  virtual std::vector<ChatDelta> push(std::string_view text) = 0;
  // The answer has ended; later pushes give nothing. If the model ended it, the text that was held back is passed on
  // and the arguments of an open call are completed. If the answer was cut, the arguments of that call end where the
  // model did, as text that is not JSON, so that no client executes half a call. A possible beginning of a marker is
  // then dropped.
  virtual std::vector<ChatDelta> finish(AnswerEnd end) = 0;
  // Returns whether there were tool calls and all are complete: then the finish reason of a regular end is
  // "tool_calls".
  virtual bool had_tool_calls() const = 0;
};

class ChatEncoding {
 public:
  virtual ~ChatEncoding() = default;

  // Fails with kInvalidArgument when the conversation or an option cannot be written.
  virtual Result<ChatPrompt> render(const ChatRequest& request) const = 0;
  // A parser for the answer to a prompt. `has_tools`: tools are on offer; otherwise what looks like a call is text.
  virtual std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const = 0;
  // Returns how answers call tools, as the parser reads it.
  virtual AnswerMarkup answer_markup() const = 0;
  // Returns the text of the special tokens that open a message, to find messages in a raw prompt. The text before one
  // is likely to be the start of other prompts as well.
  virtual std::vector<std::string_view> role_markers() const = 0;
};

// The parsers that take answers apart (chat_parsers/chat_parsers.h); "": chosen by the model's chat template.
struct ChatParserNames {
  std::string tool_call = {};
  std::string reasoning = {};
};

struct ChatEncodingOptions {
  std::string template_file = {};  // a Jinja template to take in the place of the model's own
  ChatParserNames parsers = {};
};

struct ChatTemplates;  // chat_template/chat_templates.h

// The encoding of a model whose config says `model_type`: the family's own if it has one, else the model's template.
// kNotFound for a model without either; it can then still complete raw text. kInvalidArgument when a template does not
// parse, or an option is given to a family with an encoding of its own.
//
// `model_folder`: where the family's own encoding looks for its files; "" for none.
Result<std::unique_ptr<ChatEncoding>> make_chat_encoding(std::string_view model_type, const std::string& model_folder,
                                                         ChatTemplates templates,
                                                         const ChatEncodingOptions& options = {});

// The same with the templates of a model folder.
Result<std::unique_ptr<ChatEncoding>> load_chat_encoding(std::string_view model_type, const std::string& model_folder,
                                                         const ChatEncodingOptions& options = {});

// Stands for the encoding of a model whose own template cannot be read: it says `why` to every conversation, without
// the path of the model.
std::unique_ptr<ChatEncoding> unusable_chat(const Status& why, const std::string& model_folder);

}  // namespace sluice
