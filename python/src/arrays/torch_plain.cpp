// SPDX-License-Identifier: Apache-2.0
// Questions to PyTorch about a call. phasor/_torch/eager.py asks the same from Python where a gradient or a copy is wanted.
#include "arrays/torch_plain.hpp"

#include <array>

#include "arrays/array.hpp"
#include "bindings.hpp"
#include "status.hpp"

namespace phasor::python {

namespace {

/// PyTorch's functions. They live as long as the interpreter.
struct Watched {
  std::array<PyObject*, 4> silent{};  // must give 0, False or None: functorch transforms, dispatch modes, function modes, tracing state
  PyObject* forward_ad = nullptr;     // the module whose _current_level is below 0 without forward-mode gradients
  PyObject* inference_mode = nullptr;
  PyObject* recording = nullptr;
  PyObject* increment_version = nullptr;
};
Watched watched;
PyObject *name_version, *name_requires_grad, *name_is_cpu, *name_is_cuda, *name_current_level;

nb::object checked(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}
bool truth(const nb::object& answer) { return answer.ptr() == Py_True; }
bool has(nb::handle tensor, PyObject* attribute) { return truth(checked(PyObject_GetAttr(tensor.ptr(), attribute))); }
bool requires_grad(nb::handle tensor) { return has(tensor, name_requires_grad); }

bool nothing_watches() {
  for (PyObject* question : watched.silent) {
    if (PyObject_IsTrue(checked(PyObject_CallNoArgs(question)).ptr()) != 0) return false;
  }
  return PyLong_AsLong(checked(PyObject_GetAttr(watched.forward_ad, name_current_level)).ptr()) < 0;
}

/// What is plain but for a gradient, which only positions of float64 can want.
bool plain_positions(nb::handle positions) {
  if (positions.is_none() || PyLong_CheckExact(positions.ptr()) != 0) return true;
  return is_plain_torch(positions) && !is_negative_view(positions);
}

/// Memory of the CPU or of a GPU. A tensor answers one question at a time: first the one that the last tensor answered with yes.
bool on_known_device(nb::handle tensor) {
  static bool last_on_gpu = false;  // under the GIL
  if (has(tensor, last_on_gpu ? name_is_cuda : name_is_cpu)) return true;
  if (!has(tensor, last_on_gpu ? name_is_cpu : name_is_cuda)) return false;
  last_on_gpu = !last_on_gpu;
  return true;
}

/// Not so tensors of inference mode, which have no version: reading it takes half as long as asking whether they are such.
bool counts_writes(nb::handle tensor) {
  if (nb::steal(PyObject_GetAttr(tensor.ptr(), name_version)).is_valid()) return true;
  PyErr_Clear();
  return false;
}

bool wants_gradient(nb::handle q, nb::handle k) {
  return (requires_grad(q) || (!k.is_none() && requires_grad(k))) && truth(checked(PyObject_CallNoArgs(watched.recording)));
}

}  // namespace

bool may_write_past_torch(nb::handle q, nb::handle k, nb::handle positions) {
  const bool both = !k.is_none();
  if (watched.forward_ad == nullptr || !is_plain_torch(q) || (both && !is_plain_torch(k)) || !plain_positions(positions)) return false;
  if (!on_known_device(q) || is_negative_view(q) || (both && is_negative_view(k)) || !nothing_watches()) return false;
  if (truth(checked(PyObject_CallNoArgs(watched.inference_mode)))) return true;
  return counts_writes(q) && (!both || counts_writes(k)) && !wants_gradient(q, k);
}

bool learns(nb::handle positions) { return requires_grad(positions); }

void count_write(nb::handle q, nb::handle k) {
  const nb::object tensors = checked(k.is_none() ? PyTuple_Pack(1, q.ptr()) : PyTuple_Pack(2, q.ptr(), k.ptr()));
  PyObject* argument = tensors.ptr();
  checked(PyObject_Vectorcall(watched.increment_version, &argument, 1, nullptr));  // PyObject_CallOneArg is not in the stable interface
}

void bind_torch_plain(nb::module_& m) {
  name_version = PyUnicode_InternFromString("_version");
  name_requires_grad = PyUnicode_InternFromString("requires_grad");
  name_is_cpu = PyUnicode_InternFromString("is_cpu");
  name_is_cuda = PyUnicode_InternFromString("is_cuda");
  name_current_level = PyUnicode_InternFromString("_current_level");
  m.def(
      "watch_torch",
      [](nb::tuple silent, nb::object forward_ad, nb::object inference_mode, nb::object recording, nb::object increment_version) {
        if (silent.size() != watched.silent.size()) raise(PyExc_ValueError, "watch_torch: wanted four functions");
        for (std::size_t i = 0; i < silent.size(); ++i) watched.silent[i] = nb::object(silent[i]).release().ptr();
        watched.inference_mode = inference_mode.release().ptr();
        watched.recording = recording.release().ptr();
        watched.increment_version = increment_version.release().ptr();
        watched.forward_ad = forward_ad.release().ptr();
      },
      nb::arg("silent"), nb::arg("forward_ad"), nb::arg("inference_mode"), nb::arg("recording"), nb::arg("increment_version"),
      "What to ask PyTorch before its dispatcher is passed by.");
  m.def("may_write_past_torch", &may_write_past_torch, nb::arg("q"), nb::arg("k").none(), nb::arg("positions").none(),
        "Whether plain tensors may be written in place without PyTorch seeing it.");
}

}  // namespace phasor::python
