// SPDX-License-Identifier: Apache-2.0
// The parts of attention on AMX against double precision, each by itself and put together. Where the processor has no AMX, the tests are
// skipped by name, and available() must say so too.
#include "cpu/attention/amx/processor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tensor.hpp"

namespace phasor::test {
namespace {

namespace amx = cpu::amx;

/// What Linux says of the processor: an independent answer.
bool system_lists_amx() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    const auto has = [&](const std::string& flag) { return (line + " ").find(" " + flag + " ") != std::string::npos; };
    return has("amx_tile") && has("amx_bf16") && has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl");
  }
  return false;
}

TEST(AmxAvailable, is_so_where_the_system_lists_it_and_nowhere_else) { EXPECT_EQ(amx::available(), system_lists_amx() && amx::kCompiled); }

#if PHASOR_AMX

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Without AMX there is nothing to run: such a test counts as skipped, not as passed.
class Amx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!amx::available()) GTEST_SKIP() << "this processor has no AMX: the kernels were not run";
  }
};

template <class T>
class Aligned {
 public:
  explicit Aligned(std::int64_t size)
      : data_(static_cast<T*>(::operator new(static_cast<std::size_t>(size) * sizeof(T), std::align_val_t{64}))) {
    std::memset(static_cast<void*>(data_), 0xff, static_cast<std::size_t>(size) * sizeof(T));  // NaN: what is not written shows
  }
  ~Aligned() { ::operator delete(data_, std::align_val_t{64}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  T* data() { return data_; }
  T& operator[](std::int64_t i) { return data_[i]; }

 private:
  T* data_;
};

/// Rows of numbers with NaN between and around them.
struct RowsOfNumbers {
  RowsOfNumbers(std::int64_t count, std::int64_t channels, std::uint64_t seed, float by = 0.5F) : count(count), channels(channels) {
    Random random(seed);
    memory.assign(static_cast<std::size_t>(count * stride()), BFloat16{0x7fff});
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const BFloat16 x = Element<BFloat16>::narrow(by * random.number());
        memory[static_cast<std::size_t>(r * stride() + c)] = x;
        numbers.push_back(Element<BFloat16>::widen(x));
      }
    }
  }
  std::int64_t stride() const { return channels + 3; }
  double at(std::int64_t r, std::int64_t c) const { return numbers[static_cast<std::size_t>(r * channels + c)]; }
  amx::Rows rows(std::int64_t first, std::int64_t wanted) const {
    return {memory.data() + first * stride(), stride(), std::min(wanted, count - first), channels};
  }
  std::int64_t count;
  std::int64_t channels;
  std::vector<BFloat16> memory;
  std::vector<double> numbers;  // the same, without gaps
};

struct Block {
  explicit Block(std::int64_t channels)
      : queries(amx::packed_queries_size(channels)), out(amx::kBlockRows * amx::padded(channels)), channels(amx::padded(channels)) {
    amx::reset(state);
  }
  amx::Output output() { return {out.data(), channels, channels}; }
  Aligned<BFloat16> queries;
  Aligned<float> scores{amx::kBlockRows * amx::kTileKeys};
  Aligned<float> out;
  amx::BlockState state;
  std::int64_t channels;
};

TEST_F(Amx, scores_are_products_of_queries_and_keys) {
  for (const std::int64_t channels : {32, 40, 64, 72, 96, 128, 200, 256}) {
    for (const std::int64_t keys : {1, 37, 64}) {
      const RowsOfNumbers q(keys % 32 + 1, channels, 1);
      const RowsOfNumbers k(keys, channels, 2);
      Block block(channels);
      Aligned<BFloat16> packed(amx::packed_keys_size(channels));
      const amx::Session session;
      amx::pack_queries(q.rows(0, amx::kBlockRows), block.queries.data());
      amx::pack_keys(k.rows(0, amx::kTileKeys), packed.data());
      amx::scores(block.queries.data(), packed.data(), block.channels, block.scores.data());
      for (std::int64_t i = 0; i < amx::kBlockRows; ++i) {
        for (std::int64_t j = 0; j < amx::kTileKeys; ++j) {
          double wanted = 0;
          double size = 0;
          for (std::int64_t c = 0; i < q.count && j < k.count && c < channels; ++c) {
            wanted += q.at(i, c) * k.at(j, c);
            size += std::fabs(q.at(i, c) * k.at(j, c));
          }
          // Each of `channels` sums rounds once, by half a float32 ulp of at most `size`.
          ASSERT_NEAR(block.scores[i * amx::kTileKeys + j], wanted, static_cast<double>(channels) * 0x1p-24 * size)
              << channels << " " << i << " " << j;
        }
      }
    }
  }
}

/// The probabilities that softmax left, read through a product with the unit matrix.
void read_probabilities(Block& block, amx::Parts parts, Aligned<float>& to) {
  RowsOfNumbers unit(amx::kTileKeys, amx::kTileKeys, 1, 0);
  for (std::int64_t j = 0; j < amx::kTileKeys; ++j) unit.memory[static_cast<std::size_t>(j * unit.stride() + j)] = BFloat16{0x3f80};
  Aligned<BFloat16> packed(amx::packed_keys_size(amx::kTileKeys));
  amx::pack_values(unit.rows(0, amx::kTileKeys), packed.data());
  amx::add_values(block.scores.data(), parts, packed.data(), {to.data(), amx::kTileKeys, amx::kTileKeys}, amx::Fill::overwrite);
}

/// Polynomial and rounding to one bfloat16, or to the sum of two.
double probability_error(amx::Parts parts) { return parts == amx::Parts::one ? 0x1p-8 + 0x1p-13 : 0x1p-15 + 0x1p-18; }

/// What a tile's scores lie around, and one row that has a last score far above.
struct Level {
  float offset;
  std::int64_t spike_row = -1;
};

/// Fills a tile with scores and checks all that softmax makes of them.
void check_tile(Block& block, amx::Parts parts, float scale, Random& random, const Level& level) {
  std::vector<double> scores;
  for (std::int64_t i = 0; i < amx::kBlockRows * amx::kTileKeys; ++i) {
    block.scores[i] = random.number() * 4 + level.offset + (i == level.spike_row * amx::kTileKeys + 63 ? 1000 : 0);
    scores.push_back(block.scores[i]);
  }
  const amx::BlockState before = block.state;
  const std::uint32_t rows = amx::softmax(block.scores.data(), scale, parts, block.state);
  Aligned<float> is(amx::kBlockRows * amx::kTileKeys);
  read_probabilities(block, parts, is);
  float sums_before[amx::kBlockRows];
  float sums[amx::kBlockRows];
  amx::row_sums(before, sums_before);
  amx::row_sums(block.state, sums);
  for (std::int64_t r = 0; r < amx::kBlockRows; ++r) {
    const double shift = block.state.shift[r];
    const bool rose = (rows >> r & 1) != 0;
    const double factor = rose ? block.state.factor[r] : 1;
    ASSERT_EQ(rose, block.state.shift[r] != before.shift[r]) << r;
    ASSERT_NEAR(factor, rose ? std::exp2(before.shift[r] - shift) : 1, 0x1p-17 * factor + 0x1p-126) << r;  // flushed below
    double sum = 0;
    for (std::int64_t j = 0; j < amx::kTileKeys; ++j) {
      // The exponent is a fused product with the scale in octaves, itself rounded twice. Near the smallest float32 a number, or its lower
      // part, is flushed.
      const double octaves = scores[static_cast<std::size_t>(r * amx::kTileKeys + j)] * scale / std::log(2.0);
      const double wanted = std::exp2(octaves - shift);
      const double rounding = 0x1p-24 * (2 * std::fabs(octaves) + std::fabs(octaves - shift));
      ASSERT_NEAR(is[r * amx::kTileKeys + j], wanted, wanted * (probability_error(parts) + rounding) + 0x1p-125) << r << " " << j;
      ASSERT_LT(wanted, 257);
      sum += is[r * amx::kTileKeys + j];
    }
    ASSERT_NEAR(sums[r], sums_before[r] * factor + sum,
                (sums_before[r] * factor + sum) * (parts == amx::Parts::one ? 0x1p-20 : probability_error(parts)))
        << r;
  }
}

TEST_F(Amx, softmax_gives_probabilities_sums_and_factors) {
  const amx::Session session;
  for (const amx::Parts parts : {amx::Parts::one, amx::Parts::two}) {
    for (const float scale : {1.0F, 0.125F, 0.7F}) {
      Block block(64);
      Random random(7);
      for (const Level& level : {Level{0}, {1}, {-30}, {-30, 5}, {60}, {60}, {60, 31}, {60, 0}, {120}, {121}, {-200}}) {
        check_tile(block, parts, scale, random, level);
      }
    }
  }
}

/// Row r sees r keys of tiles 0 and 2, none of tile 1; row 0 none at all, row 31 none of tile 0.
bool sees(int tile, std::int64_t row, std::int64_t key) { return (tile == 2 || (tile == 0 && row < 31)) && key < row; }

TEST_F(Amx, masked_scores_weigh_nothing_and_a_masked_row_has_no_sum) {
  const amx::Session session;
  const std::uint32_t begun[] = {0x7ffffffe, 0, 0x80000000};
  for (const amx::Parts parts : {amx::Parts::one, amx::Parts::two}) {
    Block block(64);
    Aligned<float> is(amx::kBlockRows * amx::kTileKeys);
    for (int tile = 0; tile < 3; ++tile) {
      for (std::int64_t i = 0; i < amx::kBlockRows * amx::kTileKeys; ++i) {
        block.scores[i] = sees(tile, i / amx::kTileKeys, i % amx::kTileKeys) ? 5 : -kInfinity;
      }
      EXPECT_EQ(amx::softmax(block.scores.data(), 1, parts, block.state), begun[tile]) << tile;
      read_probabilities(block, parts, is);
      for (std::int64_t r = 0; r < amx::kBlockRows; ++r) {
        const bool empty = r == 0 || (r == 31 && tile < 2);
        EXPECT_EQ(block.state.shift[r], empty ? -kInfinity : 5 * 0x1.715476p+0F) << tile;
        for (std::int64_t j = 0; j < amx::kTileKeys; ++j) {
          const double wanted = sees(tile, r, j) ? 1 : 0;
          ASSERT_NEAR(is[r * amx::kTileKeys + j], wanted, wanted * probability_error(parts)) << tile << " " << r << " " << j;
        }
      }
    }
    float sums[amx::kBlockRows];
    amx::row_sums(block.state, sums);
    for (int r = 0; r < amx::kBlockRows; ++r) EXPECT_NEAR(sums[r], r == 31 ? r : 2 * r, 2 * r * 0x1p-13);
  }
}

TEST_F(Amx, a_nan_score_spoils_its_row_alone) {
  const amx::Session session;
  for (const amx::Parts parts : {amx::Parts::one, amx::Parts::two}) {
    Block block(64);
    for (int tile = 0; tile < 2; ++tile) {
      for (std::int64_t i = 0; i < amx::kBlockRows * amx::kTileKeys; ++i) block.scores[i] = 1;
      if (tile == 1) block.scores[9 * amx::kTileKeys + 50] = std::numeric_limits<float>::quiet_NaN();
      amx::softmax(block.scores.data(), 1, parts, block.state);
    }
    float sums[amx::kBlockRows];
    amx::row_sums(block.state, sums);
    for (int r = 0; r < amx::kBlockRows; ++r) EXPECT_EQ(std::isnan(sums[r]), r == 9) << r;
  }
}

struct Attention {
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t channels;
  bool causal;
  amx::Parts parts;
};

/// Keys after a query (aligned at the end) are masked, and those that only fill the last tile.
void mask(Block& block, const Attention& a, std::int64_t row, std::int64_t key) {
  for (std::int64_t r = 0; r < amx::kBlockRows; ++r) {
    const std::int64_t end = a.causal ? std::min(a.keys, row + r + 1 + a.keys - a.queries) : a.keys;
    for (std::int64_t j = std::max<std::int64_t>(end - key, 0); j < amx::kTileKeys; ++j) block.scores[r * amx::kTileKeys + j] = -kInfinity;
  }
}

/// One head, the parts put together in the plainest way. Wants a session.
std::vector<float> attend(const Attention& a, const RowsOfNumbers& q, const RowsOfNumbers& k, const RowsOfNumbers& v) {
  std::vector<float> out;
  Block block(a.channels);
  Aligned<BFloat16> keys(amx::packed_keys_size(a.channels));
  Aligned<BFloat16> values(amx::packed_keys_size(a.channels));
  for (std::int64_t row = 0; row < a.queries; row += amx::kBlockRows) {
    amx::reset(block.state);
    amx::pack_queries(q.rows(row, amx::kBlockRows), block.queries.data());
    for (std::int64_t key = 0; key < a.keys; key += amx::kTileKeys) {
      amx::pack_keys(k.rows(key, amx::kTileKeys), keys.data());
      amx::pack_values(v.rows(key, amx::kTileKeys), values.data());
      amx::scores(block.queries.data(), keys.data(), block.channels, block.scores.data());
      amx::keep_awake();  // must not disturb anything
      mask(block, a, row, key);
      const float scale = 1 / std::sqrt(static_cast<float>(a.channels));
      const std::uint32_t rows = amx::softmax(block.scores.data(), scale, a.parts, block.state);
      if (key > 0) amx::rescale(block.output(), block.state, rows);
      amx::add_values(block.scores.data(), a.parts, values.data(), block.output(), key > 0 ? amx::Fill::add : amx::Fill::overwrite);
    }
    float sums[amx::kBlockRows];
    amx::row_sums(block.state, sums);
    for (std::int64_t r = 0; r < std::min(amx::kBlockRows, a.queries - row); ++r) {
      for (std::int64_t c = 0; c < a.channels; ++c) out.push_back(block.out[r * block.channels + c] / sums[r]);
    }
  }
  return out;
}

/// The weights of one query, normalised.
std::vector<double> weights(const Attention& a, const RowsOfNumbers& q, const RowsOfNumbers& k, std::int64_t row) {
  std::vector<double> w;
  double top = -1e300;
  for (std::int64_t j = 0; j < (a.causal ? row + 1 + a.keys - a.queries : a.keys); ++j) {
    double s = 0;
    for (std::int64_t c = 0; c < a.channels; ++c) s += q.at(row, c) * k.at(j, c);
    w.push_back(s / std::sqrt(static_cast<double>(a.channels)));
    top = std::max(top, w.back());
  }
  double sum = 0;
  for (double& x : w) sum += x = std::exp(x - top);
  for (double& x : w) x /= sum;
  return w;
}

void check_attention(const Attention& a) {
  const RowsOfNumbers q(a.queries, a.channels, 3);
  const RowsOfNumbers k(a.keys, a.channels, 4);
  const RowsOfNumbers v(a.keys, a.channels, 5);
  const amx::Session session;
  const std::vector<float> is = attend(a, q, k, v);
  for (std::int64_t row = 0; row < a.queries; row += a.keys > 1000 ? 37 : 1) {
    const std::vector<double> w = weights(a, q, k, row);
    for (std::int64_t c = 0; c < a.channels; ++c) {
      double wanted = 0;
      double size = 0;
      for (std::size_t j = 0; j < w.size(); ++j) {
        wanted += w[j] * v.at(static_cast<std::int64_t>(j), c);
        size += w[j] * std::fabs(v.at(static_cast<std::int64_t>(j), c));
      }
      // A weight's error counts twice, in the product and in the sum; float32 sums and exponents stay below 2^-17.
      ASSERT_NEAR(is[static_cast<std::size_t>(row * a.channels + c)], wanted, (2 * probability_error(a.parts) + 0x1p-17) * size)
          << a.queries << " " << a.keys << " " << a.channels << " " << a.causal << " " << row << " " << c;
    }
  }
}

TEST_F(Amx, attention_of_any_shape_agrees_with_double_precision) {
  for (const amx::Parts parts : {amx::Parts::one, amx::Parts::two}) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t channels : {64, 80, 128, 256}) {
        check_attention({1, 1, channels, causal, parts});
        check_attention({37, 101, channels, causal, parts});
        check_attention({64, 128, channels, causal, parts});
      }
    }
  }
}

TEST_F(Amx, attention_over_many_tiles_agrees_with_double_precision) {
  for (const amx::Parts parts : {amx::Parts::one, amx::Parts::two}) {
    check_attention({1024, 1024, 64, true, parts});
    check_attention({64, 4096, 128, false, parts});
  }
}

TEST_F(Amx, threads_of_any_pool_get_the_same_bits) {
  const Attention a = {70, 300, 64, true, amx::Parts::two};
  const RowsOfNumbers q(a.queries, a.channels, 3), k(a.keys, a.channels, 4), v(a.keys, a.channels, 5);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {  // one session per task
        const amx::Session session;
        result = attend(a, q, k, v);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(Amx, a_session_leaves_subnormals_as_they_were) {
  volatile float tiny = 0x1p-126F;
  {
    const amx::Session session;
    EXPECT_EQ(tiny * 0.5F, 0);
  }
  EXPECT_GT(tiny * 0.5F, 0);
}

#else

TEST(Amx, was_not_compiled) { GTEST_SKIP() << "this build has no AMX: no kernel to run"; }

#endif

}  // namespace
}  // namespace phasor::test
