// Used by cli/commands/simulate_command.cc, cost_model.cc, load_estimate.h and simulation.h.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/cost_model.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCostTerms = 6;
using Terms = std::array<double, kCostTerms>;

// The factors of step, weights, row, span, context and read.
Terms columns(const CostSample& s, double half_rows) {
  return {1, s.rows / (s.rows + half_rows), s.rows, s.spans, s.context, s.read};
}

double predict(const Terms& terms, const CostSample& s, double half_rows) {
  const Terms x = columns(s, half_rows);
  return std::inner_product(x.begin(), x.end(), terms.begin(), 0.0);
}

// Least squares with no term below zero: one term after the other, each the best for the others as they are. The
// problem is convex, so this ends at the minimum.
Terms fit_terms(std::span<const CostSample> samples, double half_rows) {
  constexpr int kSweeps = 3000;
  Terms terms{};
  std::vector<Terms> rows;
  std::vector<double> rest(samples.size(), 1);  // 1 - prediction / seconds
  Terms squares{};
  for (const CostSample& s : samples) {
    Terms x = columns(s, half_rows);
    for (std::size_t t = 0; t < kCostTerms; ++t) {
      x[t] /= s.seconds;
      squares[t] += x[t] * x[t];
    }
    rows.push_back(x);
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t t = 0; t < kCostTerms; ++t) {
      if (squares[t] == 0) continue;
      double slope = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) slope += rows[i][t] * rest[i];
      const double better = std::max(0.0, terms[t] + slope / squares[t]);
      const double change = better - std::exchange(terms[t], better);
      if (change == 0) continue;
      for (std::size_t i = 0; i < rows.size(); ++i) rest[i] -= rows[i][t] * change;
    }
  }
  return terms;
}

double error_of(const Terms& terms, std::span<const CostSample> samples, double half_rows) {
  double sum = 0;
  for (const CostSample& s : samples) {
    const double error = predict(terms, s, half_rows) / s.seconds - 1;
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(samples.size(), 1)));
}

Terms terms_of(const CostModel& c) {
  return {c.step, c.weights, c.row, c.span, c.context, c.read};
}

// Sequences of a runner, closed at the end, and timed steps over them.
class Measurement {
 public:
  Measurement(Runner* runner, double seconds)
      : runner_(runner),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  ~Measurement() {
    for (const StateSlot slot : open_) runner_->sequences().close(slot);
  }

  bool out_of_time() const { return Clock::now() >= deadline_; }
  const std::vector<StateSlot>& open() const { return open_; }
  bool open_one() {
    Result<StateSlot> slot = runner_->sequences().open();
    if (slot.ok()) open_.push_back(*slot);
    return slot.ok();
  }

  // `rows` rows of each of the first `sequences`; kept or measured.
  Status step(std::size_t sequences, int rows, bool keep) {
    ids_.resize(static_cast<std::size_t>(rows));
    std::iota(ids_.begin(), ids_.end(), TokenId{0});
    for (TokenId& id : ids_) id = id * 37 % static_cast<TokenId>(runner_->limits().vocab_size);
    const int last = rows - 1;
    std::vector<StepSpan> spans;
    for (std::size_t i = 0; i < sequences; ++i) {
      StepSpan span;
      span.sequence = open_[i];
      span.ids = ids_;
      span.logit_rows = {&last, 1};
      span.keep = keep;
      spans.push_back(span);
    }
    const Status status = runner_->run_step(spans);
    runner_->exec().device->wait();
    return status;
  }

  // The shortest of several, as everything that disturbs a measurement makes it longer.
  Status measure(std::size_t sequences, int rows) {
    constexpr int kRuns = 7;
    const Clock::time_point enough = Clock::now() + std::chrono::milliseconds(150);
    double shortest = 0;
    const auto go_on = [&](int i) {
      if (i == 0 && samples.empty()) return true;
      return i < kRuns && (i < 2 || Clock::now() < enough) && !out_of_time();
    };
    for (int i = 0; go_on(i); ++i) {
      const Clock::time_point begin = Clock::now();
      SLUICE_RETURN_IF_ERROR(step(sequences, rows, false));
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      shortest = i == 0 ? seconds : std::min(shortest, seconds);
    }
    if (shortest == 0) return {};
    CostSample sample{.rows = static_cast<double>(rows) * static_cast<double>(sequences),
                      .spans = static_cast<double>(sequences),
                      .seconds = shortest};
    for (std::size_t i = 0; i < sequences; ++i) {
      const double before = runner_->sequences().position(open_[i]);
      sample.read += before;
      sample.context += rows * (before + (rows - 1) / 2.0);
    }
    samples.push_back(sample);
    return {};
  }

  std::vector<CostSample> samples;

 private:
  Runner* runner_;
  Clock::time_point deadline_;
  std::vector<StateSlot> open_;
  std::vector<TokenId> ids_;
};

}  // namespace

CostModel fit_cost(std::span<const CostSample> samples) {
  CostModel best;
  double least = 0;
  for (const double half_rows : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0}) {
    const Terms t = fit_terms(samples, half_rows);
    const double error = error_of(t, samples, half_rows);
    if (half_rows > 1 && error >= least * 0.999) continue;
    least = error;
    best = {.step = t[0],
            .weights = t[1],
            .half_rows = half_rows,
            .row = t[2],
            .span = t[3],
            .context = t[4],
            .read = t[5]};
  }
  return best;
}

double cost_error(const CostModel& cost, std::span<const CostSample> samples) {
  return error_of(terms_of(cost), samples, cost.half_rows);
}

Result<std::vector<CostSample>> measure_steps(Runner* runner, int max_batched_tokens, double seconds) {
  constexpr int kShort = 16;  // tokens before the decodes of many sequences
  constexpr std::size_t kMany = 16;
  Measurement m(runner, seconds);
  const int longest = runner->limits().max_model_len;
  const int chunk = std::min(max_batched_tokens, 256);
  while (m.open().size() < kMany && m.open_one()) {
  }
  if (m.open().empty()) return resource_exhausted("--cost calibrate: no sequence is free to measure with");
  const auto places = static_cast<int>(m.open().size());
  const int start = std::min({kShort, longest - 1, max_batched_tokens / places});
  if (start >= 1) {  // decoding spans
    SLUICE_RETURN_IF_ERROR(m.step(m.open().size(), start, true));
    for (std::size_t n = 1; n <= m.open().size(); n *= 2) SLUICE_RETURN_IF_ERROR(m.measure(n, 1));
  }
  for (const int rows : {4, 16, 64, 256}) {  // prompt spans
    if (rows <= std::min(chunk, longest - start)) SLUICE_RETURN_IF_ERROR(m.measure(1, rows));
  }
  for (int measured_at = 0; !m.out_of_time();) {  // longer and longer contexts
    const int position = runner->sequences().position(m.open()[0]);
    const int rows = std::min(chunk, longest - position);
    if (position >= std::max(512, 2 * measured_at)) {
      SLUICE_RETURN_IF_ERROR(m.measure(1, 1));
      if (rows >= 1) SLUICE_RETURN_IF_ERROR(m.measure(1, std::min(rows, 64)));
      measured_at = position;
    }
    if (rows < chunk || !m.step(1, rows, true).ok()) break;
  }
  return std::move(m.samples);
}

}  // namespace sluice
