// Recognises a file of an unexpected form by its first bytes, so that messages can name the cause. Thread safety: pure
// functions.
// Used by files/gguf/gguf_file.cc, files/model_path.cc, files/safetensors.cc and mapped_file.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// Fails if the file at `path`, of `size` bytes that begin with `first`, is a git-lfs pointer: a clone without git-lfs
// has one in the place of each large file.
Status check_no_lfs_pointer(const std::string& path, std::string_view first, std::size_t size);

// "a zip archive, as PyTorch writes", "an HTML page", ...; "" for an unknown form.
std::string_view foreign_form(std::string_view first);

}  // namespace sluice
