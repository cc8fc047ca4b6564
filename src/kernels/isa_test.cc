#include <gmock/gmock.h>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu_features.h"
#include "kernels/op_testing.h"

namespace sluice::kernel_table_test {
namespace {

using ::testing::HasSubstr;

TEST(KernelTable, AutoTakesTheBestAndEveryPresentIsaCanBeForced) {
  const auto tables = all_tables();
  const auto best = select_kernels("auto");
  ASSERT_TRUE(best.ok());
  EXPECT_EQ(*best, tables.back());
  for (const KernelTable* table : tables) {
    const auto forced = select_kernels(table->isa);
    ASSERT_TRUE(forced.ok()) << table->isa;
    EXPECT_EQ(*forced, table);
  }
}

TEST(KernelTable, UnknownOrAbsentIsaIsAnErrorThatSaysWhatThereIs) {
  const auto unknown = select_kernels("avx1024");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("avx1024"));
  EXPECT_THAT(unknown.status().message(), HasSubstr(cpu_isas()));
  for (const char* isa : {"avx2", "avx512", "avx512vbmi"}) {
    const auto forced = select_kernels(isa);
    EXPECT_EQ(forced.ok(), (", " + cpu_isas() + ",").find(std::string(" ") + isa + ",") != std::string::npos);
    if (!forced.ok()) {
      EXPECT_THAT(forced.status().message(), HasSubstr(cpu_isas()));
    }
  }
}

TEST(KernelTable, DescribesWhereEachKernelComesFrom) {
  for (const KernelTable* table : all_tables()) {
    const auto rows = describe_kernels(*table);
    EXPECT_GE(rows.size(), 16U);
    for (const KernelRow& row : rows) {
      EXPECT_FALSE(row.op.empty());
      EXPECT_FALSE(row.why.empty());
      const bool lower = row.isa == "avx512" && table == avx512vbmi_kernels();
      EXPECT_TRUE(lower || row.isa == table->isa) << row.op << " of " << row.isa << ": these tables are complete";
    }
  }
  KernelTable mixed = *all_tables().back();
  mixed.route = scalar_kernels().route;
  for (const KernelRow& row : describe_kernels(mixed)) {
    if (row.op == "route") {
      EXPECT_EQ(row.isa, "scalar");
    }
  }
}

}  // namespace
}  // namespace sluice::kernel_table_test
