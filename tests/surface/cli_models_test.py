#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool on a model's files: explain, diff, export, permute. Argument: the tool."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv.pop(1)
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "num_hidden_layers": 32, "max_position_embeddings": 131072, "rope_theta": 500000.0,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192}}
GPT_OSS = {"model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
           "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 128,
           "max_position_embeddings": 131072, "rope_theta": 150000,
           "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
                            "beta_slow": 1.0, "truncate": False}}

QWEN = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": 32768, "rope_theta": 1000000.0}


NEITHER = "is neither a file or folder nor a built-in model, wanted a config.json, a folder that has one, a GGUF file, or gpt-oss, llama2, llama3.1, qwen2.5\n"


def phasor(*arguments, **options):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False, **options)


def safetensors(path, tensors):
    """Tensors as name: (rows, columns), float32, filled with 0, 1, 2, ..."""
    header, data = {}, b""
    for name, (rows, columns) in tensors.items():
        values = struct.pack(f"<{rows * columns}f", *range(rows * columns))
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def rows_of(path, name):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(length))[name]
        file.seek(8 + length + entry["data_offsets"][0])
        rows, columns = entry["shape"]
        return [struct.unpack(f"<{columns}f", file.read(4 * columns)) for _ in range(rows)]


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.llama = self.file("llama.json", json.dumps(LLAMA))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def config(self, name, base, **changes):
        return self.file(name, json.dumps({**base, **changes}))

    def good(self, *arguments):
        done = phasor(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def bad(self, code, message, *arguments):
        done = phasor(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), (arguments, done.stderr))
        self.assertTrue(done.stderr.startswith(f"phasor: {message}"), done.stderr)

    def test_explain_a_config_a_folder_and_a_layer(self):
        text = self.good("explain", self.llama)
        for words in ("32 layers. Trained for 8,192 positions, extended to 131,072 (16x).", "channels (i, i + 64) turn together",
                      "29-34  1.207x to 5.257x slower", "128 MiB for 131,072 positions", "first at position 160,983"):
            self.assertIn(words, text)
        self.file("config.json", json.dumps(LLAMA))
        self.assertEqual(self.good("explain", self.folder.name), text)
        self.assertIn("\nLayer 5: rotary\n", self.good("explain", self.llama, "--layer", "5"))

    def takers(self, model):
        """Every command that takes a model, with this one."""
        yield from (["explain", model], ["explain", model, "--json"], ["diff", model, model], ["export", model, "--to", "hf"],
                    ["report", model, "-o", self.path("report.html")])
        for option in ("--model", "--config"):
            yield from ([*words, option, model] for words in (["table"], ["decay"], ["similarity"], ["accuracy"], ["plan"]))
            yield ["bench", "--tokens", "2", "--json", option, model]
            yield from (["plot", kind, "--json", option, model] for kind in ("decay", "similarity", "sinusoid", "clocks", "scaling", "error"))
        yield ["decay", "--against", f"model={model}"]
        weights = self.path("weights.safetensors")
        safetensors(weights, {"model.layers.0.self_attn.q_proj.weight": (256, 1), "model.layers.0.self_attn.k_proj.weight": (128, 1)})
        yield ["permute", "--detect", weights, weights, "--heads", "2", "--kv-heads", "1", "--config", model]

    def test_every_command_takes_built_in_names_and_files(self):
        self.file("config.json", json.dumps({**LLAMA, "rope_theta": 1234.0}))
        for command in [*self.takers("llama3.1"), *self.takers(self.folder.name), *self.takers(self.llama)]:
            done = phasor(*command)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_a_built_in_name_is_the_model_of_its_config(self):
        self.assertEqual(self.good("explain", "llama3.1"), self.good("explain", self.llama))
        self.assertEqual(self.good("diff", "llama3.1", self.llama), "The same positions.\n")
        self.assertEqual(self.good("table", "--model", "llama3.1", "--layer", "3"), self.good("table", "--config", self.llama))

    def test_neither_a_file_nor_a_name_names_both(self):
        for command in self.takers("llama9"):
            done = phasor(*command)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"phasor: 'llama9' {NEITHER}"), command)
        self.bad(1, f"'{self.path('missing.json')}' {NEITHER}", "explain", self.path("missing.json"))
        for command in self.takers(""):  # an empty name is none, not a model that was not asked for
            if "model=" in command:  # the words of --against have no empty one
                self.bad(2, '--against "model=": ', *command)
            else:
                self.bad(1, f"'' {NEITHER}", *command)

    def test_a_file_wins_over_a_built_in_name(self):
        self.config("llama2", LLAMA, rope_theta=1234.0)
        os.mkdir(self.path("qwen2.5"))
        for name, here in (("llama2", "1,234: "), ("llama3.1", "500,000: ")):
            self.assertIn(f"base           {here}", phasor("explain", name, cwd=self.folder.name).stdout)
        for command in (["explain", "qwen2.5"], ["table", "--model", "qwen2.5"]):  # what is there was meant, even where it is no model
            done = phasor(*command, cwd=self.folder.name)
            self.assertEqual((done.returncode, done.stderr), (1, "phasor: qwen2.5: is a folder without a readable config.json\n"), command)

    def test_explain_json_has_the_numbers(self):
        facts = json.loads(self.good("explain", self.llama, "--json"))
        group = facts["groups"][0]
        self.assertEqual((facts["layer_count"], group["rotary"]["base"], group["layers"]), (32, 500000, list(range(32))))
        self.assertEqual([(r["first_pair"], r["last_pair"]) for r in group["rotary_facts"]["interpolation"]], [(0, 28), (29, 34), (35, 63)])

    def test_length_chooses_what_depends_on_it(self):
        dynamic = self.config("dynamic.json", LLAMA, rope_scaling={"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=4096)
        slowest = [json.loads(self.good("explain", dynamic, "--json", *length))["groups"][0]["rotary_facts"]["slowest_wavelength"]
                   for length in ([], ["--length", "16384"])]
        self.assertGreater(slowest[1], 2 * slowest[0])

    def test_diff_is_0_when_nothing_that_matters_differs(self):
        self.assertEqual(self.good("diff", self.llama, self.llama), "The same positions.\n")
        longer = self.config("longer.json", LLAMA, max_position_embeddings=65536)
        self.assertTrue(self.good("diff", self.llama, longer).endswith("Nothing that matters differs.\n"))
        self.assertFalse(json.loads(self.good("diff", self.llama, longer, "--json"))["matters"])

    def test_diff_is_1_when_something_does(self):
        exact = self.config("exact.json", GPT_OSS)
        rounded = self.config("rounded.json", GPT_OSS, rope_scaling={**GPT_OSS["rope_scaling"], "truncate": True})
        done = phasor("diff", exact, rounded)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("pair 17 most: it turns 1.763x as fast on the right", done.stdout)
        found = json.loads(phasor("diff", exact, rounded, "--json").stdout)
        self.assertEqual([(one["where"], one["matters"]) for one in found["differences"]], [("layers 0-3: scaling", True)])

    def test_export_and_back_is_the_same_model(self):
        self.good("export", self.llama, "--to", "hf", "-o", self.path("exported.json"))
        self.good("diff", self.llama, self.path("exported.json"))
        self.assertEqual(json.loads(self.good("export", self.llama, "--to", "hf")), json.load(open(self.path("exported.json"), encoding="utf-8")))
        qwen = self.file("qwen.json", json.dumps(QWEN))  # half in GGUF too; llama would be interleaved there
        keys = json.loads(self.good("export", qwen, "--to", "gguf", "--arch", "qwen2"))
        self.assertEqual(keys["keys"]["qwen2.rope.freq_base"]["value"], 1000000)

    def test_export_refuses_what_a_dialect_cannot_say(self):
        done = phasor("export", self.config("exact.json", GPT_OSS), "--to", "gguf", "--arch", "gpt-oss")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("truncate", done.stderr)

    def test_permute_there_and_back(self):
        shape = ["--heads", "2", "--kv-heads", "1"]
        before, there, back = self.path("a.safetensors"), self.path("b.safetensors"), self.path("c.safetensors")
        q, k, v = (f"model.layers.0.self_attn.{name}_proj.weight" for name in "qkv")
        safetensors(before, {q: (8, 3), k: (4, 3), v: (4, 3)})
        report = json.loads(self.good("permute", before, there, "--from", "half", "--to", "interleaved", *shape, "--json"))
        self.assertEqual((sorted(report["permuted"]), report["copied"]), (sorted([q, k]), 1))
        rows = rows_of(before, q)  # of each head of 4: 0, 2, 1, 3
        self.assertEqual(rows_of(there, q), [rows[i] for i in (0, 2, 1, 3, 4, 6, 5, 7)])
        self.assertEqual(rows_of(there, v), rows_of(before, v))
        self.good("permute", there, back, "--from", "interleaved", "--to", "half", *shape)
        self.assertEqual([rows_of(back, name) for name in (q, k, v)], [rows_of(before, name) for name in (q, k, v)])
        self.assertIn("half in the first", self.good("permute", "--detect", before, there, *shape))
        self.assertEqual(json.loads(self.good("permute", "--detect", before, back, *shape, "--json")), {"relation": "same"})
        other = self.path("d.safetensors")
        safetensors(other, {v: (4, 3), q: (8, 3), k: (4, 3)})
        with open(other, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", -1.0))
        self.assertEqual(phasor("permute", "--detect", before, other, *shape).returncode, 1)

    def test_a_model_that_does_not_rotate_has_no_decay(self):
        bert = self.file("bert.json", json.dumps({"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 2,
                                                  "max_position_embeddings": 512}))
        self.bad(1, "the model (bert) does not rotate", "decay", "--config", bert)
        self.bad(1, "--layer: layer 1 does not rotate", "decay", "--config", bert, "--layer", "1")

    def test_bad_files_are_failures(self):
        missing = self.path("missing.json")
        for command in (["explain", missing], ["diff", missing, self.llama], ["diff", self.llama, missing], ["export", missing, "--to", "hf"],
                        ["permute", missing, self.path("out"), "--heads", "2"], ["explain", self.file("bad.json", "{")],
                        ["explain", self.file("empty.json", "")], ["explain", self.folder.name]):
            done = phasor(*command)
            self.assertEqual((done.returncode, done.stdout), (1, ""), command)
            self.assertTrue(done.stderr.startswith("phasor: "), done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        self.bad(1, "explain: layer is 32, the model has 32 layers", "explain", self.llama, "--layer", "32")

    def test_wrong_use(self):
        for command in (["explain"], ["explain", self.llama, self.llama], ["explain", self.llama, "--length", "0"], ["diff", self.llama],
                        ["export", self.llama], ["export", self.llama, "--to", "onnx"], ["permute", "a"]):
            self.assertEqual(phasor(*command).returncode, 2, command)
        self.bad(2, "--to hf takes no --arch", "export", self.llama, "--to", "hf", "--arch", "llama")
        self.bad(2, "permute wants --heads", "permute", "a", "b")
        self.bad(2, "--from and --to are both half", "permute", "a", "b", "--to", "half", "--heads", "2")


if __name__ == "__main__":
    unittest.main()
