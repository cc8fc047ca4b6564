// parse_sentencepiece: as much of the wire format of protocol buffers as sentencepiece_model.proto needs.
// Used by gguf_sentencepiece.cc, sentencepiece_json.cc and tokenizer_files.cc.
#include "text/vocabulary_files/sentencepiece_file.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/utf8.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

constexpr std::string_view kSentencePieceFile = "tokenizer.model";

Status malformed(std::string_view what) {
  return invalid_argument(
      fmt::format("{}: expected a SentencePiece model (a protocol buffer), found {}", kSentencePieceFile, what));
}

struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // value of a varint or a fixed number
  std::string_view bytes;   // bytes of a string or a message
};

// Walks over the fields of a message.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  // The next field; none at the end.
  Result<std::optional<Field>> next() {
    if (rest_.empty()) return std::optional<Field>();
    std::uint64_t key = 0;
    Field field;
    if (!varint(key)) return malformed("a field that is cut off");
    field.number = key >> 3;
    switch (key & 7) {
      case 0:
        if (!varint(field.value)) return malformed("a number that is cut off");
        break;
      case 1:
        if (!fixed(8, field.value)) return malformed("a number that is cut off");
        break;
      case 5:
        if (!fixed(4, field.value)) return malformed("a number that is cut off");
        break;
      case 2: {
        std::uint64_t size = 0;
        if (!varint(size) || size > rest_.size()) return malformed("a field that is longer than the file");
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        break;
      }
      default:
        return malformed(fmt::format("a field of the unknown wire type {}", key & 7));
    }
    return std::optional(field);
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(std::size_t size, std::uint64_t& value) {
    if (rest_.size() < size) return false;
    value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
};

template <class Visit>
Status for_each_field(std::string_view bytes, const Visit& visit) {
  Message message(bytes);
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const std::optional<Field> field, message.next());
    if (!field) return {};
    visit(*field);
  }
}

Status read_piece(std::string_view bytes, SentencePieceFile& file) {
  SentencePiece piece;
  SLUICE_RETURN_IF_ERROR(for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) piece.type = static_cast<PieceType>(field.value);
  }));
  const std::size_t id = file.pieces.size();
  if (id > static_cast<std::size_t>(kMaxTokenId)) return malformed(fmt::format("more than {} pieces", kMaxTokenId));
  if (piece.text.empty() || valid_utf8_prefix(piece.text) != piece.text.size()) {
    return malformed(fmt::format("piece {} that is empty or no valid UTF-8", id));
  }
  if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte) {
    return malformed(fmt::format("piece {} of an unknown type", id));
  }
  if (std::isnan(piece.score)) return malformed(fmt::format("piece {} with a score that is no number", id));
  file.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer(std::string_view bytes, SentencePieceFile& file) {
  return for_each_field(bytes, [&](const Field& field) {
    const auto number = static_cast<std::int32_t>(field.value);
    switch (field.number) {
      case 3:
        file.model_type = number;
        break;
      case 35:
        file.byte_fallback = field.value != 0;
        break;
      case 40:
        file.unk_id = number;
        break;
      case 41:
        file.bos_id = number;
        break;
      case 42:
        file.eos_id = number;
        break;
      case 45:
        file.unk_piece = field.bytes;
        break;
      case 46:
        file.bos_piece = field.bytes;
        break;
      case 47:
        file.eos_piece = field.bytes;
        break;
      default:
        break;
    }
  });
}

Status read_normalizer(std::string_view bytes, SentencePieceFile& file) {
  return for_each_field(bytes, [&](const Field& field) {
    if (field.number == 2) file.has_character_map = !field.bytes.empty();
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
  });
}

}  // namespace

Result<SentencePieceFile> parse_sentencepiece(std::string_view bytes) {
  SentencePieceFile file;
  Status inner;
  SLUICE_RETURN_IF_ERROR(for_each_field(bytes, [&](const Field& field) {
    if (!inner.ok()) return;
    if (field.number == 1) inner = read_piece(field.bytes, file);
    if (field.number == 2) inner = read_trainer(field.bytes, file);
    if (field.number == 3) inner = read_normalizer(field.bytes, file);
  }));
  SLUICE_RETURN_IF_ERROR(inner);
  if (file.pieces.empty()) return malformed("no pieces");
  for (const std::string* piece : {&file.unk_piece, &file.bos_piece, &file.eos_piece}) {
    if (valid_utf8_prefix(*piece) != piece->size())
      return malformed("the name of a special token that is no valid UTF-8");
  }
  if (file.model_type != 2) {
    const char* kind = file.model_type == 1 ? "unigram" : file.model_type == 3 ? "word" : "char";
    return invalid_argument(fmt::format("{}: trainer_spec.model_type: expected BPE, the only supported kind, found {}",
                                        kSentencePieceFile, kind));
  }
  return file;
}

}  // namespace sluice
