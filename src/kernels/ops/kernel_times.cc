// Used by kernels/cuda/device.h, kernels/cuda/runtime/kernel_tracer.h, src/bench/speed_case.h and
// src/bench/step_kernels.h.
#include "kernels/ops/kernel_times.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace sluice {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

// The text without namespaces, and without the types of enumerators: "(sluice::StripKind)0" becomes "0".
std::string without_scopes(std::string_view text) {
  std::string left;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with("(anonymous namespace)::")) {
      i += std::string_view("(anonymous namespace)::").size();
    } else if (text.substr(i).starts_with("::")) {
      while (!left.empty() && (std::isalnum(static_cast<unsigned char>(left.back())) || left.back() == '_'))
        left.pop_back();
      i += 2;
    } else if (text[i] == ')') {
      const std::size_t open = left.rfind('(');
      left.erase(open == std::string::npos ? left.size() : open);
      ++i;
    } else {
      left += text[i++];
    }
  }
  return left;
}

}  // namespace

std::vector<KernelTime> join_kernels(std::vector<KernelTime> records, const std::vector<EnqueuedKernel>& enqueued) {
  std::ranges::stable_sort(records, {}, &KernelTime::start_ns);
  std::size_t next = 0;
  for (KernelTime& record : records) {
    // A lost record leaves a kernel without one: the record's own kernel is looked for a little further on.
    constexpr std::size_t kAhead = 64;
    const std::size_t end = std::min(enqueued.size(), next + kAhead);
    std::size_t at = next;
    while (at < end && enqueued[at].name != record.name) ++at;
    if (at == end) continue;
    record.stage = enqueued[at].stage;
    next = at + 1;
  }
  return records;
}

std::string short_kernel_name(const std::string& name) {
  std::string text = demangled(name);
  constexpr std::string_view kRun = "run_teams<";
  std::size_t begin = text.find(kRun), end = 0;
  if (begin != std::string::npos) {  // keeps only its first argument
    begin += kRun.size(), end = begin;
    for (int depth = 0; end < text.size(); ++end) {
      const char c = text[end];
      if (depth == 0 && (c == ',' || c == '>')) break;
      depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
    }
    return without_scopes(std::string_view(text).substr(begin, end - begin));
  }
  if (text.starts_with("void ")) text.erase(0, 5);
  for (std::size_t at = 0; (at = text.find('(', at)) != std::string::npos; ++at) {  // its parameters
    if (!std::string_view(text).substr(at).starts_with("(anonymous namespace)")) {
      text.erase(at);
      break;
    }
  }
  return without_scopes(text);
}

}  // namespace sluice
