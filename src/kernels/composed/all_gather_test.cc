// all_gather (kernels/ops/all_gather.h): the rows that ranks of one process make of their shares, in every form.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "kernels/device/gather_case_testing.h"
#include "kernels/device/host_exchange.h"
#include "kernels/ops/ops.h"

namespace sluice::all_gather_test {
namespace {

// Calls the function for each of `ranks`, on threads of their own; returns why the group ended, empty if it has not.
std::string on_ranks(int ranks, const KernelTable* kernels, const std::function<void(const Exec& exec)>& of_rank) {
  HostExchange exchange(ranks, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadPool pool(1);
      Exec exec{&pool, kernels};
      exec.group = {rank, ranks, &exchange};
      of_rank(exec);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return exchange.status().message();
}

// Shares that are whole blocks and shares that are not, with their forms and without; all other memory stays as it was.
TEST(AllGather, RowsAndTheirFormsAreThoseOfTheWholeRow) {
  Random random(801);
  for (const KernelTable* kernels : all_tables()) {
    for (int turn = 0; turn < 40; ++turn) {
      const int ranks = random.pick(std::vector{2, 3, 4, 8}),
                columns = random.pick(std::vector{16, 48, 128, 144, 256, 384});
      const GatherCase gather(random, ranks, random.between(1, 9), columns);
      SCOPED_TRACE(gather.text());
      std::vector<std::vector<float>> memory(static_cast<std::size_t>(ranks), std::vector<float>(gather.floats()));
      const std::string failure = on_ranks(ranks, kernels, [&](const Exec& exec) {
        std::vector<float>& own = memory[static_cast<std::size_t>(exec.group.rank)];
        std::memcpy(own.data(), gather.before(exec.group.rank).data(), own.size() * sizeof(float));
        all_gather(exec, gather.args(own.data()));
      });
      ASSERT_EQ(failure, "");
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<std::uint32_t> expected = gather.after(rank);
        ASSERT_EQ(std::memcmp(memory[static_cast<std::size_t>(rank)].data(), expected.data(),
                              expected.size() * sizeof(std::uint32_t)),
                  0)
            << "rank " << rank;
      }
    }
  }
}

// A rank that skips an exchange comes with other rows to the next one, or never: both end the group, whose status says
// why.
TEST(AllGather, ARankThatSkipsAnExchangeIsNamed) {
  for (const bool comes_late : {true, false}) {
    const std::string failure = on_ranks(2, all_tables().front(), [&](const Exec& exec) {
      HostExchange& exchange = static_cast<HostExchange&>(*exec.group.exchange);
      std::vector<float> from(5 * 32), to(5 * 64, -1.0F);
      const auto gather = [&](int rows) {
        all_gather(exec, {rows, contiguous_rows(from.data(), 32), contiguous_rows(to.data(), 64)});
      };
      if (exec.group.rank == 0) gather(5);
      if (exec.group.rank == 0 || comes_late) gather(1);
      if (exec.group.rank == 1 && !comes_late) exchange.fail(1, "it left");
      EXPECT_EQ(to, std::vector<float>(to.size(), -1.0F));
    });
    EXPECT_NE(failure.find(comes_late ? "came to another exchange than rank" : "rank 1 of 2: it left"),
              std::string::npos)
        << failure;
  }
}

}  // namespace
}  // namespace sluice::all_gather_test
