// GgufBuilder: the bytes of a GGUF file, right or deliberately wrong, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/gguf_file.h"
#include "files/gguf/gguf_writer.h"

namespace sluice {

class GgufBuilder : public GgufEncoding {
 public:
  GgufBuilder& entry(std::string_view key, GgufType type, std::string_view value) {
    entries_.entry(key, type, value);
    ++entry_count_;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) { return entry(key, GgufType::kUint32, number(value)); }
  GgufBuilder& f32(std::string_view key, float value) { return entry(key, GgufType::kFloat32, number(value)); }
  GgufBuilder& str(std::string_view key, std::string_view value) { return entry(key, GgufType::kString, text(value)); }

  // `dims` as in the file, the contiguous one first. The data goes to the next place that is aligned.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                      std::string_view data) {
    tensor_at(name, dims, type, data_.size());
    data_.append(data);
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return *this;
  }
  // A table entry alone.
  GgufBuilder& tensor_at(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                         std::uint64_t offset) {
    tensors_ += tensor_entry(name, dims, type, offset);
    ++tensor_count_;
    return *this;
  }
  GgufBuilder& alignment(std::uint32_t value) {
    alignment_ = value;
    return u32("general.alignment", value);
  }
  // Sets what the header says, if not the truth.
  GgufBuilder& version(std::uint32_t value) {
    version_ = value;
    return *this;
  }
  GgufBuilder& counts(std::uint64_t tensors, std::uint64_t entries) {
    tensor_count_ = tensors;
    entry_count_ = entries;
    return *this;
  }

  std::string table() const { return head(version_, tensor_count_, entry_count_) + entries_.bytes() + tensors_; }
  std::string bytes() const {
    std::string all = table();
    all.resize((all.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return all + data_;
  }

 private:
  GgufEntries entries_;
  std::string tensors_, data_;
  std::uint64_t tensor_count_ = 0, entry_count_ = 0;
  std::size_t alignment_ = 32;
  std::uint32_t version_ = 3;
};

// Bytes as GgufFile::parse wants them.
class AlignedText {
 public:
  explicit AlignedText(std::string_view text)
      : size_(text.size()), words_(std::make_unique<std::uint64_t[]>(text.size() / 8 + 1)) {
    std::memcpy(words_.get(), text.data(), text.size());
  }
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(words_.get()), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::uint64_t[]> words_;
};

}  // namespace sluice
