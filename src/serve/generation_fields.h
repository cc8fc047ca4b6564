// The fields that the bodies of both generating calls share.
#pragma once

#include "serve/openai_request.h"
#include "serve/request_fields.h"

namespace sluice {

// Sampling, limits, stop conditions, streaming; everything but log-probabilities, whose form differs. Also ignores or
// refuses the fields that both calls ignore or refuse. Errors are left in `fields`.
void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out);

}  // namespace sluice
