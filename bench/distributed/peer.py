"""Times mpi4py for bench/distributed.ts: each rank runs this file, and rank 0 prints the figures."""

import json
import statistics
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def small(calls: int, chunks: int) -> float:
    """The fewest microseconds of a call, of the means of chunks."""
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    least = float("inf")
    for _ in range(chunks):
        comm.Barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            comm.Allreduce(x, out)
        least = min(least, (time.perf_counter() - begin) / calls)
    return least * 1e6


def large(calls: int, chunks: int) -> float:
    """The fewest milliseconds of a call, of the medians of chunks."""
    x, out = np.ones(1_000_000, np.float32), np.empty(1_000_000, np.float32)
    least = float("inf")
    for _ in range(chunks):
        times = []
        for _ in range(calls):
            comm.Barrier()
            begin = time.perf_counter()
            comm.Allreduce(x, out)
            times.append(time.perf_counter() - begin)
        least = min(least, statistics.median(times))
    return least * 1e3


figures = {"small": small(200 if comm.size == 2 else 20, 100), "large": large(20, 10)}
if comm.rank == 0:
    name = MPI.Get_library_version().split("\n")[0].split(",")[0]
    print(json.dumps({"about": " ".join(name.split()), **figures}), flush=True)
