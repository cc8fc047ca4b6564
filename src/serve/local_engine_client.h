// LocalEngineClient: the engine of this process behind the server's interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/engine_client.h"

namespace sluice {

// `engine` must outlive the client.
class LocalEngineClient final : public EngineClient {
 public:
  explicit LocalEngineClient(Engine& engine) : engine_(engine) {}

  Result<RequestId> submit(Request request) override;
  void cancel(RequestId id) override;
  void cancel(RequestId id, int choice) override;
  EngineStats stats() const override;
  bool probe(double seconds) override;
  bool reset_prefix_cache(double seconds) override;
  int vocab_size() const override;
  int max_model_len() const override;
  std::vector<std::int32_t> end_token_ids() const override;
  std::string profile_name() const override;

 private:
  Engine& engine_;
};

}  // namespace sluice
