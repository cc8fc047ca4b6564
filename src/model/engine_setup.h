// EngineSetup: EngineOptions, and what only tests and the search for faults set. Everything below the public API works
// with it.
#pragma once

#include <string>
#include <utility>

#include "sluice/engine.h"

namespace sluice {

struct TestHooks {
  int mla_expand_from = 128;    // with mla_prefill "expanded": spans of so many rows are
  int force_preempt_every = 0;  // preempt a running sequence every so many steps; 0: never
  int hidden_latent_pages = 0;  // so many pages are not used: short memory
  std::string inject_fault;     // a deliberate one, of cache/fault.h; empty: none
};

struct EngineSetup : EngineOptions {
  TestHooks testing;

  EngineSetup() = default;
  EngineSetup(EngineOptions options) : EngineOptions(std::move(options)) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace sluice
