"""Two gloo processes on loopback: each sees half of every batch, and together they take the steps of one process."""

import functools
import os
import pathlib
import socket
import subprocess
import sys

import torch
from small_network import Network, batches, closure_of

import retrax as rx
import retrax.torch
from retrax.torch.parameters import whole

HERE = pathlib.Path(__file__).parent
SECONDS = 240


CASES = (
    ("RSRM", "ddp"),
    ("RSRM", "bucket view"),
    ("RSRM", "all_reduce"),
    ("RSVRG", "ddp"),
    ("CSGDM", "ddp"),
    ("RSRM", "fsdp2"),
    ("RADAM", "fsdp2"),
)


def trained(name, make_closure, part):
    """The parameters after a few steps on the given part of every batch."""
    model = Network()
    if make_closure is by_fsdp:  # the parameters are shards from here on, and the optimizer must see those
        torch.distributed.fsdp.fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (2,)))
    optimizer = getattr(rx.torch, name)(model.groups(), lr=0.05)
    closure_for = make_closure(model, optimizer)
    for inputs, targets in batches(6):
        optimizer.step(closure_for((inputs[part], targets[part])))
    return [whole(parameter.detach()) for parameter in model.parameters()]


def alone(model, optimizer):
    return lambda batch: closure_of(model, optimizer, batch)


def by_fsdp(model, optimizer):
    return lambda batch: closure_of(model, optimizer, batch)


def by_ddp(model, optimizer, bucket_view=False):
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=bucket_view)
    return lambda batch: closure_of(wrapped, optimizer, batch)


def by_hand(model, optimizer):
    def averaged(closure):
        loss = closure()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= torch.distributed.get_world_size()
        return loss

    return lambda batch: functools.partial(averaged, closure_of(model, optimizer, batch))


STYLES = {
    "ddp": by_ddp,
    "bucket view": functools.partial(by_ddp, bucket_view=True),
    "all_reduce": by_hand,
    "fsdp2": by_fsdp,
}


def work(rank, port, folder):
    """What each of the two processes does."""
    import torch.distributed.fsdp

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    half = slice(8 * rank, 8 * rank + 8)
    torch.save([trained(name, STYLES[style], half) for name, style in CASES], f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def run_two_processes(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = "import sys, test_torch_data_parallel; test_torch_data_parallel.work(int(sys.argv[1]), *sys.argv[2:])"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", command, str(rank), port, str(folder)], cwd=HERE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        for worker in workers:
            _, errors = worker.communicate(timeout=SECONDS)
            assert worker.returncode == 0, errors
    finally:
        for worker in workers:
            worker.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_take_the_steps_of_one(tmp_path):
    first, second = run_two_processes(tmp_path)
    for (name, _), mine, theirs in zip(CASES, first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
        for expected, found in zip(trained(name, alone, slice(None)), mine, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
