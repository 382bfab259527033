#!/usr/bin/env python3
"""The peers in Dask distributed with NumPy, on two processes of one thread each. Files are raw f32 in row-major order.

    dask_peer.py product N A B C
    dask_peer.py add LENGTH A B C
    dask_peer.py jacobi N TIMES U W
"""
import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of each process

import dask
import dask.array
import numpy
from distributed import Client, LocalCluster


class File:
    """An array in a file, which each process opens for itself."""

    def __init__(self, path, shape):
        self.path, self.shape, self.ndim, self.dtype = path, shape, len(shape), numpy.dtype("f4")

    def __getitem__(self, where):
        return numpy.array(numpy.memmap(self.path, dtype="f4", mode="r", shape=self.shape)[where])

    def __setitem__(self, where, block):
        numpy.memmap(self.path, dtype="f4", mode="r+", shape=self.shape)[where] = block


def read(path, shape, chunks):
    return dask.array.from_array(File(path, shape), chunks=chunks, name=path)


def write(path, array):
    with open(path, "wb") as target:
        target.truncate(array.nbytes)
        dask.array.store(array, File(path, array.shape), lock=False)
        os.fsync(target.fileno())


def main():
    what, size, *rest = sys.argv[1:]
    n = int(size)
    if what == "product":
        block = min(n, 2048)
        write(rest[2], read(rest[0], (n, n), block) @ read(rest[1], (n, n), block))
    elif what == "add":
        write(rest[2], read(rest[0], (n,), 1 << 22) + read(rest[1], (n,), 1 << 22))
    elif what == "jacobi":
        array = read(rest[1], (n, n), (max(n // 4, 1), n))

        def step(block):
            return 0.25 * (block[:-2, 1:-1] + block[2:, 1:-1] + block[1:-1, :-2] + block[1:-1, 2:])

        for _ in range(int(rest[0])):
            array = array.map_overlap(step, depth=1, boundary=0, trim=False, dtype="f4", chunks=array.chunks, meta=numpy.empty((0, 0), "f4"))
        write(rest[2], array)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    dask.config.set({"distributed.worker.daemon": True})
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        main()
