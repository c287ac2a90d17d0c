# SPDX-License-Identifier: Apache-2.0
"""What tools/record/record_attention.py records with: float64 everywhere, hooks that keep q, k, v and outputs, and a case made of them."""
import contextlib

import torch

LEAST = torch.finfo(torch.float64).min


@contextlib.contextmanager
def replaced(owner, **values):
    """Attributes of `owner` while the block runs."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def float64_only():
    """The modules ask for float32 in places (softmax, angles): here they get float64."""
    torch.set_default_dtype(torch.float64)
    with replaced(torch, float=torch.float64, float32=torch.float64), replaced(torch.Tensor, float=torch.Tensor.double):
        yield
    torch.set_default_dtype(torch.float32)


def randomize(module, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.double().parameters():
        parameter.data.copy_(torch.rand(parameter.shape, generator=generator) * 2 - 1)
    return module.eval()


def random(shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def kept(x):
    x.retain_grad()
    return x


def keep_output(module, store, name):
    module.register_forward_hook(lambda _, __, out: store.__setitem__(name, kept(out)))


def keep_input(module, store, name="out"):
    module.register_forward_pre_hook(lambda _, inputs: store.__setitem__(name, inputs[0]))


def keep_interface(code, store):
    """A replacement of the module's eager attention that keeps its q, k, v and output, (B, H, T, D)."""
    plain = code.eager_attention_forward

    def wrapper(module, query, key, value, attention_mask, **rest):
        store.update(q=kept(query), k=kept(key), v=kept(value))
        out, weights = plain(module, query, key, value, attention_mask, **rest)
        store["out"] = out
        return out, weights

    return replaced(code, eager_attention_forward=wrapper)


def flat(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().reshape(-1).tolist()
    return x


class Case:
    """One call: tensors as (B, T, H, D), and for each input with a gradient a pair (value, gradient)."""

    def __init__(self, name, out, seed):
        self.record = {"name": name}
        self.out = out
        self.weights = random(out.shape, seed)
        (out * self.weights).sum().backward()

    def finish(self, inputs, scheme, rest):
        """inputs: q, k, v and those of the scheme: name -> function of the tensor or of its gradient, and the tensor."""
        values = {name: (shape(x.detach()), None if x.grad is None else shape(x.grad)) for name, (x, shape) in inputs.items()}
        q, k, v = (values[name][0] for name in "qkv")
        self.record["shape"] = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]]
        self.record.update({name: flat(value) for name, value in rest.items()})
        self.record.update({name: flat(values[name][0]) for name in "qkv"})
        self.record["scheme"] = dict(scheme)
        self.record["scheme"].update({name: flat(value) for name, (value, _) in values.items() if name not in "qkv"})
        heads = (q.shape[0], q.shape[1], q.shape[2], v.shape[3])
        self.record["out"] = flat(self.out.reshape(heads))
        self.record["out_gradient"] = flat(self.weights.reshape(heads))
        self.record["gradients"] = {name: flat(gradient) for name, (_, gradient) in values.items() if gradient is not None}
        return self.record


def same(x):
    return x


def heads_last(x):
    return x.transpose(1, 2)


def split(heads):
    """(B, T, H D) as (B, T, H, D)."""
    return lambda x: x.reshape(*x.shape[:2], heads, -1)


def by_head(heads):
    """(1, rows, H D) as (H, rows, D)."""
    return lambda x: x.reshape(-1, heads, x.shape[-1] // heads).transpose(0, 1)


def additive(allowed):
    """(B, 1, Tq, Tk) of zeros and least numbers."""
    return torch.where(allowed, 0.0, LEAST)[:, None]


def causal(tq, tk, window=None):
    r = torch.arange(tk - tq, tk)[:, None] - torch.arange(tk)[None, :]
    allowed = (r >= 0) if window is None else (r >= 0) & (r < window)
    return allowed[None]
