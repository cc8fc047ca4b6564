// BestOfWriter: passes on the n likeliest of best_of choices for each prompt.
//
// It keeps the deltas of all choices until the answer ends. Then it ranks the choices of each prompt by the mean
// log-probability of their tokens (all that count as completion tokens; ties: the lower index first). It passes the
// best n on, likeliest first, under the indices that they have in the answer: prompt * n + rank. Thread safety: belongs
// to one request.
// Used by answer_planners.cc.
#pragma once

#include <memory>

#include "serve/api/openai/openai_response.h"

namespace sluice {

// `writer` writes prompts * n choices; deltas come for prompts * best_of. The deltas' `chosen` must be there.
std::unique_ptr<AnswerWriter> make_best_of_writer(std::unique_ptr<AnswerWriter> writer, int prompts, int n,
                                                  int best_of);

}  // namespace sluice
