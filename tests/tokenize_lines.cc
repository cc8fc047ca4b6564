// tokenize_lines FOLDER: a helper of tests/tokenizer_test.py.
//
// Loads the tokenizer in FOLDER, reads requests from stdin and answers each with one line of JSON on stdout. A request
// is a line "COMMAND OPTIONS LENGTH" and LENGTH bytes of text:
//   encode a|- n|-   ids of the text; "a" adds special tokens, "n" takes special tokens for text
//   decode s|- -     the text is ids split by spaces; "s" skips special tokens; answers the bytes in hexadecimal
//   stream s|- -     the same through StreamingDetokenizer; answers the list of pieces, in hexadecimal
//   time - -         encodes the text once and answers the seconds of processor time it took
// A failure answers {"error": MESSAGE}.
#include <fmt/format.h>

#include <ctime>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "files/json.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {
namespace {

// Processor time, so that a busy machine does not count.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string error_line(const Status& status) {
  std::string line = "{\"error\": ";
  append_json_string(line, status.message());
  return line + "}";
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::int32_t> ids;
  for (std::int32_t id; in >> id;) ids.push_back(id);
  return ids;
}

std::string stream(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool skip_special) {
  StreamingDetokenizer detokenizer(tokenizer, skip_special);
  std::string line = "[";
  for (const std::int32_t id : ids) line += fmt::format("\"{}\", ", hexadecimal(detokenizer.push(id)));
  return line + fmt::format("\"{}\"]", hexadecimal(detokenizer.finish()));
}

std::string answer(const Tokenizer& tokenizer, const std::string& command, const std::string& first,
                   const std::string& second, const std::string& text) {
  if (command == "decode") return fmt::format("\"{}\"", hexadecimal(tokenizer.decode(parse_ids(text), first == "s")));
  if (command == "stream") return stream(tokenizer, parse_ids(text), first == "s");
  const std::clock_t start = std::clock();
  const auto ids = tokenizer.encode(text, {.add_special_tokens = first == "a", .parse_special = second != "n"});
  const double seconds = seconds_since(start);
  if (!ids.ok()) return error_line(ids.status());
  if (command == "time") return fmt::format("{}", seconds);
  return fmt::format("[{}]", fmt::join(*ids, ","));
}

int run(const std::string& folder) {
  const std::clock_t start = std::clock();
  const auto tokenizer = Tokenizer::load(folder);
  const double seconds = seconds_since(start);
  if (!tokenizer.ok()) {
    std::cout << error_line(tokenizer.status()) << std::endl;
    return 0;
  }
  std::cout << fmt::format("{{\"load_seconds\": {}, \"vocab_size\": {}}}", seconds, (*tokenizer)->vocab_size())
            << std::endl;
  std::string command, first, second, text;
  for (std::size_t length; std::cin >> command >> first >> second >> length;) {
    std::cin.get();  // the line's end
    text.resize(length);
    if (!std::cin.read(text.data(), static_cast<std::streamsize>(length))) break;
    std::cout << answer(**tokenizer, command, first, second, text) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines FOLDER\n";
    return 2;
  }
  return sluice::run(argv[1]);
}
