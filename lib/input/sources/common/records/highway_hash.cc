#include "lib/input/sources/common/records/highway_hash.h"

#include <bit>
#include <cstring>

namespace bv {
namespace {

using Lanes = std::array<uint64_t, 4>;

class HighwayState {
 public:
  explicit HighwayState(const Lanes& key) {
    for (size_t i = 0; i < 4; ++i) {
      v0_[i] = mul0_[i] ^ key[i];
      v1_[i] = mul1_[i] ^ std::rotl(key[i], 32);
    }
  }

  void update(const uint8_t* packet) {  // 32 bytes
    Lanes lanes;
    std::memcpy(lanes.data(), packet, 32);
    update(lanes);
  }

  // Takes in the last 1 to 31 bytes.
  void update_rest(std::span<const uint8_t> bytes) {
    const uint64_t size = bytes.size();
    const size_t loose = size % 4, whole = size - loose;
    for (size_t i = 0; i < 4; ++i) {
      v0_[i] += (size << 32) + size;
      const auto low = static_cast<uint32_t>(v1_[i]), high = static_cast<uint32_t>(v1_[i] >> 32);
      v1_[i] = uint64_t{std::rotl(low, static_cast<int>(size))} |
               uint64_t{std::rotl(high, static_cast<int>(size))} << 32;
    }
    std::array<uint8_t, 32> packet{};
    if (whole > 0) std::memcpy(packet.data(), bytes.data(), whole);
    if (size >= 16) {
      std::memcpy(packet.data() + 28, bytes.data() + size - 4, 4);
    } else if (loose > 0) {
      packet[16] = bytes[whole];
      packet[17] = bytes[whole + loose / 2];
      packet[18] = bytes[whole + loose - 1];
    }
    update(packet.data());
  }

  uint64_t finish() {
    for (int round = 0; round < 4; ++round) {
      update(Lanes{std::rotl(v0_[2], 32), std::rotl(v0_[3], 32), std::rotl(v0_[0], 32),
                   std::rotl(v0_[1], 32)});
    }
    return v0_[0] + v1_[0] + mul0_[0] + mul1_[0];
  }

 private:
  void update(const Lanes& lanes) {
    for (size_t i = 0; i < 4; ++i) {
      v1_[i] += mul0_[i] + lanes[i];
      mul0_[i] ^= (v1_[i] & 0xFFFFFFFF) * (v0_[i] >> 32);
      v0_[i] += mul1_[i];
      mul1_[i] ^= (v0_[i] & 0xFFFFFFFF) * (v1_[i] >> 32);
    }
    zipper_merge(v1_[1], v1_[0], v0_[1], v0_[0]);
    zipper_merge(v1_[3], v1_[2], v0_[3], v0_[2]);
    zipper_merge(v0_[1], v0_[0], v1_[1], v1_[0]);
    zipper_merge(v0_[3], v0_[2], v1_[3], v1_[2]);
  }

  // Adds the bytes of (high, low), in an order that mixes them, to (sum_high, sum_low).
  static void zipper_merge(uint64_t high, uint64_t low, uint64_t& sum_high, uint64_t& sum_low) {
    sum_low += (((low & 0xFF000000) | (high & 0xFF00000000)) >> 24) |
               (((low & 0xFF0000000000) | (high & 0xFF000000000000)) >> 16) | (low & 0xFF0000) |
               ((low & 0xFF00) << 32) | ((high & 0xFF00000000000000) >> 8) | (low << 56);
    sum_high += (((high & 0xFF000000) | (low & 0xFF00000000)) >> 24) | (high & 0xFF0000) |
                ((high & 0xFF0000000000) >> 16) | ((high & 0xFF00) << 24) |
                ((low & 0xFF000000000000) >> 8) | ((high & 0xFF) << 48) |
                (low & 0xFF00000000000000);
  }

  Lanes mul0_ = {0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3};
  Lanes mul1_ = {0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377};
  Lanes v0_{}, v1_{};
};

}  // namespace

uint64_t highway_hash(const Lanes& key, std::span<const uint8_t> bytes) {
  HighwayState state(key);
  for (; bytes.size() >= 32; bytes = bytes.subspan(32)) state.update(bytes.data());
  if (!bytes.empty()) state.update_rest(bytes);
  return state.finish();
}

}  // namespace bv
