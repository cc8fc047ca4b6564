// Used by checkpoint.h and model/weights/dummy_checkpoint.cc.
#include "files/made_tensors.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::size_t kPage = 4096, kPieceBytes = std::size_t{1} << 20;  // a multiple of every element's bytes

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Result<MadeTensors> MadeTensors::create(std::vector<Spec> specs, Make make) {
  MadeTensors made;
  made.make_ = std::move(make);
  std::map<std::string, std::size_t> named;
  std::size_t end = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Spec& spec = specs[i];
    SLUICE_ASSIGN_OR_RETURN(const std::size_t bytes, tensor_bytes(spec.dtype, spec.shape));
    if (!named.emplace(spec.name, i).second) return invalid_argument(fmt::format("tensor {}: listed twice", spec.name));
    if (spec.same_as.empty()) {
      made.places_.push_back({end, bytes, i});
      made.bytes_ += bytes;
      end += std::max(kPage, whole_pages(bytes));
    }
    made.views_.push_back(
        {.name = spec.name, .dtype = spec.dtype, .shape = std::move(spec.shape), .bytes = bytes, .file = "memory"});
  }
  made.memory_ = LargeBytes(end);
  for (const Place& place : made.places_) made.views_[place.spec].data = made.memory_.data() + place.begin;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].same_as.empty()) continue;
    const auto found = named.find(specs[i].same_as);
    const TensorView* like = found == named.end() ? nullptr : &made.views_[found->second];
    TensorView& view = made.views_[i];
    if (like == nullptr || like->data == nullptr || like->dtype != view.dtype || like->shape != view.shape) {
      return invalid_argument(
          fmt::format("tensor {}: expected {} to be a tensor of its type and shape", view.name, specs[i].same_as));
    }
    view.data = like->data;
  }
  return made;
}

void MadeTensors::bring(std::span<const std::byte> bytes, ThreadPool& pool) const {
  if (bytes.empty()) return;
  const auto at = static_cast<std::size_t>(bytes.data() - memory_.data());
  const auto after = std::ranges::upper_bound(places_, at, {}, &Place::begin);
  SLUICE_CHECK(after != places_.begin(), "bytes of a tensor that is made");
  const Place& place = *(after - 1);
  const std::size_t offset = at - place.begin;
  SLUICE_CHECK(offset + bytes.size() <= place.bytes, "bytes of one tensor that is made");
  pool.run(static_cast<int>((bytes.size() + kPieceBytes - 1) / kPieceBytes), [&](int piece, int) {
    const std::size_t first = static_cast<std::size_t>(piece) * kPieceBytes;
    make_(place.spec, offset + first, {memory_.data() + at + first, std::min(kPieceBytes, bytes.size() - first)});
  });
}

void MadeTensors::leave(std::span<const std::byte> bytes) const {
  const auto at = static_cast<std::size_t>(bytes.data() - memory_.data());
  const std::size_t begin = whole_pages(at), end = (at + bytes.size()) / kPage * kPage;
  if (begin < end) ::madvise(memory_.data() + begin, end - begin, MADV_DONTNEED);
}

}  // namespace sluice
