// pull_model(): a model of the hub, brought into the cache.
// Thread safety: any thread; processes may pull the same model at once.
// Used by cli/commands/hub_commands.cc and cli/model_path.cc.
#pragma once

#include <string>

#include "hub/hub_name.h"
#include "hub/hub_settings.h"
#include "sluice/status.h"

namespace sluice {

// The folder of the model, or the GGUF file of the quantisation. One request asks for the revision's files; what the
// cache has of them is not fetched again. With HF_HUB_OFFLINE=1 there is no request, and the cache has to have it.
// On failure no snapshot has changed, and what came stays for the next try.
Result<std::string> pull_model(const HubName& name, const HubSettings& settings);

}  // namespace sluice
