// Used by serve/generate/answer_planners.cc.
#include "text/chat/fill_in_middle.h"

#include <utility>

namespace sluice {
namespace {

struct Marks {
  std::string_view begin, hole, end;
};
constexpr Marks kFillMarks[] = {{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}};

}  // namespace

std::optional<FillInMiddle> FillInMiddle::of(const Tokenizer& tokenizer) {
  for (const Marks& marks : kFillMarks) {
    const auto begin = tokenizer.token_to_id(marks.begin), hole = tokenizer.token_to_id(marks.hole);
    const auto end = tokenizer.token_to_id(marks.end);
    if (!begin || !hole || !end) continue;
    FillInMiddle out;
    out.tokenizer_ = &tokenizer;
    out.begin_ = *begin;
    out.hole_ = *hole;
    out.end_ = *end;
    return out;
  }
  return std::nullopt;
}

Result<std::vector<std::int32_t>> FillInMiddle::encode(std::string_view beginning, std::string_view end) const {
  constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special = false};
  // The tokens that the tokenizer itself puts before a text, without those that it puts after one.
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, tokenizer_->encode("", {.add_special_tokens = true}));
  while (!ids.empty() && ids.back() == tokenizer_->eos_id()) ids.pop_back();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int32_t> before, tokenizer_->encode(beginning, kPlain));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int32_t> behind, tokenizer_->encode(end, kPlain));
  ids.push_back(begin_);
  ids.insert(ids.end(), before.begin(), before.end());
  ids.push_back(hole_);
  ids.insert(ids.end(), behind.begin(), behind.end());
  ids.push_back(end_);
  return ids;
}

}  // namespace sluice
