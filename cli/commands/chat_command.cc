#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "cli/answer_printer.h"
#include "cli/commands/text_commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/loaded_model.h"
#include "cli/local_answer.h"
#include "cli/model_path.h"

namespace sluice {
namespace {

constexpr std::string_view kHelp =
    "Ctrl-C stops an answer; Ctrl-D or /exit ends the program.\n"
    "  /reset             start over\n"
    "  /system [TEXT]     start over with another system message, or with none\n"
    "  /thinking on|off   whether the model reasons before it answers\n"
    "  /help              this text\n";

class Conversation {
 public:
  Conversation(const LoadedModel& model, const ChatEncoding& chat, const ChatOptions& options,
               const SamplingParams& sampling)
      : model_(model),
        chat_(chat),
        sampling_(sampling),
        rules_(token_rules(options.text)),
        max_tokens_(options.text.max_tokens) {
    request_.thinking = options.thinking;
    start_over(options.system);
  }

  // Returns false when the conversation is to end.
  bool take(const std::string& line) {
    if (line.empty()) return true;
    if (line.starts_with('/')) return command(line);
    if (const Status status = answer(line); !status.ok()) report(status);
    return true;
  }

 private:
  void start_over(const std::string& system) {
    system_ = system;
    request_.messages.clear();
    if (!system.empty()) request_.messages.push_back({.role = ChatRole::kSystem, .content = {{.text = system}}});
  }

  bool command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/reset") {
      start_over(system_);
    } else if (name == "/system") {
      start_over(rest);
    } else if (name == "/thinking" && (rest == "on" || rest == "off")) {
      request_.thinking = rest == "on";
    } else {
      if (name != "/help") fmt::print(stderr, "{}: no such command\n", line);
      fmt::print(stderr, "{}", kHelp);
    }
    return true;
  }

  // On an error the user's message is forgotten again.
  Status answer(const std::string& text) {
    request_.messages.push_back({.role = ChatRole::kUser, .content = {{.text = text}}});
    AnswerPrinter printer;
    const Status status = generate_answer(printer);
    if (!status.ok()) {
      request_.messages.pop_back();
      return status;
    }
    request_.messages.push_back({.role = ChatRole::kAssistant,
                                 .content = {{.text = printer.content()}},
                                 .reasoning_content = printer.reasoning()});
    return {};
  }

  Status generate_answer(AnswerPrinter& printer) {
    GenerationRequest request;
    SLUICE_RETURN_IF_ERROR(request.set_conversation(*model_.tokenizer, chat_, request_));
    request.sampling = sampling_;
    request.rules = rules_;
    request.max_tokens = max_tokens_;
    const auto stats =
        generate(model_, std::move(request), [&printer](const ChatDelta& delta) { printer.print(delta); });
    if (!stats.ok()) return stats.status().with_context("this turn (/reset starts over)");
    printer.finish();
    log_debug("{}", stats->text());
    return {};
  }

  const LoadedModel& model_;
  const ChatEncoding& chat_;
  const SamplingParams sampling_;
  const std::shared_ptr<const TokenRules> rules_;
  const int max_tokens_;
  std::string system_;
  ChatRequest request_;
};

Status converse(const ChatOptions& given) {
  ChatOptions options = given;
  SLUICE_RETURN_IF_ERROR(sampling_params(options.text).status());
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder,
                          resolve_model(options.engine.model, options.pull ? Fetch::kAlways : Fetch::kAtTerminal));
  engine.scheduler.max_num_seqs = 1;
  SLUICE_ASSIGN_OR_RETURN(const LoadedModel model, load_model_for_text(engine, options.chat));
  SLUICE_ASSIGN_OR_RETURN(const ChatEncoding* chat, model.require_chat());

  apply_defaults(model.generation, options.text);
  SLUICE_ASSIGN_OR_RETURN(const SamplingParams sampling, sampling_params(options.text));
  Conversation conversation(model, *chat, options, sampling);
  const bool interactive = isatty(STDIN_FILENO) == 1;
  if (interactive)
    fmt::print(stderr, "{}. /help lists the commands.\n", model_name(options.engine.model.folder, engine.model.folder));
  catch_interrupts();
  LineReader reader;
  std::string line;
  while (true) {
    if (interactive) fmt::print(stderr, "> ");
    const LineReader::Event event = reader.next(line);
    if (event == LineReader::Event::kEnd) break;
    if (event == LineReader::Event::kInterrupt) {
      fmt::print(stderr, "\nCtrl-D or /exit ends the program.\n");
    } else if (!conversation.take(line)) {
      return {};
    }
  }
  if (interactive) fmt::print(stderr, "\n");
  return {};
}

}  // namespace

int run_chat(const ChatOptions& options) {
  return report(converse(options));
}

}  // namespace sluice
