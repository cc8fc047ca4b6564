// EngineClient: what the server needs of an engine, so that tests can serve a scripted one.
// Thread safety: as sluice::Engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice {

class EngineClient {
 public:
  virtual ~EngineClient() = default;

  virtual Result<RequestId> submit(Request request) = 0;
  virtual void cancel(RequestId id) = 0;
  virtual void cancel(RequestId id, int choice) = 0;
  virtual EngineStats stats() const = 0;
  virtual bool probe(double seconds) = 0;
  virtual bool reset_prefix_cache(double seconds) = 0;
  virtual int vocab_size() const = 0;
  virtual int max_model_len() const = 0;
  virtual std::vector<std::int32_t> end_token_ids() const = 0;
  virtual std::string profile_name() const = 0;
};

}  // namespace sluice
