// The commands of the program: each adds its subcommand with its flags.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace sluice {

// The work that remains after parsing: `run` runs the command that was given.
struct Invocation {
  std::string log_level = "info";
  std::function<int()> run;
};

void add_text_commands(CLI::App& app, Invocation& invocation);   // serve, run, chat
void add_model_commands(CLI::App& app, Invocation& invocation);  // logits, score, eval, inspect, ...
void add_hub_commands(CLI::App& app, Invocation& invocation);    // pull, list, rm
void add_simulate_command(CLI::App& app, Invocation& invocation);
void add_bench_command(CLI::App& app, Invocation& invocation);
void add_manual_commands(CLI::App& app, Invocation& invocation);  // man, completion

}  // namespace sluice
