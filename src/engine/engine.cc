#include "sluice/engine.h"

#include "base/philox.h"
#include "engine/engine_impl.h"
#include "engine/engine_options.h"

namespace sluice {

std::uint64_t choice_seed(std::uint64_t seed, int choice) {
  if (choice == 0) return seed;
  const auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  constexpr std::uint32_t kPurpose = 0x63686F69;  // "choi": apart from the draws of the sampler
  const PhiloxCounter words = philox4x32({static_cast<std::uint32_t>(choice), 0, 0, kPurpose}, {low, high});
  return (std::uint64_t{words[1]} << 32) | words[0];
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::start(std::unique_ptr<Runner> runner, const EngineOptions& options,
                                              std::vector<std::int32_t> end_token_ids) {
  SLUICE_RETURN_IF_ERROR(validate(options));
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Impl>(std::move(runner), options, std::move(end_token_ids))));
}

Result<RequestId> Engine::submit(Request request) {
  return impl_->submit(std::move(request));
}
void Engine::cancel(RequestId id) {
  impl_->cancel(id, Impl::kAllChoices);
}
void Engine::cancel(RequestId id, int choice) {
  impl_->cancel(id, choice);
}
EngineStats Engine::stats() const {
  return impl_->stats();
}
bool Engine::probe(double seconds) {
  return impl_->probe(seconds);
}
bool Engine::reset_prefix_cache(double seconds) {
  return impl_->reset_prefix_cache(seconds);
}
int Engine::vocab_size() const {
  return static_cast<int>(impl_->runner().vocab_size());
}
int Engine::max_model_len() const {
  return impl_->runner().max_model_len();
}
std::vector<std::int32_t> Engine::end_token_ids() const {
  return impl_->end_token_ids();
}
std::string Engine::profile_name() const {
  return impl_->runner().model().profile().text();
}
std::string Engine::isa_name() const {
  return impl_->runner().isa_name();
}

}  // namespace sluice
