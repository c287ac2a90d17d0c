# SPDX-License-Identifier: Apache-2.0
"""What peers.py and peers' libraries agree on: a call has the same bytes in C and in Python, and a library is asked for what it exports."""
import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GPU = Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.insert(0, str(GPU))
import peer_abi  # noqa: E402

LIBRARY = """
#include <stddef.h>
#include <string.h>
#include "peer_abi.h"
int sglang_fused_rope(const PeerCall* call) { return call->tokens == 3 && call->kv_scale == 2.5f && call->stream == (void*)77 ? 0 : 9; }
int vllm_rotary_embedding(const PeerCall* call) { return call->q == 0 ? 700 : 0; }
#define FIELD(name) if (strcmp(asked, #name) == 0) return offsetof(PeerCall, name)
size_t offset_of(const char* asked) { FIELDS return sizeof(PeerCall); }
"""


def compiled(folder):
    """A library with some of the functions, and one that says where each field lies."""
    fields = "; ".join(f"FIELD({name})" for name, _ in peer_abi.PeerCall._fields_)
    source, library = Path(folder) / "some.c", Path(folder) / "some.so"
    source.write_text(LIBRARY.replace("FIELDS", fields + ";"), encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{GPU}", source, "-o", library], check=True)
    return str(library)


class PeerAbi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.library = compiled(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def load(self, wanted):
        """The functions, and what was said about those that are missing."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            found = peer_abi.load(self.library, peer_abi.LIBRARIES[wanted])
        return found, out.getvalue()

    def test_a_call_has_the_same_bytes_in_c(self):
        offset_of = peer_abi.ctypes.CDLL(self.library).offset_of
        offset_of.restype, offset_of.argtypes = peer_abi.ctypes.c_size_t, [peer_abi.ctypes.c_char_p]
        for name, _ in peer_abi.PeerCall._fields_:
            self.assertEqual(offset_of(name.encode()), getattr(peer_abi.PeerCall, name).offset, name)
        self.assertEqual(offset_of(b""), peer_abi.ctypes.sizeof(peer_abi.PeerCall))

    def test_what_a_library_lacks_is_named_and_the_rest_called(self):
        (function,), said = self.load("sglang")
        self.assertEqual(function.exported.task, "rotate")
        self.assertIn("has no sglang_fused_rope_store", said)
        function.call(peer_abi.PeerCall(tokens=3, kv_scale=2.5, stream=77))
        with self.assertRaisesRegex(RuntimeError, "sglang_fused_rope: CUDA error 9"):
            function.call(peer_abi.PeerCall(tokens=4, kv_scale=2.5, stream=77))

    def test_functions_of_one_library_are_told_apart(self):
        (function,), _ = self.load("vllm")
        with self.assertRaisesRegex(RuntimeError, "vllm_rotary_embedding: CUDA error 700"):
            function.call(peer_abi.PeerCall())

    def test_a_library_with_none_of_them_is_refused(self):
        with self.assertRaises(SystemExit) as stopped:
            self.load("flashinfer")
        self.assertIn("exports none of flashinfer_apply_rope_pos_ids, ", str(stopped.exception.code))

    def test_the_docstring_of_peers_names_every_function(self):
        described = (GPU / "peers.py").read_text(encoding="utf-8").split('"""')[1]
        for wanted in peer_abi.LIBRARIES.values():
            for exported in wanted:
                self.assertIn(f"\n  {exported.symbol} ", described)

    def test_every_task_is_one_of_ours(self):
        tasks = {exported.task for exported in peer_abi.OURS}
        source = (GPU / "ours.cu").read_text(encoding="utf-8")
        for exported in [peer_abi.COPY, *peer_abi.OURS]:
            self.assertIn(f"EXPORTED {exported.symbol}(const PeerCall* call)", source)
        for wanted in peer_abi.LIBRARIES.values():
            self.assertLessEqual({exported.task for exported in wanted}, tasks)

    def test_arguments(self):
        options = peer_abi.parse(["--phasor", "a.so", "--vllm", "b.so", "out.json"], None)
        self.assertEqual((options.phasor, options.vllm, options.sglang, options.json), ("a.so", "b.so", None, "out.json"))
        for wrong in ([], ["--phasor", "a.so", "--other", "b.so"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                peer_abi.parse(wrong, None)
            self.assertIn("usage: peers.py", said.getvalue())


if __name__ == "__main__":
    unittest.main()
