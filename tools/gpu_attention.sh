#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test of a GoogleTest program in a process of its own, several at once: after a fault in a kernel nothing else runs in that process, and
# the other tests must not fail for it. Prints what failed, then one line with the counts: tools/gpu_attention.sh PROGRAM
# JOBS: how many at once (8). EVERY: of each suite its first test and then every so many (1). RUN_BY: a command that runs the program, as compute-sanitizer
# does. LIMIT: seconds of a test (300).
set -uo pipefail
program=$1

# Not on a GPU: what the host looks at in memory (starts of sequences, positions, parameters of biases), which is the caller's word there; what
# is about the CPU's threads, targets and the size of its workspace; what explain_attention says of the CPU; bits of a gradient that is asked for
# alone (which gradients are asked for decides how a call is cut into blocks, and so the order of their sums); bits of two
# calls that different kernels take (float32 results of 16 bits).
left_out=(
  '*what_does_not_fit*' '*any_runner*' '*on_every_target*' '*threads*'
  attention_call.sequences_that_do_not_rise_from_0_to_the_end attention_call.positions_that_are_no_integers_or_too_far
  attention_call.memory_that_overlaps attention_call.contents_that_cannot_be
  bias_term.a_position_before_a_window_is_refused_where_tokens_have_it_anyway
  attention_given_workspace.of_blocks_gives_the_bits_of_one_piece bias_parameters.that_do_not_fit_are_refused_with_words
  attention_backward_terms.one_term_alone_has_the_bits_of_all
  attention_wide_results.rounded_are_the_narrow_ones_to_the_bit 'explain_attention.*'
)
filter=-$(IFS=:; echo "${left_out[*]}")

one() {
  local output
  output=$(timeout "${LIMIT:-300}" ${RUN_BY:-} "$1" --gtest_brief=1 --gtest_filter="$2" 2>&1) && return
  printf 'FAIL: %s\n%s\n' "$2" "$(grep -v '^\[==' <<<"$output" | head -12)"
}
export -f one
# "suite." and, indented, its tests.
tests=$("$program" --gtest_list_tests --gtest_filter="$filter" | awk -v every="${EVERY:-1}" '/^[^ ]/ { suite = $1; n = 0 } /^ / { if (n++ % every == 0) print suite $1 }')
failures=$(xargs -P "${JOBS:-8}" -I{} bash -c "one '$program' {}" <<<"$tests")
[ -z "$failures" ] || printf '%s\n' "$failures"
failed=$(grep -c '^FAIL: ' <<<"$failures")
echo "$(wc -l <<<"$tests") tests, $failed failed"
[ "$failed" = 0 ]
