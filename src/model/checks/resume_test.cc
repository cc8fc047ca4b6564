// Tests of the laws that a prefix cache rests on. A sequence continues at any block boundary from cached pages alone,
// bit by bit, however the rest is cut. Rows that are computed again only for their window do not change inserted
// latents.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "base/storage/temp_folder_testing.h"
#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"

namespace sluice::resume_test {
namespace {

struct Case {
  const char* name;
  const char* model;
  const char* profile;
  const char* compute;
  const char* kv;
  const char* index;
  int window = 0;  // 0: the model's own
  bool mtp = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const Case kCases[] = {
    {"tiny_default", "tiny", "default", "auto", "auto", "auto"},
    {"tiny_bf16_compute", "tiny", "default", "bf16", "auto", "auto"},
    {"flash_plain", "v4-flash-like", "plain", "auto", "auto", "auto"},
    {"flash_ref", "v4-flash-like", "ref", "auto", "auto", "auto"},
    {"flash_bf16", "v4-flash-like", "default", "auto", "bf16", "bf16"},
    {"flash_fp8_fp4", "v4-flash-like", "default", "auto", "fp8", "fp4"},
    {"flash_fp8_fp8", "v4-flash-like", "default", "auto", "fp8", "fp8"},
    {"pro_plain", "v4-pro-like", "plain", "auto", "auto", "auto"},
    {"pro_ref", "v4-pro-like", "ref", "auto", "auto", "auto"},
    {"pro_bf16", "v4-pro-like", "default", "auto", "bf16", "bf16"},
    {"pro_fp8_fp4", "v4-pro-like", "default", "auto", "fp8", "fp4"},
    {"pro_fp8_fp8", "v4-pro-like", "default", "auto", "fp8", "fp8"},
    {"v2_lite_default", "v2-lite-like", "default", "auto", "auto", "auto"},
    {"v2_fp8", "v2-like", "default", "auto", "fp8", "auto"},
    {"v3_plain", "v3-like", "plain", "auto", "auto", "auto"},
    {"v32_default", "v32-like", "default", "auto", "auto", "auto"},
    {"v32_plain", "v32-like", "plain", "auto", "auto", "auto"},
    {"v32_ref", "v32-like", "ref", "auto", "auto", "auto"},
    {"v32_bf16", "v32-like", "default", "auto", "bf16", "bf16"},
    {"tiny_mtp_default", "tiny", "default", "auto", "auto", "auto", 0, true},
    {"tiny_mtp_window_of_130", "tiny", "plain", "auto", "auto", "auto", 130, true},
    {"flash_window_of_1", "v4-flash-like", "plain", "auto", "auto", "auto", 1},
    {"flash_window_of_129", "v4-flash-like", "plain", "auto", "auto", "auto", 129},
    {"flash_window_of_130", "v4-flash-like", "plain", "auto", "auto", "auto", 130},
    {"flash_window_of_300", "v4-flash-like", "plain", "auto", "auto", "auto", 300},
};

std::string folder_of(const std::string& model) {
  return model == "tiny" ? source_dir() + "/models/sluice-tiny-v4" : test_data_dir() + "/oracles/" + model;
}

// The checkpoint in `folder` with another window, as links and a changed config.
void link_with_window(const std::string& folder, int window, const TempFolder& into) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() != "config.json") {
      std::filesystem::create_symlink(entry.path(), std::filesystem::path(into.path()) / entry.path().filename());
    }
  }
  std::ifstream file(folder + "/config.json");
  std::string config((std::istreambuf_iterator<char>(file)), {});
  const std::string key = "\"sliding_window\": 128";
  ASSERT_NE(config.find(key), std::string::npos);
  config.replace(config.find(key), key.size(), fmt::format("\"sliding_window\": {}", window));
  into.write("config.json", config);
}

std::vector<int> all_rows(int rows) {
  std::vector<int> wanted(static_cast<std::size_t>(rows));
  std::iota(wanted.begin(), wanted.end(), 0);
  return wanted;
}

class ResumeTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kTokens = 700, kBlocks = kTokens / kBlockTokens, kPages = 80;

  void SetUp() override {
    const Case& c = GetParam();
    EngineSetup options;
    options.numerics.profile = c.profile;
    options.numerics.compute_dtype = c.compute;
    options.numerics.kv_cache_dtype = c.kv;
    options.numerics.index_cache_dtype = c.index;
    options.mtp = c.mtp;
    std::string folder = folder_of(c.model);
    if (c.window > 0) {
      link_with_window(folder, c.window, changed_);
      folder = changed_.path();
    }
    auto loaded = load_model(exec_, folder, options, {}, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(loaded).value();
    vocab_ = static_cast<std::size_t>(model_->config().vocab_size);
    ids_.resize(kTokens);
    for (TokenId& id : ids_) id = static_cast<TokenId>(random_() % vocab_);
    pages_ = std::make_unique<TestPages>(layout(), kPages, seed_);
    first_ = std::make_unique<TestSequence>(pages_.get(), kTokens);
    logits_ = first_->run(*model_, exec_, ids_, all_rows(kTokens));
  }

  const CacheLayout& layout() const { return model_->cache_layout(); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // Computes up to `end` in random pieces; every row's logits must be those of the first run, unless they are not asked
  // for.
  void run_to(TestSequence& sequence, Position end, bool compare = true) {
    const int largest = between(0, 2) == 0 ? 7 : 400;
    while (sequence.position() < end) {
      const Position p = sequence.position();
      const int rows = std::min(end - p, between(1, largest));
      if (model_->drafts() && between(0, 2) == 0) draft(sequence, std::min(end - p, between(1, 3)));
      const auto found = sequence.run(
          *model_, exec_, std::span(ids_).subspan(static_cast<std::size_t>(p), static_cast<std::size_t>(rows)),
          all_rows(rows));
      if (!compare) continue;
      const auto at = [&](int row) { return static_cast<std::size_t>(row) * vocab_; };
      for (int row = 0; row < rows; ++row) {
        ASSERT_EQ(std::memcmp(found.data() + at(row), logits_.data() + at(p + row), vocab_ * sizeof(float)), 0)
            << "position " << p + row << " of a piece of " << rows << " rows from " << p;
      }
    }
  }

  // Drafts on tokens that do not stay, in slots that the next rows write.
  void draft(TestSequence& sequence, int tokens) {
    std::vector<TokenId> given(static_cast<std::size_t>(tokens));
    for (TokenId& id : given) id = static_cast<TokenId>(random_() % vocab_);
    sequence.draft(*model_, exec_, given);
  }

  // The pages that a sequence resumed after `block` blocks holds are those of the first run, byte by byte.
  void expect_same_pages(const TestSequence& resumed, int block) const {
    for (int b = 0; b <= kBlocks; ++b) {
      EXPECT_TRUE(latent_bytes(resumed, b) == latent_bytes(*first_, b)) << "latents of block " << b;
      if (b < block) continue;
      EXPECT_TRUE(window_bytes(resumed, b) == window_bytes(*first_, b)) << "window and boundary of block " << b;
    }
  }

  // Checks that nothing is written after the rows of a page.
  void expect_padding_untouched() const {
    for (int i = 0; i < static_cast<int>(layout().planes.size()); ++i) {
      const PlaneSpec& plane = layout()[PlaneId(i)];
      const int used =
          plane.kind == PlaneKind::kOpen ? plane.boundary_bytes : plane.rows_per_page() * plane.format.row_bytes();
      for (int page = 0; page < kPages; ++page) {
        const auto padding = pages_->bytes(PlaneId(i), page).subspan(static_cast<std::size_t>(used));
        EXPECT_TRUE(std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0xFF}; }))
            << plane.name << " page " << page;
      }
    }
  }

  // The bytes of all planes of one kind of page.
  std::vector<std::byte> latent_bytes(const TestSequence& sequence, int block) const {
    return page_bytes(true, sequence.latent_page(block).value);
  }
  std::vector<std::byte> window_bytes(const TestSequence& sequence, int block) const {
    return page_bytes(false, sequence.window_page(block).value);
  }
  std::vector<std::byte> page_bytes(bool latent, std::int32_t page) const {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < layout().planes.size(); ++i) {
      if ((layout().planes[i].kind == PlaneKind::kLatent) != latent) continue;
      const auto part = pages_->bytes(PlaneId(static_cast<std::int32_t>(i)), page);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  void set_latent_bytes(LatentPage page, const std::vector<std::byte>& bytes) {
    auto from = bytes.begin();
    for (std::size_t i = 0; i < layout().planes.size(); ++i) {
      if (layout().planes[i].kind != PlaneKind::kLatent) continue;
      const auto part = pages_->bytes(PlaneId(static_cast<std::int32_t>(i)), page.value);
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    }
  }

  const std::uint32_t seed_ = test_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("SLUICE_TEST_SEED={}", seed_)};
  std::mt19937 random_{seed_};
  ThreadPool pool_{2};
  Exec exec_{&pool_, select_kernels("auto").value()};
  TempFolder changed_;
  std::unique_ptr<Model> model_;
  std::size_t vocab_ = 0;
  std::vector<TokenId> ids_;
  std::unique_ptr<TestPages> pages_;
  std::unique_ptr<TestSequence> first_;  // all of ids_ in one piece
  std::vector<float> logits_;            // every position's
};

// At every boundary: logits of all that follows, the state itself, and every byte of every page written.
TEST_P(ResumeTest, AtEveryBlockBoundaryFromPagesAlone) {
  for (int block = 1; block <= kBlocks; ++block) {
    SCOPED_TRACE(::testing::Message() << "after block " << block - 1);
    TestSequence direct(pages_.get(), block * kBlockTokens);
    run_to(direct, block * kBlockTokens);
    TestSequence resumed = TestSequence::resumed(*first_, block, block, kTokens);
    EXPECT_TRUE(resumed.open_state() == direct.open_state());
    run_to(resumed, kTokens);
    EXPECT_TRUE(resumed.open_state() == first_->open_state());
    expect_same_pages(resumed, block);
  }
  expect_padding_untouched();
}

// Latents of blocks below `shared` are inserted, but no window page after `block` is left: rows in between are
// computed for their window and open state only. First with other bytes in the inserted pages, to see that none is
// written.
TEST_P(ResumeTest, RowsBelowLatentsFromWriteNoLatents) {
  const int block = between(0, kBlocks - 1), shared = between(block + 1, kBlocks);
  SCOPED_TRACE(::testing::Message() << "after block " << block - 1 << ", sharing " << shared);
  std::vector<std::vector<std::byte>> inserted;
  for (int b = block; b < shared; ++b) {
    inserted.push_back(latent_bytes(*first_, b));
    set_latent_bytes(first_->latent_page(b), std::vector<std::byte>(inserted.back().size(), std::byte{0x3C}));
  }
  TestSequence blind = TestSequence::resumed(*first_, block, shared, kTokens);
  run_to(blind, kTokens, false);
  for (int b = block; b < shared; ++b) {
    const auto& bytes = inserted[static_cast<std::size_t>(b - block)];
    EXPECT_EQ(latent_bytes(*first_, b), std::vector<std::byte>(bytes.size(), std::byte{0x3C})) << "block " << b;
    set_latent_bytes(first_->latent_page(b), bytes);
  }

  TestSequence resumed = TestSequence::resumed(*first_, block, shared, kTokens);
  run_to(resumed, kTokens);
  EXPECT_TRUE(resumed.open_state() == first_->open_state());
  expect_same_pages(resumed, block);
}

// The deliberate fault of kernels/device/exec.h: inert on one piece, found in the logits of any other cut, and the
// observers name the attention of the first layer as what differs first.
TEST_P(ResumeTest, ADeliberateFaultIsSeenAndPlaced) {
  exec_.fault_chunk_anchored_splits = true;
  TestSequence whole(pages_.get(), kTokens);
  EXPECT_TRUE(whole.run(*model_, exec_, ids_, all_rows(kTokens)) == logits_);

  const Position cut = 130;
  const auto wanted = all_rows(kTokens - cut);
  using Shown = std::pair<std::string, std::vector<float>>;
  const auto second_piece = [&](bool fault) {
    exec_.fault_chunk_anchored_splits = false;
    TestSequence sequence(pages_.get(), kTokens);
    sequence.run(*model_, exec_, std::span(ids_).first(cut), {});
    exec_.fault_chunk_anchored_splits = fault;
    std::vector<Shown> shown;
    const Observer observer = [&](std::string_view name, const float* values, int rows, int columns) {
      shown.emplace_back(name, std::vector<float>(values, values + static_cast<std::ptrdiff_t>(rows) * columns));
    };
    shown.emplace_back("logits", sequence.run(*model_, exec_, std::span(ids_).subspan(cut), wanted, &observer));
    return shown;
  };
  const auto right = second_piece(false), wrong = second_piece(true);
  const auto begin = logits_.begin() + static_cast<std::ptrdiff_t>(cut * vocab_);
  EXPECT_TRUE(std::equal(begin, logits_.end(), right.back().second.begin()));
  ASSERT_EQ(right.size(), wrong.size());
  const auto first = std::mismatch(right.begin(), right.end(), wrong.begin()).first;
  // Without a window, or with one in which no row sees a key from before its piece, there is nothing to get wrong.
  if (GetParam().window == 1 || layout().window_tokens() == 0) {
    EXPECT_EQ(first, right.end());
    return;
  }
  ASSERT_NE(first, right.end());
  EXPECT_EQ(first->first, "layers.0.attn_o");
  EXPECT_NE(right.back().second, wrong.back().second);
}

INSTANTIATE_TEST_SUITE_P(Models, ResumeTest, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::resume_test
