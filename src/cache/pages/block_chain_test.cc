#include "cache/pages/block_chain.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/test_seed_testing.h"

namespace sluice::block_chain_test {
namespace {

std::vector<TokenId> counting(int n, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

BlockChain chain_of(std::span<const TokenId> tokens, const std::string& salt = "", const std::string& profile = "p") {
  BlockChain chain(root_hash(profile, salt));
  chain.extend(tokens);
  return chain;
}

std::string hex(const BlockHash& hash) {
  std::string text;
  for (const std::uint8_t byte : hash.bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(BlockHashTest, IsSha256OfItsParts) {
  // printf of: 20 as eight bytes, "sluice block chain 1", 2 as eight bytes, "p1", 4 as eight bytes, "salt" | sha256sum
  EXPECT_EQ(hex(root_hash("p1", "salt")), "8e42f9d133e186f33c3f92a976e368f7ab7390787cf8c8e74a1517bbffb6b5e3");
  // ... of those 32 bytes, then 0 to 127 as four bytes each, the lowest byte first
  EXPECT_EQ(hex(child_hash(root_hash("p1", "salt"), counting(128))),
            "b32780c3b83f7df559767b267eb3a6278962b3d2b8b9bdf1febe8d7b2c5fda22");
}

TEST(BlockHashTest, PartsDoNotRunIntoEachOther) {
  EXPECT_NE(root_hash("ab", "c"), root_hash("a", "bc"));
  EXPECT_NE(root_hash("abc", ""), root_hash("", "abc"));
  EXPECT_NE(root_hash("a", std::string("b\0", 2)), root_hash("a", "b"));
}

TEST(BlockHashTest, IsTheSameEachTime) {
  EXPECT_EQ(root_hash("p", "s"), root_hash("p", "s"));
  const BlockHash root = root_hash("p", "s");
  EXPECT_EQ(child_hash(root, counting(128)), child_hash(root, counting(128)));
}

TEST(BlockChainTest, OnlyFullBlocksHaveAName) {
  for (const int n : {0, 1, 127}) EXPECT_EQ(chain_of(counting(n)).blocks(), 0);
  EXPECT_EQ(chain_of(counting(128)).blocks(), 1);
  EXPECT_EQ(chain_of(counting(255)).blocks(), 1);
  EXPECT_EQ(chain_of(counting(256)).blocks(), 2);
}

TEST(BlockChainTest, ABlocksNameDependsOnEveryTokenUpToIts) {
  const std::vector<TokenId> tokens = counting(512);
  const BlockChain chain = chain_of(tokens);
  for (const std::size_t changed : {0U, 127U, 128U, 300U, 511U}) {
    std::vector<TokenId> other = tokens;
    other[changed] += 1 << 20;
    const BlockChain differs = chain_of(other);
    for (int b = 0; b < 4; ++b) {
      EXPECT_EQ(chain[b] == differs[b], static_cast<std::size_t>(b) < changed / 128) << changed << " " << b;
    }
  }
}

TEST(BlockChainTest, TheSameBlockBehindAnotherPrefixHasAnotherName) {
  std::vector<TokenId> twice = counting(128);
  const std::vector<TokenId> once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  const BlockChain chain = chain_of(twice);
  EXPECT_NE(chain[0], chain[1]);
}

TEST(BlockChainTest, ProfilesAndSaltsNeverShareAName) {
  std::set<std::string> names;
  for (const char* profile : {"p", "q", ""}) {
    for (const char* salt : {"", "a", "b"}) {
      const BlockChain chain = chain_of(counting(256), salt, profile);
      names.insert(hex(chain[0]));
      names.insert(hex(chain[1]));
    }
  }
  EXPECT_EQ(names.size(), 18U);
}

TEST(BlockChainTest, ExtendedInPiecesOrAtOnceIsTheSame) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 50; ++i) {
    std::vector<TokenId> tokens(random() % 1500);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 130'000);
    const BlockChain whole = chain_of(tokens);
    BlockChain pieces(root_hash("p", ""));
    for (std::size_t n = 0; n < tokens.size(); n += 1 + random() % 300) pieces.extend(std::span(tokens).first(n));
    pieces.extend(tokens);
    pieces.extend(tokens);
    ASSERT_EQ(pieces.blocks(), whole.blocks());
    for (int b = 0; b < whole.blocks(); ++b) ASSERT_EQ(pieces[b], whole[b]);
  }
}

TEST(BlockChainTest, KeepsTheBlocksThatItWasTold) {
  BlockChain chain = chain_of(counting(640));
  EXPECT_FALSE(chain.keeps(1));
  chain.set_kept_blocks({1, 3});
  for (int b = 0; b < 5; ++b) EXPECT_EQ(chain.keeps(b), b == 1 || b == 3);
}

}  // namespace
}  // namespace sluice::block_chain_test
