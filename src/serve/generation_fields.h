// The fields that the bodies of both generating calls share.
#pragma once

#include "serve/openai_request.h"
#include "serve/request_fields.h"

namespace sluice {

// Sampling, limits, stop conditions, streaming; all but log-probabilities, whose form differs. Ignores or refuses what
// both calls ignore or refuse. Errors are left in `fields`.
void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out);

}  // namespace sluice
