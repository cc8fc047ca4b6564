// Conversations as a source of requests.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <fstream>

#include "files/json.h"
#include "loadgen/load_prompts.h"
#include "sim/draws.h"

namespace sluice {
namespace {

namespace json = boost::json;

struct Message {
  std::string role, content;
};

// A turn: what stands before its user's message was said in `before`, another turn, or in `lead`.
struct Turn {
  int before = -1;            // the turn whose messages and answer come first; -1: none
  std::vector<Message> lead;  // the user's message, after a system prompt if the file has one
  std::string answer;         // the server's answer
};

class ConversationPrompts : public LoadPrompts {
 public:
  explicit ConversationPrompts(std::vector<Turn> turns) : turns_(std::move(turns)) {}

  void add_prompt(std::size_t request, json::object& body) const override {
    json::array messages;
    append(request, messages);
    body["messages"] = std::move(messages);
  }
  void answered(std::size_t request, const std::string& text) override { turns_[request].answer = text; }

 private:
  void append(std::size_t turn, json::array& messages) const {
    std::vector<std::size_t> chain;
    for (int at = static_cast<int>(turn); at >= 0; at = turns_[static_cast<std::size_t>(at)].before)
      chain.push_back(static_cast<std::size_t>(at));
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      for (const Message& message : turns_[*at].lead)
        messages.push_back(json::object{{"role", message.role}, {"content", message.content}});
      if (*at != turn) messages.push_back(json::object{{"role", "assistant"}, {"content", turns_[*at].answer}});
    }
  }

  std::vector<Turn> turns_;
};

Result<std::vector<Message>> read_messages(const json::value& value, const std::string& what) {
  const json::object* object = value.if_object();
  const bool share = object != nullptr && object->contains("conversations");
  const json::value* list = object == nullptr ? nullptr : object->if_contains(share ? "conversations" : "messages");
  if (list == nullptr || !list->is_array())
    return invalid_argument(fmt::format("{}: expected a list 'messages' or 'conversations'", what));
  std::vector<Message> messages;
  for (const json::value& item : list->get_array()) {
    const json::object* message = item.if_object();
    const json::value* role = message == nullptr ? nullptr : message->if_contains(share ? "from" : "role");
    const json::value* content = message == nullptr ? nullptr : message->if_contains(share ? "value" : "content");
    if (role == nullptr || content == nullptr || !role->is_string() || !content->is_string())
      return invalid_argument(fmt::format("{}: expected messages with a role and a content of text", what));
    std::string name(role->get_string());
    if (name == "human") name = "user";
    if (name == "gpt") name = "assistant";
    messages.push_back({std::move(name), std::string(content->get_string())});
  }
  return messages;
}

}  // namespace

Result<LoadPlan> plan_of_conversations(const std::string& path, const ConversationOptions& options) {
  std::ifstream file(path);
  if (!file) return not_found(fmt::format("{}: cannot be read", path));
  LoadPlan plan;
  std::vector<Turn> turns;
  Draws draws(options.seed);
  double arrival_ms = 0;
  int number = 0, conversations = 0;
  for (std::string line; conversations < options.most && std::getline(file, line);) {
    const std::string what = fmt::format("{} line {}", path, ++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    SLUICE_ASSIGN_OR_RETURN(const json::value value, parse_json(line, what));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Message> messages, read_messages(value, what));
    if (options.rate > 0) arrival_ms += draws.exponential(1000 / options.rate);
    int before = -1;
    std::vector<Message> lead;
    for (const Message& message : messages) {
      if (message.role == "assistant") continue;
      lead.push_back(message);
      if (message.role != "user") continue;
      TraceRequest request;
      request.arrival_ms = before < 0 ? arrival_ms : options.think_ms;
      request.output_length = options.output;
      request.after = before;
      before = static_cast<int>(turns.size());
      plan.trace.requests.push_back(std::move(request));
      turns.push_back({plan.trace.requests.back().after, std::move(lead), {}});
      lead.clear();
    }
    conversations += before >= 0 ? 1 : 0;
  }
  if (turns.empty()) return invalid_argument(fmt::format("{}: no conversation has a user's message", path));
  plan.prompts = std::make_unique<ConversationPrompts>(std::move(turns));
  return plan;
}

}  // namespace sluice
