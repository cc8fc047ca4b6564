// Used by files/gguf/gguf_file.cc, files/model_path.cc, files/safetensors.cc and mapped_file.cc.
#include "base/storage/file_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace sluice {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs";
constexpr std::size_t kMostLfsBytes = 1024;  // git-lfs's limit for a pointer file

// The number after "size " of a pointer: "4976698672"; "" if there is none.
std::string_view lfs_size(std::string_view text) {
  const std::size_t at = text.find("\nsize ");
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + 6);
  return text.substr(0, std::ranges::find_if_not(text, [](char c) { return c >= '0' && c <= '9'; }) - text.begin());
}

bool begins_with(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::ranges::equal(text.substr(0, lower_case.size()), lower_case, {},
                            [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
}

}  // namespace

Status check_no_lfs_pointer(const std::string& path, std::string_view first, std::size_t size) {
  if (size > kMostLfsBytes || !first.starts_with(kLfsPointer)) return {};
  const std::string_view bytes = lfs_size(first);
  const std::size_t slash = path.rfind('/');
  return invalid_argument(
      fmt::format("{}: expected the file itself{}, found the git-lfs pointer that stands for it ({} bytes); install "
                  "git-lfs and run "
                  "'git lfs pull' in {}",
                  path, bytes.empty() ? "" : fmt::format(" of {} bytes", bytes), size,
                  slash == std::string::npos ? "its folder" : path.substr(0, slash)));
}

std::string_view foreign_form(std::string_view first) {
  constexpr std::size_t kShown = 16;
  struct Form {
    std::string_view begins, is;
  };
  static constexpr std::array kForms = {
      Form{"GGUF", "a GGUF file"},
      Form{"PK\x03\x04", "a zip archive, as PyTorch writes its weights"},
      Form{"\x80\x02", "a Python pickle, as PyTorch writes its weights"},
      Form{"\x89HDF", "an HDF5 file, as TensorFlow writes its weights"},
      Form{"\x1f\x8b", "a gzip archive"},
      Form{"\x28\xb5\x2f\xfd", "a zstd archive"},
      Form{"\xfd"
           "7zXZ",
           "an xz archive"},
      Form{"lmgg", "a file of the form before GGUF (ggml)"},
      Form{"fmgg", "a file of the form before GGUF (ggmf)"},
      Form{"tjgg", "a file of the form before GGUF (ggjt)"},
      Form{"version https://git-lfs", "a git-lfs pointer"},
  };
  for (const Form& form : kForms) {
    if (first.starts_with(form.begins)) return form.is;
  }
  while (!first.empty() && std::isspace(static_cast<unsigned char>(first.front())) != 0) first.remove_prefix(1);
  if (begins_with(first, "<!doctype html") || begins_with(first, "<html")) {
    return "an HTML page, as a download that failed leaves";
  }
  const std::string_view shown = first.substr(0, kShown);
  return shown.starts_with("{\"error\"") ? "the error answer of a server, as a download that failed leaves" : "";
}

}  // namespace sluice
