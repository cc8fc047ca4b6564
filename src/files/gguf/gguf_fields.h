// GgufFields: reads the metadata of a GGUF model into variables, with errors that name file, key, what was expected and
// what was found:
//   "m.gguf: key 'llama.block_count': expected an integer from 1 to 4096, found "abc""
//
// The first failure sticks: later reads change nothing, and status() returns it. A variable is written only on success.
// Integers may have any width in the file. Ranges are inclusive. Thread safety: none needed, a local object.
// Used by config/gguf/gguf_config.h, text/vocabulary_files/gguf_sentencepiece.cc and
// text/vocabulary_files/gguf_tokenizer.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/gguf_file.h"
#include "sluice/status.h"

namespace sluice {

class GgufFields {
 public:
  // Keys are read with `prefix` before them ("llama."). The model must outlive this.
  GgufFields(const GgufModel& model, std::string prefix) : model_(model), prefix_(std::move(prefix)) {}

  const Status& status() const { return status_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const GgufValue* find(std::string_view key) const;

  // Optional keys: absent leaves `out` as it is. For an integer there may be an array of equal ones, one a layer.
  void read(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max);
  // The f64 with the same shortest decimal as the stored f32 (1e-06, not 9.99999997e-07), as in a config.json.
  void read(std::string_view key, double& out);
  void read(std::string_view key, bool& out);
  void read(std::string_view key, std::string& out);
  void read(std::string_view key, std::vector<std::int64_t>& out, std::int64_t min, std::int64_t max);
  void read(std::string_view key, std::vector<double>& out);

  // The same for required keys.
  template <class T, class... Range>
  void require(std::string_view key, T& out, Range... range) {
    if (demand(key)) read(key, out, range...);
  }

  // Records a failure that the caller found: "<file>: key '<key>': expected <expected>, found <the value>".
  void fail(std::string_view key, std::string_view expected);

 private:
  bool demand(std::string_view key);
  const GgufArray* read_array(std::string_view key, std::string_view expected);

  const GgufModel& model_;
  std::string prefix_;
  Status status_;
};

}  // namespace sluice
