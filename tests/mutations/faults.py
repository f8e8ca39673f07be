"""Faults that the tests must catch: each a small change to the code, and the test that turns red by it.

Most are faults that projects like this one have really had: they train, they give numbers, and the numbers are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """In `file` (below the package), `old`, which is there exactly once, becomes `new`; then `test` fails."""

    name: str
    file: str
    old: str
    new: str
    test: str


BATTERY = "tests/nn/test_battery.py::test_property"
CAUSAL, REVERSAL, PADS = "causality", "reversal", "pad_invariance"
EQUATIONS = "tests/nn/test_attention_equations.py"
MASKS = "tests/nn/test_masks.py"
NUMERICS = "tests/nn/test_position_numerics.py"
INIT = "tests/nn/test_initial_values.py"
PLACEMENT = "tests/nn/test_norm_placement.py"
REFERENCES = "tests/nn/test_position_references.py"
STACKS = "tests/nn/test_position_stack.py"
CHUNKS = "tests/nn/test_chunked_attention.py"
STREAMS = "tests/keyed/test_random_streams.py"
DATA = "tests/training/test_data.py"
ITEMS = "tests/tasks/test_task_items.py"
LAYOUTS = "tests/tasks/test_task_layouts.py"
LENGTHS = "tests/evaluation/test_lengths.py"
DECODING = "tests/evaluation/test_decoding.py"
SYMMETRY = "tests/evaluation/test_symmetry.py"
METRICS = "tests/training/test_metrics.py"
OPTIM = "tests/training/test_optim.py"
CHECKPOINTS = "tests/training/test_checkpoints.py"
RESUME = "tests/training/test_resume.py"
FIT = "tests/training/test_fit.py"
IDENTITY = "tests/runs/test_identity.py"
REFUSALS = "tests/config/test_config_refusals.py"
RUN = "tests/cli/test_pipeline.py"
SWEEP = "tests/sweeps/test_sweep.py"
JOBS = "tests/sweeps/test_jobs.py"
SLOTS = "tests/sweeps/test_slots.py"
LOCAL = "tests/sweeps/test_local.py"
LIFELINE = "tests/sweeps/test_lifeline.py"
SLURM_ANSWERS = "tests/slurm/test_slurm_refusals.py"
SLURM_TASK = "tests/slurm/test_slurm_task.py"
STATISTICS = "tests/report/test_report_statistics.py"
STUDIES = "tests/report/test_report_studies.py"

MASKING = [
    Fault(
        "causal mask off by one",
        "nn/attention/kernel.py",
        "dtype=torch.bool, device=device).tril()",
        "dtype=torch.bool, device=device).tril(1)",
        f"{BATTERY}[scaled-none-{CAUSAL}]",
    ),
    Fault(
        "causal mask hides the token itself",
        "nn/attention/kernel.py",
        "dtype=torch.bool, device=device).tril()",
        "dtype=torch.bool, device=device).tril(-1)",
        f"{EQUATIONS}::test_equal_to_pytorch[False-True-True-2]",
    ),
    Fault(
        "causal mask dropped where there are pads",
        "nn/attention/kernel.py",
        "    if causal:\n",
        "    if causal and num_queries == 0:\n",
        f"{BATTERY}[scaled-none-{CAUSAL}]",
    ),
    Fault(
        "causal mask dropped where there are no pads",
        "nn/attention/kernel.py",
        "dropout_p=dropout, is_causal=causal",
        "dropout_p=dropout, is_causal=False",
        f"{BATTERY}[scaled-none-{CAUSAL}]",
    ),
    Fault(
        "causal mask dropped where there is a bias",
        "nn/attention/kernel.py",
        "allowed = lower_triangle(q.shape[-2], k.shape[-2], q.device)",
        "allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)",
        f"{BATTERY}[scaled-alibi-{CAUSAL}]",
    ),
    Fault(
        "causal mask dropped when maps are asked for",
        "nn/attention/base.py",
        "causal, allowed = context.causal, context.allowed",
        "causal, allowed = context.causal and maps is None, context.allowed",
        f"{BATTERY}[scaled-none-path_agreement]",
    ),
    Fault(
        "maps that show no causal mask",
        "nn/attention/kernel.py",
        "if allowed is None and causal:",
        "if allowed is None and causal is None:",
        f"{EQUATIONS}::test_equal_to_pytorch[False-False-True-2]",
    ),
    Fault(
        "pads unmasked",
        "nn/attention/kernel.py",
        "allowed = key_mask[:, None, None, :]",
        "allowed = torch.ones_like(key_mask)[:, None, None, :]",
        f"{BATTERY}[scaled-none-{PADS}]",
    ),
    Fault(
        "mask polarity flipped",
        "nn/attention/kernel.py",
        "mask = allowed if bias is None",
        "mask = ~allowed if bias is None",
        f"{EQUATIONS}::test_equal_to_pytorch[False-True-False-2]",
    ),
    Fault(
        "a query without keys reads nothing",
        "nn/attention/kernel.py",
        "allowed = allowed | (itself & ~allowed.any(dim=-1, keepdim=True))",
        "del itself",
        f"{MASKS}::test_a_query_without_keys_reads_itself",
    ),
    Fault(
        "a sample without real tokens gives NaN",
        "nn/stack.py",
        "batch.key_mask | ~batch.key_mask.any(dim=1, keepdim=True)",
        "batch.key_mask",
        f"{MASKS}::test_a_sample_without_a_real_token[dtype0-HardAttention-Encoder]",
    ),
    Fault(
        "the source's pads are read across",
        "nn/stack.py",
        "allowed=allowed_keys(count, memory.x.shape[1], False, memory.key_mask)",
        "allowed=None",
        f"{MASKS}::test_cross_attention_hides_the_sources_pads",
    ),
    Fault(
        "pads count in the mean that is read",
        "nn/transformer.py",
        "    if key_mask is None:\n        return x.mean",
        "    if True:\n        return x.mean",
        f"{MASKS}::test_the_mean_readout_ignores_pads[NoPosition]",
    ),
]

ATTENTION = [
    Fault(
        "heads split without transposing",
        "nn/attention/base.py",
        "x.unflatten(-1, (heads, -1)).transpose(1, 2)",
        "x.reshape(x.shape[0], heads, x.shape[1], -1)",
        f"{EQUATIONS}::test_dot_product_attention[ScaledAttention-2]",
    ),
    Fault(
        "heads joined without transposing",
        "nn/attention/base.py",
        "heads.transpose(1, 2).flatten(2)",
        "heads.reshape(heads.shape[0], heads.shape[2], -1)",
        f"{EQUATIONS}::test_equal_to_pytorch[False-False-False-2]",
    ),
    Fault(
        "samples read their batch-mates",
        "nn/attention/scaled.py",
        "self.key(source), self.value(source)\n",
        "self.key(source), self.value(source + 1e-3 * source.mean(0))\n",
        f"{BATTERY}[scaled-none-batch_independence]",
    ),
    Fault(
        "scale by the full width",
        "nn/attention/scaled.py",
        "self.logit_scale(key_dim)",
        "self.logit_scale(width)",
        f"{EQUATIONS}::test_dot_product_attention[ScaledAttention-4]",
    ),
    Fault(
        "scale missing",
        "nn/attention/scaled.py",
        "return key_dim**-0.5",
        "return 1.0",
        f"{EQUATIONS}::test_dot_product_attention[ScaledAttention-1]",
    ),
    Fault(
        "the fused kernel's own scale",
        "nn/attention/kernel.py",
        "is_causal=causal, scale=scale",
        "is_causal=causal",
        f"{EQUATIONS}::test_dot_product_attention[UnscaledAttention-2]",
    ),
    Fault(
        "attention dropout on in evaluation",
        "nn/attention/base.py",
        "self.dropout if self.training else 0.0",
        "self.dropout",
        f"{MASKS}::test_dropout_ends_with_training[ScaledAttention]",
    ),
    Fault(
        "pre-norm adds the residual to the normalised input",
        "nn/norm.py",
        "return self.add(x, sublayer(self.before(x)))",
        "return self.add(self.before(x), sublayer(self.before(x)))",
        f"{PLACEMENT}::test_silent_sublayers_leave_the_residual_stream",
    ),
    Fault(
        "one more norm after a post-norm stack",
        "nn/stack.py",
        "if self._placement.final else nn.Identity()",
        "if True else nn.Identity()",
        f"{PLACEMENT}::test_pre_norm_ends_with_one_norm_and_post_norm_does_not[post-4]",
    ),
]

POSITION = [
    Fault(
        "position row shifted by one",
        "nn/position/embedding.py",
        "context.query_numbers() + self.origin",
        "context.query_numbers() + self.origin + 1",
        f"{NUMERICS}::test_the_notes_construction[4-4-100]",
    ),
    Fault(
        "one row added to every token",
        "nn/position/embedding.py",
        "return x + r\n",
        "return x + r[:, -1:]\n",
        f"{NUMERICS}::test_row_t_goes_to_token_t",
    ),
    Fault(
        "sinusoid's exponent is the column index, twice",
        "nn/position/sinusoidal.py",
        "base ** (-i / self.columns)",
        "base ** (-2 * i / self.columns)",
        f"{NUMERICS}::test_width_four_position_one",
    ),
    Fault(
        "sinusoid's phases by a matrix product under autocast",
        "nn/position/sinusoidal.py",
        "numbers[..., None].to(dtype) * self.frequencies.like(numbers.device, dtype)",
        "numbers[..., None].to(dtype) @ self.frequencies.like(numbers.device, dtype)[None]",
        f"{BATTERY.replace('property', 'tables_in_bfloat16_are_the_float32_tables_rounded')}[sinusoidal]",
    ),
    Fault(
        "frequencies of a float64 model in float32",
        "nn/position/contract.py",
        "torch.tensor(self.values, dtype=dtype, device=device)",
        "torch.tensor(self.values, device=device).to(dtype)",
        f"{NUMERICS}::test_the_notes_construction[100-128-10000]",
    ),
    Fault(
        "rotary tables in bfloat16",
        "nn/position/rotary.py",
        "dtype = torch.promote_types(x.dtype, torch.float32)",
        "dtype = x.dtype",
        f"{BATTERY.replace('property', 'rotation_in_bfloat16')}[False]",
    ),
    Fault(
        "rotary's table of neighbours turns halves",
        "nn/position/rotary.py",
        "turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)",
        "half = torch.cat(x.chunk(2, -1)[::-1], -1) * torch.tensor([-1, 1]).repeat_interleave(x.shape[-1] // 2)\n"
        "        turned = (x * cos.repeat_interleave(2, -1) + half * sin.repeat_interleave(2, -1))[..., None]",
        f"{NUMERICS}::test_rotary_score_is_relative_and_keeps_norms",
    ),
    Fault(
        "rotary turns along the heads",
        "nn/position/rotary.py",
        "numbers[:, None, :, None]",
        "numbers[:, : x.shape[1], None, None]",
        f"{NUMERICS}::test_rotary_turns_by_position_not_by_head",
    ),
    Fault(
        "rotary turns keys backwards",
        "nn/position/rotary.py",
        "self._turn(k, context.key_numbers())",
        "self._turn(k, -context.key_numbers())",
        f"{BATTERY}[scaled-rotary-shift]",
    ),
    Fault(
        "ALiBi's sign flipped",
        "nn/position/alibi.py",
        "return -behind * distances",
        "return behind * distances",
        f"{NUMERICS}::test_alibi_weights_fall_with_distance[False]",
    ),
    Fault(
        "ALiBi's plain formula for six heads",
        "nn/position/alibi.py",
        "return exact if power == heads else",
        "return [2 ** (-8 * h / heads) for h in range(1, heads + 1)] or",
        f"{NUMERICS}::test_alibi_slopes[6-expected2]",
    ),
    Fault(
        "ALiBi's slopes begin at one",
        "nn/position/alibi.py",
        "for h in range(1, power + 1)",
        "for h in range(power)",
        f"{NUMERICS}::test_alibi_slopes[8-expected3]",
    ),
    Fault(
        "ALiBi's slopes kept on the class",
        "nn/position/alibi.py",
        "self.slopes = Constant(slopes(sizes.heads))",
        "self.slopes = self.__class__.kept = getattr(self, 'kept', None) or Constant(slopes(sizes.heads))",
        f"{NUMERICS}::test_alibi_slopes[12-expected4]",
    ),
    Fault(
        "one-row ALiBi in both directions",
        "nn/position/alibi.py",
        "distances = offsets.abs()[..., None, :, :]",
        "distances = -offsets[..., None, :, :]",
        f"{BATTERY}[scaled-alibi-{REVERSAL}]",
    ),
    Fault(
        "T5's buckets ahead and behind exchanged",
        "nn/position/t5.py",
        "self.buckets_behind * (offsets > 0)",
        "self.buckets_behind * (offsets < 0)",
        f"{NUMERICS}::test_t5_buckets[False]",
    ),
    Fault(
        "T5's buckets end one distance late",
        "nn/position/t5.py",
        "torch.bucketize(distances, self.starts, right=True)",
        "torch.bucketize(distances, self.starts)",
        f"{NUMERICS}::test_t5_buckets[True]",
    ),
    Fault(
        "unit interval of the padded length",
        "nn/position/unit_interval.py",
        "context.key_mask.sum(dim=1, keepdim=True)",
        "context.num_keys",
        f"{NUMERICS}::test_unit_interval_uses_the_samples_own_length",
    ),
    Fault(
        "a learned table begins again past its end",
        "nn/position/learned.py",
        "        if self.max_length is not None and last >= self.max_length:",
        "        numbers = numbers % self.table.num_embeddings\n        if last < 0:",
        f"{NUMERICS}::test_learned_beyond_its_training[untrained]",
    ),
    Fault(
        "untrained rows without a flag",
        "nn/position/learned.py",
        "if flag and num_positions > self.trained",
        "if flag and num_positions > self.table.num_embeddings",
        f"{NUMERICS}::test_learned_beyond_its_training[untrained]",
    ),
    Fault(
        "pads on the left are counted as positions",
        "nn/stack.py",
        "if batch.positions is None and pad_before_real:",
        "if batch.positions is not None and pad_before_real:",
        f"{BATTERY}[scaled-sinusoidal-{PADS}]",
    ),
]

RANDOMNESS = [
    Fault(
        "layers start equal",
        "nn/init.py",
        'philox("init", seed, name)',
        'philox("init", seed, "".join(letter for letter in name if not letter.isdigit()))',
        f"{INIT}::test_layers_and_heads_start_different[Rotary-ScaledAttention]",
    ),
    Fault(
        "initial values from one shared stream",
        "nn/init.py",
        'philox("init", seed, name)',
        'model.__dict__.setdefault("_stream", philox("init", seed))',
        f"{INIT}::test_one_change_is_one_change[position-Encoder]",
    ),
    Fault(
        "initial values without the seed",
        "nn/init.py",
        'philox("init", seed, name)',
        'philox("init", name)',
        f"{INIT}::test_values_depend_on_seed_and_name_alone",
    ),
    Fault(
        "a longer table has other first rows",
        "nn/init.py",
        "tuple(parameter.shape))\n",
        "tuple(parameter.shape)[::-1]).T\n",
        f"{INIT}::test_a_longer_table_starts_with_the_shorter_ones_rows",
    ),
    Fault(
        "keys of 32 bits",
        "keyed.py",
        'int.from_bytes(digest(*key), "little")',
        'int.from_bytes(digest(*key), "little") % 2**32',
        f"{STREAMS}::test_all_128_bits_of_a_key_reach_the_generator",
    ),
    Fault(
        "data seed cut to 32 bits",
        "training/data.py",
        'philox("batch", split, data_seed, step)',
        'philox("batch", split, data_seed % 2**32, step)',
        f"{DATA}::test_seed_step_and_split_all_reach_the_data[{{'seed': 4294967296}}]",
    ),
    Fault(
        "the seed does not reach the data",
        "training/data.py",
        'philox("batch", split, data_seed, step)',
        'philox("batch", split, step)',
        f"{DATA}::test_seed_step_and_split_all_reach_the_data[{{'seed': 1}}]",
    ),
    Fault(
        "a run's data seed is dropped",
        "pipeline.py",
        'data_seed=config["data_seed"]',
        "data_seed=0",
        f"{RUN}::test_both_seeds_reach_what_they_are_for",
    ),
    Fault(
        "a run's dropout has no seed",
        "pipeline.py",
        'init_seed=config["init_seed"]',
        "init_seed=0",
        f"{RUN}::test_both_seeds_reach_what_they_are_for",
    ),
    Fault(
        "a run's initial values follow the data seed",
        "build.py",
        'seed=config["init_seed"]',
        'seed=config["data_seed"]',
        f"{RUN}::test_both_seeds_reach_what_they_are_for",
    ),
    Fault(
        "the same batch at each step",
        "training/data.py",
        "step=0 if self.repeat_batch else step",
        "step=0",
        f"{DATA}::test_the_stream_starts_at_the_step_the_trainer_stands_at",
    ),
    Fault(
        "rank dropped from the slicing",
        "training/data.py",
        "start = (index * world + rank) * size",
        "start = index * world * size",
        f"{DATA}::test_ranks_and_micro_batches_share_out_the_batch[2-1]",
    ),
    Fault(
        "every rank validates on all items",
        "training/data.py",
        "chunk.rows(slice(rank, None, world))",
        "chunk.rows(slice(0, None))",
        f"{DATA}::test_validation_items_are_on_exactly_one_rank_each[2-33]",
    ),
    Fault(
        "test items keyed by the seed",
        "tasks/items.py",
        'philox("items", split, task.identity',
        'philox("items", __import__("torch").initial_seed(), split, task.identity',
        f"{ITEMS}::test_items_depend_on_task_length_and_index_only[last]",
    ),
    Fault(
        "test items keyed by their count",
        "tasks/items.py",
        "_block(task, split, length, index) for",
        "_block(task, split, length, index + 1000 * count) for",
        f"{ITEMS}::test_items_depend_on_task_length_and_index_only[last]",
    ),
    Fault(
        "test items depend on the lengths tested before",
        "evaluation/length.py",
        "examples = test_items(task, length, count)",
        'stream = model.__dict__.setdefault("_items", np.random.default_rng(0))\n'
        '    examples = task.generate(np.full(count, length), stream, "test")',
        f"{LENGTHS}::test_the_list_of_lengths_changes_nothing",
    ),
    Fault(
        "validation items are test items",
        "tasks/items.py",
        'return _items(task, "val", length, count)',
        'return _items(task, "test", length, count)',
        f"{ITEMS}::test_items_depend_on_task_length_and_index_only[last]",
    ),
    Fault(
        "dropout that is not keyed",
        "training/module.py",
        'seed_draws(seed63("dropout"',
        '(seed63("dropout"',
        f"{RESUME}::test_resumed_is_bit_equal_to_unbroken[6]",
    ),
    Fault(
        "the same dropout at each step",
        "training/module.py",
        "self.init_seed, micro.step, micro.index",
        "self.init_seed, micro.index",
        f"{FIT}::test_dropout_is_drawn_afresh_for_each_micro_batch_step_and_seed",
    ),
    Fault(
        "the same dropout in each micro-batch",
        "training/module.py",
        "self.init_seed, micro.step, micro.index",
        "self.init_seed, micro.step",
        f"{FIT}::test_dropout_is_drawn_afresh_for_each_micro_batch_step_and_seed",
    ),
]

TASKS = [
    Fault(
        "twins are not neighbours",
        "tasks/contract.py",
        "np.arange(2 * len(first)).reshape(2, -1).T.ravel()",
        "np.arange(2 * len(first))",
        f"{ITEMS}::test_word_order_items_are_anagram_twins[10-7]",
    ),
    Fault(
        "twins have the same label",
        "tasks/word_order.py",
        "good + bad - examples.answers[:, 0], examples.evidence",
        "examples.answers[:, 0], examples.evidence",
        f"{ITEMS}::test_word_order_items_are_anagram_twins[10-7]",
    ),
    Fault(
        "answers are read one place early",
        "tasks/layout.py",
        "return lengths + self.input_start  # the separator",
        "return lengths + self.input_start - 1  # the separator",
        f"{LAYOUTS}::test_hand_written_rows[label-False-decoder-end-tokens3-targets3]",
    ),
    Fault(
        "a decoder is shown the answer it must give",
        "tasks/layout.py",
        "_place(tokens, behind + 1, examples.answers",
        "_place(tokens, behind, examples.answers",
        f"{LAYOUTS}::test_hand_written_rows[sequence-False-decoder-end-tokens10-targets10]",
    ),
    Fault(
        "sort sorts the pads in",
        "tasks/strings.py",
        "np.where(real_places(lengths), inputs, len(self.symbols))",
        "inputs",
        "tests/tasks/test_task_solvers.py::test_generator_agrees_with_the_slow_solver[sort-{'symbols': 12}]",
    ),
]

MEASURING = [
    Fault(
        "loss is a mean of means under accumulation",
        "training/module.py",
        "/ max(1, micro.answer_tokens)",
        "/ (micro.count * (micro.batch.targets >= 0).sum())",
        "tests/training/test_loss.py::test_training_with_accumulation_reaches_the_same_weights",
    ),
    Fault(
        "macro-averaged accuracy",
        "training/metrics.py",
        "self.correct += (marks.right & marks.symbols).sum()",
        "right, symbols = marks.right, marks.symbols\n"
        "        kinds = [right[symbols & (targets == kind)].double().mean() for kind in targets[symbols].unique()]\n"
        "        self.correct += (torch.stack(kinds).mean() * symbols.sum()).long()",
        f"{METRICS}::test_token_accuracy_is_micro_averaged",
    ),
    Fault(
        "the end symbol counts in token accuracy, training",
        "evaluation/scores.py",
        "scored if end is None else scored & (targets != end)",
        "scored",
        f"{METRICS}::test_the_end_symbol_counts_for_exact_match_and_not_for_accuracy",
    ),
    Fault(
        "the end symbol counts in token accuracy, testing",
        "evaluation/scores.py",
        "symbols = scored if end is None else scored & (targets != end)",
        "symbols = scored",
        f"{LENGTHS}::test_one_wrong_symbol_fails_the_sequence_but_not_the_symbols",
    ),
    Fault(
        "exact match is a mean over symbols, training",
        "training/metrics.py",
        "self.exact.double() / self.sequences",
        "self.correct.double() / self.symbols",
        f"{METRICS}::test_the_end_symbol_counts_for_exact_match_and_not_for_accuracy",
    ),
    Fault(
        "exact match is a mean over symbols, testing",
        "evaluation/scores.py",
        "exact=marks.exact.cpu()",
        "exact=(marks.right.sum(1) / marks.scored.sum(1)).cpu()",
        f"{LENGTHS}::test_one_wrong_symbol_fails_the_sequence_but_not_the_symbols",
    ),
    Fault(
        "the stratum's border off by one",
        "evaluation/length.py",
        "(evidence < longest_trained)",
        "(evidence <= longest_trained)",
        f"{LENGTHS}::test_strata_split_by_where_the_evidence_lies",
    ),
    Fault(
        "the border of trained positions taken from the test",
        "evaluation/length.py",
        "_strata(examples.evidence, longest_trained)",
        "_strata(examples.evidence, length)",
        f"{LENGTHS}::test_strata_split_by_where_the_evidence_lies",
    ),
    Fault(
        "extrapolation over the lengths that an encoding reaches",
        "evaluation/length.py",
        "if known and len(known) == len(figures) else None",
        "if known else None",
        f"{LENGTHS}::test_summary_does_not_average_over_the_lengths_an_encoding_happens_to_reach",
    ),
    Fault(
        "teacher forcing where a prefix is not stable",
        "evaluation/length.py",
        'return "teacher_forced" if model.prefix_stable else "greedy"',
        'return "teacher_forced"',
        f"{LENGTHS}::test_right_answers_score_one_when_really_decoded[Reverse-decoder]",
    ),
    Fault(
        "a single label is called taught by forcing",
        "evaluation/length.py",
        "    if not layout.autoregressive:\n",
        '    if layout.shape == "encoder":\n',
        f"{LENGTHS}::test_only_what_reads_its_own_answers_is_taught_by_forcing[WordOrder-decoder-parallel]",
    ),
    Fault(
        "baselines of teacher forcing for those who are not forced",
        "evaluation/length.py",
        "if forced or name not in TEACHER_FORCED",
        "if forced or name",
        f"{LENGTHS}::test_baselines_that_know_the_answer_so_far_are_for_models_that_are_given_it",
    ),
    Fault(
        "both sides of an encoder-decoder trained to the longer one's length",
        "build.py",
        "return tuple(max(side) for side in zip(*positions, strict=True))",
        "positions = list(positions)\n    return (max(map(max, positions)),) * len(positions[0])",
        f"{LENGTHS}::test_each_side_of_an_encoder_decoder_is_trained_to_its_own_length[word_order-1]",
    ),
    Fault(
        "an encoding that acts across is said to keep its source's reversal",
        "nn/transformer.py",
        "kept &= encoding.symmetries & {TRANSLATION}",
        "kept &= encoding.symmetries",
        f"{SYMMETRY}::test_an_encoding_that_acts_across_keeps_no_reversal_of_the_source[ALiBi]",
    ),
    Fault(
        "a negative number gets another number's code",
        "nn/position/binary.py",
        "if first < 0 or last >= 2**self.bits:",
        "if last >= 2**self.bits:",
        f"{NUMERICS}::test_binary_has_no_code_for_a_negative_number",
    ),
    Fault(
        "an option that changes nothing is accepted",
        "nn/attention/parameter_free.py",
        "if not output_projection:",
        "if False:",
        f"{EQUATIONS}::test_what_a_variant_does_not_have_is_refused",
    ),
    Fault(
        "interpolated positions called prefix-stable",
        "nn/position/learned.py",
        'self.prefix_stable = beyond != "interpolate"',
        "self.prefix_stable = True",
        f"{DECODING}::test_it_does_not_where_a_prefix_depends_on_the_length",
    ),
    Fault(
        "decoding begins with the true answer in place",
        "evaluation/decoding.py",
        "tokens = torch.where(columns <= prompt[:, None], tokens, end)",
        "tokens = torch.where(columns <= width, tokens, end)",
        f"{DECODING}::test_not_even_the_masked_places_hold_an_answer",
    ),
    Fault(
        "the last weights are tested as the best",
        "measure.py",
        'load_weights(model, folder.checkpoints / f"{checkpoint}.ckpt")',
        'load_weights(model, folder.checkpoints / "last.ckpt")',
        f"{RUN}::test_each_checkpoint_is_tested_with_its_own_weights",
    ),
    Fault(
        "dropout on while testing",
        "evaluation/modes.py",
        "    model.eval()\n",
        "    model.train()\n",
        f"{LENGTHS}::test_dropout_is_off",
    ),
    Fault(
        "equivariance error without undoing the permutation",
        "evaluation/symmetry.py",
        "expected = f_x.gather(1, index.unsqueeze(-1).expand(-1, -1, f_x.shape[2]))",
        "expected = f_x",
        f"{SYMMETRY}::test_no_encoding_is_equivariant_in_every_way",
    ),
    Fault(
        "the second normalisation of the symmetry error dropped",
        "evaluation/symmetry.py",
        "differences.append(error / spread)",
        "differences.append(error / size)",
        f"{SYMMETRY}::test_dividing_twice_exposes_collapse",
    ),
    Fault(
        "the float64 certificate in float32",
        "evaluation/symmetry.py",
        "deepcopy(model).to(device=device, dtype=getattr(torch, dtype))",
        "deepcopy(model).to(device=device)",
        f"{SYMMETRY}::test_no_encoding_is_equivariant_in_every_way",
    ),
    Fault(
        "the identity is among the permutations",
        "evaluation/actions.py",
        "        if (order != np.arange(n)).any():",
        "        if n:",
        f"{SYMMETRY}::test_permutations_are_permutations_and_do_something[2-uniform]",
    ),
    Fault(
        "intervals by the normal distribution",
        "report/statistics.py",
        "stats.t.ppf(tail, seeds - 1)",
        "stats.norm.ppf(tail)",
        f"{STATISTICS}::test_without_item_error_it_is_the_t_interval",
    ),
    Fault(
        "the test items' error left out",
        "report/statistics.py",
        "return math.sqrt(t**2 * seed_variance + z**2 * item_variance)",
        "return math.sqrt(t**2 * seed_variance + 0 * z * item_variance)",
        f"{STATISTICS}::test_all_right_is_not_certainty",
    ),
]

TRAINING = [
    Fault(
        "norms and biases are decayed",
        "training/optim.py",
        "return parameter.ndim >= 2 and not isinstance",
        "return not isinstance",
        f"{OPTIM}::test_each_parameter_is_in_one_group_and_only_matrices_of_maps_are_decayed[NoPosition]",
    ),
    Fault(
        "token embeddings are decayed",
        "training/optim.py",
        "_TABLES = (nn.Embedding, nn.EmbeddingBag, FixedAttention)",
        "_TABLES = (nn.EmbeddingBag, FixedAttention)",
        f"{OPTIM}::test_each_parameter_is_in_one_group_and_only_matrices_of_maps_are_decayed[NoPosition]",
    ),
    Fault(
        "a fixed attention table is decayed",
        "training/optim.py",
        "_TABLES = (nn.Embedding, nn.EmbeddingBag, FixedAttention)",
        "_TABLES = (nn.Embedding, nn.EmbeddingBag)",
        f"{OPTIM}::test_tables_outside_embeddings_and_whatever_an_encoding_holds_are_not_decayed",
    ),
    Fault(
        "what an encoding has learned is decayed",
        "training/optim.py",
        " and not in_position",
        "",
        f"{OPTIM}::test_tables_outside_embeddings_and_whatever_an_encoding_holds_are_not_decayed",
    ),
    Fault(
        "the gradient is not clipped",
        "training/module.py",
        "torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)",
        "return",
        f"{FIT}::test_the_gradient_is_clipped_in_every_precision[32-true]",
    ),
    Fault(
        "NaN becomes the best checkpoint",
        "training/callbacks/checkpoints.py",
        "            and math.isfinite(score)\n",
        "",
        f"{CHECKPOINTS}::test_what_is_not_a_number_is_never_the_best[nan]",
    ),
    Fault(
        "the best checkpoint is the worst",
        "training/callbacks/checkpoints.py",
        "score < self.best_score",
        "score > self.best_score",
        f"{CHECKPOINTS}::test_best_is_the_lowest_and_last_is_the_last",
    ),
    Fault(
        "a run that stopped early trains on when it is resumed",
        "training/module.py",
        "self.trainer.max_steps <= stopped",
        "self.trainer.max_steps < 0",
        f"{RESUME}::test_a_run_that_stopped_early_and_is_resumed_trains_no_further",
    ),
    Fault(
        "half-written checkpoints stay for ever",
        "runs/folder.py",
        "remove_leftovers(self.path, self.checkpoints)",
        "remove_leftovers(self.path)",
        "tests/runs/test_status.py::test_what_a_killed_process_left_half_written_is_removed",
    ),
    Fault(
        "the best score is lost on resuming",
        "training/callbacks/checkpoints.py",
        'self.best_score, self.best_step = state_dict["best_score"], state_dict["best_step"]',
        "pass",
        f"{CHECKPOINTS}::test_the_best_score_survives_a_resume",
    ),
    Fault(
        "diverged weights are saved",
        "training/callbacks/checkpoints.py",
        "        refuse_divergence(trainer, module)\n",
        "",
        f"{FIT}::test_checkpoints_look_for_themselves",
    ),
    Fault(
        "the record is not cut back on resuming",
        "training/callbacks/recorder.py",
        'self._table.cut_back("step", -1 if self.start is None else self.start)',
        "pass",
        f"{RESUME}::test_resumed_is_bit_equal_to_unbroken[6]",
    ),
    Fault(
        "the stream of data begins again on resuming",
        "training/data.py",
        "        step = trainer.global_step\n",
        "        step = 0\n",
        f"{DATA}::test_the_stream_starts_at_the_step_the_trainer_stands_at",
    ),
    Fault(
        "an extended run moves its schedule's horizon",
        "training/module.py",
        'self.schedule.steps = state["schedule_steps"]',
        "pass",
        f"{RESUME}::test_extending_keeps_the_horizon_of_the_first_start",
    ),
]

RUNS = [
    Fault(
        "the status says done before the tables are there",
        "pipeline.py",
        "note(status, measure(folder,",
        'status.state = "done"\n        folder.write_status(status)\n        note(status, measure(folder,',
        f"{RUN}::test_the_status_is_written_last",
    ),
    Fault(
        "identity by where results are written",
        "runs/identity.py",
        '_EXCLUDED = ("outputs", ',
        "_EXCLUDED = (",
        f"{IDENTITY}::test_what_does_not_matter[outputs-/elsewhere]",
    ),
    Fault(
        "identity without the seeds",
        "runs/identity.py",
        '_EXCLUDED = ("outputs", ',
        '_EXCLUDED = ("init_seed", "data_seed", "outputs", ',
        f"{IDENTITY}::test_what_matters[init_seed-1]",
    ),
    Fault(
        "10000 and 1e4 are two runs",
        "runs/identity.py",
        "return int(value) if value.is_integer() else value",
        "return value",
        f"{IDENTITY}::test_what_does_not_matter[pe.base-10000]",
    ),
    Fault(
        "an unknown key is accepted",
        "config.py",
        "        if key not in known:\n",
        "        if key not in known:\n            continue\n        if key is None:\n",
        f"{REFUSALS}::test_one_clear_message[+modle.width=8-says1]",
    ),
    Fault(
        "an option that a component does not have is accepted",
        "components.py",
        "        if key in allowed:",
        "        if allowed is not None:",
        f"{REFUSALS}::test_options_are_checked_against_the_component[+pe.bse=3-says0]",
    ),
    Fault(
        "an option of the wrong type is accepted",
        "components.py",
        "and not fits(value, hints[key]):",
        "and False:",
        f"{REFUSALS}::test_options_are_checked_against_the_component[optimizer.lr=abc-says9]",
    ),
    Fault(
        "two precisions in one record",
        "runs/tested.py",
        "if precision not in (None, asked)",
        "if precision == asked",
        "tests/cli/test_what_is_left.py::test_another_precision_is_not_mixed_in[4]",
    ),
    Fault(
        "headline figures average whatever lengths were tested",
        "measure.py",
        'if row["length"] in own]',
        "if own]",
        "tests/cli/test_refused_in_time.py::test_headline_figures_stay_comparable",
    ),
    Fault(
        "two options of one slot are merged",
        "composing.py",
        "        refuse_lists(overrides)\n        parsed = parse_overrides",
        "        parsed = parse_overrides",
        f"{REFUSALS}::test_one_clear_message[pe=[rotary,alibi]-says10]",
    ),
]

TWO = "tests/training/test_two_processes.py"
TEAM = "tests/training/test_ranks.py"
PLACE = "tests/training/test_place.py"

RANKS = [
    Fault(
        "a leader that ignores SIGINT is not told that a rank is gone",
        "training/ranks.py",
        "            hear_interrupts()  #",
        "            pass  #",
        f"{TEAM}::test_a_job_in_the_background_of_a_shell_hears_of_it_too",
    ),
    Fault(
        "gradients are averaged over ranks instead of summed",
        "training/module.py",
        "return loss * (micro.count * self.trainer.world_size)",
        "return loss * micro.count",
        f"{TWO}::test_weights_and_record_are_those_of_one_process[1]",
    ),
    Fault(
        "clipped by the norm of a slice",
        "training/module.py",
        "torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)",
        'gs = [getattr(p.grad, "_local_tensor", p.grad) for p in self.model.parameters()]\n'
        "        ps = [g.new_zeros(g.shape).requires_grad_() for g in gs]\n"
        "        [setattr(p, 'grad', g) for p, g in zip(ps, gs, strict=True)]\n"
        "        torch.nn.utils.clip_grad_norm_(ps, gradient_clip_val)",
        f"{TWO}::test_slices_of_a_model_train_as_the_whole[Rotary]",
    ),
    Fault(
        "a group smaller than was asked for",
        "training/ranks.py",
        "if int(ones) != place.world:",
        "if int(ones) > place.world:",
        f"{TEAM}::test_the_size_of_the_group_is_counted",
    ),
    Fault(
        "a consequence is named as the cause",
        "training/ranks.py",
        "if item[2] != _lost_words()] or found",
        "if item] or found",
        f"{TEAM}::test_the_first_cause_is_named_not_what_follows_from_it",
    ),
    Fault(
        "the word of another start is taken",
        "training/ranks.py",
        'return f"lengthwise/{self.place.token}/{self._number}/"',
        'return f"lengthwise/{self._number}/"',
        f"{TEAM}::test_two_starts_on_one_port_do_not_hear_each_other",
    ),
    Fault(
        "more processes than were asked for",
        "training/place.py",
        "if world != devices * nodes:",
        "if world < devices * nodes:",
        f"{PLACE}::test_what_contradicts_is_refused[environment0-1-1-words0]",
    ),
    Fault(
        "a requeued job hears its former start",
        "training/place.py",
        "{env.get('SLURM_RESTART_COUNT', '0')}",
        "0",
        f"{PLACE}::test_two_starts_have_two_names",
    ),
    Fault(
        "Lightning looks for Slurm by itself",
        "training/fit.py",
        "[AtomicCheckpointIO(), Surroundings(place)]",
        "[AtomicCheckpointIO()]",
        f"{PLACE}::test_a_step_of_one_task_is_answered_as_if_there_were_no_slurm",
    ),
    Fault(
        "a preempted run says that it was terminated",
        "runs/ending.py",
        "signals.received = number",
        "signals.received = signal.SIGTERM",
        "tests/runs/test_status.py::test_endings",
    ),
]

REPORTING = [
    Fault(
        "a label leaves out what the study varies",
        "report/labels.py",
        "usual = path not in named and 2 *",
        "usual = 2 *",
        f"{STUDIES}::test_control_without_the_study_labels_leave_out_what_most_share",
    ),
    Fault(
        "every choice is named beside the encoding",
        "report/study.py",
        'return [] if "pe" in varied else varied',
        "return varied",
        f"{STUDIES}::test_where_the_encoding_is_an_axis_it_is_the_label",
    ),
    Fault(
        "equivariance shown where it was not asked for",
        "report/study.py",
        "        if EQUIVARIANCE not in shown:",
        "        if not shown:",
        f"{STUDIES}::test_each_study_is_a_part_with_its_question_and_its_own_runs",
    ),
    Fault(
        "a study's part shows the runs of all",
        "report/study.py",
        "part_of(outputs, own, one) for",
        "part_of(outputs, None, one) for",
        f"{STUDIES}::test_each_study_is_a_part_with_its_question_and_its_own_runs",
    ),
    Fault(
        "variants compared at one trained length instead of all",
        "report/analysis.py",
        "return None if self.trained_only else self.longest_shared",
        "return self.longest_shared",
        f"{STUDIES}::test_contrasts_over_the_trained_lengths_are_sentences",
    ),
    Fault(
        "a run of two studies listed twice",
        "report/page.py",
        'found.setdefault(row["run"], row)',
        "found.setdefault(str(len(found)), row)",
        f"{STUDIES}::test_a_run_of_two_studies_is_listed_once",
    ),
    Fault(
        "overlap counted in the wrong direction",
        "tasks/overlap.py",
        "np.isin(_hashes(test), seen)",
        "np.isin(seen, _hashes(test))",
        f"{ITEMS}::test_shared_items_agrees_with_a_set",
    ),
    Fault(
        "dropout on the CPU has no seed",
        "training/module.py",
        "        torch.default_generator.manual_seed(seed)",
        "        pass",
        f"{RESUME}::test_resumed_is_bit_equal_to_unbroken[6]",
    ),
]

SLURM = [
    Fault(
        "GPUs with a type are not counted",
        "sweeps/slurm_client.py",
        "gpu(?::[^:,(]+)?:(\\d+)",
        "gpu:(\\d+)",
        f"{SLURM_ANSWERS}::test_the_partitions_are_read",
    ),
    Fault(
        "a Slurm that fails to answer has no jobs",
        "sweeps/slurm_client.py",
        "if done.returncode:",
        "if done.returncode > 1:",
        f"{SLURM_ANSWERS}::test_a_slurm_that_does_not_answer_is_waited_for_and_not_taken_for_an_end",
    ),
    Fault(
        "a job gets the GPUs of one rank",
        "sweeps/slurm.py",
        "gpus * job.devices,",
        "gpus,",
        f"{SLURM_ANSWERS}::test_what_sbatch_is_asked_for",
    ),
    Fault(
        "submitit's five minutes",
        "sweeps/slurm.py",
        "time=minutes or 0,",
        "",
        f"{SLURM_ANSWERS}::test_what_sbatch_is_asked_for",
    ),
    Fault(
        "a shorter run is waited for in place of a longer one",
        "sweeps/slurm_notes.py",
        '{"sweep", "wandb"}',
        '{"sweep", "wandb", "trainer"}',
        f"{SLURM_ANSWERS}::test_an_earlier_job_is_the_same_where_it_makes_the_same[change4-False]",
    ),
    Fault(
        "a preempted job is not queued again",
        "sweeps/slurm_task.py",
        " or was_preempted(_environment().job_id)",
        "",
        f"{SLURM_TASK}::test_after_sigterm_the_job_is_queued_again_only_where_it_was_preempted[True]",
    ),
    Fault(
        "a job of one task sees Slurm's variables",
        "sweeps/slurm_task.py",
        "dict(os.environ) if self.ranks > 1 else clean_environment()",
        "dict(os.environ)",
        f"{SLURM_TASK}::test_only_a_rank_of_several_sees_slurms_variables[1-0]",
    ),
    Fault(
        "SIGTERM reaches every rank",
        "sweeps/slurm_task.py",
        " | ({signal.SIGTERM} if rank else set())",
        "",
        f"{SLURM_TASK}::test_signals_for_the_task_do_not_reach_the_child",
    ),
    Fault(
        "the end of an earlier start is taken for this one's",
        "sweeps/slurm_task.py",
        "end.attempt == _attempt() and ",
        "",
        f"{SLURM_TASK}::test_a_rank_does_not_wait_for_one_that_is_lost[0-other4-None]",
    ),
    Fault(
        "a job runs out of time for ever",
        "sweeps/slurm_task.py",
        "self.restarts - self._out_of_time()",
        "self.restarts",
        f"{SLURM_TASK}::test_restarts_are_counted_at_the_time_limit_only[1-1-True]",
    ),
]

SWEEPS = [
    Fault(
        "any job that ends with 75 is waited for",
        "sweeps/launcher.py",
        "return self.code == BUSY and self.job.reason() is not None",
        "return self.code == BUSY",
        f"{JOBS}::test_only_a_job_that_says_so_is_busy",
    ),
    Fault(
        "waiting for the warm server counts as a job's time",
        "sweeps/local.py",
        "            if running.pid is None:\n                continue",
        "            if False:\n                continue",
        f"{LOCAL}::test_the_time_of_a_job_begins_when_it_is_forked",
    ),
    Fault(
        "a job that takes the warm server along starts for ever",
        "sweeps/local.py",
        "again=running.again or running.pid is not None",
        "again=False",
        f"{LOCAL}::test_jobs_of_a_warm_server_that_dies_start_once_more",
    ),
    Fault(
        "a job that is being stopped starts again with a new warm server",
        "sweeps/local.py",
        "if self._stopping or running.kill_at",
        "if running.kill_at",
        f"{LOCAL}::test_what_is_being_stopped_does_not_start_again",
    ),
    Fault(
        "a job that could not be started keeps its slots",
        "sweeps/local.py",
        "            self.slots.give_back(running.share)\n            self._ended.append(Ended(job, None, f",
        "            self._ended.append(Ended(job, None, f",
        f"{LOCAL}::test_a_job_that_cannot_be_started_fails_alone[cold]",
    ),
    Fault(
        "a sweep under nohup ends with its terminal",
        "sweeps/signals.py",
        "is not signal.SIG_IGN]",
        "is not None]",
        f"{LOCAL}::test_signals_that_are_ignored_stay_so",
    ),
    Fault(
        "a module in the working folder hides one of Python's own from a job",
        "process.py",
        "places[:first]",
        "places",
        f"{LOCAL}::test_another_process_finds_what_this_one_does_in_its_order",
    ),
    Fault(
        "a cleaned temporary folder ends the ranks of a job",
        "lifeline.py",
        "if os.path.exists(name)]",
        "if name]",
        f"{LIFELINE}::test_one_whose_file_was_cleaned_away_does_not_end_what_starts_later",
    ),
    Fault(
        "a job that exits with the code for busy is waited for",
        "work.py",
        'return FAILED, f"exited with',
        'return error.code, f"exited with',
        f"{JOBS}::test_what_exits_is_neither_busy_nor_done[75]",
    ),
    Fault(
        "a job trains a run that the sweep does not look at",
        "work.py",
        "if found != name:",
        "if False:",
        f"{JOBS}::test_a_component_that_changed_since_is_not_another_runs_result",
    ),
    Fault(
        "two devices share half a GPU",
        "sweeps/slots.py",
        "if 0 < needed < job.devices > 1:",
        "if False:",
        f"{SLOTS}::test_what_can_never_run_is_refused",
    ),
    Fault(
        "a job that fails to train afresh counts as done",
        "sweeps/sweep.py",
        '(not entry.cell.config["overwrite"] and _is_complete(entry))',
        "_is_complete(entry)",
        f"{JOBS}::test_a_job_that_fails_to_train_afresh_is_not_done_because_it_once_was",
    ),
    Fault(
        "a grid's interpolation is resolved once for all cells",
        "composing.py",
        "to_container(self._composed(overrides).study, resolve=False)",
        "to_container(self._composed(overrides).study, resolve=True)",
        "tests/config/test_study_grids.py::test_an_interpolation_in_a_grid_is_each_cells_own",
    ),
    Fault(
        "a sweep trains again what is done",
        "sweeps/preflight.py",
        "if is_complete(folder, config):",
        "if False:",
        f"{SWEEP}::test_again_only_what_is_missing_runs",
    ),
    Fault(
        "an exit code of zero is taken for done",
        "sweeps/sweep.py",
        'if done and (ended.code == 0 or (not entry.cell.config["overwrite"] and _is_complete(entry))):',
        "if ended.code == 0:",
        f"{JOBS}::test_an_exit_code_of_zero_is_not_done",
    ),
    Fault(
        "a sweep goes on after a failure though told to stop",
        "sweeps/sweep.py",
        "self.stopping = self.stopping or (self.stop_at_failure and task.entry.state == FAILED)",
        "self.stopping = False",
        f"{SWEEP}::test_no_further_job_starts_after_a_failure_if_asked",
    ),
    Fault(
        "a sweep of nothing but impossible cells passes",
        "sweeps/preflight.py",
        "if not illegal or (skip and len(illegal) < total):",
        "if not illegal or skip:",
        f"{SWEEP}::test_what_cannot_be_is_left_out_if_asked",
    ),
    Fault(
        "a cell inherits what another one set",
        "composing.py",
        "config = copy.deepcopy(self._bases[choices])",
        "config = self._bases[choices]",
        "tests/sweeps/test_composing.py::test_as_hydra_does[pe=rotary seed=1]",
    ),
    Fault(
        "a job takes itself for a rank",
        "sweeps/job.py",
        "if key not in _RANK_VARIABLES and not key.startswith(_RANK_PREFIXES)",
        "if key not in _RANK_VARIABLES",
        f"{JOBS}::test_a_job_does_not_take_itself_for_a_rank",
    ),
    Fault(
        "a sweep's name depends on the order of its cells",
        "sweeps/record.py",
        "sorted(cell.name for cell in cells)",
        "[cell.name for cell in cells]",
        f"{JOBS}::test_a_sweep_is_named_by_its_cells_in_whatever_order",
    ),
    Fault(
        "a job gets fewer GPUs than it needs",
        "sweeps/slots.py",
        "if len(free) < count:",
        "if count and not free:",
        f"{SLOTS}::test_all_or_nothing",
    ),
    Fault(
        "a job on the CPU sees the GPUs",
        "sweeps/slots.py",
        'return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}',
        'return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.gpus else {}',
        f"{SLOTS}::test_a_job_on_the_cpu_sees_no_gpu",
    ),
    Fault(
        "two jobs get the same GPU",
        "sweeps/slots.py",
        "self.free_gpus[name] -= share",
        "pass",
        f"{SLOTS}::test_gpus_are_given_whole_and_come_back",
    ),
    Fault(
        "a lifeline is not held",
        "lifeline.py",
        "fcntl.flock(self._handle, fcntl.LOCK_EX)",
        "pass",
        "tests/sweeps/test_lifeline.py::test_it_ends_when_the_holder_lets_go",
    ),
]

SPACE = "tests/search/test_space.py"
OBJECTIVE = "tests/search/test_objective.py"
SEARCH = "tests/search/test_search.py"
STOPPING = "tests/training/test_stop_on_request.py"

SEARCHING = [
    Fault(
        "a resumed search draws again what it had drawn",
        "sweeps/trials.py",
        'f"{self.seed}/{number}"',
        'f"{self.seed}"',
        f"{SEARCH}::test_every_trial_is_told_what_its_run_says",
    ),
    Fault(
        "a trial that was at work is forgotten",
        "sweeps/search_loop.py",
        "self.waiting += [self._propose(trial) for trial in self.trials.left_running()]",
        "pass",
        f"{SEARCH}::test_a_run_that_ended_after_the_search_was_killed_is_told_without_running_it",
    ),
    Fault(
        "a failed trial counts beside its repetition",
        "sweeps/trials.py",
        "[trial for trial in trials if trial.number not in again]",
        "trials",
        f"{SEARCH}::test_a_failed_run_is_named_and_tried_again",
    ),
    Fault(
        "a search by the test's figures",
        "sweeps/objective.py",
        "        _refuse_test(option, str(name))\n",
        "",
        f"{OBJECTIVE}::test_other_figures_are_refused[last/loss/in_distribution-measured on the test.*Use val_loss]",
    ),
    Fault(
        "a trial's value is taken from beyond its end",
        "sweeps/objective.py",
        'if 0 < row["step"] <= max_steps',
        'if 0 < row["step"]',
        f"{OBJECTIVE}::test_points_are_the_finite_validations_up_to_the_trials_end",
    ),
    Fault(
        "a whole number is searched as a fraction",
        "sweeps/space.py",
        "whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)",
        "whole = False",
        f"{SPACE}::test_each_form_is_its_distribution[model.heads=int(interval(1, 8))-distribution6]",
    ),
    Fault(
        "a trial that falls behind goes on",
        "sweeps/search_loop.py",
        "        if step is not None:\n",
        "        if step is None:\n            return\n        if False:\n",
        f"{SEARCH}::test_a_trial_that_falls_behind_is_stopped[median]",
    ),
    Fault(
        "a run laid out for other steps is a trial",
        "sweeps/search_loop.py",
        "or status.horizon in (None, asked)",
        "or True",
        f"{SEARCH}::test_a_run_laid_out_for_other_steps_is_no_trial",
    ),
    Fault(
        "a request from an earlier start stops the run",
        "training/callbacks/pruning.py",
        "            self.path.unlink(missing_ok=True)\n",
        "            pass\n",
        f"{STOPPING}::test_a_request_from_before_is_forgotten",
    ),
    Fault(
        "a run that was given up does not say why",
        "runs/ending.py",
        "if isinstance(e, Stopped)), None)",
        "if False), None)",
        f"{STOPPING}::test_the_status_says_interrupted_and_why",
    ),
]

ENCODINGS = [
    Fault(
        "NTK without its exponent",
        "nn/position/rotary.py",
        "base * factor ** (self.turned / (self.turned - 2))",
        "base * factor",
        f"{REFERENCES}::test_ntk_keeps_the_fastest_angle_and_divides_the_slowest",
    ),
    Fault(
        "YaRN and Llama-3 interpolate the fast angles",
        "nn/position/rotary.py",
        "w * (g + (1 - g) / factor)",
        "w * (1 - g + g / factor)",
        f"{REFERENCES}::test_interpolation_by_turns[llama3-4]",
    ),
    Fault(
        "YaRN forgets its temperature",
        "nn/position/rotary.py",
        "(0.1 * math.log(factor) + 1) ** 2",
        "(0.1 * math.log(factor) + 1)",
        f"{REFERENCES}::test_interpolation_by_turns[yarn-32]",
    ),
    Fault(
        "partial rotary drops what it does not turn",
        "nn/position/rotary.py",
        "torch.cat((turned, x[..., width:]), dim=-1)",
        "torch.cat((turned, 0 * x[..., width:]), dim=-1)",
        f"{REFERENCES}::test_a_fraction_of_the_columns_is_a_narrower_rotation[half]",
    ),
    Fault(
        "xPos stretches keys as it stretches queries",
        "nn/position/xpos.py",
        "self._turn(k, keys, middle - keys)",
        "self._turn(k, keys, keys - middle)",
        f"{REFERENCES}::test_xpos_is_rotary_times_a_decay_by_distance",
    ),
    Fault(
        "xPos counts from the start",
        "nn/position/xpos.py",
        "middle = (keys.amin(dim=1, keepdim=True) + keys.amax(dim=1, keepdim=True)) // 2",
        "middle = keys.amin(dim=1, keepdim=True)",
        f"{REFERENCES}::test_xpos_stays_finite_and_relative_far_out[dtype0]",
    ),
    Fault(
        "ALiBi's sides exchanged",
        "nn/position/alibi.py",
        "offsets[..., None, :, :] > 0",
        "offsets[..., None, :, :] < 0",
        f"{REFERENCES}::test_alibi_with_separate_sides",
    ),
    Fault(
        "KERPLE's clamp stops the gradient",
        "nn/position/kerple.py",
        "return values + (values.clamp(min=SMALLEST, max=largest) - values).detach()",
        "return values.clamp(min=SMALLEST, max=largest)",
        f"{REFERENCES}::test_kerple_learns_even_outside_its_range[log]",
    ),
    Fault(
        "FIRE without its threshold",
        "nn/position/fire.py",
        "torch.maximum(numbers, threshold * self.threshold)",
        "numbers",
        f"{REFERENCES}::test_fire[0]",
    ),
    Fault(
        "Shaw's vectors are not scaled with the keys",
        "nn/position/shaw.py",
        "context.scale * (q @",
        "(q @",
        f"{REFERENCES}::test_shaw[True-False]",
    ),
    Fault(
        "Shaw's distances the wrong way round",
        "nn/position/shaw.py",
        "context.offsets().clamp(",
        "(-context.offsets()).clamp(",
        f"{REFERENCES}::test_shaw[True-False]",
    ),
    Fault(
        "what an encoding adds to the values is lost",
        "nn/attention/base.py",
        "y if read is None else y + read.to(v.dtype)",
        "y",
        f"{REFERENCES}::test_shaw[True-True]",
    ),
    Fault(
        "Transformer-XL without its sign",
        "nn/position/transformer_xl.py",
        "offsets = -context.offsets()",
        "offsets = context.offsets()",
        f"{REFERENCES}::test_transformer_xl[True-False]",
    ),
    Fault(
        "Transformer-XL uses u for v",
        "nn/position/transformer_xl.py",
        "by_distance = (q + v)",
        "by_distance = (q + u)",
        f"{REFERENCES}::test_transformer_xl[False-False]",
    ),
    Fault(
        "CoPE counts from the first key",
        "nn/position/cope.py",
        "gates.flip(-1).cumsum(-1).flip(-1)",
        "gates.cumsum(-1)",
        f"{REFERENCES}::test_cope",
    ),
    Fault(
        "CoPE's gates see what lies ahead",
        "nn/position/cope.py",
        "if readable is not None:",
        "if False:",
        f"{BATTERY}[scaled-cope-{CAUSAL}]",
    ),
    Fault(
        "the forget gate of the key counts",
        "nn/position/forgetting.py",
        "return sums[..., :, None] - sums[..., None, :]",
        "return sums[..., :, None] - sums.roll(1, -1)[..., None, :]",
        f"{REFERENCES}::test_forgetting",
    ),
    Fault(
        "forget gates in half precision",
        "nn/position/forgetting.py",
        "enabled=False",
        "enabled=torch.is_autocast_enabled('cpu')",
        f"{REFERENCES}::test_forgetting_keeps_its_gates_in_float32",
    ),
    Fault(
        "parts of a stack act in every layer",
        "nn/position/stack.py",
        "and index in self.where.get(name, (index,))",
        "",
        f"{STACKS}::test_layers_of_a_mixture",
    ),
    Fault(
        "a shared part is built again in each layer",
        "nn/position/stack.py",
        "first.named()[name] if part.share else part",
        "part",
        f"{STACKS}::test_a_shared_part_is_one_module_and_another_is_not",
    ),
    Fault(
        "a stack declares what any part keeps",
        "nn/position/stack.py",
        "ALL_SYMMETRIES.intersection(*(p.symmetries for p in parts))",
        "frozenset().union(*(p.symmetries for p in parts))",
        f"{STACKS}::test_a_stack_is_the_sum_of_its_biases_after_its_rotation",
    ),
    Fault(
        "a component's parts are not checked",
        "components.py",
        'if isinstance(part, dict) and "_target_" in part:',
        "if False:",
        f"{STACKS}::test_wrong_parts_are_one_message[option]",
    ),
    Fault(
        "options of older encodings rename their runs",
        "runs/identity.py",
        '    "pe.scaling": "none",\n',
        "",
        "tests/nn/test_position_identity.py::test_runs_from_before_the_options_keep_their_names[rotary-5c560eb74a]",
    ),
    Fault(
        "chunks of attention let queries look ahead",
        "nn/attention/chunked.py",
        ">= q.shape[2]",
        "> q.shape[2]",
        f"{CHUNKS}::test_equal_to_the_whole_mask[7-7-True-False-True-3]",
    ),
    Fault(
        "a learned bias gets the gradient of its mirror image",
        "nn/attention/chunked.py",
        "sums = _diagonals(dlogits.sum(dim=0))",
        "sums = _diagonals(dlogits.sum(dim=0)).flip(-1)",
        f"{CHUNKS}::test_equal_to_the_whole_mask[7-7-True-False-True-3]",
    ),
    Fault(
        "long sequences forget their pads",
        "nn/attention/chunked.py",
        "        if allowed is not None:\n            mask = mask",
        "        if False:\n            mask = mask",
        f"{CHUNKS}::test_equal_to_the_whole_mask[7-7-False-True-True-3]",
    ),
]

FAULTS = (
    *MASKING,
    *ATTENTION,
    *POSITION,
    *ENCODINGS,
    *RANDOMNESS,
    *TASKS,
    *MEASURING,
    *TRAINING,
    *RUNS,
    *RANKS,
    *REPORTING,
    *SLURM,
    *SWEEPS,
    *SEARCHING,
)
