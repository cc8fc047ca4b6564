// CountingDevice: counts the memory that is asked for and provides none. Nothing may be enqueued. Thread safety: one
// thread at a time.
// Used by model/family_model.cc.
#pragma once

#include "base/check.h"
#include "kernels/device/device.h"

namespace sluice {

class CountingDevice final : public Device {
 public:
  const char* name() const override { return "counting"; }
  Result<DeviceMemory> map(std::size_t bytes, std::string_view) override {
    bytes_ += bytes;
    return DeviceMemory(this, &nowhere_, bytes);
  }
  std::size_t bytes() const { return bytes_; }  // the bytes of all maps

  void copy_all(std::span<const ByteMove>) override { refuse(); }
  void upload_all(std::span<const ByteMove>) override { refuse(); }
  void download_all(std::span<const ByteMove>) override { refuse(); }
  void fill(std::byte*, std::byte, std::size_t) override { refuse(); }
  void wait() override {}

 private:
  static void refuse() { SLUICE_CHECK(false, "there are no bytes here"); }
  void unmap(std::byte*, std::size_t) override {}

  std::byte nowhere_{};
  std::size_t bytes_ = 0;
};

}  // namespace sluice
