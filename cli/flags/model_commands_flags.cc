// The flags of logits, score, eval, inspect, verify, kernels and synth.
#include <CLI/CLI.hpp>

#include "cli/commands/model_commands.h"
#include "cli/flags/add_command.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag_table.h"

namespace sluice {
namespace {

void add_logits(CLI::App& app, Invocation& invocation) {
  const auto [command, options] =
      add_command(app, invocation, "logits", "Write the logits of token ids to a safetensors file", run_logits);
  add_flags(command, kOwnFlags,
            {
                {"--ids", &options.ids, "IDS", "Token ids, split by commas or white space"},
                {"--ids-file", &options.ids_file, "FILE", "A file with the token ids", {.excludes = {"--ids"}}},
                {"--positions", &options.positions, "N,N..", "Positions whose logits to write; by default all"},
                {"--greedy", &options.greedy, "N", "Also write the N likeliest next tokens, one after the other"},
                {"--out",
                 &options.out,
                 "FILE",
                 "The file to write: logits f32 [positions, vocab], positions i64, greedy i64",
                 {.is_required = true}},
            });
  add_engine_flags(command, options.engine, invocation.log_level);
}

void add_score(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(
      app, invocation, "score", "Write the log-probabilities of the tokens of texts to a safetensors file", run_score);
  add_flags(
      command, kOwnFlags,
      {
          {"IN",
           &options.in,
           "",
           R"(JSON lines: {"prompt": a text or token ids, "start": first position})",
           {.is_required = true}},
          {"OUT",
           &options.out,
           "",
           "The file to write: for text i the tensors i.token_ids, i.logprobs, i.ranks, ...",
           {.is_required = true}},
          {"--top", &options.top, "K", "Also write the K likeliest tokens at each position: i.top_ids, i.top_logprobs"},
          {"--distributions", &options.distributions, "",
           "Also write the log-probabilities of all tokens: i.distributions"},
          {"--experts", &options.experts, "", "Also write the experts of each position: i.routed_experts"},
          {"--indices", &options.indices, "",
           "Also write the entries that indexers chose for each position: i.sparse_indices"},
      });
  add_engine_flags(command, options.engine, invocation.log_level);
}

void add_eval(CLI::App& app, Invocation& invocation) {
  const auto [command, options] =
      add_command(app, invocation, "eval",
                  "Count the questions of a task that are answered correctly, or measure perplexity", run_eval);
  add_flags(command, kOwnFlags,
            {
                {"--task", &options.task, "FILE", "JSON lines: id, mode, messages, check, expected_answer, ..."},
                {"--perplexity",
                 &options.perplexity,
                 "FILE",
                 "A text file: measure how well the model predicts its tokens",
                 {.excludes = {"--task"}}},
                {"--against",
                 &options.against,
                 "PROFILE",
                 "With --perplexity: another profile to compare predictions with: default, plain or ref",
                 {.choices = {"default", "plain", "ref"}, .needs = {"--perplexity"}}},
                {"--window", &options.window, "N", "With --perplexity: tokens of a window; its second half is scored"},
                {"--json", &options.json, "FILE", "Also write the results to this file, those of a task item by item"},
                {"--limit", &options.limit, "N", "Ask only the first N items of the task; 0: all"},
                {"--concurrency", &options.concurrency, "N", "Requests in flight"},
                {"--max-tokens", &options.max_tokens, "N", "Most tokens of an answer"},
            });
  add_engine_flags(command, options.engine, invocation.log_level);
  add_chat_flags(command, options.chat);
}

void add_inspect(CLI::App& app, Invocation& invocation) {
  const auto [command, options] =
      add_command(app, invocation, "inspect",
                  "Show the parts of a checkpoint, or of a config.json alone, and their cost", run_inspect);
  add_flags(command, kOwnFlags,
            {{"--tensors", &options.tensors, "", "Show every tensor instead of a line for each layer"}});
  add_engine_flags(command, options.engine, invocation.log_level);
}

void add_kernels(CLI::App& app, Invocation& invocation) {
  const auto [command, options] =
      add_command(app, invocation, "kernels", "Show the kernels that run on this machine, and for what", run_kernels);
  add_flags(command, kOwnFlags,
            {
                {"--isa", &options.isa, "NAME", "Kernels: auto, scalar, avx2, avx512 or avx512vbmi"},
                {"--kernels", &options.kernels, "CHANGES", kKernelsHelp},
            });
  add_log_level_flag(command, invocation.log_level);
}

void add_verify(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(
      app, invocation, "verify",
      "Try on this model and machine that an answer does not depend on how it was scheduled, bit by bit", run_verify);
  add_flags(
      command, kOwnFlags,
      {
          {"--schedules", &options.schedules, "N", "Random schedules to try"},
          {"--brief", &options.brief, "", "Short prompts only: several times as many schedules in the same time"},
          {"--half", choice(&options.half), "both|borders|rows|scheduling|moves",
           "Kinds of schedules: borders (short sequences over the model's borders), rows (drive the cache), scheduling "
           "(by the scheduler), both (all of these), or, with --device, moves (sequences move between it and the CPU)"},
          {"--seed", &options.seed, "N", "Seed of the schedules; by default a fresh one"},
          {"--json", &options.json, "FILE", "Also write the report to this file"},
      });
  add_engine_flags(command, options.engine, invocation.log_level);
}

void add_synth(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(
      app, invocation, "synth", "Write a random checkpoint in the official format, or as a GGUF file", run_synth);
  add_flags(command, kOwnFlags,
            {
                {"CONFIG",
                 &options.config,
                 "",
                 "config.json of any supported geometry, or a folder with one",
                 {.is_required = true}},
                {"OUT", &options.out, "", "The folder or GGUF file to write", {.is_required = true}},
                {"--seed", &options.seed, "N", "The same seed gives the same weights"},
                {"--tokenizer", &options.tokenizer, "DIR", "Also copy the tokenizer files of this folder"},
                {"--store",
                 &options.store,
                 "official|f32",
                 "How to store the weights: as the official checkpoint does, or the same values as f32",
                 {.choices = {"official", "f32"}}},
                {"--shard-size",
                 ByteTarget{&options.shard_bytes},
                 "SIZE",
                 "Longest file, such as 500MB; a longer tensor gets its own",
                 {.shown_default = "4GB"}},
                {"--gguf",
                 &options.gguf,
                 "q4_0",
                 "Write one GGUF file with blocks of this type (DeepSeek-V2 and V3)",
                 {.choices = {"q4_0"}, .excludes = {"--store", "--shard-size"}}},
            });
  add_log_level_flag(command, invocation.log_level);
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
