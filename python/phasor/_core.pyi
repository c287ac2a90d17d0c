"""The compiled core of phasor; use the package phasor."""

from typing import Any

from collections.abc import Callable, Sequence
from typing import Any


def set_num_threads(threads: int) -> None:
    """
    How many threads a call may use; 0: as many as PyTorch, or the cores of this process.
    """

def get_num_threads() -> int:
    """How many threads a large call uses."""

def watch_torch(silent: tuple, forward_ad: object, inference_mode: object, recording: object, increment_version: object) -> None:
    """What to ask PyTorch before its dispatcher is passed by."""

def may_write_past_torch(q: object, k: object | None, positions: object | None) -> bool:
    """
    Whether plain tensors may be written in place without PyTorch seeing it.
    """

class Rotary:
    """A rotary spec made ready."""

    def __init__(self, spec: object) -> None: ...

    def apply(self, q: object, k: object | None, positions: object | None, direction: int, q_out: object | None, k_out: object | None) -> None:
        """Rotates q and k; outputs of None: in place."""

    def apply_past_torch(self, q: object, k: object | None, positions: object | None, direction: int) -> bool:
        """
        Rotates plain PyTorch tensors in place and says so, or does nothing where PyTorch would want to see the call.
        """

    def cos_sin(self, positions: object | None, cos: object, sin: object) -> None:
        """Fills cos and sin."""

    @property
    def spec(self) -> Any: ...

    @property
    def words(self) -> list[int]:
        """The spec's text as 64-bit integers."""

    @property
    def rotary_width(self) -> int: ...

    @property
    def frequencies(self) -> list[float]: ...

    @property
    def amplitude(self) -> float: ...

    @property
    def softmax_scale(self) -> float: ...

class TableLayout:
    """How given tables are applied; made once, reused."""

    def __init__(self, layout: object) -> None: ...

def apply_tables(q: object, k: object | None, cos: object, sin: object, layout: TableLayout, direction: int, q_out: object | None, k_out: object | None) -> None:
    """Rotates q and k by given tables."""

def rerotate(rotaries: tuple, k: object, positions: tuple, slots: object | None, k_out: object | None) -> None:
    """
    Moves keys rotated by the first of two rotaries and positions to the second ones; with slots those of a paged cache.
    """

def rotary_from_words(words: object, cached: dict = {}) -> Any:
    """The Rotary of a spec's words."""

def use_torch(tensor_type: object, parameter_type: object) -> None:
    """Lets plain PyTorch tensors in by their exchange API."""

def apply_rotaries(rotaries: list, spec_of: object | None, operands: tuple, positions: object | None, direction: int) -> None:
    """
    Rotates (q, k, q_out, k_out), each row by its own of the rotaries; outputs of None: in place.
    """

def phase_gradient(out: object, rotated: object, gradient: object, layout: TableLayout, accumulate: bool) -> None:
    """
    Fills out, (B, T, H or 1, P), with the gradient by the angles, in radians; or adds it.
    """

def frequency_gradient(rotary: Rotary, sum: object, phase_gradient: object, positions: object | None) -> None:
    """Adds the gradient by rotary.frequencies, radians per position, to sum."""

def position_gradient(rotary: Rotary, out: object, phase_gradient: object) -> None:
    """Fills out, (axes or 1, B or 1, T), with the gradient by the positions."""

class ShiftOperator:
    """The linear map that takes encodings some distance further on."""

    @property
    def width(self) -> int: ...

    @property
    def pairs(self) -> list[tuple[int, int, float, float]]: ...

    def __getstate__(self) -> tuple[int, list[tuple[int, int, float, float]]]: ...

    def __setstate__(self, arg: tuple[int, Sequence[tuple[int, int, float, float]]], /) -> None: ...

    def apply(self, arg: object, /) -> Any: ...

    def matrix(self) -> Any: ...

class Sinusoidal:
    """A sinusoidal spec made ready."""

    def __init__(self, spec: object) -> None: ...

    def fill(self, out: object, positions: object | None, amplitude: float | None = None) -> None:
        """Writes the encoding of every token."""

    def add(self, x: object, positions: object | None, out: object | None = None, amplitude: float | None = None) -> None:
        """x + encoding; out of None: in place."""

    def amplitude_gradient(self, gradient: object, positions: object | None) -> float:
        """The gradient by the amplitude."""

    def shift(self, distances: Sequence[float]) -> ShiftOperator: ...

    @property
    def width(self) -> int: ...

    @property
    def axes(self) -> int: ...

    @property
    def frequencies(self) -> list[float]: ...

def lookup_add(x: object, table: object, positions: object | None, out: object | None, offset: int = 0) -> None:
    """x plus a row of the table for each token; out of None: in place."""

def scatter_gradient(table_grad: object, grad: object, positions: object | None, offset: int = 0, padding_row: int | None = None) -> None:
    """Adds the gradient of lookup_add by its table."""

def fill_hierarchical(out: object, table: object, alpha: float = 0.4) -> None:
    """More rows from those of a table."""

def resample_table(out: object, table: object, kernel: object = 'cubic', align_corners: bool = False) -> None:
    """A table of another size."""

def read_learned_table(path: str, tensor: str) -> tuple: ...

class Bias:
    """A scheme that biases scores, made ready."""

    def __init__(self, spec: object) -> None: ...

    def fill(self, out: object, q_positions: object | None, k_positions: object | None, first_head: int = 0) -> None:
        """Fills (B, H, Tq, Tk) or (H, Tq, Tk)."""

    def diagonal(self, out: object, first_distance: int, first_head: int = 0, query_position: int = 0) -> None:
        """Fills (H, N) with the biases at first_distance and on."""

    def gradient(self, sum: object, diagonal: object, first_distance: int, part: tuple[int, int]) -> None:
        """
        Adds the gradient of the parameters, float64, from that of a diagonal (H, N) to sum. The part: first head, query position.
        """

    def row(self, distance: int) -> int: ...

    def rows_at(self, arg: Sequence[int], /) -> list[int]: ...

    @property
    def rows(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def slopes(self) -> list[float]: ...

    @property
    def parameter_count(self) -> int: ...

def fill_xl_sinusoids(out: object, spec: object, distances: object | None) -> None: ...

class Attention:
    """An attention scheme made ready; its tensors come with each call."""

    def __init__(self, scheme: object) -> None: ...

    @property
    def text(self) -> str:
        """The scheme as text."""

def attention_from_json(text: str) -> Attention:
    """The Attention of a scheme's text."""

def attention(qkv: object, plan: Attention, tensors: dict, out: object, lse: object | None, workspace: object | None = None) -> None:
    """
    Writes out (B, Tq, H, Dv) and lse (B, Tq, H, 1). `workspace` makes an array of so many bytes where the tensors are.
    """

def attention_backward(qkv: object, plan: Attention, tensors: dict, saved: object, gradients: object, terms: object | None, workspace: object | None = None, deterministic: bool = True) -> None:
    """Writes the gradients of q, k, v; adds those of the rest."""

def attention_weights(qkv: object, plan: Attention, tensors: dict, first: object, out: object, factors: object | None, workspace: object | None = None) -> None:
    """Writes the weights of some rows, and what dropout multiplies them by."""

def merge_attention(parts: object, out: object, lse: object | None) -> None:
    """Outputs over disjoint sets of keys, made one."""

def explain_attention(qkv: object, plan: Attention, tensors: dict) -> dict:
    """What a call would do."""

def cached_attention(q: object, caches: tuple, pages: tuple, plan: Attention, tensors: dict, out: object, lse: object, workspace: object | None = None) -> None:
    """
    Writes out (B, Tq, H, Dv) and lse (B, Tq, H, 1) of attention over caches: arrays, integers and reals of keys and values, in the order of phasor/_prepare/call.py; pages are (lengths, blocks or None).
    """

def prepare_attention(heads: tuple, rotaries: list, positions: object | None, lists: tuple) -> None:
    """
    Makes heads (q, k, v) ready for attention. Lists: arrays that are read, arrays that are written, integers and reals, in the order of phasor/_prepare/call.py.
    """

def prepare_attention_backward(call: tuple, gradients: tuple, workspace: Callable) -> None:
    """
    Gradients of the step before attention, whose arguments are `call`, lists without outputs: for each of q, k and v (by its result, by it, by its weight or None), or None, and where the gradient by query_factors goes, or None. `workspace` makes an array of so many float64.
    """

def fill_from_offset(out: object, offset: int) -> None: ...

def fill_from_offsets(out: object, offsets: object) -> None: ...

def fill_from_cu_seqlens(out: object, cu_seqlens: object, offsets: object | None) -> None: ...

def fill_from_mask(out: object, mask: object, pad: int | None, past: int, rule: object) -> None: ...

def fill_from_pages(out: object, blocks: object, lengths: object | None, page_size: int, empty: int) -> None: ...

def fill_slots(arg0: object, arg1: object, arg2: int, arg3: tuple, /) -> None: ...

def fill_from_tree(out: object, parents: object, offsets: object | None) -> None: ...

def fill_from_grids(arg0: object, arg1: object, arg2: object, /) -> None: ...

def fill_from_patches(arg0: object, arg1: object, arg2: object, arg3: object, /) -> None: ...

def fill_mrope(arg0: object, arg1: object, /) -> list[float]: ...

def fill_shard(arg0: object, arg1: object, /) -> None: ...

def fill_shard_tokens(arg0: object, arg1: object, /) -> None: ...

def fill_random(arg0: object, arg1: int, arg2: int, /) -> None: ...

def fill_abacus(arg0: object, arg1: object, arg2: object, arg3: int, /) -> None: ...

def fill_detr(out: object, size: tuple[int, int], mask: object | None, normalised: bool) -> None: ...

def fill_window(arg0: object, arg1: object, /) -> None: ...

def mapped_distance(arg0: object, arg1: int, arg2: int, /) -> float: ...

def passes_of(arg: object, /) -> int: ...

def keys_of_pass(arg0: object, arg1: int, arg2: int, /) -> tuple[int, int]: ...

def fill_pass_positions(arg0: object, arg1: object, arg2: int, arg3: object, arg4: object, /) -> None: ...

def query_temperature(arg0: object, arg1: int, /) -> float: ...

def fill_temperature(arg0: object, arg1: object, arg2: object, /) -> None: ...

def parse_hf_config(json: str, length: int = 0) -> Any: ...

def parse_gguf(file: bytes, length: int = 0) -> Any: ...

def read_model(path: str, length: int = 0) -> Any: ...

def to_hf_config(model: object) -> str: ...

def to_gguf_keys(model: object, architecture: str) -> str: ...

def explain(model: object, layer: int | None = None) -> str: ...

def explain_json(model: object, layer: int | None = None) -> str: ...

def diff(left: object, right: object) -> Any: ...

def permute_safetensors(from_path: str, to_path: str, options: object) -> Any: ...

def detect_pairing(left_path: str, right_path: str, shape: object) -> Any: ...

def rotation_matrix(arg0: Rotary, arg1: int, /) -> Any: ...

def relative_matrix(arg0: Rotary, arg1: int, arg2: int, /) -> Any: ...

def wavelengths(arg: Rotary, /) -> Any: ...

def angle_error(arg0: Rotary, arg1: int, /) -> Any: ...

def profile_errors(arg0: object, arg1: Sequence[int], /) -> Any: ...

def precision_report(arg0: object, arg1: Sequence[int], arg2: int, /) -> Any: ...

def distance_check(arg0: Rotary, arg1: object, arg2: object, arg3: int, /) -> Any: ...

def decay(arg0: Sequence[Rotary], arg1: Sequence[int], /) -> Any: ...

def first_negative(arg0: Rotary, arg1: int, /) -> int | None: ...

def distance_weights(rotary: Rotary, context: int, bias: object | None) -> tuple: ...

def softmax_weights(arg: object, /) -> Any: ...

def smallest_gap(arg0: Rotary, arg1: int, /) -> Any: ...

def similarity(arg0: Rotary, arg1: Sequence[int], arg2: object, /) -> Any: ...

def similarity_of_rows(arg0: object, arg1: object, arg2: object, /) -> Any: ...

def orthogonality(arg0: object, arg1: object, /) -> Any: ...

def smallest_gap_of_rows(arg: object, /) -> Any: ...

def score_terms(x: object, p: object, query_weights: object | None, key_weights: object | None, scale: float) -> tuple: ...

def pair_turns(arg0: Rotary, arg1: int, /) -> Any: ...

def plan_scalings(arg0: object, arg1: int, arg2: int, arg3: object, /) -> Any: ...

def measure_sinusoidal(arg0: Sinusoidal, arg1: int, arg2: int, /) -> Any: ...

def measure_table(arg0: object, arg1: int, arg2: int, /) -> Any: ...

def measure_named(arg0: str, arg1: int, arg2: int, arg3: int, /) -> Any: ...

def compare_adding(arg0: object, arg1: object, arg2: object, /) -> tuple: ...

def spec_to_json(spec: object) -> str:
    """A spec as text."""

def spec_from_json(text: str) -> Any:
    """The spec of a text."""

def sinusoidal_from_json(text: str) -> Sinusoidal:
    """The Sinusoidal of a spec's text."""

def bias_from_json(text: str) -> Bias:
    """The Bias of a spec's text."""

def targets() -> list[str]: ...

def active_target() -> str: ...

def force_target(name: str) -> None: ...

def version() -> str: ...

def has_cuda() -> bool:
    """Whether this build has kernels for memory of CUDA."""

def cuda_advice() -> str:
    """
    What is said when memory is on a GPU and this build has no kernels for it.
    """

def set_cuda_advice(advice: str) -> None:
    """Changes that."""

def xla_handlers(cuda: bool = False) -> dict:
    """
    Handlers of XLA's foreign function interface by name, each in a capsule.
    """
