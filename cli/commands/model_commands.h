// Commands on a model's files, numbers and kernels: the options of each, and what runs it. The result is the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/engine_setup.h"
#include "text/chat/chat.h"
#include "verify/verify.h"

namespace sluice {

// sluice inspect: what a checkpoint, or a config alone, is made of and what it will cost; loads no weights.

struct InspectOptions {
  EngineSetup engine;    // model.folder: a folder, a .gguf file, a known name, or a config.json; "": the embedded model
  bool tensors = false;  // every tensor instead of a line for each layer
};

int run_inspect(const InspectOptions& options);

// sluice logits: the logits of given token ids, and what follows greedily, as a safetensors file. Needs no tokenizer.

struct LogitsOptions {
  EngineSetup engine;         // model.folder as given; "": the embedded model
  std::string ids, ids_file;  // exactly one is set
  std::string positions;      // "": all
  std::string out;            // the file to write
  int greedy = 0;             // tokens to continue by
};

int run_logits(const LogitsOptions& options);

// sluice score: of the tokens of texts, what the model says of them, as a safetensors file.

struct ScoreOptions {
  EngineSetup engine;
  std::string in, out;  // JSON lines: {"prompt": a text or token ids, "start": 0}; the file to write
  int top = 0;          // the best tokens at each position
  bool distributions = false, experts = false, indices = false;
};

int run_score(const ScoreOptions& options);

// sluice kernels: which kernel runs here for what.

struct KernelsOptions {
  std::string isa = "auto", kernels;
};

int run_kernels(const KernelsOptions& options);

// sluice synth: a random checkpoint of any geometry that config.json can describe, in the official format or, for some
// families, as a GGUF file.

struct SynthOptions {
  std::string config;              // config.json, or a folder with one
  std::string out;                 // the folder or GGUF file to write
  std::string tokenizer;           // a folder with the tokenizer; "": none, in a GGUF file a generated one
  std::string gguf;                // q4_0: a GGUF file with blocks of this type; "": a folder
  std::string store = "official";  // f32: every float tensor as f32 without scales, of the same values
  std::uint64_t seed = 0;
  std::int64_t shard_bytes = 4'000'000'000;
};

int run_synth(const SynthOptions& options);

// sluice verify: tries the laws on the user's own model and machine, and reports.

struct VerifyCommandOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  VerifyHalf half = VerifyHalf::kBoth;
  int schedules = 100;
  bool brief = false;                 // only schedules with short prompts
  std::optional<std::uint64_t> seed;  // by default a fresh one, which is printed
  std::string json;                   // "": no file
};

// Exit code 0 if nothing differs, 1 if something does.
int run_verify(const VerifyCommandOptions& options);

// sluice eval: how many questions of a task are answered correctly, greedily; or the perplexity of a text, and what a
// numerics profile costs on it.

struct EvalOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  ChatEncodingOptions chat;
  std::string task;        // JSON lines, see eval_task.h
  std::string perplexity;  // instead of a task: a text whose perplexity to measure
  int window = 512;        // tokens in each window of that text
  std::string against;     // and a profile to compare with on it; "": none
  std::string json;        // "": no file
  int concurrency = 1;     // requests in flight
  int limit = 0;           // only this many first items of the task; 0: all
  int max_tokens = 512;
};

int run_eval(const EvalOptions& options);

}  // namespace sluice
