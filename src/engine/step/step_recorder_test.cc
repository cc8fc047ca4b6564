#include "engine/step/step_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/sanitizer_testing.h"

namespace sluice::step_recorder_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

StepItem item(std::uint32_t sequence, int a = 0) {
  return {.kind = StepItem::Kind::kSpan, .flags = 1, .detail = 7, .sequence = sequence, .a = a, .b = -3};
}

// Everything in a record follows from its number.
void write(StepRecorder& recorder, int number, int items) {
  for (int i = 0; i < items; ++i) recorder.add(item(static_cast<std::uint32_t>(number), i));
  StepRecord counts;
  counts.begin_ns = number * 1000L;
  counts.end_ns = number * 1000L + 500;
  counts.rows = number + 1;
  counts.running = number + 2;
  counts.waiting = number + 3;
  counts.latent_used = number + 4;
  counts.latent_cached = number + 5;
  counts.window_used = number + 6;
  counts.window_cached = number + 7;
  counts.slots_used = number + 8;
  counts.swap_bytes = number + (std::int64_t{1} << 40);
  recorder.close(counts);
}

void expect_whole(const StepRecord& record) {
  const auto number = static_cast<int>(record.number);
  EXPECT_EQ(record.begin_ns, number * 1000L);
  EXPECT_EQ(record.end_ns, number * 1000L + 500);
  EXPECT_THAT(
      (std::vector{record.rows, record.running, record.waiting, record.latent_used, record.latent_cached,
                   record.window_used, record.window_cached, record.slots_used}),
      ElementsAre(number + 1, number + 2, number + 3, number + 4, number + 5, number + 6, number + 7, number + 8));
  EXPECT_EQ(record.swap_bytes, number + (std::int64_t{1} << 40));
  for (std::size_t i = 0; i < record.items.size(); ++i) {
    ASSERT_EQ(record.items[i], item(static_cast<std::uint32_t>(number), static_cast<int>(i))) << number;
  }
}

TEST(StepRecorderTest, ReadsWhatWasWritten) {
  StepRecorder recorder;
  EXPECT_THAT(recorder.read(0, 10), IsEmpty());
  recorder.add(item(9));
  EXPECT_THAT(recorder.read(0, 10), IsEmpty()) << "of an open record nothing is seen";
  recorder.close({});
  EXPECT_THAT(recorder.read(0, 10), SizeIs(1));
  for (int number = 1; number < 20; ++number) write(recorder, number, number % 3);
  const auto records = recorder.read(1, 10);
  ASSERT_THAT(records, SizeIs(10));
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(records[i].number, i + 1);
    EXPECT_THAT(records[i].items, SizeIs((i + 1) % 3));
    expect_whole(records[i]);
  }
  EXPECT_THAT(recorder.read(20, 10), IsEmpty());
}

TEST(StepRecorderTest, KeepsTheLast4096) {
  StepRecorder recorder;
  for (int number = 0; number < 10'000; ++number) write(recorder, number, 100);
  const auto records = recorder.read(0, 10'000);
  ASSERT_THAT(records, SizeIs(4096));
  EXPECT_EQ(records.front().number, 10'000U - 4096);
  for (const StepRecord& record : records) {
    EXPECT_THAT(record.items, SizeIs(100));
    expect_whole(record);
  }
}

TEST(StepRecorderTest, LargeRecordsLeaveRoomForFewer) {
  StepRecorder recorder;
  for (int number = 0; number < 40; ++number) write(recorder, number, 60'000);
  const auto records = recorder.read(0, 100);
  EXPECT_THAT(records, SizeIs(8));  // each of 120,009 words in 1,048,576
  for (const StepRecord& record : records) expect_whole(record);
  constexpr std::size_t kMost = StepRecorder::kMostWords / 2;
  for (std::size_t i = 0; i < kMost + 5; ++i) recorder.add(item(1));
  recorder.close({});
  const auto last = recorder.read(40, 1);
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_THAT(last[0].items, SizeIs(kMost));
  EXPECT_EQ(last[0].lost, 5);
}

// The writer overtakes the reader all the time: nine records fill the ring, and the oldest is read first.
// Some of them at the end of the ring, where they go on at its beginning; and more than a record has room for.
TEST(StepRecorderTest, DecodesAreSpansOfOneRow) {
  StepRecorder recorder;
  for (const std::size_t count :
       {1U, 1000U, 70'000U, 131'071U, 131'072U, 70'000U, 130'000U, 131'000U, 131'000U, 131'000U, 131'000U, 3U}) {
    std::vector<std::uint64_t> decodes;
    for (std::size_t i = 0; i < count; ++i) decodes.push_back(StepRecorder::decode(7U << 28, static_cast<int>(i)));
    EXPECT_EQ(recorder.add_decodes(5, [](std::size_t, std::uint64_t*) { return false; }), 0U);
    EXPECT_EQ(recorder.add_decodes(count + 1,
                                   [&](std::size_t j, std::uint64_t* word) {
                                     if (j < count) *word = decodes[j];
                                     return j < count;
                                   }),
              count);
    recorder.add(item(1));
    recorder.close({});
    const auto records = recorder.read(recorder.closed() - 1, 1);
    ASSERT_THAT(records, SizeIs(1));
    const std::size_t kept = std::min<std::size_t>(count, StepRecorder::kMostWords - 1);
    const bool has_last = kept + 3 <= StepRecorder::kMostWords;
    ASSERT_THAT(records[0].items, SizeIs(kept + has_last));
    EXPECT_EQ(static_cast<std::size_t>(records[0].lost), count - kept + !has_last);
    for (std::size_t i = 0; i < kept; ++i) {
      const StepItem expected{.kind = StepItem::Kind::kSpan,
                              .flags = StepItem::kSamples,
                              .sequence = 7U << 28,
                              .a = static_cast<int>(i),
                              .b = 1};
      ASSERT_EQ(records[0].items[i], expected);
    }
  }
}

TEST(StepRecorderTest, AReaderSeesWholeRecordsOrNone) {
  StepRecorder recorder;
  constexpr int kSteps = kSanitized ? 100 : 400;
  std::thread writer([&] {
    for (int number = 0; number < kSteps; ++number) write(recorder, number, 60'000 - number % 7 * 1000);
  });
  std::uint64_t next = 0, seen = 0;
  while (next < kSteps) {
    for (const StepRecord& record : recorder.read(next, 9)) {
      EXPECT_GE(record.number, next);
      EXPECT_EQ(record.items.size(), 60'000 - record.number % 7 * 1000);
      expect_whole(record);
      next = record.number + 1;
      ++seen;
    }
  }
  writer.join();
  EXPECT_GT(seen, 0U);
}

// The writer is a signal handler of the reader's own thread, so it comes between two loads of it on any machine. It
// always reads the oldest record, which the next one overwrites.
TEST(StepRecorderTest, AReaderThatIsOvertakenReturnsNothingOfIt) {
  constexpr int kSteps = kSanitized ? 60 : 120;
  static StepRecorder* recorder = nullptr;
  static std::atomic<int> written = 0;
  StepRecorder own;
  recorder = &own, written = 0;
  while (written < 20) write(own, written, 60'000), ++written;
  const auto before = std::signal(SIGALRM, [](int) { write(*recorder, written, 60'000), ++written; });
  int seen = 0;
  const auto read = [&] {
    for (const StepRecord& record : own.read(0, 1)) {
      EXPECT_EQ(record.items.size(), 60'000U);
      expect_whole(record);
      ++seen;
    }
  };
  for (int microseconds = 1; written < kSteps && !HasFailure(); microseconds = microseconds % 300 + 7) {
    const itimerval once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
    const int so_far = written;
    ASSERT_EQ(setitimer(ITIMER_REAL, &once, nullptr), 0);
    read();
    while (written == so_far) std::this_thread::yield();  // a record for each read, early or late
  }
  std::signal(SIGALRM, before);
  read();
  EXPECT_GT(seen, 0);
}

TEST(StepRecorderTest, BlocksHaveOtherNamesInEveryEngine) {
  const StepRecorder one, other;
  EXPECT_EQ(one.block(1, 5).id(), one.block(2, 5).id());
  EXPECT_NE(one.block(1, 5).id(), one.block(1, 6).id());
  EXPECT_NE(one.block(1, 5).id(), other.block(1, 5).id());
  EXPECT_LT(one.block(1, 5).id(), std::int64_t{1} << 52);
  EXPECT_GE(one.block(1, 5).id(), 0);
}

}  // namespace
}  // namespace sluice::step_recorder_test
