# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention against steps that PyTorch and transformers do: norms, rotations, float8, layouts of engines."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import phasor
import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

TOKENS, HEADS, KEY_HEADS, DIM = 7, 4, 2, 32
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def heads(dtype, count, seed=0, dim=DIM):
    return torch.randn(TOKENS, count, dim, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ordered_mean(x):
    """The mean of squares in the order that is written down: 32 sums, then halves on halves."""
    squares = torch.nn.functional.pad(x.float() ** 2, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
    sums = squares[..., 0, :]
    for i in range(1, squares.shape[-2]):
        sums = sums + squares[..., i, :]
    while sums.shape[-1] > 1:
        lower, upper = sums.chunk(2, -1)
        sums = lower + upper
    return sums / x.shape[-1]


def rms(x, weight, epsilon, before):
    """As transformers writes it: the cast before the weight (Qwen 3) or after 1 + it (Gemma 3)."""
    normed = x.float() * (1 / torch.sqrt(ordered_mean(x) + epsilon))
    return weight * normed.to(x.dtype) if before else (normed * (1 + weight.float())).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("before", [True, False])
def test_a_norm_and_a_rotation_are_pytorchs_norm_and_a_rotation(dtype, before):
    rope = phasor.Rotary(head_dim=DIM)
    q, k = heads(dtype, HEADS), heads(dtype, KEY_HEADS, 1)
    weight = heads(dtype, 1, 2)[0, 0]
    norm = phasor.HeadNorm(weight=weight, cast="before_weight" if before else "after_weight", weight_as="plain" if before else "one_plus")
    cache = torch.zeros(1, TOKENS, KEY_HEADS, DIM, dtype=dtype)
    q_out = phasor.prepare_attention(q, k, rotary=rope, positions=100, k_cache=phasor.Cache(cache), q_norm=norm, k_norm=norm)
    wanted_q, wanted_k = rope(rms(q, weight, 1e-6, before), rms(k, weight, 1e-6, before), 100)
    assert torch.equal(q_out, wanted_q)
    assert torch.equal(cache[0], wanted_k)


def test_norms_are_those_of_transformers_within_a_rounding():
    norm = Qwen3RMSNorm(DIM, eps=1e-6)
    torch.nn.init.normal_(norm.weight)
    q = heads(torch.float32, HEADS)
    with torch.no_grad():
        wanted = norm(q)
        given = phasor.prepare_attention(q, q_norm=phasor.HeadNorm(weight=norm.weight, cast="before_weight"))
    torch.testing.assert_close(given, wanted, rtol=2e-6, atol=0)


@pytest.mark.parametrize("storage, largest", [(torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_float8_is_pytorchs(storage, largest, dtype):
    k = heads(dtype, KEY_HEADS) * 300
    cache = torch.zeros(4, 2, KEY_HEADS, DIM, dtype=storage)
    scale = torch.tensor([0.5, 3.0])
    scales = phasor.CacheScales(array=scale)
    phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache, scales=scales), slots=torch.arange(TOKENS))
    wanted = (k.float() / scale[:, None]).clamp(-largest, largest).to(storage)
    assert torch.equal(cache.view(8, KEY_HEADS, DIM)[:TOKENS].view(torch.uint8), wanted.view(torch.uint8))


def test_all_float8_codes_come_back():
    for storage, largest in ((torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344)):
        codes = torch.arange(256, dtype=torch.uint8).view(storage)
        values = codes.float()
        k = values.reshape(1, 1, 256)
        cache = torch.zeros(1, 1, 1, 256, dtype=storage)
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache))
        finite = torch.isfinite(values)
        assert torch.equal(cache.reshape(256)[finite].view(torch.uint8), codes[finite].view(torch.uint8))
        assert torch.isnan(cache.float().reshape(256)[torch.isnan(values)]).all()
        assert (cache.float().reshape(256)[torch.isinf(values)].abs() == largest).all()


def test_int8_and_scales_that_are_made():
    k = heads(torch.bfloat16, KEY_HEADS)
    cache = torch.zeros(TOKENS, KEY_HEADS, DIM, dtype=torch.int8)
    made = torch.zeros(TOKENS, KEY_HEADS, 1)
    scales = phasor.CacheScales(kind="made", array=made, axes="block head group")
    phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache, "block head inner", scales=scales), slots=np.arange(TOKENS))
    wanted = k.float().abs().amax(-1, keepdim=True) / 127
    assert torch.equal(made, wanted)
    assert torch.equal(cache, torch.round(k.float() / wanted).to(torch.int8))


def test_layouts_of_vllm():
    k, v = heads(torch.float16, KEY_HEADS), heads(torch.float16, KEY_HEADS, 1)
    slots = torch.tensor([3, -1, 0, 11, 7, 2], dtype=torch.int32)  # shorter than the tokens, one skipped
    keys, values = torch.zeros(4, KEY_HEADS, DIM // 8, 3, 8, dtype=k.dtype), torch.zeros(4, KEY_HEADS, DIM, 3, dtype=k.dtype)
    phasor.prepare_attention(
        k=k, v=v, k_cache=phasor.Cache(keys, "block head outer token inner"), v_cache=phasor.Cache(values, "block head inner token"), slots=slots
    )
    both = torch.zeros(2, 4, 3, KEY_HEADS, DIM, dtype=k.dtype)
    phasor.prepare_attention(k=k, v=v, k_cache=phasor.Cache(both[0]), v_cache=phasor.Cache(both[1]), slots=slots)
    wanted = torch.zeros_like(both).view(2, 12, KEY_HEADS, DIM)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            wanted[0, slot], wanted[1, slot] = k[token], v[token]
    assert torch.equal(both.view_as(wanted), wanted)
    assert torch.equal(keys.permute(0, 3, 1, 2, 4).reshape(12, KEY_HEADS, DIM), wanted[0])
    assert torch.equal(values.permute(0, 3, 1, 2).reshape(12, KEY_HEADS, DIM), wanted[1])


def test_pages_of_flashinfer():
    k = heads(torch.float32, KEY_HEADS)
    pages = torch.zeros(6, 2, KEY_HEADS, 2, DIM)
    phasor.prepare_attention(
        k=k,
        k_cache=phasor.Cache(pages[:, 0], "block head token inner"),
        kv_indptr=[0, 2, 5],
        kv_indices=[5, 1, 4, 0, 2],
        requests=[0, 0, 0, 1, 1, 1, 1],
        places=[0, 1, 2, 0, 1, 2, 3],
    )
    for token, (page, entry) in enumerate([(5, 0), (5, 1), (1, 0), (4, 0), (4, 1), (0, 0), (0, 1)]):
        assert torch.equal(pages[page, 0, :, entry], k[token])
    assert not pages[:, 1].any() and not pages[3].any()


def test_rows_of_mla_in_656_bytes():
    kv = heads(torch.bfloat16, 1, dim=576)
    rope = phasor.Rotary(head_dim=576, rotary_width=64, rotary_offset=512, pairing="interleaved")
    weight = torch.rand(512).to(torch.bfloat16)
    rows = torch.zeros(4, 2, 656, dtype=torch.uint8)
    scales = phasor.CacheScales(kind="made", array=rows[..., 512:528].view(torch.float32), axes="block token group", group=128)
    latent = phasor.Cache(rows[..., :512].view(torch.float8_e4m3fn), "block token inner", scales=scales)
    rotated = phasor.Cache(rows[..., 528:].view(torch.bfloat16), "block token inner", first_channel=512)
    norm = phasor.HeadNorm(weight=weight, width=512, cast="before_weight")
    call = lambda *caches: phasor.prepare_attention(k=kv, rotary=rope, positions=50, k_cache=caches, k_norm=norm, slots=torch.arange(TOKENS))  # noqa: E731
    call(latent, rotated)
    given = torch.zeros_like(rows)  # the same by slices of bytes
    scales = phasor.CacheScales(kind="made", array=given[..., 512:528], storage="float32", axes="block token group", group=128)
    latent = phasor.Cache(given[..., :512], "block token inner", storage="float8_e4m3fn", scales=scales)
    call(latent, phasor.Cache(given[..., 528:], "block token inner", storage="bfloat16", first_channel=512))
    assert torch.equal(given, rows)
    normed = rms(kv[..., :512], weight, 1e-6, True)
    tiles = normed.float().reshape(TOKENS, 4, 128)
    wanted = tiles.abs().amax(-1, keepdim=True) / 448
    flat = rows.view(8, 656)[:TOKENS]
    assert torch.equal(flat[:, 512:528].contiguous().view(torch.float32), wanted[..., 0])
    assert torch.equal(flat[:, :512].contiguous(), (tiles / wanted).to(torch.float8_e4m3fn).view(torch.uint8).reshape(TOKENS, 512))
    assert torch.equal(flat[:, 528:].contiguous().view(torch.bfloat16), rope(kv, positions=50)[:, 0, 512:])


def e4m3(codes):
    """What a byte means by OCP's definition: a sign, four bits of an exponent (bias 7), three of a fraction; all ones are no number."""
    sign, exponent, fraction = np.where(codes & 0x80, -1.0, 1.0), (codes >> 3) & 15, codes & 7
    values = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent.astype(int) - 7))
    return sign * np.where(codes & 0x7F == 0x7F, np.nan, values)


def test_rows_of_mla_in_584_bytes():
    block, slots = 3, [4, -1, 0, 8, 5, 2, 7]
    kv = heads(torch.bfloat16, 1, dim=512)
    kv[2] *= 1e-6  # whose scales are not below those of 1e-4
    kv[3] *= torch.arange(512) % 64 == 63  # the largest of a group is its last
    rope = phasor.Rotary(head_dim=512, rotary_width=64, rotary_offset=448, pairing="interleaved")
    memory = ((np.arange(4 * block * 584) * 7) % 251).astype(np.uint8).reshape(4, block * 584)
    before = memory.copy()
    rows = memory[:, : block * 576].reshape(4, block, 576)  # a view; behind the rows of a block come eight bytes for each token
    made = memory[:, block * 576 :].reshape(4, block, 8)[..., :7]
    assert np.shares_memory(rows, memory) and np.shares_memory(made, memory)
    scales = phasor.CacheScales(kind="made", array=made, axes="block token group", group=64, least=1e-4 / 448)
    latent = phasor.Cache(rows[..., :448], "block token inner", storage="float8_e4m3fn", scales=scales)
    rotated = phasor.Cache(rows[..., 448:], "block token inner", storage="bfloat16", first_channel=448)
    x = kv.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    phasor.prepare_attention(k=x, rotary=rope, positions=50, k_cache=(latent, rotated), slots=slots)
    numbers = e4m3(np.arange(256))
    for token, slot in enumerate(slots):
        if slot < 0:
            continue
        at, row = memory[slot // block], slot % block
        codes = at[row * 576 : row * 576 + 448].reshape(7, 64)
        powers = 2.0 ** (at[block * 576 + row * 8 : block * 576 + row * 8 + 7].astype(int) - 127)  # ue8m0: an exponent, no more
        values = x[token, 0, :448].astype(np.float64).reshape(7, 64)
        largest = np.maximum(np.abs(values).max(-1), 1e-4)
        assert (largest / 448 <= powers * (1 + 2.0**-23)).all() and (powers < largest / 224).all()
        stored = e4m3(codes) * powers[:, None]
        nearest = np.nanmin(np.abs(values[..., None] - numbers * powers[:, None, None]), -1)
        np.testing.assert_array_equal(np.abs(stored - values), nearest)
        np.testing.assert_array_equal(codes, (values / powers[:, None]).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))  # halves to even
        last = at[row * 576 + 448 : row * 576 + 576].view(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(last, rope(x, positions=50)[token, 0, 448:])
    for slot in range(4 * block):  # the eighth byte, and what no token has, stay as they were
        at, old, row = memory[slot // block], before[slot // block], slot % block
        assert at[block * 576 + row * 8 + 7] == old[block * 576 + row * 8 + 7]
        if slot not in slots:
            assert (at[row * 576 : (row + 1) * 576] == old[row * 576 : (row + 1) * 576]).all()
            assert (at[block * 576 + row * 8 :][:8] == old[block * 576 + row * 8 :][:8]).all()


def test_bytes_that_are_no_numbers_are_refused():
    k = np.ones((2, 3, 4), np.float32)
    call = lambda array, **more: phasor.prepare_attention(k=k, k_cache=phasor.Cache(array, storage="float32", **more))  # noqa: E731
    memory = np.zeros(2 * 3 * 4 * 4 * 2 + 8, np.uint8)
    whole = memory[:96].reshape(1, 2, 3, 16)
    call(whole)
    assert (whole.view(np.float32) == 1).all()
    with pytest.raises(ValueError, match="whose bytes follow each other, a multiple of 4"):
        call(memory[:192].reshape(1, 2, 3, 32)[..., ::2])
    with pytest.raises(ValueError, match="whose bytes follow each other, a multiple of 4"):
        call(memory[:102].reshape(1, 2, 3, 17))
    with pytest.raises(ValueError, match="rows that begin at multiples of 4 bytes"):
        call(memory[1:97].reshape(1, 2, 3, 16))
    with pytest.raises(ValueError, match="rows that begin at multiples of 4 bytes"):
        call(memory[:108].reshape(1, 2, 3, 18)[..., :16])
    with pytest.raises(ValueError, match="storage of scales is 'float16', wanted 'float32'"):
        scales = phasor.CacheScales(kind="made", array=memory[:12].reshape(1, 1, 3, 4), storage="float16", axes="block token head group", group=4)
        phasor.prepare_attention(k=k[:1], k_cache=phasor.Cache(np.zeros((1, 1, 3, 4), np.int8), scales=scales))


def test_specs_by_token_are_calls_one_by_one():
    rotaries = [phasor.Rotary(head_dim=DIM), phasor.Rotary(head_dim=DIM, base=1e6)]
    q = heads(torch.bfloat16, HEADS)
    spec_of = [0, 1, 1, 0, 1, 0, 0]
    mixed = phasor.prepare_attention(q, rotary=rotaries, positions=1000, spec_of=spec_of)
    each = [rope(q, positions=1000) for rope in rotaries]
    assert torch.equal(mixed, torch.stack([each[s][t] for t, s in enumerate(spec_of)]))


def test_numpy_in_place_with_factors():
    q = np.random.default_rng(0).standard_normal((TOKENS, HEADS, DIM)).astype(np.float32)
    factors = np.linspace(0.5, 2, TOKENS, dtype=np.float32)
    rope = phasor.Rotary(head_dim=DIM)
    wanted = rope(q, positions=3) * factors[:, None, None]
    assert phasor.prepare_attention(q, rotary=rope, positions=3, q_out=q, query_factors=factors) is q
    np.testing.assert_array_equal(q, wanted)


def test_arrays_of_jax_and_of_ml_dtypes():
    k = heads(torch.float32, KEY_HEADS).numpy()
    rope, norm = phasor.Rotary(head_dim=DIM), phasor.HeadNorm()
    wanted = phasor.prepare_attention(k, rotary=rope, positions=3, q_norm=norm)
    q, same = phasor.prepare_attention(jnp.asarray(k), jnp.asarray(k), rotary=rope, positions=3, q_norm=norm, k_norm=norm)
    assert type(q).__module__.startswith("jax") and (np.asarray(q) == wanted).all() and (np.asarray(same) == wanted).all()
    with pytest.raises(ValueError, match="k_cache: is an array of JAX, which cannot change"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(jnp.zeros((TOKENS, KEY_HEADS, DIM)), "token head inner"))
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        cache = np.zeros((TOKENS, KEY_HEADS, DIM), dtype)
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache, "token head inner"))
        assert (cache == k.astype(dtype)).all()


def test_what_does_not_fit_is_refused_with_words():
    k = heads(torch.float32, KEY_HEADS)
    cache = torch.zeros(4, 2, KEY_HEADS, DIM)
    with pytest.raises(ValueError, match="token 0 goes to token 1 of block 4, wanted one of 4 blocks of 2"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[9])
    with pytest.raises(ValueError, match="axes 'block head inner' and 4 axes"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache, "block head inner"), slots=[0])
    with pytest.raises(ValueError, match="storage of k_cache is 'float64'"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache.double()), slots=[0])
    with pytest.raises(ValueError, match="cache of k holds 16 channels, wanted 32"):  # bytes of half as many
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(torch.zeros(4, 2, KEY_HEADS, DIM, dtype=torch.uint8), storage="bfloat16"), slots=[0])
    eight = "float8_e4m3fn"
    for dtype, storage in ((torch.int8, eight), (torch.float8_e5m2, eight), (torch.float16, "bfloat16"), (torch.int32, "float32")):
        other = torch.zeros(4, 2, KEY_HEADS, DIM, dtype=dtype)
        with pytest.raises(ValueError, match=f"k_cache is of {str(dtype)[6:]} and its storage is '{storage}', wanted that dtype, or uint8"):
            phasor.prepare_attention(k=k, k_cache=phasor.Cache(other, storage=storage), slots=[0])
        assert not other.view(torch.uint8).any()
    phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache.clone(), storage="float32"), slots=[0])
    with pytest.raises(ValueError, match="k_cache has 3 parts"):
        phasor.prepare_attention(k=k, k_cache=[phasor.Cache(cache)] * 3, slots=[0])
    read_only = np.zeros((4, 2, KEY_HEADS, DIM), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="k_cache: is read-only"):
        phasor.prepare_attention(k=k.numpy(), k_cache=phasor.Cache(read_only), slots=[0])
    with pytest.raises(ValueError, match="kind of a norm is 'layer'"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[0], k_norm=phasor.HeadNorm(kind="layer"))
    with pytest.raises(ValueError, match="places, slots are given"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[0], places=[0])
    with pytest.raises(ValueError, match="requires a gradient"):
        phasor.prepare_attention(k=k.requires_grad_(), k_cache=phasor.Cache(cache), slots=[0])
    assert not cache.any()


def test_lists_and_scales_that_would_be_misread_are_refused():
    k = np.ones((2, 3, 4), np.float32)
    call = lambda **more: phasor.prepare_attention(k=k, **{"k_cache": phasor.Cache(np.zeros((2, 2, 3, 4), np.float32)), **more})  # noqa: E731
    eight = lambda scales: phasor.Cache(np.zeros((2, 2, 3, 4), np.uint8), storage="float8_e4m3fn", scales=scales)  # noqa: E731
    with pytest.raises(TypeError, match="slots: is of float64, wanted integers"):
        call(slots=[1.9, 0.2])
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        call(slots=np.array([2**64 - 1, 0], np.uint64))
    with pytest.raises(ValueError, match="kv_indices, kv_indptr are given, wanted starts"):
        call(kv_indptr=[0, 1], kv_indices=[1])
    with pytest.raises(ValueError, match="made scales have 2 on the axis 'token', wanted"):
        made = phasor.CacheScales(kind="made", array=np.zeros((2, 2, 3), np.float32), axes="block token head")
        call(k_cache=phasor.Cache(np.zeros((2, 4, 3, 4), np.uint8), storage="float8_e4m3fn", scales=made))
    with pytest.raises(ValueError, match="given scales have 2 on the axis 'head', wanted 1 or 3"):
        call(k_cache=eight(phasor.CacheScales(array=np.ones(2, np.float32))))
    with pytest.raises(ValueError, match="dtype of scales is 'uint8', wanted 'float32'"):
        call(k_cache=eight(phasor.CacheScales(array=np.ones(3, np.uint8))))
    with pytest.raises(ValueError, match="weight has 3 axes, wanted 1 or 2"):
        call(k_norm=phasor.HeadNorm(weight=np.ones((1, 3, 4), np.float32)))
    with pytest.raises(ValueError, match="weight"):
        call(k_norm=phasor.HeadNorm(weight=np.ones(8, np.float32)[::2]))


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("on_gpu", ["trusted", "checked"])
def test_places_are_always_looked_at_on_the_cpu(kind, on_gpu):
    k = kind(np.ones((4, 1, 8), np.float32))
    wrong = {  # and what is right beside them
        "token 2 goes to token 0 of block 3, wanted one of 3 blocks of 2": {"slots": [0, -1, 6, 99]},
        "places.1. is 4, beyond the 2 pages of request 0": {"kv_indices": [0, 1], "pages_per_request": 2, "places": [1, 4, 2, 5], "requests": [0] * 4},
        "page 1 of request 0 is 3, wanted 0 to 2": {"kv_indptr": [0, 2], "kv_indices": [0, 3], "places": [1, 2, 0, 3], "requests": [0] * 4},
    }
    for says, places in wrong.items():
        cache = kind(np.zeros((3, 2, 1, 8), np.float32))
        with pytest.raises(ValueError, match=f"prepare_attention: {says}"):
            phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), places_on_gpu=on_gpu, **places)
        assert not cache.any()
    phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[5, 0, -1, 3], places_on_gpu=on_gpu)
    assert cache.reshape(6, 8).any(-1).tolist() == [True, False, False, True, False, True]


def test_how_places_are_taken_on_a_gpu_has_two_names():
    k, cache = np.ones((4, 1, 8), np.float32), np.zeros((3, 2, 1, 8), np.float32)
    for more in ({"k_cache": phasor.Cache(cache), "slots": [0]}, {}):
        with pytest.raises(ValueError, match="prepare_attention: places_on_gpu is 'looked at', wanted 'trusted', 'checked'"):
            phasor.prepare_attention(k=k, places_on_gpu="looked at", **more)
    assert not cache.any()
