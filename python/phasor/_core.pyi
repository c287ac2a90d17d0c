"""The compiled core of phasor; use the package phasor."""



def set_num_threads(threads: int) -> None:
    """
    How many threads a call may use; 0: as many as PyTorch, or the cores of this process.
    """

def get_num_threads() -> int:
    """How many threads a large call uses."""

def follow_threads(source: object) -> None:
    """Takes the number of threads from this function."""

class Rotary:
    """A rotary spec made ready."""

    def __init__(self, spec: object) -> None: ...

    def apply(self, q: object, k: object | None, positions: object | None, direction: int, q_out: object | None, k_out: object | None) -> None:
        """Rotates q and k; outputs of None: in place."""

    def cos_sin(self, positions: object | None, cos: object, sin: object) -> None:
        """Fills cos and sin."""

    @property
    def spec(self) -> object: ...

    @property
    def words(self) -> list[int]:
        """The spec as 64-bit integers."""

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

def rerotate(source: Rotary, target: Rotary, k: object, from_positions: object | None, to_positions: object | None, k_out: object | None) -> None:
    """Moves rotated keys."""

def rotary_from_words(words: object, cached: dict = {}) -> object:
    """The Rotary of a spec's words."""

def use_torch(tensor_type: object, parameter_type: object) -> None:
    """Lets plain PyTorch tensors in by their exchange API."""
