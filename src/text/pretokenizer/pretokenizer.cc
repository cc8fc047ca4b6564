// Used by text/pretokenizer and text/tokenizer.
#include "text/pretokenizer/pretokenizer.h"

#include <algorithm>

namespace sluice {
namespace {

struct Piece {
  std::size_t begin, end;
  bool is_match;
};

void merge_into_previous(std::vector<Piece>& pieces) {
  bool previous_was_match = false;
  std::size_t kept = 0;
  for (const Piece piece : pieces) {
    if (piece.is_match && !previous_was_match && kept > 0) {
      pieces[kept - 1].end = piece.end;
    } else {
      pieces[kept++] = piece;
    }
    previous_was_match = piece.is_match;
  }
  pieces.resize(kept);
}

void merge_into_next(std::vector<Piece>& pieces) {
  bool next_is_match = false;
  std::size_t kept = pieces.size();
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const Piece piece = pieces[i];
    if (piece.is_match && !next_is_match && kept < pieces.size()) {
      pieces[kept].begin = piece.begin;
    } else {
      pieces[--kept] = piece;
    }
    next_is_match = piece.is_match;
  }
  pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(kept));
}

void merge_runs(std::vector<Piece>& pieces) {
  std::size_t kept = 0;
  for (const Piece piece : pieces) {
    if (kept > 0 && pieces[kept - 1].is_match == piece.is_match) {
      pieces[kept - 1].end = piece.end;
    } else {
      pieces[kept++] = piece;
    }
  }
  pieces.resize(kept);
}

}  // namespace

// One call of split(): the stages applied depth first, so that no list of all pieces is ever built.
class Pretokenizer::Run {
 public:
  Run(const Pretokenizer& pretokenizer, RegexScratch& regex, const Sink& sink)
      : pretokenizer_(pretokenizer), regex_(regex), sink_(sink) {}

  // A part of the text, and of what the patterns see of it: same length, same boundaries.
  struct View {
    std::string_view text, shape;
    std::optional<std::size_t> inserted;  // see Pretokenizer::split
    View part(std::size_t begin, std::size_t end) const {
      return {text.substr(begin, end - begin), shape.substr(begin, end - begin),
              inserted && begin <= *inserted ? std::optional(*inserted - begin) : std::nullopt};
    }
  };

  Status apply_from(std::size_t stage, View view) {
    if (view.text.empty()) return {};
    if (stage == pretokenizer_.prefix_stage_ && view.text[0] != ' ') {
      prefixed_text_.assign(1, ' ').append(view.text);
      prefixed_shape_.assign(1, ' ').append(view.shape);
      view = {prefixed_text_, prefixed_shape_, plus(view.inserted, 1)};
    }
    if (stage == pretokenizer_.stages_.size()) {
      sink_(view.text);
      return {};
    }
    const Stage& now = pretokenizer_.stages_[stage];
    if (!now.marking) return apply_split(stage, view);
    const Marking& marking = *now.marking;
    const bool wanted = marking.prepend == Prepend::kAlways || (marking.prepend == Prepend::kFirst && view.inserted);
    const bool prepends = wanted && !view.text.starts_with(' ') && !view.text.starts_with(marking.mark);
    std::string text, shape;
    mark_spaces(view.text, prepends, marking.mark, text);
    mark_spaces(view.shape, prepends, marking.mark, shape);
    return apply_split(stage, {text, shape, plus(view.inserted, prepends ? marking.mark.size() : 0)});
  }

 private:
  static std::optional<std::size_t> plus(std::optional<std::size_t> inserted, std::size_t more) {
    return inserted ? std::optional(*inserted + more) : std::nullopt;
  }

  Status apply_split(std::size_t stage, View view) {
    const Stage& now = pretokenizer_.stages_[stage];
    if (!now.regex) return apply_from(stage + 1, view);
    const bool streams = now.behavior == Behavior::kIsolated || now.behavior == Behavior::kRemoved;
    return streams ? apply_streaming(stage, view) : apply_merging(stage, view);
  }

  static void mark_spaces(std::string_view text, bool prepends, std::string_view mark, std::string& out) {
    out.reserve(text.size() + text.size() / 2 + mark.size());
    if (prepends) out += mark;
    for (const char c : text) {
      if (c == ' ') {
        out += mark;
      } else {
        out.push_back(c);
      }
    }
  }

  Status apply_streaming(std::size_t index, View view) {
    const Stage& stage = pretokenizer_.stages_[index];
    const bool drop_matches = stage.behavior == Behavior::kRemoved;
    return stage.regex->for_each_piece(view.shape, regex_,
                                       [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
                                         if (stage.invert) is_match = !is_match;
                                         if (is_match && drop_matches) return {};
                                         return apply_from(index + 1, view.part(begin, end));
                                       });
  }

  Status apply_merging(std::size_t index, View view) {
    const Stage& stage = pretokenizer_.stages_[index];
    std::vector<Piece> pieces;
    SLUICE_RETURN_IF_ERROR(stage.regex->for_each_piece(
        view.shape, regex_, [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
          pieces.push_back({begin, end, is_match != stage.invert});
          return {};
        }));
    if (stage.behavior == Behavior::kMergedWithPrevious) merge_into_previous(pieces);
    if (stage.behavior == Behavior::kMergedWithNext) merge_into_next(pieces);
    if (stage.behavior == Behavior::kContiguous) merge_runs(pieces);
    for (const Piece& piece : pieces) {
      SLUICE_RETURN_IF_ERROR(apply_from(index + 1, view.part(piece.begin, piece.end)));
    }
    return {};
  }

  const Pretokenizer& pretokenizer_;
  RegexScratch& regex_;
  const Sink& sink_;
  std::string prefixed_text_, prefixed_shape_;
};

Status Pretokenizer::split(std::string_view text, std::optional<std::size_t> inserted, PretokenizerScratch& scratch,
                           const Sink& sink) const {
  const std::string_view shape = stages_.empty() ? text : regex_shape(text, scratch.shape);
  return Run(*this, scratch.regex, sink).apply_from(0, {text, shape, inserted});
}

}  // namespace sluice
