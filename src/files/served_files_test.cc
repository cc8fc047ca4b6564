#include "files/served_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/storage/mapping_guard.h"
#include "base/storage/temp_folder_testing.h"

namespace sluice::served_files_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string& content() {
  static const std::string text(std::size_t{10} * 4096, 'x');
  return text;
}

void write_at(const std::string& path, std::size_t offset, std::string_view text) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// The times of the last read and write as they were.
void write_and_restore_times(const std::string& path, std::size_t offset, std::string_view text) {
  struct stat before{};
  ::stat(path.c_str(), &before);
  write_at(path, offset, text);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

void write_through_a_mapping(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR);
  void* data = ::mmap(nullptr, content().size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  static_cast<char*>(data)[5000] = '!';
  ::munmap(data, content().size());
}

// The clock of files ticks every few milliseconds.
void let_times_tick() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

struct Case {
  const char* name;
  std::function<void(const std::string& path)> act;
  const char* says;  // "": nothing has changed
  // The message where the bytes cannot be compared; null: the same.
  const char* says_uncompared = nullptr;
};

std::vector<Case> cases() {
  return {
      {"nothing", [](const std::string&) {}, ""},
      {"cut", [](const std::string& path) { fs::resize_file(path, 100); }, "found 100"},
      {"emptied", [](const std::string& path) { fs::resize_file(path, 0); }, "found 0"},
      {"appended", [](const std::string& path) { write_at(path, content().size(), "y"); }, "found 40961"},
      {"cut and grown again",
       [](const std::string& path) {
         fs::resize_file(path, 100);
         fs::resize_file(path, content().size());
       },
       "bytes are others", "written to"},
      {"overwritten", [](const std::string& path) { write_at(path, 5000, "y"); }, "bytes are others", "written to"},
      {"overwritten, times restored", [](const std::string& path) { write_and_restore_times(path, 5000, "y"); },
       "bytes are others", "written to"},
      {"overwritten through a mapping", write_through_a_mapping, "bytes are others", "does not say why"},
      {"a hole",
       [](const std::string& path) {
         const int fd = ::open(path.c_str(), O_RDWR);
         ASSERT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
         ::close(fd);
       },
       "bytes are others", "written to"},
      {"the same bytes", [](const std::string& path) { write_at(path, 5000, "x"); }, "", "written to"},
      {"another mode", [](const std::string& path) { ::chmod(path.c_str(), 0400); }, ""},
      {"a link", [](const std::string& path) { fs::create_hard_link(path, path + ".link"); }, ""},
      {"touched", [](const std::string& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }, ""},
      {"older times",
       [](const std::string& path) {
         const timespec times[2] = {{1, 0}, {2, 0}};
         ::utimensat(AT_FDCWD, path.c_str(), times, 0);
       },
       ""},
      {"another name", [](const std::string& path) { fs::rename(path, path + ".new"); }, ""},
      {"removed", [](const std::string& path) { fs::remove(path); }, ""},
      {"replaced",
       [](const std::string& path) {
         std::ofstream(path + ".new") << "other";
         fs::rename(path + ".new", path);
       },
       ""},
      {"removed, and cut by who had it open",
       [](const std::string& path) {
         const int fd = ::open(path.c_str(), O_RDWR);
         fs::remove(path);
         ASSERT_EQ(::ftruncate(fd, 10), 0);
         ::close(fd);
       },
       "found 10"},
  };
}

// By check() alone, as after a step, and by look() alone, as while nothing runs.
void try_cases(bool compares) {
  for (const Case& c : cases()) {
    for (const bool looks : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (looks ? ", look()" : ", check()"));
      const TempFolder folder;
      const std::string path = folder.write("model.safetensors", content());
      const MappedFile file = MappedFile::open(path).value();
      if (compares) file.share()->content();
      ServedFiles files;
      files.add(file.share());
      EXPECT_TRUE(files.check().ok());
      let_times_tick();
      c.act(path);
      // In memory (tmpfs) a write through a mapping changes no times.
      if (std::string(c.name).ends_with("a mapping") && *file.share()->identity_now() == file.identity()) continue;
      const std::string says = compares || c.says_uncompared == nullptr ? c.says : c.says_uncompared;
      for (int time = 0; time < 2; ++time) {
        const Status status = looks ? files.look() : files.check();
        EXPECT_EQ(status.ok(), says.empty()) << status.message();
        if (says.empty()) continue;
        EXPECT_EQ(status.code(), StatusCode::kUnavailable);
        EXPECT_THAT(status.message(), HasSubstr("model.safetensors"));
        EXPECT_THAT(status.message(), HasSubstr(says));
      }
    }
  }
}

TEST(ServedFiles, BytesThatCanBeComparedDecide) {
  try_cases(true);
}

TEST(ServedFiles, ElseTheSystemsEventsDo) {
  try_cases(false);
}

TEST(ServedFiles, WhatHasChangedStaysSo) {
  const TempFolder folder;
  const std::string path = folder.write("a", content());
  const MappedFile file = MappedFile::open(path).value();
  file.share()->content();
  ServedFiles files;
  files.add(file.share());
  let_times_tick();
  write_at(path, 5000, "y");
  EXPECT_FALSE(files.check().ok());
  write_at(path, 5000, "x");
  EXPECT_FALSE(files.check().ok()) << "what was computed in between may be kept";
}

TEST(ServedFiles, AFileThatCouldNotBeReadHasChanged) {
  guard_mappings();
  const TempFolder folder;
  const std::string path = folder.write("a", content());
  const MappedFile file = MappedFile::open(path).value();
  ServedFiles files;
  files.add(file.share());
  fs::resize_file(path, 0);
  EXPECT_EQ(file.bytes()[5000], std::byte{0});
  std::ofstream(path) << content();
  EXPECT_FALSE(files.check().ok());
}

// Times may have been taken while a write was under way.
TEST(ServedFiles, ComparesOnceMore) {
  const TempFolder folder;
  const MappedFile file = MappedFile::open(folder.write("a", content())).value();
  int asked = 0;
  bool same = true;
  ServedFiles files;
  files.add(file.share(), [&] { return ++asked, same; });
  let_times_tick();
  ::utimensat(AT_FDCWD, file.path().c_str(), nullptr, 0);
  EXPECT_TRUE(files.check().ok());
  EXPECT_TRUE(files.look().ok());
  const int before = asked;
  same = false;
  EXPECT_TRUE(files.look().ok()) << "not yet";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_TRUE(files.check().ok()) << "the step loop does not wait for it";
  EXPECT_EQ(asked, before);
  EXPECT_FALSE(files.look().ok());
}

TEST(ServedFiles, NamesThatAreNoUtf8) {
  const TempFolder folder;
  const MappedFile file = MappedFile::open(folder.write("\xFF.safetensors", content())).value();
  ServedFiles files;
  files.add(file.share());
  fs::resize_file(file.path(), 1);
  EXPECT_THAT(files.check().message(), HasSubstr("\xEF\xBF\xBD.safetensors"));
}

}  // namespace
}  // namespace sluice::served_files_test
