#include "serve/local_engine_client.h"

#include <utility>

namespace sluice {

Result<RequestId> LocalEngineClient::submit(Request request) {
  return engine_.submit(std::move(request));
}
void LocalEngineClient::cancel(RequestId id) {
  engine_.cancel(id);
}
void LocalEngineClient::cancel(RequestId id, int choice) {
  engine_.cancel(id, choice);
}
EngineStats LocalEngineClient::stats() const {
  return engine_.stats();
}
bool LocalEngineClient::probe(double seconds) {
  return engine_.probe(seconds);
}
bool LocalEngineClient::reset_prefix_cache(double seconds) {
  return engine_.reset_prefix_cache(seconds);
}
int LocalEngineClient::vocab_size() const {
  return engine_.vocab_size();
}
int LocalEngineClient::max_model_len() const {
  return engine_.max_model_len();
}
std::vector<std::int32_t> LocalEngineClient::end_token_ids() const {
  return engine_.end_token_ids();
}
std::string LocalEngineClient::profile_name() const {
  return engine_.profile_name();
}

}  // namespace sluice
