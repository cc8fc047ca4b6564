#include "cli/answer_printer.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

void write(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

AnswerPrinter::AnswerPrinter() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void AnswerPrinter::begin(Part part) {
  if (part == part_) return;
  if (part_ == Part::kReasoning) {
    terminal_ ? write(stdout, std::string(kPlain) + "\n\n") : write(stderr, "\n");
  }
  if (part == Part::kReasoning && terminal_) write(stdout, kDim);
  part_ = part;
}

void AnswerPrinter::print(const ChatDelta& delta) {
  using Kind = ChatDelta::Kind;
  if (delta.kind == Kind::kReasoning) {
    begin(Part::kReasoning);
    reasoning_ += delta.text;
    write(terminal_ ? stdout : stderr, delta.text);
    return;
  }
  begin(Part::kAnswer);
  if (delta.kind == Kind::kToolCall) {
    const bool new_line = !content_.empty() || delta.index > 0;
    write(stdout, (new_line ? "\n[tool call] " : "[tool call] ") + delta.text + " ");
    return;
  }
  if (delta.kind == Kind::kContent) content_ += delta.text;
  write(stdout, delta.text);
}

void AnswerPrinter::finish() {
  begin(Part::kAnswer);
  write(stdout, "\n");
}

}  // namespace sluice
