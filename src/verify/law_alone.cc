// Used by law_workload.h.
#include "verify/law_alone.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "verify/law_runner.h"

namespace sluice {

std::uint64_t digest_of_experts(std::span<const ExportedLayer> layers, std::size_t row) {
  std::uint64_t digest = 0;
  for (const ExportedLayer& layer : layers) {
    digest = mixed(digest, layer.layer + 1);
    const auto width = static_cast<std::size_t>(layer.width);
    for (std::size_t i = 0; i < width; ++i) digest = mixed(digest, layer.values[row * width + i]);
  }
  return digest;
}

std::uint64_t digest_of_entries(std::span<const ExportedLayer> layers, std::size_t row, Position position) {
  std::uint64_t digest = 0;
  for (const ExportedLayer& layer : layers) {
    digest = mixed(digest, layer.layer + 1);
    const std::int32_t count = layer.all ? (position + 1) / layer.tokens_per_row : layer.counts[row];
    digest = mixed(digest, count);
    const std::size_t begin = row * static_cast<std::size_t>(layer.width);
    for (std::int32_t i = 0; i < count; ++i) {
      digest = mixed(digest, layer.all ? i : layer.values[begin + static_cast<std::size_t>(i)]);
    }
  }
  return digest;
}

ExportedDigests digests_of(const ExportedRows& rows) {
  ExportedDigests out;
  std::size_t expert = 0, count = 0, entry = 0;
  for (int row = 0; row < rows.rows; ++row) {
    std::uint64_t& experts = out.experts.emplace_back(0);
    for (const int layer : rows.expert_layers) {
      experts = mixed(experts, layer + 1);
      for (int i = 0; i < rows.slots; ++i) experts = mixed(experts, rows.experts.at(expert++));
    }
    std::uint64_t& entries = out.entries.emplace_back(0);
    for (const int layer : rows.entry_layers) {
      entries = mixed(entries, layer + 1);
      const std::int32_t of_layer = rows.entry_counts.at(count++);
      entries = mixed(entries, of_layer);
      for (std::int32_t i = 0; i < of_layer; ++i) entries = mixed(entries, rows.entries.at(entry++));
    }
  }
  return out;
}

SamplingParams AloneAnswers::sampling_of(const WorkRequest& r, int choice) {
  SamplingParams params;
  params.top_logprobs = kTop;
  params.temperature = r.greedy ? 0.0F : 20.0F;  // hot, so that choices part within a few tokens
  params.seed = choice_seed(static_cast<std::uint64_t>(r.prompt) + 1000, choice);
  if (is_processed(r)) params.processed_logprobs = true, params.logprob_ids = {1, 0};
  return params;
}

std::shared_ptr<RuledTokens> AloneAnswers::ruled(const WorkRequest& r) const {
  if (r.rules == 0) return nullptr;
  const Device* device = runner_.exec().device;
  const auto vocab = static_cast<int>(runner_.limits().vocab_size);
  auto rules = rules_of(r.rules, vocab, device == nullptr || device == &cpu_device(),
                        /*bans=*/r.constraint == LawConstraint::kNone);
  // The tokens that would end it, for min_tokens.
  std::vector<TokenId> ends(rules->allowed_token_ids.begin(),
                            rules->allowed_token_ids.begin() + (rules->allowed_token_ids.empty() ? 0 : 2));
  return std::make_shared<RuledTokens>(std::move(rules), std::move(ends), runner_.limits().vocab_size);
}

std::shared_ptr<TokenConstraint> AloneAnswers::constraint(const WorkRequest& r) {
  if (r.constraint == LawConstraint::kNone) return nullptr;
  return constraints_.make(r.constraint, r.budget);
}

Status AloneAnswers::sample(const WorkRequest& r, const SamplingParams& sampling, std::span<const TokenId> answer,
                            Sampled* sampled) {
  std::vector<TokenId> tokens = prompt_of(r);
  const auto prompt = static_cast<int>(tokens.size());
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  const auto position = static_cast<Position>(tokens.size());
  const std::shared_ptr<RuledTokens> rules = ruled(r);
  const std::shared_ptr<TokenConstraint> constraint = this->constraint(r);
  if (rules == nullptr && constraint == nullptr) {
    return sample_one(runner_.exec(), runner_.logits().at_row(0), sampling, position, sampled);
  }
  std::vector<std::uint32_t> allowed((runner_.limits().vocab_size + 31) / 32);
  RuledTokens::allow_all(allowed, runner_.limits().vocab_size);
  if (constraint != nullptr) {
    for (const TokenId id : answer) {
      if (!constraint->accept(id)) return internal_error("a constraint refuses a token that it has allowed");
    }
    SLUICE_RETURN_IF_ERROR(constraint->allowed(allowed));
  }
  if (rules != nullptr) SLUICE_RETURN_IF_ERROR(rules->apply(tokens, prompt, runner_.logits().at_row(0), allowed));
  return sample_one(runner_.exec(), runner_.logits().at_row(0), sampling, position, sampled, allowed.data(),
                    rules != nullptr ? rules->bias() : nullptr);
}

void AloneAnswers::keep_exports(std::size_t rows, Position first, Generated* to) const {
  for (std::size_t row = 0; row < rows; ++row) {
    to->experts.push_back(digest_of_experts(runner_.results().exported_experts(), row));
    to->entries.push_back(
        digest_of_entries(runner_.results().exported_entries(), row, first + static_cast<Position>(row)));
  }
}

Status AloneAnswers::compute(const WorkRequest& r, int choice) {
  Generated& result = of(r, choice);
  const bool exports = r.exports || !result.experts.empty();
  if (static_cast<int>(result.tokens.size()) >= r.max_tokens && exports == !result.experts.empty()) return {};
  const int max_tokens = std::max(r.max_tokens, static_cast<int>(result.tokens.size()));
  result = {};
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner_.sequences().open());
  std::vector<TokenId> next = prompt_of(r);
  Position position = 0;
  Status status;
  const std::vector<ScoreRequest> of_prompt = requests(r);
  const RequestOptions options{.return_routed_experts = exports, .return_sparse_indices = exports};
  while (status.ok() && static_cast<int>(result.tokens.size()) < max_tokens) {
    const int last = static_cast<int>(next.size()) - 1;
    const SamplingParams sampling = sampling_of(r, choice);
    StepSpan span{.sequence = slot, .ids = next, .logit_rows = {&last, 1}, .options = &options};
    if (runner_.model().drafts() && !result.tokens.empty()) {
      span.model_drafts =
          std::min(runner_.cache().pools().plan().open_states - 2, runner_.limits().max_model_len - position - 1);
      span.sampling = &sampling;
    }
    if (result.tokens.empty()) span.scores = of_prompt;
    status = runner_.begin({&span, 1});
    if (!status.ok()) break;
    if (result.tokens.empty())
      result.of_prompt.assign(runner_.results().scores().begin(), runner_.results().scores().end());
    const auto drafts = runner_.drafts(0);
    result.drafts.emplace_back(drafts.begin(), drafts.end());
    std::ignore = runner_.logits().at_row(0);  // waits for all of the step
    if (exports) keep_exports(next.size(), position, &result);
    runner_.sequences().commit(slot, last + 1);
    position += static_cast<Position>(next.size());
    Sampled sampled;
    status = sample(r, sampling, result.tokens, &sampled);
    if (!status.ok()) break;
    result.digests.push_back(bit_digest(runner_.logits().at_row(0)));
    result.tokens.push_back(sampled.token);
    result.at_draw.push_back({sampled.logprob, 0, sampled.top});
    next.assign(1, sampled.token);
  }
  runner_.sequences().close(slot);
  return status;
}

// The scores of a prompt alone: of all its tokens, or with a large vocabulary of the last ones (add_scores() in
// law_requests.cc).
std::vector<ScoreRequest> AloneAnswers::requests(const WorkRequest& r) const {
  const std::vector<TokenId>& prompt = prompt_of(r);
  const auto rows = static_cast<int>(prompt.size()) - 1;
  std::vector<ScoreRequest> requests;
  for (int row = options_.every_row ? 0 : std::max(0, rows - 33); row < rows; ++row) {
    requests.push_back({row, prompt[static_cast<std::size_t>(row) + 1], kTop});
  }
  return requests;
}

}  // namespace sluice
