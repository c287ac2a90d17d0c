# SPDX-License-Identifier: Apache-2.0
"""Models dropped and pasted: configs made here, and files that nobody should have made."""

from __future__ import annotations

import json
import random
import struct

import pytest
from conftest import ROOT

CORPUS = ROOT / "fuzz/corpus"


def made_config(seed: int) -> dict:
    """A config that no file of this repository holds."""
    chance = random.Random(seed)
    return {
        "model_type": "llama",
        "hidden_size": 64 * chance.choice([8, 12, 16]) * 2,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "num_hidden_layers": chance.randrange(3, 40),
        "max_position_embeddings": 1024 * chance.randrange(8, 64),
        "rope_theta": float(chance.randrange(10_000, 3_000_000)),
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    }


@pytest.mark.short
def test_a_config_made_now_is_dropped_dragged_and_read_back(playground, tool, tmp_path):
    config = made_config(random.randrange(1 << 30))
    print(config)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    playground.open("start")
    playground.drop("config.json", path.read_bytes())
    assert playground.problem() == ""
    assert playground.page.inner_text("#panel-model pre.words").strip() == tool("explain", str(path), text=True).strip()
    playground.go("decay")
    playground.drag("farthest distance", [0.3, 0.7])
    playground.slide("farthest distance", 900)
    wanted = tool("plot", "decay", "--model", str(path), "--distances", "0:901")["panels"][0]["curves"][0]
    found = playground.figure("decay")["panels"][0]["curves"][0]
    assert (found["x"], found["y"]) == (wanted["x"], wanted["y"])
    playground.go("precision")
    wanted = tool("plot", "error", "--model", str(path))["panels"][0]["curves"]
    assert [curve["y"] for curve in playground.figure("error")["panels"][0]["curves"]] == [curve["y"] for curve in wanted]


@pytest.mark.short
def test_a_dropped_config_stays_here_unless_the_user_says_so(playground, tmp_path):
    playground.open("start")
    playground.drop("config.json", json.dumps(made_config(7)).encode())
    playground.go("take")
    playground.page.wait_for_timeout(400)
    assert "config=" not in playground.page.url and "config=" not in playground.page.input_value(".link")
    playground.page.get_by_label("Put my config into the link").check()
    link = playground.page.input_value(".link")
    assert "config=" in link
    playground.page.goto("about:blank")
    playground.page.goto(link)
    playground.ready()
    playground.go("model")
    assert str(made_config(7)["num_hidden_layers"]) in playground.page.inner_text("#panel-model .facts")


@pytest.mark.short
def test_a_pasted_config_is_read(playground):
    playground.open("model")
    playground.page.fill("textarea", '{"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 5}')
    playground.page.get_by_role("button", name="Read").click()
    playground.settle()
    assert "5 layers" in playground.page.inner_text("pre.words")


@pytest.mark.short
def test_a_large_gguf_is_read_by_its_head(playground, browser, address):
    """A file of 3 GB whose head is small: the page asks for the beginning only."""
    playground.open("model")
    head = gguf_head({"general.architecture": "llama", "llama.block_count": 7, "llama.attention.head_count": 8, "llama.embedding_length": 512, "llama.context_length": 4096, "llama.rope.freq_base": 12345.0})
    playground.page.evaluate(
        """async (bytes) => {
          const head = new Uint8Array(bytes);
          window.readBytes = 0;
          const file = new File([head, new Uint8Array(1 << 20)], "model.gguf");
          Object.defineProperty(file, "size", { value: 3e9 });
          const slice = file.slice.bind(file);
          file.slice = (from, to) => { window.readBytes += to - from; return slice(from, to); };
          const data = { files: [file] };
          const event = new Event("drop", { bubbles: true, cancelable: true });
          Object.defineProperty(event, "dataTransfer", { value: data });
          document.body.dispatchEvent(event);
        }""",
        list(head),
    )
    playground.settle()
    assert playground.problem() == ""
    assert "7 layers" in playground.page.inner_text("pre.words")
    assert playground.page.evaluate("window.readBytes") < 100_000


def gguf_head(values: dict) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def entry(key: str, value: object) -> bytes:
        if isinstance(value, str):
            return text(key) + struct.pack("<I", 8) + text(value)
        if isinstance(value, float):
            return text(key) + struct.pack("<If", 6, value)
        return text(key) + struct.pack("<II", 4, value)

    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(entry(*one) for one in values.items())


def check_hostile(playground, refusal, files) -> None:
    refused = 0
    for file in files:
        playground.drop(file.name, file.read_bytes())
        said, wanted = playground.problem(), refusal(file)
        assert bool(said) == bool(wanted), (file, said, wanted)
        refused += bool(wanted)
        assert " ".join(said.split()) in " ".join(wanted.split()), file  # the tool has the file's name in front
    assert refused > len(files) // 8
    playground.drop("good.json", b'{"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 9}')
    assert playground.problem() == "" and "9 layers" in playground.page.inner_text("pre.words")
    playground.go("pairs")
    assert len(playground.figure("clocks")["panels"][0]["curves"][0]["x"]) == 64


@pytest.mark.short
@pytest.mark.parametrize("data", [b"", b"\xff\xfe{\x00}\x00", b'{"model_type": "\xc3("}', b"\x00\x01\x02"], ids=["empty", "UTF-16", "no UTF-8", "zeros"])
def test_a_file_that_is_no_text_has_the_librarys_message(playground, refusal, tmp_path, data):
    file = tmp_path / "config.json"
    file.write_bytes(data)
    playground.open("model")
    playground.drop(file.name, data)
    assert playground.problem() and playground.problem() in refusal(file)


@pytest.mark.short
def test_some_hostile_files_give_the_librarys_message(playground, refusal):
    playground.open("model")
    check_hostile(playground, refusal, [*sorted((CORPUS / "hf_config").iterdir())[:8], *sorted((CORPUS / "gguf").iterdir())[:8]])


def test_every_file_of_the_corpora_leaves_the_page_alive(playground, refusal):
    playground.open("model")
    check_hostile(playground, refusal, sorted(file for kind in ("hf_config", "gguf", "safetensors", "spec_json") for file in (CORPUS / kind).iterdir()))


def test_numbers_at_the_edge_are_answered(playground):
    """Fragments that somebody made up: the page opens, and says what the library says."""
    for panel, more in (("pairs", "&position=9007199254740992&pair=-5"), ("image", "&rows=1e9&query=77"), ("attention", "&tokens=-3&head=99"), ("cache", "&cached=3&keep=900"), ("added", "&width=7&length=1e300"), ("decay", "&distance=0&base=-1"), ("lab", "&lab=,,,"), ("nothing", "")):
        playground.open(panel, more)
        assert playground.page.locator("#panels h2").is_visible(), (panel, more)
    playground.page.goto(f"{playground.address}#v=99&panel=pairs")
    playground.page.reload()
    playground.ready()
    assert playground.page.locator("#panel-start").is_visible()


def test_a_broken_config_in_a_link_is_told(playground):
    playground.open("model", "&config=AAAA%25%25")
    assert playground.page.locator("#panels h2").is_visible()
