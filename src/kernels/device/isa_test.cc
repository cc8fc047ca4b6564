#include "kernels/device/isa.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/device/cpu_features.h"
#include "kernels/tests/op_testing.h"

namespace sluice::kernel_table_test {
namespace {

using ::testing::HasSubstr;

TEST(KernelTable, AutoTakesTheBestAndEveryPresentIsaCanBeForced) {
  const auto tables = present_kernels();
  const auto best = select_kernels("auto");
  ASSERT_TRUE(best.ok());
  EXPECT_EQ(*best, tables.front());
  for (const KernelTable* table : tables) {
    const auto forced = select_kernels(table->isa);
    ASSERT_TRUE(forced.ok()) << table->name;
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

// The rows of `sluice kernels` for `entry`, `inputs` and a format on a machine with such features, this one or not:
// "rows kernel", one after the other. Tables hold pointers alone: no kernel of them runs here.
std::string kernels_of(CpuFeatures features, std::string_view entry, std::string_view format = "",
                       std::string_view inputs = "") {
  std::string text;
  for (const KernelRow& row : describe_kernels(kernels_with(features))) {
    if (row.entry != entry || row.format != format || !row.note.empty()) continue;
    if (row.inputs.find(inputs) == std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + (row.rows.empty() ? row.kernel : row.rows + " " + row.kernel);
  }
  return text;
}

using enum CpuFeature;
constexpr CpuFeatures kSkylake{kAvx2, kAvx512, kReadsAhead};
constexpr CpuFeatures kCascadeLake{kAvx2, kAvx512, kVnni, kReadsAhead};
constexpr CpuFeatures kSapphireRapids{kAvx2,    kAvxVnni, kAvx512,  kVnni,      kAvx512Vbmi,
                                      kBf16Dot, kAmx,     kAmxBf16, kReadsAhead};
constexpr CpuFeatures kZen4{kAvx2, kAvx512, kVnni, kAvx512Vbmi, kBf16Dot, kFastBf16Dot, kScalesByExponents};

TEST(KernelTable, ChoosesIntegerProductsByFeaturesAndRows) {
  EXPECT_EQ(kernels_of({}, "linear", "mxfp4", "int8"), "1+ scalar_linear");
  EXPECT_EQ(kernels_of({kAvx2}, "linear", "mxfp4", "int8"), "1+ avx2::linear_mxfp4_int8");
  EXPECT_EQ(kernels_of({kAvx2, kAvxVnni}, "linear", "codes", "int8"), "1+ avx2_vnni::linear_codes_int8");
  EXPECT_EQ(kernels_of(kSkylake, "linear", "mxfp4", "int8"), "1+ avx512::linear_mxfp4_int8");
  EXPECT_EQ(kernels_of(kCascadeLake, "linear", "mxfp4", "int8"),
            "1-5 avx512_vnni::linear_mxfp4_int8_ahead, 6+ avx512_vnni::linear_mxfp4_int8");
  EXPECT_EQ(kernels_of(kZen4, "linear", "codes", "int8"), "1+ avx512_vnni::linear_codes_int8");
  EXPECT_EQ(kernels_of(kSapphireRapids, "linear", "mxfp4", "int8"),
            "1-5 avx512vbmi_vnni::linear_mxfp4_int8_ahead, 6-11 avx512vbmi_vnni::linear_mxfp4_int8, "
            "12+ avx512_amx::linear_mxfp4_int8");
  EXPECT_EQ(kernels_of(kSapphireRapids.without(kVnni), "linear", "mxfp4", "int8"), "1+ avx512::linear_mxfp4_int8");
}

TEST(KernelTable, ChoosesTheDotWhereItIsFastAndForFewRows) {
  EXPECT_EQ(kernels_of(kSapphireRapids, "linear", "fp8", "bf16"),
            "1-6 avx512_bf16::linear_fp8_ahead, 7-16 avx512vbmi::linear_fp8, 17+ avx512vbmi::linear_fp8_panels");
  EXPECT_EQ(kernels_of(kZen4, "linear", "fp8", "bf16"),
            "1-32 avx512_bf16::linear_fp8, 33+ avx512_bf16::linear_fp8_panels");
  EXPECT_EQ(kernels_of(kZen4, "linear", "mxfp4", "bf16"),
            "1-12 avx512_bf16::linear_mxfp4, 13+ avx512_bf16::linear_mxfp4_panels");
  EXPECT_EQ(kernels_of(kZen4.without(kFastBf16Dot), "linear", "bf16", "bf16"),
            "1 avx512_bf16::linear_bf16, 2+ avx512::linear_bf16");
  EXPECT_EQ(kernels_of(kZen4, "attend_bf16"), "avx512_bf16::attend_bf16");
  EXPECT_EQ(kernels_of(kZen4, "attend_bf16_odd"), "avx512::attend_bf16");
  EXPECT_EQ(kernels_of(kZen4, "attend_tiles"), "avx512::attend_columns");
  EXPECT_EQ(kernels_of(kZen4, "index_scores_fp8"), "avx512_bf16::index_scores_fp8");
  EXPECT_EQ(kernels_of(kZen4, "index_scores_fp4"), "avx512_vnni::index_scores_fp4_by_exponents");
  EXPECT_EQ(kernels_of(kSapphireRapids, "attend_bf16"), "avx512::attend_bf16");
  EXPECT_EQ(kernels_of(kSapphireRapids, "attend_tiles"), "avx512_amx::attend_tiles");
  EXPECT_EQ(kernels_of(kSapphireRapids, "index_scores_fp8"), "avx512::index_scores");
  EXPECT_EQ(kernels_of(kSapphireRapids, "index_scores_fp4"), "avx512_vnni::index_scores_fp4");
}

TEST(KernelTable, AsksAheadForLargeWeightsOnly) {
  const auto chosen = [](int out, int rows) {
    const WeightView view{.format = WeightFormat::kFp8,
                          .out = out,
                          .in = 512,
                          .scale_format = ScaleFormat::kE8m0,
                          .block_out = 128,
                          .block_in = 128};
    return std::string(kernels_with(kSapphireRapids).linear.kernel(view, InputForm::kBf16, rows).name);
  };
  EXPECT_EQ(chosen(256, 1), "avx512_bf16::linear_fp8");
  EXPECT_EQ(chosen(256, 2), "avx512vbmi::linear_fp8");
  EXPECT_EQ(chosen(257, 1), "avx512_bf16::linear_fp8_ahead");
  EXPECT_EQ(chosen(257, 6), "avx512_bf16::linear_fp8_ahead");
  EXPECT_EQ(chosen(257, 7), "avx512vbmi::linear_fp8");
}

TEST(KernelTable, ChoosesTilesForSomeRowsInTheirOrder) {
  EXPECT_EQ(kernels_of({}, "linear", "fp8", "tiles"), "1+ scalar_linear");
  EXPECT_EQ(kernels_of({kAvx2}, "linear", "mxfp4", "tiles"),
            "1-5 avx2::linear_mxfp4_slices, 6+ avx2::linear_mxfp4_slices_panels");
  EXPECT_EQ(kernels_of(kSapphireRapids, "linear", "fp8", "tiles"),
            "1 avx512_amx::linear_fp8_tile_row, 2+ avx512_amx::linear_fp8_tiles");
  EXPECT_EQ(kernels_of(kSapphireRapids, "linear", "mxfp4", "tiles"),
            "1 avx512::linear_mxfp4_slices_ahead, 2+ avx512_amx::linear_mxfp4_tiles");
  EXPECT_EQ(kernels_of(kSapphireRapids.without(kAmxBf16), "linear", "bf16", "tiles"),
            "1 avx512::linear_bf16_slices_ahead, 2-5 avx512::linear_bf16_slices, "
            "6+ avx512::linear_bf16_slices_panels");
  EXPECT_EQ(kernels_of(kZen4.with(kEmulatedTiles), "linear", "mxfp4", "tiles"),
            "1 avx512::linear_mxfp4_slices, 2+ avx512vbmi::linear_mxfp4_tiles");
  EXPECT_EQ(kernels_of(kZen4, "linear", "codes", "tiles"), "");
}

TEST(KernelTable, ChoosesPanelsWhereTheyPay) {
  EXPECT_EQ(kernels_of({kAvx2}, "linear", "f32", "f32"), "1-7 avx2::linear_f32, 8+ avx2::linear_f32_panels");
  EXPECT_EQ(kernels_of(kSkylake, "linear", "f32", "f32"), "1+ avx512::linear_f32");
  EXPECT_EQ(kernels_of(kSkylake, "linear", "bf16", "f32"), "1-16 avx512::linear_bf16, 17+ avx512::linear_bf16_panels");
  EXPECT_EQ(kernels_of(kSkylake.without(kReadsAhead), "linear", "bf16", "f32"), "1+ avx512::linear_bf16");
  EXPECT_EQ(kernels_of(kSkylake, "linear", "mxfp4", "bf16"),
            "1-12 avx512::linear_mxfp4, 13+ avx512::linear_mxfp4_panels");
}

// Whatever the features, each entry has a kernel, and each weight has one for every number of rows and every block.
TEST(KernelTable, EveryTableIsComplete) {
  std::size_t entries = 0;
  for (const CpuFeatures machine : {CpuFeatures{}, kSkylake, kCascadeLake, kSapphireRapids, kZen4}) {
    for (int i = 0; i < kCpuFeatures; ++i) {
      const KernelTable& table = kernels_with(machine.without(static_cast<CpuFeature>(i)));
      if (entries == 0) entries = table.chosen.size();
      EXPECT_EQ(table.chosen.size(), entries) << table.features.text();
      for (int i = 0; i < 2 * kWeightFormats; ++i) {
        const WeightFormatInfo& info = weight_formats()[static_cast<std::size_t>(i / 2)];
        const bool f32_scales = i % 2 == 1;
        if (f32_scales && !info.f32_scales) continue;
        const auto& cell = table.linear.cell(info.format, f32_scales, InputForm::kF32);
        const auto last = std::ranges::find(cell, nullptr) - 1;
        ASSERT_GE(last, cell.begin()) << table.features.text();
        for (const int block : {1, 32, 33, 128, 4096}) {
          EXPECT_TRUE((*last)->takes(1, block) && (*last)->takes(1000, block)) << table.features.text();
        }
      }
    }
  }
}

TEST(CpuFeatures, WhatBuildsOnAFeatureGoesWithIt) {
  const auto without = [](std::string_view changes) { return changed_features(kSapphireRapids, changes).value(); };
  EXPECT_EQ(without(""), kSapphireRapids);
  EXPECT_EQ(without("-vnni"), (CpuFeatures{kAvx2, kAvxVnni, kAvx512, kAvx512Vbmi, kBf16Dot, kReadsAhead}));
  EXPECT_EQ(without("-avx512"), (CpuFeatures{kAvx2, kAvxVnni}));
  EXPECT_EQ(without("-amx,-reads_ahead"), (CpuFeatures{kAvx2, kAvxVnni, kAvx512, kVnni, kAvx512Vbmi, kBf16Dot}));
  EXPECT_EQ(without("+fast_bf16_dot"), kSapphireRapids.with(kFastBf16Dot));
  EXPECT_STREQ(without("-avx512vbmi").level(), "avx512");
}

TEST(CpuFeatures, ChangesThatCannotBeAreErrorsThatSayWhy) {
  const auto error = [](CpuFeatures features, std::string_view changes) {
    const auto changed = changed_features(features, changes);
    return changed.ok() ? "" : changed.status().message();
  };
  EXPECT_THAT(error(kZen4, "-mmx"), HasSubstr("-mmx: expected - or + and one of avx2, avx_vnni, avx512"));
  EXPECT_THAT(error(kZen4, "amx"), HasSubstr("expected - or +"));
  EXPECT_THAT(error(kZen4, "-amx,,"), HasSubstr("expected - or +"));
  EXPECT_THAT(error(kZen4, "+amx"), HasSubstr("+amx: this machine, as restricted, has avx2 avx512"));
  EXPECT_THAT(error(kZen4, "-bf16_dot,+fast_bf16_dot"), HasSubstr("as restricted"));
}

TEST(KernelTable, EveryPathHasEveryRowThatARestrictionOfThisMachineCanGive) {
  std::set<KernelRow> rows;
  for (const KernelTable* table : every_path()) {
    const auto described = describe_kernels(*table);
    rows.insert(described.begin(), described.end());
  }
  for (int i = 0; i < kCpuFeatures; ++i) {
    const auto features = cpu_features().without(static_cast<CpuFeature>(i));
    for (const KernelRow& row : describe_kernels(kernels_with(features))) EXPECT_TRUE(rows.contains(row)) << row.kernel;
  }
  EXPECT_EQ(every_path().front(), &scalar_kernels());
  EXPECT_EQ(every_path().back(), *select_kernels("auto"));
}

}  // namespace
}  // namespace sluice::kernel_table_test
