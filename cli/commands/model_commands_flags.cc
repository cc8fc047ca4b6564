// logits, score, eval, inspect, verify, kernels and synth.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/engine_flags.h"
#include "cli/commands/model_commands.h"

namespace sluice {
namespace {

void add_logits(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App& command = *app.add_subcommand("logits", "Write the logits of token ids to a safetensors file");
  auto* ids = command.add_option("--ids", options->ids, "Token ids, split by commas or white space");
  command.add_option("--ids-file", options->ids_file, "A file with the token ids")->excludes(ids);
  command.add_option("--positions", options->positions, "Positions whose logits to write; by default all");
  command.add_option("--greedy", options->greedy, "Also write the N likeliest next tokens, one after the other")
      ->option_text("N");
  command
      .add_option("--out", options->out, "The file to write: logits f32 [positions, vocab], positions i64, greedy i64")
      ->required()
      ->option_text("FILE");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_logits(*options); }; });
}

void add_score(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App& command =
      *app.add_subcommand("score", "Write what a model says of the tokens of texts to a safetensors file");
  command.add_option("IN", options->in, R"(JSON lines: {"prompt": a text or token ids, "start": first position})")
      ->required()
      ->option_text(" ");
  command
      .add_option("OUT", options->out, "The file to write: of text i the tensors i.token_ids, i.logprobs, i.ranks, ...")
      ->required()
      ->option_text(" ");
  command.add_option("--top", options->top, "Also the likeliest tokens at each position: i.top_ids, i.top_logprobs")
      ->option_text("K [0]");
  command.add_flag("--distributions", options->distributions,
                   "Also the log-probabilities of all tokens: i.distributions");
  command.add_flag("--experts", options->experts, "Also the experts of each position: i.routed_experts");
  command.add_flag("--indices", options->indices, "Also what the indexers chose for each position: i.sparse_indices");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_score(*options); }; });
}

void add_eval(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App& command =
      *app.add_subcommand("eval", "Count the questions of a task that are answered correctly, or measure perplexity");
  auto* task =
      command.add_option("--task", options->task, "JSON lines: id, mode, messages, check, expected_answer, ...")
          ->option_text("FILE");
  auto* perplexity =
      command.add_option("--perplexity", options->perplexity, "A text: how well the model predicts its tokens")
          ->excludes(task)
          ->option_text("FILE");
  command
      .add_option("--against", options->against,
                  "With --perplexity: also another profile, and how far apart the two predict: default, plain or ref")
      ->check(CLI::IsMember({"default", "plain", "ref"}))
      ->needs(perplexity)
      ->option_text("PROFILE");
  command.add_option("--window", options->window, "Tokens of a window; its second half is scored")
      ->option_text("N [512]");
  command.add_option("--json", options->json, "Also write the result, of a task for each item")->option_text("FILE");
  command.add_option("--limit", options->limit, "Only the first items of the task; 0: all")->option_text("N [0]");
  command.add_option("--concurrency", options->concurrency, "Requests in flight")->option_text("N [1]");
  command.add_option("--max-tokens", options->max_tokens, "Longest answer")
      ->option_text("N [" + std::to_string(options->max_tokens) + "]");
  add_engine_flags(command, options->engine, invocation.log_level);
  add_chat_flags(command, options->chat);
  command.callback([&invocation, options] { invocation.run = [options] { return run_eval(*options); }; });
}

void add_inspect(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App& command =
      *app.add_subcommand("inspect", "Show what a checkpoint, or a config.json alone, is made of and what it costs");
  command.add_flag("--tensors", options->tensors, "Every tensor instead of a line for each layer");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_inspect(*options); }; });
}

void add_kernels(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App& command = *app.add_subcommand("kernels", "Show which kernel runs on this machine for what");
  command.add_option("--isa", options->isa, "auto, scalar, avx2, avx512 or avx512vbmi");
  command.add_option("--kernels", options->kernels, kKernelsHelp)->option_text("CHANGES");
  add_log_level_flag(command, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_kernels(*options); }; });
}

void add_verify(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<VerifyCommandOptions>();
  CLI::App& command = *app.add_subcommand(
      "verify", "Try on this model and machine that an answer does not depend on how it was scheduled, bit by bit");
  command.add_option("--schedules", options->schedules, "Random schedules to try")->option_text("N [100]");
  command.add_flag("--brief", options->brief, "Short prompts only: several times as many schedules in the same time");
  command
      .add_option(
          "--half", options->half,
          "Only short sequences over the borders of the model, only schedules that drive the cache, or only those of "
          "the scheduler; or, with --device, such that move sequences between it and the CPU")
      ->option_text("both|borders|rows|scheduling|moves [both]");
  command.add_option("--seed", options->seed, "Of the schedules; by default a fresh one")->option_text("N");
  command.add_option("--json", options->json, "Also write the report here")->option_text("FILE");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_verify(*options); }; });
}

void add_synth(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App& command =
      *app.add_subcommand("synth", "Write a random checkpoint in the official format, or as a GGUF file");
  command.add_option("CONFIG", options->config, "config.json of any supported geometry, or a folder with one")
      ->required()
      ->option_text(" ");
  command.add_option("OUT", options->out, "The folder or GGUF file to write")->required()->option_text(" ");
  command.add_option("--seed", options->seed, "The same seed gives the same weights")->option_text("N [0]");
  command.add_option("--tokenizer", options->tokenizer, "Also copy the tokenizer files of this folder")
      ->option_text("DIR");
  CLI::Option* store = command
                           .add_option_function<std::string>(
                               "--store", [options](const std::string& store) { options->store_f32 = store == "f32"; },
                               "How to store the weights: as the official checkpoint does, or the same values as f32")
                           ->check(CLI::IsMember({"official", "f32"}))
                           ->option_text("official|f32 [official]");
  CLI::Option* shards =
      command
          .add_option("--shard-size", options->shard_bytes, "Longest file, such as 500MB; a longer tensor gets its own")
          ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
          ->option_text("SIZE [4GB]");
  command
      .add_option_function<std::string>(
          "--gguf", [options](const std::string&) { options->gguf = true; },
          "Write one GGUF file with blocks of this type (DeepSeek-V2 and V3)")
      ->check(CLI::IsMember({"q4_0"}))
      ->excludes(store)
      ->excludes(shards)
      ->option_text("q4_0");
  add_log_level_flag(command, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_synth(*options); }; });
}

}  // namespace

void add_model_commands(CLI::App& app, Invocation& invocation) {
  add_logits(app, invocation);
  add_score(app, invocation);
  add_eval(app, invocation);
  add_inspect(app, invocation);
  add_verify(app, invocation);
  add_kernels(app, invocation);
  add_synth(app, invocation);
}

}  // namespace sluice
