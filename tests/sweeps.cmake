# SPDX-License-Identifier: Apache-2.0
# The sweeps: tests that took over half a second on a Neoverse-N1, over many inputs of which the other tests hold a few of every kind. `make test` runs
# them, natively on either architecture. Emulators (qemu, Node), the address sanitizer and clang do not: they take ten times as long there, or show
# nothing that the short ones do not. What promises the same bits on every target keeps a part everywhere: the hash,
# ProfileLayout.every_target_gives_the_same_bits and AxesModels.every_dtype_of_gemma4_vision_...; of attention's gradients
# attention_packed.on_every_target. Times: build/dev/Testing/Temporary/CTestCostData.txt after make test. A name that is no test's fails
# tests/tools/ci_scripts_test.py.
set(sweeps
  # attention/terms/backward_terms_test.cpp
  attention_backward_terms.together_are_the_reference
  # attention/backward_test.cpp
  attention_backward.float32_is_the_reference_within_its_rounding
  attention_backward.float64_is_the_reference
  attention_backward.sixteen_bits_are_the_reference_within_their_rounding
  # attention/terms/bias_term_test.cpp
  bias_term.every_scheme_under_every_mask_is_the_reference
  bias_term.keys_that_move_with_their_positions_change_nothing
  bias_term.positions_2_to_the_40_apart
  bias_term.several_at_once_beside_a_prefix
  # attention/terms/bias_tile_test.cpp
  bias_tile.fire_of_every_perceptron_on_both_sides_of_its_length
  # attention/content_test.cpp
  attention_content.every_content_has_the_gradients_of_the_reference
  attention_content.every_content_is_the_reference
  attention_content.every_content_is_the_reference_at_positions_in_any_order
  attention_content.every_content_is_the_reference_in_16_bits
  attention_content.plain_is_the_reference_with_every_mask_and_shape
  attention_content.rotating_inside_is_rotating_before
  # attention/narrow_test.cpp
  attention_narrow.dropout
  attention_narrow.dropout_of_wide_heads
  attention_narrow.features
  attention_narrow.features_as_they_come
  attention_narrow.features_of_any_length
  attention_narrow.features_of_wide_heads
  attention_narrow.every_mask_of_wide_heads
  attention_narrow.every_mask_without_terms
  attention_narrow.gradients_have_the_same_bits_again
  attention_narrow.many_terms_with_masks
  attention_narrow.outputs_of_tables_over_many_tiles
  attention_narrow.rotated
  attention_narrow.rotated_beside_tables
  attention_narrow.rotated_of_any_length
  attention_narrow.rotated_of_wide_heads
  attention_narrow.soft_caps
  attention_narrow.soft_caps_of_wide_heads
  attention_narrow.tables_and_biases
  attention_narrow.tables_and_biases_of_wide_heads
  attention_narrow.tables_of_values
  attention_narrow.tables_of_values_over_many_tiles
  attention_narrow.tables_of_wide_values
  attention_narrow.tables_over_many_tiles
  # attention/general/mma_rotated_test.cpp
  MmaRotated.has_any_length
  MmaRotated.has_the_gradients_of_any_length
  MmaRotated.has_the_gradients_of_the_reference
  MmaRotated.is_the_reference
  MmaRotated.is_the_reference_beside_tables
  MmaRotated.is_the_reference_in_f16
  MmaRotated.is_what_rotating_before_gives_to_the_bit
  MmaRotated.of_wide_heads_has_the_gradients_of_the_reference
  MmaRotated.of_wide_heads_is_the_reference
  MmaRotated.what_nobody_sees_takes_no_part
  # attention/general/mma_backward_test.cpp
  MmaBackward.cope
  MmaBackward.cope_at_the_ends_of_its_table
  MmaBackward.cope_of_a_sequence_does_not_depend_on_others
  MmaBackward.cope_of_any_length
  MmaBackward.cope_of_wide_heads
  MmaBackward.cope_over_many_tiles
  MmaBackward.cope_under_every_mask
  MmaBackward.dropout
  MmaBackward.dropout_of_wide_heads
  MmaBackward.every_mask_without_terms
  MmaBackward.features
  MmaBackward.features_as_they_come
  MmaBackward.features_of_any_length
  MmaBackward.features_of_queries_that_see_nothing_take_no_part
  MmaBackward.features_of_wide_heads
  MmaBackward.features_whose_gradients_are_not_wanted
  MmaBackward.gradients_of_a_sink_alone_reach_nobody_else
  MmaBackward.many_terms_with_masks
  MmaBackward.queries_that_see_nothing_take_no_part
  MmaBackward.soft_caps
  MmaBackward.soft_caps_of_wide_heads
  MmaBackward.tables_and_biases
  MmaBackward.tables_and_biases_of_wide_heads
  MmaBackward.tables_of_values
  MmaBackward.tables_of_values_over_many_tiles
  MmaBackward.tables_of_wide_values
  MmaBackward.tables_over_many_tiles
  MmaBackward.what_nobody_sees_takes_no_part
  # attention/general/mma_chunks_test.cpp
  MmaChunks.any_length
  MmaChunks.dropout
  MmaChunks.every_mask
  MmaChunks.features
  MmaChunks.have_the_bits_of_all_keys_at_once
  MmaChunks.many_terms_with_masks
  MmaChunks.soft_caps
  MmaChunks.tables_of_values
  MmaChunks.tables_over_many_chunks
  MmaChunks.tables_shifts_and_biases
  MmaChunks.wide_heads
  # attention/general/mma_forward_test.cpp
  MmaForward.what_nobody_sees_takes_no_part
  MmaForward.cope
  MmaForward.cope_at_the_ends_of_its_table
  MmaForward.cope_of_any_length
  MmaForward.cope_of_wide_heads
  MmaForward.cope_over_many_tiles
  MmaForward.cope_under_every_mask
  MmaForward.cope_with_a_cap_and_more_channels
  MmaForward.every_mask_without_terms
  MmaForward.many_terms_with_masks
  MmaForward.tables_and_biases
  MmaForward.tables_and_biases_of_wide_heads
  MmaForward.tables_of_values
  MmaForward.tables_of_values_over_many_tiles
  MmaForward.tables_of_wide_values
  MmaForward.tables_over_many_tiles
  # attention/general/mma_dense_test.cpp
  MmaDense.adds_them_however_they_lie
  MmaDense.has_the_gradients_of_the_reference
  MmaDense.has_them_beside_other_terms
  MmaDense.has_them_of_any_length
  MmaDense.has_them_under_every_mask
  # attention/general/mma_wide_test.cpp
  MmaWide.all_of_it_of_wide_heads
  MmaWide.all_of_it_under_every_mask
  MmaWide.all_of_it_with_caps
  MmaWide.all_of_it_with_cope
  MmaWide.all_of_it_with_dropout
  MmaWide.all_of_it_with_many_terms
  MmaWide.all_of_it_with_tables_of_values
  MmaWide.all_of_it_with_terms
  MmaWide.gradients_of_wide_heads
  MmaWide.gradients_under_every_mask
  MmaWide.gradients_with_cope
  MmaWide.gradients_with_features
  MmaWide.gradients_with_tables_of_values
  MmaWide.gradients_with_terms
  MmaWide.outputs_of_any_length_however_they_lie
  MmaWide.outputs_of_wide_heads
  MmaWide.outputs_under_every_mask
  MmaWide.outputs_with_cope
  MmaWide.outputs_with_many_terms
  MmaWide.outputs_with_tables_of_values
  MmaWide.outputs_with_terms
  MmaWide.queries_that_see_nothing_take_no_part
  # attention/general/backward_test.cpp
  CudaAttentionBackwardOnHost.many_terms_are_the_reference
  CudaAttentionBackwardOnHost.positions_that_are_given
  CudaAttentionBackwardOnHost.sequences_of_a_varlen_batch
  CudaAttentionBackwardOnHost.sinks_and_dropout_in_every_dtype
  CudaAttentionBackwardOnHost.what_nobody_sees_takes_no_part
  # attention/general/gathered_test.cpp
  Gathered.every_mask_and_shape_is_the_reference
  Gathered.has_ragged_sequences_of_any_length
  Gathered.has_sequences_of_any_length
  Gathered.has_sequences_of_any_length_by_mma
  GatheredByMma.cope
  GatheredByMma.cope_of_any_length
  GatheredByMma.features
  GatheredByMma.many_terms
  GatheredByMma.rotated
  GatheredByMma.tables_of_values
  # attention/general/general_test.cpp
  CudaAttentionOnHost.every_mask_and_shape_is_the_reference
  # attention/terms/cope_narrow_test.cpp
  NarrowCope.any_length
  NarrowCope.ends_of_the_table
  NarrowCope.every_mask
  NarrowCope.many_tiles
  NarrowCope.tables_of_any_rows
  NarrowCope.wide_heads
  # attention/terms/cope_test.cpp
  attention_cope.a_few_queries_against_a_cache
  attention_cope.many_tiles_beyond_saturation
  attention_cope.only_keys_that_are_seen_count
  attention_cope.queries_in_any_order_and_keys_with_gaps
  attention_cope.rotated_contents_leave_gates_alone
  attention_cope.tables_of_one_row_few_rows_and_more_than_there_are_keys
  # attention/decode_test.cpp
  attention_added.by_the_softmax_or_before_it_in_a_tile_and_a_row
  attention_added.by_the_softmax_or_before_it_in_many_tiles
  attention_added.by_the_softmax_or_before_it_in_whole_tiles
  attention_added.by_the_softmax_or_before_it_with_fewer_keys_than_queries
  # attention/terms/dense_test.cpp
  attention_dense.every_way_to_share_axes
  attention_dense.many_key_tiles_and_one_query
  # attention/dropout_test.cpp
  attention_dropout.every_shape_and_mask_as_the_reference
  attention_dropout.gradients_of_the_reference_are_its_differences
  attention_dropout.narrow_dtypes_and_decoding_as_the_reference
  attention_dropout.packed_sequences
  # attention/terms/grid_test.cpp
  attention_grid.sam_in_windows_of_any_width
  attention_grid.swin_and_beit_in_windows_of_any_width
  attention_grid.tokens_in_any_order
  attention_grid.tokens_may_repeat
  # attention/terms/key_table_test.cpp
  attention_key_table.clips_at_and_around_the_edges_of_tiles
  attention_key_table.deberta_under_every_mask
  attention_key_table.every_reading_of_deberta
  # attention/terms/packed_test.cpp
  attention_packed.a_key_table_is_as_one_call_per_sequence
  attention_packed.batch_rows_at_positions_far_apart
  attention_packed.clips_shorter_and_longer_than_sequences
  attention_packed.cope_of_more_rows_than_a_sequence_has_keys
  attention_packed.every_distance_beyond_the_clip
  attention_packed.every_family_at_positions_in_any_order
  attention_packed.every_family_under_every_mask
  attention_packed.parts_of_keys_of_sequences_that_share_sums
  attention_packed.positions_in_any_order_and_far_apart
  # attention/terms/query_table_test.cpp
  attention_query_table.deberta_under_every_mask
  attention_query_table.deberta_in_its_three_readings_and_without_buckets
  attention_query_table.shaw_clips_at_and_around_the_edges_of_tiles
  attention_query_table.shaw_clips_that_differ_left_and_right
  attention_query_table.shaw_under_every_mask
  attention_query_table.transformer_xl_under_every_mask
  attention_query_table.xlnet_reads_batch_rows_in_both_directions
  # attention/reference_tests/reference_gradient_test.cpp
  attention_reference_gradient.every_scheme_with_grouped_heads_and_batches
  # attention/reference_tests/reference_mask_test.cpp
  attention_reference_mask.queries_that_see_nothing_give_zeros_and_no_gradient
  # attention/reference_tests/reference_traps_test.cpp
  attention_reference_traps.buckets_are_those_that_transformers_has
  # attention/scheme_test.cpp
  attention_scheme.many_terms_add_up_whether_it_decodes_or_not
  # attention/terms/segment_test.cpp
  attention_segment.xlnet_under_every_mask
  # attention/sinks_test.cpp
  attention_sinks.are_the_reference_beside_every_scheme
  attention_sinks.are_the_reference_in_the_matrix_unit
  attention_sinks.are_the_reference_with_every_mask_shape_and_dtype
  attention_sinks.decode_as_the_reference_on_every_target
  attention_sinks.leave_a_certified_skip_right
  # attention/threads_test.cpp
  attention_threads.every_scheme_has_the_same_bits_on_a_pool_of_threads
  # attention/terms/value_table_test.cpp
  attention_value_table.clipped_under_every_mask
  attention_value_table.clips_at_and_around_the_edges_of_tiles
  attention_value_table.clips_that_differ_left_and_right
  attention_value_table.sliding_under_every_mask
  # attention/weights_test.cpp
  attention_weights.every_shape_and_mask
  attention_weights.several_tiles_on_every_target
  # attention/dropout_test.cpp
  attention_dropout.schemes_as_the_reference_on_every_target
  # attention/workspace_test.cpp
  attention_workspace.is_all_the_memory_that_is_used
  attention_workspace.no_gradient_of_a_term_asks_the_heap_after_the_layout
  attention_workspace.is_all_the_memory_that_packed_sequences_use
  attention_workspace.of_packed_sequences_grows_with_their_tokens
  # cpu/softmax_rows_test.cpp
  AttentionTanh.is_near_tanh_and_odd
  # ops/rotary/axes_models_test.cpp
  AxesModels.a_rotary_part_may_begin_anywhere_in_the_head
  AxesModels.every_dtype_is_the_formula_bit_for_bit_on_every_target
  AxesModels.the_transpose_is_the_adjoint_of_each_pair
  # ops/bias/bias_golden_test.cpp
  bias_golden.t5_buckets_are_those_of_transformers_but_where_its_float32_logarithm_errs
  # plan/bias_oracle_test.cpp
  bias_oracle.deberta_rows_of_every_reading_are_the_logarithm_at_every_distance_to_a_million
  bias_oracle.t5_buckets_behind_are_the_logarithm_at_every_distance_to_a_million
  bias_oracle.t5_buckets_of_both_sides_are_the_logarithm_at_every_distance_to_a_million
  # ops/rotary/rotaries_test.cpp
  Rotaries.hundreds_of_random_calls_give_each_row_what_a_call_of_its_spec_gives
  # ops/rotary/directions_test.cpp
  Directions.mixed_rotations_of_every_head_are_the_formula_bit_for_bit
  # ops/profile/profile_layout_test.cpp
  ProfileLayout.every_target_gives_the_same_bits_of_wide_heads
  ProfileLayout.strides_batch_and_threads_do_not_matter
  # cuda/host/block_test.cpp
  CudaOnHost.keys_that_move_have_kernels_of_their_own_and_give_the_bits_of_the_cpu
  CudaOnHost.thousands_of_random_calls_give_the_bits_of_the_cpu
  # cuda/host/hopper/hopper_strip_test.cpp
  HopperStrip.scores_find_their_products
  # cuda/host/hopper: kernels around Hopper's, emulated
  HopperBand.gradients_are_what_threads_left
  HopperBand.products_are_where_threads_read_them
  HopperTable.gradients_are_what_threads_left
  HopperTable.products_are_where_threads_read_them
  HopperValues.keep_weights_by_distance
  # cuda/host/operations_test.cpp
  CudaOperationsOnHost.sums_over_many_tokens_have_the_bits_of_the_cpu
  CudaOperationsOnHost.thousands_of_random_calls_give_the_bits_of_the_cpu
  # math/sincos_quick_test.cpp
  SinCosQuick.every_angle_is_off_by_what_its_bounds_are_made_of
  # cuda/host/prepare_emulated_test.cpp
  EmulatedPrepare.threads_of_many_calls_wait_for_what_others_write
  # cuda/host/prepare_routes_test.cpp
  PrepareRoutes.random_calls_walk_on_gpus_of_up_to_175_multiprocessors
  # cuda/host/prepare_test.cpp
  CudaPrepareOnHost.hundreds_of_random_calls_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.hundreds_of_calls_of_mla_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.hundreds_of_plain_calls_of_mla_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.hundreds_of_calls_of_models_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.plain_calls_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.squads_give_plain_calls_the_bytes_of_the_cpu_too
  CudaPrepareOnHost.values_by_channels_have_a_kernel_of_their_own_and_give_the_bytes_of_the_cpu
  CudaPrepareOnHost.plain_calls_of_mla_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu
  # cuda/host/backward_test.cpp
  CudaBackwardOnHost.hundreds_of_random_calls_give_the_bytes_of_the_cpu
  # prepare/backward_random_test.cpp, prepare/backward_test.cpp
  RandomBackwards.by_hundreds_give_what_the_naive_one_gives
  NaiveBackward.is_the_slope_of_what_the_naive_step_gives
  Backward.is_close_to_the_gradient_without_rounding
  Backwards.do_not_depend_on_threads
  # prepare/random_test.cpp
  RandomPrepares.by_hundreds_give_what_the_naive_one_gives
  # spec/serialised_test.cpp
  Serialised.what_would_be_too_long_to_read_is_not_written
  # attention/general/backward_test.cpp
  SeveralCopesOnHost.count_for_themselves
  WidePerceptronOnHost.has_its_gradients_score_by_score
  # attention/general/drafts_test.cpp
  TreeDrafts.are_their_branches_when_gathered_for_mma
  # attention/general/ragged_by_key_test.cpp
  RaggedByKey.is_the_cpu_by_mma
)
