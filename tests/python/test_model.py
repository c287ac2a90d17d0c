# SPDX-License-Identifier: Apache-2.0
"""Models' files through Python: every way in gives the same value; words, differences, exports, weights, and what is refused."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import phasor
import pytest
import transformers
from safetensors.numpy import load_file

GOLDEN = Path(__file__).parents[1] / "golden"
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "rope_theta": 5e5}
SCALED = {
    **LLAMA,
    "max_position_embeddings": 8192,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
}


def test_every_way_in_gives_the_same(tmp_path):
    wanted = phasor.read_model(SCALED)
    text = json.dumps(SCALED, indent=1)
    (tmp_path / "config.json").write_text(text)
    config = transformers.LlamaConfig(**SCALED)
    for source in (text, "\n  " + text, tmp_path, str(tmp_path), tmp_path / "config.json", wanted, config):
        found = phasor.read_model(source)
        assert found.layers == wanted.layers and found.length == wanted.length, source
    assert hash(wanted.layers[0]) == hash(phasor.read_model(text).layers[0])


def test_layers_are_values_with_all_that_the_file_says():
    model = phasor.read_model(SCALED)
    assert model.model_type == "llama" and model.dialect == "huggingface" and len(model.layers) == 3 and model.towers == ()
    rotary = model.layers[0].rotary
    assert rotary.head_dim == 16 and rotary.base == 5e5
    assert rotary.scaling == phasor.YarnScaling(factor=4.0, original_length=2048, softmax="unchanged")
    assert model.layers[0].numerics == "hf" and model.layers[0].bias is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.layers[0].window = 3


def test_rope_parameters_may_differ_by_layer_type():
    config = transformers.Gemma3TextConfig(num_hidden_layers=6)
    bases = [phasor.Rotary.from_config(config, layer).base for layer in range(6)]
    assert bases == [config.rope_parameters[kind]["rope_theta"] for kind in config.layer_types] and len(set(bases)) == 2
    model = phasor.read_model(config)
    assert [layer.type for layer in model.layers] == config.layer_types and model.layers[0].window == config.sliding_window


def test_towers_have_encodings_of_their_own():
    config = transformers.Qwen2_5_VLConfig()
    vision = phasor.Rotary.from_config(config, tower="vision")
    assert vision.axes.sections == (56, 56) and phasor.Rotary.from_config(config).axes.sections == (16, 24, 24)
    with pytest.raises(ValueError, match="has no tower 'audio', the model's are: vision"):
        phasor.Rotary.from_config(config, tower="audio")


def test_frequencies_are_those_recorded_from_transformers():
    compared = 0
    for name in (GOLDEN / "configs" / "index.txt").read_text().split():
        case = json.loads((GOLDEN / "configs" / f"{name}.json").read_text())
        layers = phasor.read_model(case["config"]).layers
        for kind, table in case.get("tables", {}).items():  # one table, or one for each type of layer
            specs = {layer.rotary for layer in layers if layer.rotary and kind in ("", layer.type)}
            for spec in specs:
                assert np.allclose(phasor.Rotary.from_spec(spec).frequencies, table["inv_freq"], rtol=2e-6, atol=0), name
            compared += len(specs)
    assert compared > 90


def test_biases_and_tables_of_models():
    bloom, gpt2, t5 = (
        phasor.read_model(config) for config in (transformers.BloomConfig(), transformers.GPT2Config(), transformers.T5Config())
    )
    assert bloom.layers[0].bias == phasor.ModelBias(kind="alibi", heads=8) and bloom.layers[0].rotary is None
    assert gpt2.layers[0].additive == phasor.ModelAdditive(kind="learned", length=1024, width=768)
    assert t5.layers[0].bias.kind == "t5_buckets" and t5.layers[0].bias.buckets == 32 and not t5.layers[0].bias.bidirectional
    assert t5.towers[0].name == "encoder" and t5.towers[0].layers[0].bias.bidirectional


def test_a_gguf_file_enters_as_path_and_as_bytes():
    path = GOLDEN / "gguf" / "llama-3.1.gguf"
    model = phasor.read_model(path)
    assert model.dialect == "gguf" and phasor.read_model(path.read_bytes()) == model
    rope = phasor.Rotary.from_gguf(path)
    assert rope.spec == model.layers[0].rotary and rope.pairing == "interleaved" and rope.base == 500000.0


def test_a_byte_of_a_gguf_file_that_is_wrong_is_a_message_or_a_name_but_never_pythons_own_error():
    """Among them every byte of every key: names that are no UTF-8 are shown with their bytes escaped."""
    content = (GOLDEN / "gguf" / "llama-3.1.gguf").read_bytes()
    names = escaped = 0
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 0x80
        try:
            words = phasor.explain(phasor.read_model(bytes(flipped)))
            names += 1
        except (ValueError, NotImplementedError) as error:
            assert not isinstance(error, UnicodeError), (at, error)
            words = str(error)
        escaped += "\\x" in words
    assert names > 100 and escaped > 10


def test_a_key_that_is_no_utf8_is_shown_escaped(tmp_path):
    content = (GOLDEN / "gguf" / "llama-3.1.gguf").read_bytes()
    path = tmp_path / "flipped.gguf"
    path.write_bytes(content.replace(b"general.architecture", b"general.architectur\xe5"))
    with pytest.raises(ValueError) as found:
        phasor.read_model(path)
    assert not isinstance(found.value, UnicodeError) and "architecture" in str(found.value)
    path.write_bytes(content.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0llam\xff", 1))
    with pytest.raises((ValueError, NotImplementedError), match=r"llam\\xff") as found:
        phasor.read_model(path)
    assert not isinstance(found.value, UnicodeError)


def test_a_file_that_is_not_there_is_pythons_own_error(tmp_path):
    shape = phasor.PermuteOptions(heads=4, kv_heads=2, head_dim=8)
    half = GOLDEN / "weights" / "grouped-half.safetensors"
    for call in (
        lambda: phasor.read_model(tmp_path / "missing.gguf"),
        lambda: phasor.read_model(tmp_path),  # a folder without config.json
        lambda: phasor.explain(str(tmp_path / "no" / "config.json")),
        lambda: phasor.permute_safetensors(tmp_path / "missing", tmp_path / "out", shape),
        lambda: phasor.permute_safetensors(half, tmp_path / "no" / "out", shape),
        lambda: phasor.detect_pairing(half, tmp_path / "missing", shape),
    ):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            call()


def test_the_length_in_use_chooses():
    config = {**LLAMA, "max_position_embeddings": 2048, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    short, long = (phasor.Rotary.from_config(config, length=length).frequencies for length in (1000, 8192))
    assert (short == phasor.Rotary.from_config(LLAMA).frequencies).all() and long[-1] < short[-1]


def test_words_and_data_say_the_same():
    words = phasor.explain(SCALED)
    assert "llama" in words and "500,000" in words and "yarn" in words.lower()
    data = phasor.explain_json(SCALED, layer=1)
    assert data["model_type"] == "llama" and "500000" in json.dumps(data)
    assert phasor.explain(phasor.read_model(SCALED)) == words


def test_differences_are_named_and_weighed():
    assert phasor.diff(LLAMA, LLAMA) == ()
    (found,) = phasor.diff(LLAMA, {**LLAMA, "rope_theta": 1e6})
    assert found.matters and "layers 0-2" in found.where and "500,000" in found.left and "1,000,000" in found.right and found.why


def test_exports_are_read_back_as_the_same():
    model = phasor.read_model(SCALED)
    assert phasor.read_model(phasor.to_hf_config(model)).layers == model.layers
    keys = phasor.to_gguf_keys({**SCALED, "model_type": "qwen2"}, "qwen2")["keys"]
    assert keys["qwen2.rope.scaling.type"]["value"] == "yarn" and keys["qwen2.rope.freq_base"]["value"] == 5e5


def test_weights_go_between_pairings(tmp_path):
    half, interleaved = GOLDEN / "weights" / "grouped-half.safetensors", GOLDEN / "weights" / "grouped-interleaved.safetensors"
    shape = phasor.PermuteOptions(heads=4, kv_heads=2, head_dim=8)
    report = phasor.permute_safetensors(half, tmp_path / "out.safetensors", shape)
    assert report.permuted and (tmp_path / "out.safetensors").read_bytes() == interleaved.read_bytes()
    assert phasor.detect_pairing(half, interleaved, shape) == "half_to_interleaved"
    assert phasor.detect_pairing(half, str(half), shape) == "same"
    back = dataclasses.replace(shape, source="interleaved", target="half")
    phasor.permute_safetensors(interleaved, tmp_path / "back.safetensors", back)
    assert phasor.detect_pairing(half, tmp_path / "back.safetensors", shape) == "same"
    assert len(report.permuted) + report.copied == len(load_names(half))


def load_names(path):
    size = int.from_bytes(path.read_bytes()[:8], "little")
    return [name for name in json.loads(path.read_bytes()[8 : 8 + size]) if name != "__metadata__"]


def test_permuted_weights_give_the_same_scores(tmp_path):
    from safetensors.numpy import save_file

    random = np.random.default_rng(4)
    weights = {f"layer.self_attn.{name}.weight": random.standard_normal((16, 6)) for name in ("q_proj", "k_proj")}
    save_file(weights, tmp_path / "half.safetensors")
    phasor.permute_safetensors(tmp_path / "half.safetensors", tmp_path / "turned.safetensors", phasor.PermuteOptions(heads=2))
    turned = load_file(tmp_path / "turned.safetensors")
    x = random.standard_normal((5, 6))

    def scores(tensors, pairing):
        q, k = (x @ tensors[f"layer.self_attn.{name}.weight"].T for name in ("q_proj", "k_proj"))
        q, k = phasor.Rotary(head_dim=8, pairing=pairing)(q.reshape(5, 2, 8), k.reshape(5, 2, 8))
        return np.einsum("qhd,khd->hqk", q, k)

    assert np.allclose(scores(weights, "half"), scores(turned, "interleaved"), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: phasor.read_model(7), TypeError, "is int, wanted a path"),
        (lambda: phasor.read_model("no/such/folder"), FileNotFoundError, "no/such/folder: cannot be found.*wanted a config.json, a folder that has one or a GGUF file .nothing is downloaded"),
        (lambda: phasor.read_model("{broken"), ValueError, "parse_hf_config"),
        (lambda: phasor.read_model({}), ValueError, "model_type"),  # nothing says what model it is
        (lambda: phasor.read_model("{}"), ValueError, "model_type"),
        (lambda: phasor.read_model({**LLAMA, "num_attention_heads": 0}), ValueError, "num_attention_heads"),
        (lambda: phasor.read_model({**LLAMA, "rope_scaling": {"rope_type": "spiral"}}), ValueError, "spiral"),
        (lambda: phasor.read_model(b"GGML"), ValueError, "gguf"),
        (lambda: phasor.Rotary.from_config(LLAMA, 3), ValueError, "layer is 3, the model has 3"),
        (lambda: phasor.Rotary.from_config(transformers.GPT2Config()), ValueError, "has no rotary"),
        (lambda: phasor.explain(LLAMA, layer=9), ValueError, "9"),
        (lambda: phasor.to_gguf_keys(LLAMA, "llama"), ValueError, "pairing"),
        (lambda: phasor.permute_safetensors("a", "b", phasor.PermuteOptions()), ValueError, "heads"),
        (lambda: phasor.permute_safetensors("a", "b", {"heads": 4}), TypeError, "PermuteOptions"),
        (lambda: phasor.detect_pairing("a", "b", phasor.PermuteOptions(source="thirds", heads=1)), ValueError, "half or interleaved"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_warnings_reach_the_caller():
    model = phasor.read_model({**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "flavour": "mint"}})
    assert any("flavour" in warning for warning in model.warnings)
