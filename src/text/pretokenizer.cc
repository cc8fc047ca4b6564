#include "text/pretokenizer.h"

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
    View part(std::size_t begin, std::size_t end) const {
      return {text.substr(begin, end - begin), shape.substr(begin, end - begin)};
    }
  };

  Status apply_from(std::size_t stage, View view) {
    if (view.text.empty()) return {};
    if (stage == pretokenizer_.prefix_stage_ && view.text[0] != ' ') {
      prefixed_text_.assign(1, ' ').append(view.text);
      prefixed_shape_.assign(1, ' ').append(view.shape);
      view = {prefixed_text_, prefixed_shape_};
    }
    if (stage == pretokenizer_.stages_.size()) {
      sink_(view.text);
      return {};
    }
    switch (pretokenizer_.stages_[stage].behavior) {
      case Behavior::kIsolated:
      case Behavior::kRemoved:
        return apply_streaming(stage, view);
      default:
        return apply_merging(stage, view);
    }
  }

 private:
  // Calls visit(begin, end, is_match) for each match of the stage and each part between matches, in order.
  template <class Visit>
  Status for_each_piece(const Stage& stage, std::string_view shape, const Visit& visit) {
    std::size_t position = 0;
    while (position < shape.size()) {
      RegexMatch match{};
      SLUICE_ASSIGN_OR_RETURN(const bool found, stage.regex.find(shape, position, regex_, match));
      const std::size_t gap_end = found ? match.begin : shape.size();
      if (gap_end > position) SLUICE_RETURN_IF_ERROR(visit(position, gap_end, stage.invert));
      if (!found) break;
      SLUICE_RETURN_IF_ERROR(visit(match.begin, match.end, !stage.invert));
      position = match.end;
    }
    return {};
  }

  Status apply_streaming(std::size_t index, View view) {
    const Stage& stage = pretokenizer_.stages_[index];
    const bool drop_matches = stage.behavior == Behavior::kRemoved;
    return for_each_piece(stage, view.shape, [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
      if (is_match && drop_matches) return {};
      return apply_from(index + 1, view.part(begin, end));
    });
  }

  Status apply_merging(std::size_t index, View view) {
    const Stage& stage = pretokenizer_.stages_[index];
    std::vector<Piece> pieces;
    SLUICE_RETURN_IF_ERROR(
        for_each_piece(stage, view.shape, [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
          pieces.push_back({begin, end, is_match});
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

Status Pretokenizer::split(std::string_view text, PretokenizerScratch& scratch, const Sink& sink) const {
  const std::string_view shape = regex_shape(text, scratch.shape);
  return Run(*this, scratch.regex, sink).apply_from(0, {text, shape});
}

}  // namespace sluice
