"""Kernels that phobosc compiles, called with NumPy arrays.

    import phobos

    kernels = phobos.compile("add.phb")          # or phobos.load("libadd.so")
    c = kernels.add(a, b)                        # what is only written may be left out and is returned
    kernels.axpy(x, y, alpha=2.0)                # what is read and written changes in place
    kernels.gemm(A=a, B=b, cluster={"TM": 512}, options=["--pods=2"])

Arguments are a kernel's tensors in order, or by name, and its scalars by name; dims that no array fixes go into dims={"N": 1024}. An array of bf16 is one of
uint16. Arrays travel through .npy files in a folder of their own, in memory where the system has /dev/shm. Calls from several threads run at the same time.
"""

import ctypes
import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

DTYPES = {"f16": "<f2", "bf16": "<u2", "f32": "<f4", "f64": "<f8", "i8": "|i1", "u8": "|u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4",
          "i64": "<i8", "u64": "<u8", "bool": "|b1"}


class Error(Exception):
    """A job that failed or was wrong; `messages` is what there was to say besides."""

    def __init__(self, text, messages=""):
        super().__init__(text.strip())
        self.messages = messages


class _Result(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char_p), ("messages", ctypes.c_char_p)]


_IS_CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class _Run(ctypes.Structure):
    _fields_ = [("options", ctypes.POINTER(ctypes.c_char_p)), ("folder", ctypes.c_char_p), ("is_cancelled", _IS_CANCELLED), ("context", ctypes.c_void_p)]


def _folder():
    return tempfile.TemporaryDirectory(prefix="phobos-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


class Kernel:
    def __init__(self, kernels, info):
        self._kernels = kernels
        self.info = info
        self.__name__ = info["name"]
        self.__doc__ = "{}({})".format(info["name"], ", ".join(
            ["{}: {}[{}], {}".format(t["name"], t["dtype"], ", ".join(map(str, t["shape"])), t["mode"]) for t in info["tensors"]]
            + ["{}: {}".format(s["name"], s["dtype"]) for s in info["scalars"]]))

    def _sort(self, arrays, named):
        """The arrays and scalars of a call, by name."""
        tensors = [t["name"] for t in self.info["tensors"]]
        if len(arrays) > len(tensors):
            raise TypeError(f"{self.__name__} has {len(tensors)} tensors, the call {len(arrays)}")
        given = dict(zip(tensors, arrays))
        scalars = {}
        for name, value in named.items():
            if name in given:
                raise TypeError(f"{self.__name__}: '{name}' is given twice")
            if name in tensors:
                given[name] = value
            elif any(s["name"] == name for s in self.info["scalars"]):
                scalars[name] = value.item() if isinstance(value, np.generic) else value
            else:
                raise TypeError(f"{self.__name__} has no tensor or scalar '{name}'")
        return given, scalars

    def __call__(self, *arrays, dims=None, cluster=None, autotune=None, options=(), is_cancelled=None, **named):
        given, scalars = self._sort(arrays, named)
        job = {"kernel": self.__name__, "dims": dims or {}, "scalars": scalars, "tensors": {}, "cluster": cluster or {}, "autotune": autotune or {}}
        with _folder() as folder:
            for tensor in self.info["tensors"]:
                name, dtype = tensor["name"], np.dtype(DTYPES[tensor["dtype"]])
                path = os.path.join(folder, name + ".npy")
                job["tensors"][name] = {"uri": path, "dtype": tensor["dtype"]} if tensor["dtype"] == "bf16" else path
                array = given.get(name)
                if array is None:
                    if tensor["mode"] == "read":
                        raise TypeError(f"{self.__name__}: tensor '{name}' is missing")
                    continue
                if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=") != dtype.newbyteorder("="):
                    found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                    raise TypeError(f"{self.__name__}: tensor '{name}' is {tensor['dtype']}, an array of {dtype.name}; found {found}")
                np.save(path, np.ascontiguousarray(array, dtype))
            self._kernels.run(json.dumps(job), options, is_cancelled)
            results = []
            for tensor in self.info["tensors"]:
                if tensor["mode"] == "read":
                    continue
                array = given.get(tensor["name"])
                result = np.load(job["tensors"][tensor["name"]] if tensor["dtype"] != "bf16" else job["tensors"][tensor["name"]]["uri"])
                result = result.view("<u2") if tensor["dtype"] == "bf16" else result
                if array is not None:
                    array[...] = result
                results.append(result if array is None else array)
        return results[0] if len(results) == 1 else tuple(results)


class Kernels:
    """The kernels of one shared library, each an attribute."""

    def __init__(self, path, name=None):
        path = os.path.abspath(path)
        base = os.path.basename(path).split(".")[0]
        self._library = ctypes.CDLL(path)
        self._program = ctypes.byref(ctypes.c_byte.in_dll(self._library, (name or base.removeprefix("lib")) + "_program"))
        self._library.phb_run_text.restype = _Result
        self._library.phb_info.restype = ctypes.c_void_p
        text = self._library.phb_info(self._program)
        self.info = json.loads(ctypes.string_at(text))
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(text)
        for kernel in self.info["kernels"]:
            setattr(self, kernel["name"], Kernel(self, kernel))

    def run(self, job, options=(), is_cancelled=None):
        """Runs a job given as JSON text; the summary. `is_cancelled`, where given, is asked at times, and ends the job when it says True."""
        texts = [option.encode() for option in options]
        run = _Run((ctypes.c_char_p * (len(texts) + 1))(*texts, None), None, _IS_CANCELLED(lambda _: bool(is_cancelled())) if is_cancelled else _IS_CANCELLED(), None)
        result = self._library.phb_run_text(self._program, job.encode(), ctypes.byref(run))
        status, text, messages = result.status, (result.text or b"").decode(), (result.messages or b"").decode()
        self._library.phb_result_free(ctypes.byref(result))
        if status != 0:
            raise Error(text, messages)
        return text


def load(path, name=None):
    """The kernels in a shared library: cc -shared -o libNAME.so -Wl,--whole-archive NAME.a, of what phobosc --emit=lib made. `name`: the archive's NAME."""
    return Kernels(path, name)


def compile(source, options=(), phobosc=None):
    """Compiles kernels and loads them. `options` are phobosc's; phobosc is found on the PATH, or named by PHOBOSC."""
    phobosc = phobosc or os.environ.get("PHOBOSC") or shutil.which("phobosc")
    if not phobosc:
        raise Error("phobosc is not on the PATH")
    with _folder() as folder:
        archive, library = os.path.join(folder, "libkernels.a"), os.path.join(folder, "libkernels.so")
        cc = os.environ.get("CC", "cc").split()
        for command in ([phobosc, *options, "--emit=lib", source, "-o", archive],
                        [*cc, "-shared", "-o", library, "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]):
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise Error(done.stderr)
        return Kernels(library, "kernels")
