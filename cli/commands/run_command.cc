#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "cli/answer_printer.h"
#include "cli/commands/text_commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/local_answer.h"
#include "cli/model_path.h"
#include "text/chat/message_starts.h"

namespace sluice {
namespace {

// Fills the request's prompt and parser.
Status encode_prompt(const LoadedModel& model, const RunOptions& options, const std::string& text,
                     GenerationRequest& request) {
  if (options.raw) {
    SLUICE_ASSIGN_OR_RETURN(request.prompt,
                            model.tokenizer->encode(text, {.add_special_tokens = true, .parse_special = true}));
    request.message_starts = MessageStarts(*model.tokenizer, model.chat.get()).find(request.prompt);
    if (!request.prompt.empty()) return {};
    return invalid_argument("the prompt: expected at least one token, found none");
  }
  SLUICE_ASSIGN_OR_RETURN(const ChatEncoding* chat, model.require_chat());
  ChatRequest conversation;
  if (!options.system.empty()) {
    conversation.messages.push_back({.role = ChatRole::kSystem, .content = {{.text = options.system}}});
  }
  conversation.messages.push_back({.role = ChatRole::kUser, .content = {{.text = text}}});
  conversation.thinking = options.thinking;
  return request.set_conversation(*model.tokenizer, *chat, conversation);
}

Status run(const RunOptions& given) {
  RunOptions options = given;
  if (options.raw && (options.thinking || !options.system.empty())) {
    return invalid_argument(
        "--raw: the text goes to the model as it is; --thinking and --system need the chat encoding");
  }
  GenerationRequest request;
  SLUICE_RETURN_IF_ERROR(sampling_params(options.text).status());
  SLUICE_ASSIGN_OR_RETURN(options.engine.model.folder,
                          resolve_model(given.engine.model, given.pull ? Fetch::kAlways : Fetch::kAtTerminal));
  std::string text = options.prompt;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  options.engine.scheduler.max_num_seqs = 1;
  SLUICE_ASSIGN_OR_RETURN(const LoadedModel model, load_model_for_text(options.engine, options.chat));
  apply_defaults(model.generation, options.text);
  SLUICE_ASSIGN_OR_RETURN(request.sampling, sampling_params(options.text));
  request.rules = token_rules(options.text);
  SLUICE_RETURN_IF_ERROR(encode_prompt(model, options, text, request));
  request.max_tokens = options.text.max_tokens;

  catch_interrupts();
  AnswerPrinter printer;
  SLUICE_ASSIGN_OR_RETURN(
      const GenerationStats stats,
      generate(model, std::move(request), [&printer](const ChatDelta& delta) { printer.print(delta); }));
  printer.finish();
  log_info("{}", stats.text());
  if (stats.interrupted) return {StatusCode::kCancelled, "interrupted"};
  return {};
}

}  // namespace

int run_run(const RunOptions& options) {
  const Status status = run(options);
  if (status.code() == StatusCode::kCancelled) return exit_code(status);
  return report(status);
}

}  // namespace sluice
