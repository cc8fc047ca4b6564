// ModelMemory: the memory that a scheduler plans with, for tests: latent pages with owners, a prefix cache, copies on
// write after a fork, a swap space. It answers questions truly, carries plans out, and reports in problem() the
// first question or plan that cannot be right.
//
// The contents of a sequence's blocks follow from its family: the first `common` tokens of all sequences of a family
// are the same, the others are its own.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

namespace sluice {

class ModelMemory {
 public:
  explicit ModelMemory(const SchedulerLimits& limits, int swap_pages = 0, bool caches = true)
      : geometry_(limits.geometry),
        caches_(caches && limits.geometry.has_latents),
        swap_pages_(swap_pages),
        pages_(static_cast<std::size_t>(limits.latent_pages)) {}

  struct Sequence {
    bool running = false, swapped = false;
    int family = -1, common = 0;
    Position computed = 0;
    int known = 0, shared = 0;
    std::vector<int> pages;          // [block]
    std::vector<std::int64_t> keys;  // names of the full blocks of known tokens
    PrefixHit hit;
  };

  void add(SequenceId id, int prompt_tokens, int family = -1, int common = 0) {
    Sequence& s = sequences_[id.value];
    s = {};
    s.family = family;
    s.common = common;
    s.known = prompt_tokens;
    name_blocks(s);
  }
  void fork(SequenceId parent, SequenceId child) {
    Sequence& c = sequences_[child.value];
    c = sequences_.at(parent.value);
    for (const int page : c.pages) ++page_at(page).owners;
  }
  void end(SequenceId id) {
    Sequence& s = sequences_.at(id.value);
    if (s.swapped) swap_used_ -= swap_pages(s);
    release(s);
    sequences_.erase(id.value);
  }
  void append(SequenceId id, int tokens = 1) {
    Sequence& s = sequences_.at(id.value);
    s.known += tokens;
    name_blocks(s);
  }
  const Sequence& sequence(SequenceId id) const { return sequences_.at(id.value); }
  const std::string& problem() const { return problem_; }
  int cached_pages() const {
    return static_cast<int>(
        std::count_if(pages_.begin(), pages_.end(), [](const Page& p) { return p.owners == 0 && p.key >= 0; }));
  }
  int swap_used() const { return swap_used_; }

  int free_latent_pages() const {
    return static_cast<int>(std::count_if(pages_.begin(), pages_.end(), [](const Page& p) { return p.owners == 0; }));
  }

  // Answers what the scheduler asks for its next plan.
  PlanFacts answers(Scheduler* scheduler) {
    PlanFacts facts{.free_latent_pages = free_latent_pages(),
                    .swap_bytes = static_cast<std::size_t>(swap_pages_ - swap_used_),
                    .lookups = {},
                    .leavers = {}};
    std::set<int> asked;
    const auto note = [&](SequenceId id) {
      if (!asked.insert(id.value).second) complain(fmt::format("two questions about sequence {}", id.value));
      return id;
    };
    gather(
        scheduler, &facts, [&](SequenceId id) { return look_up(note(id)); },
        [&](SequenceId id) { return leaver(note(id)); });
    return facts;
  }

  PrefixLookup look_up(SequenceId id) {
    Sequence& s = sequences_.at(id.value);
    if (s.running) complain(fmt::format("a question about the prefix of sequence {}, which runs", id.value));
    s.hit = {};
    PrefixLookup lookup{.sequence = id, .hit = {}};
    if (!caches_) return lookup;
    if (s.swapped) {
      lookup.next_block = next_block(s, static_cast<std::size_t>(s.computed / kBlockTokens));
      return lookup;
    }
    std::size_t matching = 0;
    while (matching < s.keys.size() && inserted_.count(s.keys[matching]) != 0) ++matching;
    s.hit.shared = static_cast<Position>(matching) * kBlockTokens;
    for (std::size_t b = 0; b < matching; ++b) {
      s.hit.claimed_free += page_at(inserted_.at(s.keys[b])).owners == 0;
      const Position end = static_cast<Position>(b + 1) * kBlockTokens;
      if (end < s.known && resumable(s.keys[b])) s.hit.resume = end;
    }
    s.hit.wait = static_cast<int>(matching) < (s.known - 1) / kBlockTokens && expected(s.keys[matching]);
    lookup.hit = s.hit;
    lookup.next_block = next_block(s, matching);
    return lookup;
  }

  Leaver leaver(SequenceId id) const {
    const Sequence& s = sequences_.at(id.value);
    const auto own = std::count_if(s.pages.begin(), s.pages.end(), [this](int p) { return page_at(p).owners == 1; });
    return {
        .sequence = id, .latent_pages = static_cast<int>(own), .image_bytes = static_cast<std::size_t>(swap_pages(s))};
  }

  void carry_out(const StepPlan& plan) {
    for (const Preemption& p : plan.preemptions) {
      Sequence& s = sequences_.at(p.sequence.value);
      if (!s.running) complain(fmt::format("sequence {} is preempted and does not run", p.sequence.value));
      s.running = false;
      s.swapped = p.swap;
      if (p.swap) swap_used_ += swap_pages(s);
      release(s);
      if (!p.swap) s.computed = 0;
    }
    if (swap_used_ > swap_pages_) complain("the swap space has no room");
    for (const Admission& a : plan.admissions) {
      if (!a.restore) claim(a);
    }
    for (const Admission& a : plan.admissions) {
      if (a.restore) restore(a);
    }
    for (const Span& span : plan.spans) reserve(span);
  }

  // The spans of the plan were computed. kept[i]: how many rows of span i are; without `kept` all are.
  void finish(const StepPlan& plan, std::span<const int> kept = {}) {
    for (std::size_t i = 0; i < plan.spans.size(); ++i) {
      const auto found = sequences_.find(plan.spans[i].sequence.value);
      if (found == sequences_.end() || !found->second.running) continue;
      Sequence& s = found->second;
      s.computed += kept.empty() ? plan.spans[i].rows : kept[i];
      for (; static_cast<int>(s.pages.size()) > pages_of(s); s.pages.pop_back()) --page_at(s.pages.back()).owners;
      if (caches_) insert(s);
    }
  }

  // The state of a swapped or just restored sequence is gone.
  void lose(SequenceId id) {
    Sequence& s = sequences_.at(id.value);
    if (s.swapped) swap_used_ -= swap_pages(s);
    s.running = s.swapped = false;
    release(s);
    s.computed = 0;
  }

  // Every page has as many owners as it says.
  void audit() {
    std::vector<int> owners(pages_.size());
    for (const auto& [id, s] : sequences_) {
      for (const int page : s.pages) ++owners[static_cast<std::size_t>(page)];
      const int blocks = s.running ? pages_of(s) : 0;
      if (static_cast<int>(s.pages.size()) != blocks) {
        complain(fmt::format("sequence {} holds {} pages, not {}", id, s.pages.size(), blocks));
      }
    }
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (owners[i] != pages_[i].owners) complain(fmt::format("page {} has the wrong number of owners", i));
    }
  }

 private:
  struct Page {
    int owners = 0;
    std::int64_t key = -1;  // inserted as; -1: not
  };

  Page& page_at(int page) { return pages_[static_cast<std::size_t>(page)]; }
  const Page& page_at(int page) const { return pages_[static_cast<std::size_t>(page)]; }
  void complain(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  // Some windows are not kept.
  static bool resumable(std::int64_t key) { return key % 7 != 4; }
  int swap_pages(const Sequence& s) const { return geometry_.latent_pages(s.computed) + 1; }
  int pages_of(const Sequence& s) const {
    return std::max(geometry_.latent_pages(s.computed), geometry_.latent_pages(s.shared));
  }
  // The first from `block` on that is not cached; keys begin at 0.
  std::uint64_t next_block(const Sequence& s, std::size_t block) const {
    while (block < s.keys.size() && inserted_.count(s.keys[block]) != 0) ++block;
    return block < s.keys.size() ? static_cast<std::uint64_t>(s.keys[block]) + 1 : 0;
  }

  void name_blocks(Sequence& s) {
    while (static_cast<int>(s.keys.size()) < s.known / kBlockTokens) {
      const auto block = static_cast<std::int64_t>(s.keys.size());
      const bool common = s.family >= 0 && (block + 1) * kBlockTokens <= s.common;
      s.keys.push_back(common ? s.family * 1000 + block : ++own_blocks_ + 1000000);
    }
  }

  bool expected(std::int64_t key) const {
    return std::any_of(sequences_.begin(), sequences_.end(), [key](const auto& entry) {
      const Sequence& s = entry.second;
      if (!s.running) return false;
      const auto from = s.keys.begin() +
                        std::min<std::ptrdiff_t>(s.computed / kBlockTokens, static_cast<std::ptrdiff_t>(s.keys.size()));
      return std::find(from, s.keys.end(), key) != s.keys.end();
    });
  }

  void release(Sequence& s) {
    for (const int page : s.pages) --page_at(page).owners;
    s.pages.clear();
    s.shared = 0;
  }

  int allocate() {
    const auto vacant =
        std::find_if(pages_.begin(), pages_.end(), [](const Page& p) { return p.owners == 0 && p.key < 0; });
    const auto free = vacant != pages_.end()
                          ? vacant
                          : std::find_if(pages_.begin(), pages_.end(), [](const Page& p) { return p.owners == 0; });
    if (free == pages_.end()) {
      complain("no page is free");
      return -1;
    }
    if (free->key >= 0) inserted_.erase(free->key);
    *free = {.owners = 1, .key = -1};
    return static_cast<int>(free - pages_.begin());
  }

  void take_page(std::vector<int>& pages, std::size_t at) {
    const int page = allocate();
    if (page < 0) return;
    if (at < pages.size()) {
      pages[at] = page;
    } else {
      pages.push_back(page);
    }
  }

  void claim(const Admission& a) {
    Sequence& s = sequences_.at(a.sequence.value);
    if (s.running || s.swapped) complain(fmt::format("sequence {} is admitted twice", a.sequence.value));
    s.running = true;
    s.computed = s.hit.resume;
    if (a.first_position != s.hit.resume) complain("an admission is not where the hit ends");
    for (int b = 0; b < s.hit.shared / kBlockTokens; ++b) {
      const auto page = inserted_.find(s.keys[static_cast<std::size_t>(b)]);
      if (page == inserted_.end()) return complain("a page of a hit is gone");
      s.pages.push_back(page->second);
      ++page_at(page->second).owners;
    }
    s.shared = s.hit.shared;
  }

  void restore(const Admission& a) {
    Sequence& s = sequences_.at(a.sequence.value);
    if (!s.swapped) complain(fmt::format("sequence {} is restored and was not swapped", a.sequence.value));
    if (a.first_position != s.computed) complain("a sequence is restored elsewhere");
    swap_used_ -= swap_pages(s);
    s.swapped = false;
    s.running = true;
    for (int b = 0; b < geometry_.latent_pages(s.computed); ++b) take_page(s.pages, s.pages.size());
  }

  void reserve(const Span& span) {
    Sequence& s = sequences_.at(span.sequence.value);
    if (!s.running || span.first_position != s.computed) complain("a span is not where its sequence is");
    const auto block = static_cast<std::size_t>(span.first_position / kBlockTokens);
    if (block < s.pages.size() && page_at(s.pages[block]).key < 0 && page_at(s.pages[block]).owners > 1) {
      --page_at(s.pages[block]).owners;  // copied on write
      take_page(s.pages, block);
    }
    const int blocks = geometry_.latent_pages(span.first_position + span.rows);
    while (static_cast<int>(s.pages.size()) < blocks && problem_.empty()) take_page(s.pages, s.pages.size());
  }

  void insert(Sequence& s) {
    const auto full = std::min(static_cast<std::size_t>(s.computed / kBlockTokens), s.keys.size());
    for (std::size_t b = 0; b < full; ++b) {
      if (page_at(s.pages[b]).key >= 0) continue;
      const auto [there, fresh] = inserted_.try_emplace(s.keys[b], s.pages[b]);
      if (fresh) {
        page_at(s.pages[b]).key = s.keys[b];
      } else {
        --page_at(s.pages[b]).owners;
        s.pages[b] = there->second;
        ++page_at(there->second).owners;
      }
    }
  }

  PageGeometry geometry_;
  bool caches_;
  int swap_pages_, swap_used_ = 0;
  std::int64_t own_blocks_ = 0;
  std::vector<Page> pages_;
  std::map<std::int64_t, int> inserted_;  // key to page
  std::map<int, Sequence> sequences_;
  std::string problem_;
};

}  // namespace sluice
