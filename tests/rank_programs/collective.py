"""A rank of a gloo group: `collective.py FAULT` makes rank 1 do it in the place of the last all_reduce."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def leave_it_out() -> None:
    time.sleep(600)


def be_killed() -> None:
    time.sleep(1)  # until the others wait for this rank
    os.kill(os.getpid(), signal.SIGKILL)


def join_in() -> None:
    dist.all_reduce(torch.ones(4))


dist.init_process_group("gloo")
for step in range(3):
    dist.all_reduce(torch.ones(4))
    print(f"step {step}", flush=True)
if dist.get_rank() == 1:
    {"leave_it_out": leave_it_out, "be_killed": be_killed, "join_in": join_in}[sys.argv[1]]()
else:
    join_in()
dist.destroy_process_group()
