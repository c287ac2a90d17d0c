// SPDX-License-Identifier: Apache-2.0
// Memory of attention: the workspace grows with n, not with its square, and beside it the heap is hardly touched.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "attention/support/packed_families.hpp"
#include "phasor/attention.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PHASOR_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PHASOR_TEST_SANITIZED
#endif

namespace {

/// Bytes of the heap that are held, and the most that ever were, while counting.
std::atomic<bool> counting{false};
std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> most{0};
std::atomic<std::int64_t> times_taken{0};

void* taken(void* memory) {
  if (counting && memory != nullptr) {
    ++times_taken;
    held += static_cast<std::int64_t>(malloc_usable_size(memory));
    most = std::max<std::int64_t>(most, held);
  }
  return memory;
}
void given_back(void* memory) {
  if (counting && memory != nullptr) held -= static_cast<std::int64_t>(malloc_usable_size(memory));
}

void start_counting() {
  held = most = times_taken = 0;
  counting = true;
}
std::int64_t stop_counting() {
  counting = false;
  return most;
}

}  // namespace

// Every way to the heap is counted: malloc's family, which new ends in. Sanitizers have a malloc of their own; there new is counted.
#ifndef PHASOR_TEST_SANITIZED
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);

void* malloc(std::size_t bytes) { return taken(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) { return taken(__libc_calloc(count, bytes)); }
void* realloc(void* old, std::size_t bytes) {
  given_back(old);
  return taken(__libc_realloc(old, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return taken(__libc_memalign(alignment, bytes)); }
void free(void* memory) {
  given_back(memory);
  __libc_free(memory);
}
}
#else
void* operator new(std::size_t bytes) {
  if (void* memory = taken(std::malloc(bytes == 0 ? 1 : bytes))) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  given_back(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }
#endif

namespace phasor::test {
namespace {

/// A call of one head and n tokens, with tables and their gradients.
struct Long {
  explicit Long(std::int64_t tokens) : n(tokens), inputs(random_floats(3 * n * kWidth, 1)), table(random_floats(2 * n * kWidth, 2)) {
    for (int i = 0; i < 3; ++i) in[i] = view(static_cast<const float*>(inputs.data()) + i * n * kWidth, {1, n, 1, kWidth});
    spec.visibility.mask = Mask::causal;
    spec.execution.runner = {[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
                               for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
                             },
                             nullptr};
    gradients.q = view(gradient.data(), {1, n, 1, kWidth});
    gradients.k = view(gradient.data() + n * kWidth, {1, n, 1, kWidth});
    gradients.v = view(gradient.data() + 2 * n * kWidth, {1, n, 1, kWidth});
  }
  AttentionInputs call() const { return {in[0], in[1], in[2]}; }
  std::int64_t forward_bytes() const { return *attention_workspace(call(), spec); }
  std::int64_t backward_bytes() const { return *attention_backward_workspace(call(), spec, gradients); }

  /// A table of some rows for a term, and where its gradient goes.
  ConstTensorView rows(std::int64_t count) const { return view(static_cast<const float*>(table.data()), {1, count, 1, kWidth}); }
  TensorView rows_gradient(std::int64_t count, std::int64_t first = 0) {
    return view(table_gradient.data() + first * kWidth, {1, count, 1, kWidth});
  }

  std::int64_t n;
  std::vector<float> inputs;
  std::vector<float> table;
  std::vector<float> gradient = std::vector<float>(static_cast<std::size_t>(3 * n * kWidth));
  std::vector<float> table_gradient = std::vector<float>(table.size());
  std::vector<double> parameters = std::vector<double>(32);
  ConstTensorView in[3];
  AttentionSpec spec;
  AttentionGradients gradients;
};

struct Scheme {
  const char* name;
  void (*add)(Long& call);
};

constexpr std::int64_t kClip = 64;

const Scheme kSchemes[] = {
    {"plain", [](Long&) {}},
    {"T5",
     [](Long& call) {
       call.spec.terms = {BiasTerm{.bias = *Bias::make(T5Buckets{.heads = 1, .table = std::vector<double>(32, 0.5)})}};
       call.gradients.terms = {{.parameters = list_view(call.parameters)}};
     }},
    {"KERPLE",
     [](Long& call) {
       call.parameters.resize(2);
       call.spec.terms = {BiasTerm{.bias = *Bias::make(Kerple{.r1 = {0.5}, .r2 = {0.25}})}};
       call.gradients.terms = {{.parameters = list_view(call.parameters)}};
     }},
    {"rotary", [](Long& call) { call.spec.content = RotaryContent{*Rotary::make({.head_dim = kWidth})}; }},
    {"Shaw",
     [](Long& call) {
       const ClipRows clip{kClip, kClip};
       call.spec.terms = {TableTerm{.side = TableSide::query, .table = call.rows(2 * kClip + 1), .rows = clip},
                          TableTerm{.side = TableSide::value, .table = call.rows(2 * kClip + 1), .rows = clip}};
       call.gradients.terms = {{.table = call.rows_gradient(2 * kClip + 1)}, {.table = call.rows_gradient(2 * kClip + 1, 2 * kClip + 1)}};
     }},
    {"Transformer-XL",
     [](Long& call) {
       call.spec.content_shift = call.rows(1);
       call.spec.terms = {TableTerm{
           .side = TableSide::query, .table = call.rows(2 * call.n - 1), .rows = ClipRows{call.n - 1, call.n - 1}, .shift = call.rows(1)}};
       call.gradients.terms = {{.table = call.rows_gradient(2 * call.n - 1)}};
     }},
};

TEST(attention_workspace, grows_with_the_number_of_tokens) {
  for (const Scheme& scheme : kSchemes) {
    std::int64_t forward[3];
    std::int64_t backward[3];
    for (int i = 0; i < 3; ++i) {
      Long call(std::int64_t{16384} << i);
      scheme.add(call);
      forward[i] = call.forward_bytes();
      backward[i] = call.backward_bytes();
    }
    std::printf("%-15s n = 16384: forward %5.0f bytes per token, backward %5.0f; scores would be %d\n", scheme.name,
                static_cast<double>(forward[0]) / 16384, static_cast<double>(backward[0]) / 16384, 16384 * 4);
    EXPECT_LE(forward[0], 16384 * 2048) << scheme.name;
    EXPECT_LE(backward[0], 16384 * 8192) << scheme.name;
    EXPECT_NEAR(static_cast<double>(forward[2] - forward[1]) / static_cast<double>(forward[1] - forward[0]), 2, 0.01) << scheme.name;
    EXPECT_NEAR(static_cast<double>(backward[2] - backward[1]) / static_cast<double>(backward[1] - backward[0]), 2, 0.01) << scheme.name;
  }
}

// ---- Many sequences in one call ----

TEST(attention_workspace, of_packed_sequences_grows_with_their_tokens) {
  for (const Family& family : kFamilies) {
    for (const bool scattered : {false, true}) {
      if (scattered && !family.takes_positions) continue;
      Packed few(256, scattered);
      Packed many(1024, scattered);
      family.add(few);
      family.add(many);
      const std::int64_t slots = 1025 * kHeads * family.rows * family.width * 4;
      std::printf("%-16s %s: %5.1f MB for 1025 sequences, %5.1f for 257; one table per sequence would be %7.1f\n", family.name,
                  scattered ? "scattered" : "in order ", static_cast<double>(many.term_bytes()) / 1e6,
                  static_cast<double>(few.term_bytes()) / 1e6, static_cast<double>(slots) / 1e6);
      if (family.rows > 3) {  // else there is nothing to show
        EXPECT_GE(slots, 4 * most_term_bytes(many, family, scattered)) << family.name;
      }
      EXPECT_LE(few.term_bytes(), most_term_bytes(few, family, scattered)) << family.name << (scattered ? ", scattered" : "");
      EXPECT_LE(many.term_bytes(), most_term_bytes(many, family, scattered)) << family.name << (scattered ? ", scattered" : "");
    }
  }
}

// The sanitizers take fifty times as long: there fewer tokens, of which a matrix of scores (16 MiB) would still show.
#ifdef PHASOR_TEST_SANITIZED
constexpr std::int64_t kTokens = 2048;
constexpr int kSequences = 64;
#else
constexpr std::int64_t kTokens = 16384;
constexpr int kSequences = 512;
#endif

/// What a call may take of the heap: lists of sequences and tiles, a few words for every tile of 64 tokens; for each term its job, 2 KiB,
/// and a few values at a time while it is laid out.
std::int64_t heap_of(std::int64_t tokens, const AttentionSpec& spec) {
  return 4096 + 4096 * static_cast<std::int64_t>(spec.terms.size()) + 2 * tokens;
}

/// And the numbers of biases, with FIRE's segments that are made of them: four words for each parameter, whatever the tokens.
std::int64_t heap_of_numbers(const AttentionSpec& spec) {
  std::int64_t parameters = 0;
  for (const AttentionTerm& term : spec.terms) {
    if (const auto* bias = std::get_if<BiasTerm>(&term)) parameters += bias->bias.parameter_count();
  }
  return 4 * 8 * parameters;
}

TEST(attention_workspace, is_all_the_memory_that_is_used) {
  constexpr std::int64_t n = kTokens;
  for (const Scheme& scheme : kSchemes) {
    Long call(n);
    scheme.add(call);
    std::vector<std::byte> workspace(static_cast<std::size_t>(std::max(call.forward_bytes(), call.backward_bytes())));
    std::vector<float> out(static_cast<std::size_t>(n * kWidth));
    std::vector<float> lse(static_cast<std::size_t>(n));
    const AttentionOutputs outputs{view(out.data(), {1, n, 1, kWidth}), view(lse.data(), {1, n, 1, 1})};
    start_counting();
    const Status forward = attention(call.call(), call.spec, outputs, workspace);
    const std::int64_t forward_heap = stop_counting();
    start_counting();
    const Status backward = attention_backward(call.call(), call.spec, {outputs.out, outputs.lse, call.in[2]}, call.gradients, workspace);
    const std::int64_t backward_heap = stop_counting();
    ASSERT_TRUE(forward.ok()) << scheme.name << ": " << forward.message();
    ASSERT_TRUE(backward.ok()) << scheme.name << ": " << backward.message();
    std::printf("%-15s n = %lld: %lld bytes of the heap forward, %lld backward\n", scheme.name, static_cast<long long>(n),
                static_cast<long long>(forward_heap), static_cast<long long>(backward_heap));
    EXPECT_LE(forward_heap, heap_of(n, call.spec)) << scheme.name;
    EXPECT_LE(backward_heap, heap_of(n, call.spec)) << scheme.name;
  }
}

/// Distances too far apart for a table: the perceptron of every row works in the workspace too.
TEST(attention_workspace, a_perceptron_for_every_row_does_not_allocate) {
  constexpr std::int64_t n = 200;
  std::vector<std::int64_t> far(n);
  for (std::int64_t i = 0; i < n; ++i) far[static_cast<std::size_t>(i)] = i << 40;
  const Mlp layers = {.widths = {1, 4, 5, 1}, .parameters = std::vector<double>(8 + 25 + 6, 0.1)};
  for (const Bias& bias : {*Bias::make(DynamicMlp{.mlp = layers, .scale = DistanceScale::logarithmic}), *Bias::make(Fire{.mlp = layers})}) {
    Long call(n);
    call.spec.query_positions = call.spec.key_positions = positions(static_cast<const std::int64_t*>(far.data()), n);
    call.spec.terms = {BiasTerm{.bias = bias}};
    call.parameters.resize(static_cast<std::size_t>(bias.parameter_count()));
    call.gradients.terms = {{.parameters = list_view(call.parameters)}};
    std::vector<std::byte> workspace(static_cast<std::size_t>(std::max(call.forward_bytes(), call.backward_bytes())));
    std::vector<float> out(static_cast<std::size_t>(n * kWidth));
    std::vector<float> lse(static_cast<std::size_t>(n));
    const AttentionOutputs outputs{view(out.data(), {1, n, 1, kWidth}), view(lse.data(), {1, n, 1, 1})};
    start_counting();
    const Status forward = attention(call.call(), call.spec, outputs, workspace);
    const Status backward = attention_backward(call.call(), call.spec, {outputs.out, outputs.lse, call.in[2]}, call.gradients, workspace);
    stop_counting();
    ASSERT_TRUE(forward.ok()) << forward.message();
    ASSERT_TRUE(backward.ok()) << backward.message();
    EXPECT_LE(times_taken, 3 * n);  // lists of the call; a perceptron of its own for every row of a tile would be thousands
  }
}

/// The same of many sequences: a few words for each, and nothing of the size of a table.
TEST(attention_workspace, is_all_the_memory_that_packed_sequences_use) {
  for (const Family& family : kFamilies) {
    Packed call(kSequences);
    family.add(call);
    const auto sequences = static_cast<std::int64_t>(call.starts.size()) - 1;
    const Result<std::int64_t> bytes = attention_workspace(call.call(), call.spec);
    ASSERT_TRUE(bytes.ok()) << family.name << ": " << bytes.status().message();
    std::vector<std::byte> workspace(static_cast<std::size_t>(std::max(*bytes, call.backward_bytes())));
    std::vector<float> out(static_cast<std::size_t>(call.size()));
    std::vector<float> lse(static_cast<std::size_t>(call.tokens * kHeads));
    const AttentionOutputs outputs{view(out.data(), {1, call.tokens, kHeads, kWidth}), view(lse.data(), {1, call.tokens, kHeads, 1})};
    ASSERT_TRUE(attention(call.call(), call.spec, outputs, workspace).ok()) << family.name;
    call.spec.execution.runner = {[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
                                    for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
                                  },
                                  nullptr};
    start_counting();
    const Status status = attention_backward(call.call(), call.spec, {outputs.out, outputs.lse, call.in[2]}, call.gradients, workspace);
    const std::int64_t heap = stop_counting();
    ASSERT_TRUE(status.ok()) << family.name << ": " << status.message();
    std::printf("%-16s %lld sequences: %lld bytes of the heap backward\n", family.name, static_cast<long long>(sequences),
                static_cast<long long>(heap));
    EXPECT_LE(heap, heap_of(call.tokens, call.spec) + 1024 * sequences + heap_of_numbers(call.spec)) << family.name;
  }
}

// ---- After the layout ----

/// Runs tasks in order, and has the heap watched from one of its calls on.
struct Watching {
  int calls = 0;
  int from = -1;

  Runner runner() {
    return {[](void* self, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
              auto& watching = *static_cast<Watching*>(self);
              if (watching.calls++ == watching.from) start_counting();
              for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
            },
            this};
  }
};

/// How often a call asks the heap once it is laid out. A workspace that lacks one byte is laid out, and then refused: so many calls of the
/// runner are the layout's.
std::int64_t times_after_layout(Watching& watching, std::span<std::byte> workspace,
                                const std::function<Status(std::span<std::byte>)>& run) {
  watching = {};
  EXPECT_FALSE(run(workspace.first(workspace.size() - 1)).ok());
  watching = {.from = watching.calls};
  const Status status = run(workspace);
  stop_counting();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(watching.calls, watching.from);
  return times_taken;
}

TEST(attention_workspace, nothing_asks_the_heap_after_the_layout) {
  for (const Scheme& scheme : kSchemes) {
    constexpr std::int64_t n = 512;
    Long call(n);
    scheme.add(call);
    Watching watching;
    call.spec.execution.runner = watching.runner();
    std::vector<float> out(static_cast<std::size_t>(n * kWidth));
    std::vector<float> lse(static_cast<std::size_t>(n));
    const AttentionOutputs outputs{view(out.data(), {1, n, 1, kWidth}), view(lse.data(), {1, n, 1, 1})};
    const AttentionSaved saved{outputs.out, outputs.lse, call.in[2]};
    std::vector<std::byte> forward(static_cast<std::size_t>(call.forward_bytes()));
    std::vector<std::byte> backward(static_cast<std::size_t>(call.backward_bytes()));
    EXPECT_EQ(times_after_layout(watching, forward, [&](auto some) { return attention(call.call(), call.spec, outputs, some); }), 0)
        << scheme.name;
    EXPECT_EQ(times_after_layout(watching, backward,
                                 [&](auto some) { return attention_backward(call.call(), call.spec, saved, call.gradients, some); }),
              0)
        << scheme.name << ", backward";
  }
}

TEST(attention_workspace, no_gradient_of_a_term_asks_the_heap_after_the_layout) {
  for (const Family& family : kFamilies) {
    Packed call(8);
    family.add(call);
    Watching watching;
    call.spec.execution.runner = watching.runner();
    std::vector<float> out(static_cast<std::size_t>(call.size()));
    std::vector<float> lse(static_cast<std::size_t>(call.tokens * kHeads));
    const AttentionSaved saved{view(out.data(), {1, call.tokens, kHeads, kWidth}), view(lse.data(), {1, call.tokens, kHeads, 1}),
                               call.in[2]};
    std::vector<std::byte> workspace(static_cast<std::size_t>(call.backward_bytes()));
    EXPECT_EQ(times_after_layout(watching, workspace,
                                 [&](auto some) { return attention_backward(call.call(), call.spec, saved, call.gradients, some); }),
              0)
        << family.name;
  }
}

/// The counter counts: otherwise the test above could not fail.
TEST(attention_workspace, the_heap_is_watched) {
  start_counting();
  for (int i = 0; i < 3; ++i) {
    std::vector<char> some(100000);
    volatile char* touched = some.data();
    *touched = 1;
  }
  const std::int64_t heap = stop_counting();
  EXPECT_GE(heap, 100000);
  EXPECT_LE(heap, 110000);
}

}  // namespace
}  // namespace phasor::test
