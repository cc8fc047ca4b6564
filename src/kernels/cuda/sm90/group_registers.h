// The registers of d in an instruction of a warpgroup, as assembly in C++ lists them. SLUICE_TO_N are the names of N
// registers in its text, which come first among the operands. SLUICE_SUMS_N(how, i) are the operands d[i] to d[i + N -
// 1]: "+f" if they are added to, "=f" if they are only written.
// Used by group_products.h and wgmma.h.
#pragma once

#define SLUICE_TO_4 "%0, %1, %2, %3"
#define SLUICE_TO_8 SLUICE_TO_4 ", %4, %5, %6, %7"
#define SLUICE_TO_16 SLUICE_TO_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SLUICE_TO_24 SLUICE_TO_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SLUICE_TO_28 SLUICE_TO_24 ", %24, %25, %26, %27"
#define SLUICE_TO_32 SLUICE_TO_28 ", %28, %29, %30, %31"
#define SLUICE_TO_40 SLUICE_TO_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SLUICE_TO_48 SLUICE_TO_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define SLUICE_TO_52 SLUICE_TO_48 ", %48, %49, %50, %51"
#define SLUICE_TO_56 SLUICE_TO_52 ", %52, %53, %54, %55"
#define SLUICE_TO_64 SLUICE_TO_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define SLUICE_TO_96                                                                                     \
  SLUICE_TO_64                                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83" \
  ", %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

#define SLUICE_SUMS_4(how, i) how(d[i]), how(d[i + 1]), how(d[i + 2]), how(d[i + 3])
#define SLUICE_SUMS_8(how, i) SLUICE_SUMS_4(how, i), SLUICE_SUMS_4(how, i + 4)
#define SLUICE_SUMS_16(how, i) SLUICE_SUMS_8(how, i), SLUICE_SUMS_8(how, i + 8)
#define SLUICE_SUMS_24(how, i) SLUICE_SUMS_16(how, i), SLUICE_SUMS_8(how, i + 16)
#define SLUICE_SUMS_28(how, i) SLUICE_SUMS_24(how, i), SLUICE_SUMS_4(how, i + 24)
#define SLUICE_SUMS_32(how, i) SLUICE_SUMS_16(how, i), SLUICE_SUMS_16(how, i + 16)
#define SLUICE_SUMS_40(how, i) SLUICE_SUMS_32(how, i), SLUICE_SUMS_8(how, i + 32)
#define SLUICE_SUMS_48(how, i) SLUICE_SUMS_32(how, i), SLUICE_SUMS_16(how, i + 32)
#define SLUICE_SUMS_52(how, i) SLUICE_SUMS_48(how, i), SLUICE_SUMS_4(how, i + 48)
#define SLUICE_SUMS_56(how, i) SLUICE_SUMS_48(how, i), SLUICE_SUMS_8(how, i + 48)
#define SLUICE_SUMS_64(how, i) SLUICE_SUMS_32(how, i), SLUICE_SUMS_32(how, i + 32)
#define SLUICE_SUMS_96(how, i) SLUICE_SUMS_64(how, i), SLUICE_SUMS_32(how, i + 64)
