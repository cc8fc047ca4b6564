// EngineSetup: EngineOptions, the values derived from them, and settings for tests and debugging only. Everything below
// the public API works with it.
// Used by many folders, among them cli, engine and model.
#pragma once

#include <string>
#include <utility>

#include "sluice/engine.h"

namespace sluice {

struct TestHooks {
  int mla_expand_from = 128;    // with mla_prefill "expanded": least rows of a span that is expanded
  int force_preempt_every = 0;  // steps between preemptions of a running sequence; 0: none
  int hidden_latent_pages = 0;  // pages left unused, to make memory short
  std::string inject_fault;     // a deliberate fault of cache/fault.h; empty: none
  bool random_texts = false;    // wrong drafts are expected and cause no warning
};

struct EngineSetup : EngineOptions {
  TestHooks testing;
  bool mtp = false;  // load the layer for multi-token prediction, and cache the state that it needs to draft

  EngineSetup() = default;
  EngineSetup(EngineOptions options) : EngineOptions(std::move(options)) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace sluice
