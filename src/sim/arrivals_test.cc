#include "sim/arrivals.h"

#include <gtest/gtest.h>

namespace sluice::arrivals_test {
namespace {

// Request 2 follows 0 after 5 s; the others arrive at 0, 1 and 2 s.
Trace four() {
  Trace trace;
  trace.requests.resize(4);
  trace.requests[1].arrival_ms = 1000;
  trace.requests[2].arrival_ms = 5000;
  trace.requests[2].after = 0;
  trace.requests[3].arrival_ms = 2000;
  return trace;
}

using Arrival = std::pair<std::size_t, double>;

TEST(ArrivalsTest, ByTheirTimes) {
  const Trace trace = four();
  Arrivals arrivals(trace, 0);
  EXPECT_EQ(arrivals.take(0), Arrival(0, 0.0));
  EXPECT_EQ(arrivals.take(0.5), std::nullopt);
  EXPECT_EQ(arrivals.next_time(0.5), 1.0);
  arrivals.ended(0, 0.75);
  EXPECT_EQ(arrivals.take(10), Arrival(1, 1.0));
  EXPECT_EQ(arrivals.take(10), Arrival(3, 2.0));
  EXPECT_EQ(arrivals.next_time(10), 10.0);
  EXPECT_EQ(arrivals.take(10), Arrival(2, 5.75));
  EXPECT_EQ(arrivals.take(10), std::nullopt);
  EXPECT_EQ(arrivals.next_time(10), std::nullopt);
}

TEST(ArrivalsTest, AsManyAsAreAllowed) {
  const Trace trace = four();
  Arrivals arrivals(trace, 2);
  EXPECT_EQ(arrivals.take(0), Arrival(0, 0.0));
  EXPECT_EQ(arrivals.take(0), Arrival(1, 0.0));
  EXPECT_EQ(arrivals.take(0), std::nullopt);
  EXPECT_EQ(arrivals.next_time(0), std::nullopt);
  arrivals.ended(0, 3);  // its place is kept for the one that follows it
  EXPECT_EQ(arrivals.take(3), std::nullopt);
  EXPECT_EQ(arrivals.next_time(3), 8.0);
  arrivals.ended(1, 4);
  EXPECT_EQ(arrivals.take(4), Arrival(3, 4.0));
  EXPECT_EQ(arrivals.take(9), Arrival(2, 8.0));
}

}  // namespace
}  // namespace sluice::arrivals_test
