"""PTX from `phobosc --emit=ptx` on tensors of PyTorch: loads images through the CUDA driver in PyTorch's own context and launches their kernels.

An image begins with a line `// phobos {...}`, JSON that says what runtime/program.h says of it; what is packed for a launch is PhbGpuCode's
parameter."""
import ctypes
import json
import struct

import torch

_driver = ctypes.CDLL("libcuda.so.1")

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "u8": torch.uint8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
}
MAX_RANK = 4
ROW_ALIGN = 128
MAP_BYTES, MAP_ALIGN = 128, 64
PLANES, PLANES_ROWS, PLANES_COLUMNS = 3, 8, 512


def _check(result, what):
    if result:
        name = ctypes.c_char_p()
        _driver.cuGetErrorName(result, ctypes.byref(name))
        raise RuntimeError(f"{what}: {name.value.decode() if name.value else result}")


def tensor_map(tensor, row_axis, rows, columns, swizzle):
    """What the driver makes of a tensor and the boxes that bulk copies take of it: PhbTensorMap."""
    rank, u64, u32 = tensor.dim(), ctypes.c_uint64, ctypes.c_uint
    axes = [rank - 1 - k for k in range(rank)]
    size = tensor.element_size()
    extents = (u64 * rank)(*[max(tensor.shape[axis], 1) for axis in axes])
    strides = (u64 * rank)(*[tensor.stride(axis) * size for axis in axes[1:]], 0)
    box = (u32 * rank)(*[columns if k == 0 else rows if axis == row_axis else 1 for k, axis in enumerate(axes)])
    room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
    at = ctypes.addressof(room) + -ctypes.addressof(room) % MAP_ALIGN
    _check(_driver.cuTensorMapEncodeTiled(ctypes.c_void_p(at), {1: 0, 2: 1, 4: 2, 8: 4}[size], rank, ctypes.c_void_p(tensor.data_ptr()),
                                          extents, strides, box, (u32 * rank)(*[1] * rank), 0, {32: 1, 64: 2, 128: 3}[swizzle], 3, 0),
           "cuTensorMapEncodeTiled")
    return ctypes.string_at(at, MAP_BYTES)


def ceildiv(a, b):
    return -(-a // b)


def packed(tensor):
    """A PhbTensorArg."""
    extent = list(tensor.shape) + [1] * (MAX_RANK - tensor.dim())
    pitch = (tensor.stride(-2) if tensor.dim() > 1 else tensor.shape[0]) * tensor.element_size()
    return struct.pack("<Q4qq4q4q", tensor.data_ptr(), *extent, pitch, 0, 0, 0, 0, *extent)


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("cluster", ctypes.c_uint * 3), ("rest", ctypes.c_char * 52)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Image:
    """One variant of one kernel for one target."""

    def __init__(self, about, text):
        self.about = about
        self.module = ctypes.c_void_p()
        self.functions = []
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(8191))
        _check(_driver.cuModuleLoadDataEx(ctypes.byref(self.module), text.encode() + b"\0", 2, options, values),
               f"{self.name}: {log.value.decode(errors='replace')}")
        for stage in about["stages"]:
            function = ctypes.c_void_p()
            _check(_driver.cuModuleGetFunction(ctypes.byref(function), self.module, stage["entry"].encode()), stage["entry"])
            _check(_driver.cuFuncSetAttribute(function, 8, stage["shared"]), stage["entry"])
            self.functions.append(function)

    @property
    def name(self):
        values = " ".join(f"{k}={v}" for k, v in self.about["values"].items())
        return f"{self.about['kernel']} {values} {self.about['target']}"

    def attribute(self, number, stage=0):
        value = ctypes.c_int()
        _driver.cuFuncGetAttribute(ctypes.byref(value), number, self.functions[stage])
        return value.value

    def most_ctas(self, stage=0):
        """CTAs of a stage that the card holds at once."""
        about, each = self.about["stages"][stage], ctypes.c_int()
        _check(_driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(each), self.functions[stage], about["threads"],
                                                                   ctypes.c_size_t(about["shared"])), about["entry"])
        return each.value * torch.cuda.get_device_properties(0).multi_processor_count

    def fits(self, dims):
        """Whether search dims that the tensors fix are this variant's, and its conditions hold."""
        names = {**dims, **self.about["values"]}
        return all(dims.get(name, value) == value for name, value in self.about["values"].items()) and all(
            eval(text, {}, names) for text in self.about["require"])

    def launcher(self, tensors, scalars, dims):
        """A function that launches the (one-stage) kernel on the current stream, as one unit of work."""
        about = self.about
        dims = {**dims, **about["values"]}
        parameter = b""
        for tensor in about["tensors"]:
            t = tensors[tensor["name"]]
            assert t.dtype == DTYPES[tensor["dtype"]] and t.dim() == tensor["rank"] and t.stride(-1) == 1
            parameter += packed(t)
        for scalar in about["scalars"]:
            form = {"f32": "<f4x", "f64": "<d", "i32": "<i4x", "i64": "<q"}[scalar["dtype"]]
            parameter += struct.pack(form, scalars[scalar["name"]])
        parameter += b"".join(struct.pack("<q", dims[name]) for name in about["dims"])
        names = {**dims, "ceildiv": ceildiv, "extent": lambda t, k: t.shape[k], "min": min, "max": max, **tensors}
        grid = [eval(text.replace("/", "//"), {}, names) for text in about["grid"]]
        parameter += struct.pack("<9q", *grid, 0, 0, 0, 1, 1, 1)
        passes, planes = [], {}
        for number, (tensor, *box, split) in enumerate(about["stages"][0]["maps"]):
            t = tensors[about["tensors"][tensor]["name"]]
            if split and tensor not in planes:
                planes[tensor] = padded(torch.empty(PLANES, *t.shape, dtype=torch.bfloat16, device=t.device))
                passes.append(self.split(t, planes[tensor]))
            parameter += b"\0" * (-len(parameter) % MAP_ALIGN if number == 0 else 0) + tensor_map(planes[tensor] if split else t, *box)
        holder = ctypes.create_string_buffer(parameter, len(parameter))
        pointers = (ctypes.c_void_p * 1)(ctypes.cast(holder, ctypes.c_void_p))
        cluster = about["cluster"]
        attribute = Attribute(4, 0, (ctypes.c_uint * 3)(cluster[0] * cluster[1] * cluster[2], 1, 1))
        stage = about["stages"][0]
        ctas = grid[0] * grid[1] * grid[2]
        if stage["stays"]:
            ctas = min(ctas, self.most_ctas())
        config = Config((ctypes.c_uint * 3)(ctas, 1, 1), (ctypes.c_uint * 3)(stage["threads"], 1, 1), stage["shared"], None,
                        ctypes.pointer(attribute), 1 if attribute.cluster[0] > 1 else 0)

        def launch():
            for one in passes:
                one()
            config.stream = torch.cuda.current_stream().cuda_stream
            _check(_driver.cuLaunchKernelEx(ctypes.byref(config), self.functions[0], pointers, None), self.name)

        launch.keep = (holder, attribute, tensors, planes)
        return launch

    def split(self, tensor, planes):
        """A function that launches the pass which computes a tensor's planes."""
        rows, columns = tensor.numel() // tensor.shape[-1], tensor.shape[-1]
        matrix = tensor.as_strided((rows, columns), tensor.stride()[-2:])
        all_planes = planes.as_strided((PLANES, rows, columns), (rows * planes.stride(-2), *planes.stride()[-2:]))
        grid = [ceildiv(columns, PLANES_COLUMNS), ceildiv(rows, PLANES_ROWS), 1]
        parameter = packed(matrix) + packed(all_planes) + struct.pack("<11q", rows, columns, *grid, 0, 0, 0, 1, 1, 1)
        holder = ctypes.create_string_buffer(parameter, len(parameter))
        pointers = (ctypes.c_void_p * 1)(ctypes.cast(holder, ctypes.c_void_p))
        stage = self.about["stages"][-1]

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            _check(_driver.cuLaunchKernel(self.functions[-1], grid[0] * grid[1], 1, 1, stage["threads"], 1, 1, stage["shared"], stream, pointers,
                                          None), self.name)

        launch.keep = holder
        return launch


def load(path, target=None):
    """The images of a file of PTX; those for `target` alone where it is given."""
    images, about, text = [], None, []
    with open(path) as lines:
        for line in list(lines) + ["// phobos {}"]:
            if line.startswith("// phobos "):
                if about and (target is None or about["target"] == target):
                    images.append(Image(about, "".join(text)))
                about, text = json.loads(line[len("// phobos "):]), []
            else:
                text.append(line)
    return images


def padded(tensor):
    """The same values with rows padded as the runtime's arena pads them."""
    if tensor.dim() < 2:
        return tensor
    step = ROW_ALIGN // tensor.element_size()
    rows = torch.empty(*tensor.shape[:-1], ceildiv(tensor.shape[-1], step) * step, dtype=tensor.dtype, device=tensor.device)
    view = rows[..., : tensor.shape[-1]]
    view.copy_(tensor)
    return view
