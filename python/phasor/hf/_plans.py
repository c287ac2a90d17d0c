# SPDX-License-Identifier: Apache-2.0
"""What a call of known shapes and dtypes comes down to: views and one call of the library. One token of a generation is mostly this."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .. import TableLayout
from .._arrays import torch_backend
from ._complex import ROW
from ._forms import Call, answer, cos_sin
from ._gradients import Order, needed
from ._recognise import Rotation, pattern, without_axis
from ._variants import ALIGN, Misfit, keywords, order_of

Tensor = torch.Tensor
compiling = torch.compiler.is_compiling  # non-strict export has symbolic sizes too, which dynamo alone would not tell
MOST = 256  # plans kept for one function; lengths that never come again must not pile up
_WIDE = (torch.float32, torch.float64)
_NARROW = (torch.bfloat16, torch.float16)


def key_of(call: Call) -> tuple:
    """All that decides how a call is done."""
    kinds = [None if t is None else (t.shape, t.dtype, t.stride(-1), t.device) for t in call.tensors]
    tables = ((t.shape, t.dtype, t.stride(), t.device, t.requires_grad) for t in call.tables)
    return (*kinds, *tables, call.axis, call.rows is None, torch.is_grad_enabled(), needed(call.tensors))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A call that is done: by views of the tensors alone (`layout`), or the general way."""

    count: int  # length of the tuple answered; 0: one tensor
    layout: TableLayout | None = None
    swapped: bool = False  # (B, H, T, D): the library's order is (B, T, H, D)
    width: int = 0  # of the rows that count
    order: Order | None = None  # of results and gradients, where a gradient is needed

    def run(self, rotation: Rotation, call: Call) -> Any:
        """The function's answer."""
        turned = self._turned(rotation, call)
        if self.order is None:
            return turned
        return self.order.kept((turned,))[0] if isinstance(turned, Tensor) else tuple(self.order.kept(turned))

    def _turned(self, rotation: Rotation, call: Call) -> Any:
        if self.layout is None:
            turned = answer(rotation.variant, rotation.packing, call)
            return tuple(turned[: self.count]) if self.count else turned[0]
        cos, sin = call.tables
        if cos.shape[-1] != self.width:
            cos, sin = cos[..., : self.width], sin[..., : self.width]
        q, k = call.tensors if len(call.tensors) > 1 else (call.tensors[0], None)
        if not self.swapped:
            turned = torch_backend().tables(q, k, cos, sin, self.layout, 0)
        elif k is None:
            turned = torch_backend().tables(q.transpose(1, 2), None, cos, sin, self.layout, 0).transpose(1, 2)
        else:
            q, k = torch_backend().tables(q.transpose(1, 2), k.transpose(1, 2), cos, sin, self.layout, 0)
            return q.transpose(1, 2), k.transpose(1, 2)
        return turned


def plan_for(rotation: Rotation, call: Call) -> Plan | None:
    """How to do the call; None, or a Misfit, where the proof does not hold and the model's own function must."""
    if not is_ours(rotation, call):
        return None
    cos = cos_sin(rotation.packing, call)[0]
    kind = pattern(rotation.variant, call, cos)
    count = rotation.proven.get(kind)
    if count is None:
        return None
    plan = _by_views(rotation, call, count) or Plan(count)
    if not needed(call.tensors):
        return plan
    order = rotation.gradients.get((without_axis(kind), call.tensors[0].dtype, table_dtype(call)))
    return None if order is None else plan if compiling() else dataclasses.replace(plan, order=order)


def table_dtype(call: Call) -> torch.dtype:
    """The tables' dtype; of complex ones that of their parts."""
    return call.tables[0].dtype.to_real()


def _by_views(rotation: Rotation, call: Call, count: int) -> Plan | None:
    """The plan where the library takes the tables as they are: (B, T, width) for four axes, (T, width) for three."""
    q, table, variant = call.tensors[0], call.tables[0], rotation.variant
    same_rank = {t.ndim for t in call.tensors if t is not None} == {q.ndim}
    plain = rotation.packing == "separate" and call.rows is None and len(call.tensors) <= 2 and count in (0, 2) and same_rank
    kept = variant.arithmetic == "float32" or torch.promote_types(q.dtype, table.dtype) == q.dtype or variant.arithmetic == "dtype_back"
    unit = all(t is None or t.stride(-1) == 1 for t in (*call.tensors, *call.tables))
    if not (plain and kept and unit and table.ndim == q.ndim - 1 and variant.arithmetic != "float64"):
        return None
    if len(call.tensors) == 2 and (call.tensors[1] is None or count == 0):
        return None
    try:
        order, _ = order_of(q, ALIGN[variant.align](table, call.axis))
    except Misfit:  # tokens and rows differ in number
        return None
    tokens = {"BHTD": 2, "BTHD": 1, "THD": 0}.get(order)
    others = [t for t in call.tensors[1:] if t.shape[tokens or 0] != q.shape[tokens or 0]]
    if tokens is None or table.shape[-2] != q.shape[tokens] or others or (q.ndim == 4 and table.shape[0] not in (1, q.shape[0])):
        return None
    width = table.shape[-1] // 2 if variant.width == "first_half" else table.shape[-1]
    return Plan(count, TableLayout(**keywords(variant, q.shape[-1], width)), order == "BHTD", width)


def is_ours(rotation: Rotation, call: Call) -> bool:
    """Whether the tensors are of the kinds that were compared, and the tables constant."""
    given = [t for t in call.tensors if t is not None]
    if call.tensors[0] is None or any(t.dtype != given[0].dtype or t.device.type != rotation.device or t.numel() == 0 for t in given):
        return False
    dtype, table = given[0].dtype, call.tables[0]
    if any(t.requires_grad or t.dtype != table.dtype or t.device.type != rotation.device for t in call.tables):
        return False  # learned tables (LightGlue) need a gradient that only the model's own function gives
    if rotation.packing == "complex":
        return table.dtype == torch.complex64 and dtype in (torch.float32, *_NARROW) and table.shape[-1] % ROW == 0
    if rotation.variant.arithmetic == "float32":
        return dtype in (torch.float32, *_NARROW) and table.dtype in (torch.float32, *_NARROW)
    if rotation.variant.arithmetic == "dtype_back":
        return torch.promote_types(dtype, table.dtype) in (dtype, torch.float32)
    return dtype in (*_WIDE, *_NARROW) and table.dtype in (*_WIDE, *_NARROW)
