#include "model/checks/cache_testing.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/check.h"

namespace sluice {

namespace {

int blocks_of(int tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

}  // namespace

void prepare_for(Model& model, int rows) {
  const Status status = model.prepare(cpu_device(), std::max(rows, 64), model.config().max_position_embeddings);
  SLUICE_CHECK(status.ok(), "memory for a step");
}

TestPages::TestPages(const CacheLayout& layout, int pages, unsigned seed) : layout_(layout) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const auto page : order) free_latents_.emplace_back(page);
  std::shuffle(order.begin(), order.end(), random);
  for (const auto page : order) free_windows_.emplace_back(page);
  for (std::size_t i = 0; i < layout.planes.size(); ++i) {
    const PlaneSpec& spec = layout.planes[i];
    memory_.emplace_back(spec.page_bytes() * static_cast<std::size_t>(pages), std::byte{0xFF});
    view_.open_offsets.push_back(layout.open_offset(PlaneId(static_cast<std::int32_t>(i))));
    view_.planes.push_back(spec.view(memory_.back().data()));
  }
}

LatentPage TestPages::take_latent() {
  SLUICE_CHECK(!free_latents_.empty(), "a test with enough pages");
  const LatentPage page = free_latents_.back();
  free_latents_.pop_back();
  return page;
}

WindowPage TestPages::take_window() {
  SLUICE_CHECK(!free_windows_.empty(), "a test with enough pages");
  const WindowPage page = free_windows_.back();
  free_windows_.pop_back();
  return page;
}

std::span<std::byte> TestPages::bytes(PlaneId id, std::int32_t page) const {
  const PlaneView& plane = view_[id];
  return {plane.row(page, 0).data, plane.page_bytes};
}

std::vector<std::byte> TestPages::boundary_state(LatentPage latents, WindowPage windows) const {
  std::vector<std::byte> state = layout_.initial_state();
  for (std::size_t i = 0; i < layout_.planes.size(); ++i) {
    const PlaneId id(static_cast<std::int32_t>(i));
    const PlaneSpec& plane = layout_[id];
    if (plane.kind != PlaneKind::kOpen) continue;
    std::byte* const to = state.data() + layout_.open_offset(id);
    if (plane.kept_in) {
      std::copy_n(view_[plane.kept_in].row(latents.value, 0).data, plane.initial.size(), to);
    } else {
      std::copy_n(view_.boundary(id, windows), plane.boundary_bytes, to);
    }
  }
  return state;
}

TestSequence::TestSequence(TestPages* pages, int max_tokens)
    : pages_(pages, [](TestPages*) {}), open_(pages->layout().initial_state()) {
  take_pages(max_tokens);
}

TestSequence::TestSequence(const CacheLayout& layout, int max_tokens, unsigned seed)
    : pages_(std::make_shared<TestPages>(layout, blocks_of(max_tokens), seed)), open_(layout.initial_state()) {
  take_pages(max_tokens);
}

TestSequence TestSequence::resumed(const TestSequence& donor, int blocks, int shared, int max_tokens) {
  const CacheLayout& layout = donor.pages().layout();
  TestSequence sequence(donor.pages_.get(), 0);
  for (int block = 0; block < shared; ++block) sequence.latent_pages_.push_back(donor.latent_page(block));
  sequence.first_window_block_ = std::max(0, blocks - layout.window_pages_to_resume());
  for (int block = sequence.first_window_block_; block < blocks; ++block) {
    sequence.window_pages_.push_back(donor.window_page(block));
  }
  if (blocks > 0) {
    sequence.open_ = donor.pages().boundary_state(donor.latent_page(blocks - 1), donor.window_page(blocks - 1));
  }
  sequence.position_ = blocks * kBlockTokens;
  sequence.latents_from_ = shared * kBlockTokens;
  sequence.take_pages(max_tokens);
  return sequence;
}

void TestSequence::take_pages(int max_tokens) {
  const auto blocks = static_cast<std::size_t>(blocks_of(max_tokens));
  while (latent_pages_.size() < blocks) latent_pages_.push_back(pages_->take_latent());
  while (window_pages_.size() + static_cast<std::size_t>(first_window_block_) < blocks) {
    window_pages_.push_back(pages_->take_window());
  }
}

BatchSpan TestSequence::next_rows(int rows) const {
  BatchSpan span;
  span.rows = rows;
  span.first_position = position_;
  span.latents_from = latents_from_;
  span.latent_pages = latent_pages_;
  span.window_pages = window_pages_;
  span.first_window_block = first_window_block_;
  return span;
}

std::vector<float> TestSequence::draft(Model& model, const Exec& exec, std::span<const TokenId> ids,
                                       const Observer* observer) {
  std::vector<std::byte> state = open_;
  CacheView view = pages_->view();
  view.open_base = state.data(), view.open_stride = state.size();
  StepBuilder step(pages_->layout().table_shape());
  const auto vocab = static_cast<std::size_t>(model.config().vocab_size);
  std::vector<float> logits(ids.size() * vocab);
  prepare_for(model, 1);
  for (std::size_t d = 0; d < ids.size(); ++d) {
    BatchSpan span = next_rows(1);
    span.first_position += static_cast<Position>(d);
    const int wanted = 0;
    step.begin();
    step.add(span, ids.subspan(d, 1), {&wanted, 1});
    model.draft(exec, step.finish(), view, static_cast<int>(d) + 1, logits.data() + d * vocab, observer);
  }
  SLUICE_CHECK(state == open_, "drafts leave the committed state alone");
  return logits;
}

std::vector<float> TestSequence::run(Model& model, const Exec& exec, std::span<const TokenId> ids,
                                     std::span<const int> wanted, const Observer* observer) {
  const BatchSpan span = next_rows(static_cast<int>(ids.size()));
  std::vector<std::byte> states = open_;
  states.resize(2 * open_.size());
  CacheView view = pages_->view();
  view.open_base = states.data(), view.open_stride = open_.size();
  StepBuilder step(pages_->layout().table_shape());
  step.add(span, ids, wanted);
  std::vector<float> logits(wanted.size() * static_cast<std::size_t>(model.config().vocab_size));
  prepare_for(model, static_cast<int>(ids.size()));
  model.forward(exec, step.finish(), view, logits.data(), observer);
  open_.assign(states.begin() + static_cast<std::ptrdiff_t>(open_.size()), states.end());
  position_ += span.rows;
  return logits;
}

std::vector<float> run_prompt(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                              int chunk, const Observer* observer) {
  TestSequence sequence(model.cache_layout(), static_cast<int>(ids.size()) + 1);
  std::vector<float> all;
  for (int begin = 0; begin < static_cast<int>(ids.size()); begin += chunk) {
    const int rows = std::min(chunk, static_cast<int>(ids.size()) - begin);
    std::vector<int> rows_wanted;
    for (const int position : wanted) {
      if (position >= begin && position < begin + rows) rows_wanted.push_back(position - begin);
    }
    const auto part =
        sequence.run(model, exec, ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
                     rows_wanted, observer);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace sluice
