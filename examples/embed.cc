// A whole program that embeds Sluice: answers one prompt of token ids and prints the ids of the answer.
//
//   embed FOLDER ID...        FOLDER has config.json and safetensors files, or is a GGUF file
//
// Text is above the engine: a tokenizer makes ids of it. The answer is the one that `sluice logits --greedy` gives.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "sluice/engine.h"

namespace {

int fail(const sluice::Status& status) {
  std::fprintf(stderr, "embed: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fail(sluice::invalid_argument("expected a model's folder and the ids of a prompt"));
  sluice::EngineOptions options;
  options.model.folder = argv[1];
  auto engine = sluice::Engine::start(options);  // loads the model, and starts the engine's own thread
  if (!engine.ok()) return fail(engine.status());

  sluice::Request request;
  for (int i = 2; i < argc; ++i) request.prompt.push_back(std::atoi(argv[i]));
  request.max_tokens = 16;
  request.sampling.temperature = 0;
  request.stop_token_ids = (*engine)->end_token_ids();
  std::promise<sluice::Status> done;
  request.on_output = [&done](const sluice::Output& output) {  // on the engine's thread; must not block
    if (output.token) std::printf("%d\n", *output.token);
    if (output.finished) done.set_value(output.status);
  };
  const auto id = (*engine)->submit(std::move(request));
  if (!id.ok()) return fail(id.status());
  const sluice::Status status = done.get_future().get();
  return status.ok() ? 0 : fail(status);
}
