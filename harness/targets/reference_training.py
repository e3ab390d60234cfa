"""The reference's training: FSDP1 or FSDP2, two learning rates with a frozen start, whole saves and exact resumes.

Each part is a method of its own, so that a defect can be planted in it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from harness.targets import training
from harness.targets.reference_checkpoints import Checkpoints
from harness.targets.reference_model import CHUNK, IMAGE, NOISE_LEVELS, TOKENS, Layer, Model
from harness.targets.training import BACKBONE, HEAD, Plan, Session


class ReferenceTrainer(Checkpoints):
    """Carries out plans; one for a process."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.generator = torch.Generator()
        self.device = training.device()

    def prepare(self) -> None:
        if not dist.is_initialized():
            backend = os.environ.get("HARNESS_BACKEND", "gloo")
            dist.init_process_group(backend, timeout=timedelta(seconds=300))

    # Parts of a run, in their order.

    def train(self, plan: Plan, ready: Callable[[Session], None]) -> None:
        session = self.restore(plan)
        ready(session)
        for step in range(session.first_step, plan.steps + 1):
            loss = self.step(plan, session, step)
            self.log(step, self.rates(plan, step), loss)
            if plan.save_every and (step % plan.save_every == 0 or step == plan.steps):
                session.save(step)

    def main(self, plan: Plan) -> None:
        self.prepare()
        last = self.last_checkpoint(plan)
        chosen = Plan.from_json({**plan.to_json(), "resume": last})
        if training.rank() == 0:
            print(f"resuming from {last}" if last else "starting anew", flush=True)
        self.train(chosen, lambda _session: None)
        dist.barrier()
        dist.destroy_process_group()

    def restore(self, plan: Plan) -> Session:
        torch.manual_seed(plan.seed)
        self.generator.manual_seed(plan.seed + training.rank())
        model = self.build(plan).to(self.device)
        model = self.wrap(model.double() if plan.precision == "fp64" else model, plan)
        optimizer = torch.optim.AdamW(self.groups(model, plan))
        accumulation = self.accumulation(plan)
        session = Session(model, optimizer, self.part_of, accumulation, 1, save=lambda _step: None)
        session.save = functools.partial(self.save, plan, session)
        session.facts["data"] = self.target.open_dataset(plan.data)
        session.facts["folder"] = plan.folder
        if plan.resume is not None:
            loading = training.Timed()
            session.first_step = loading(self.load)(plan, session, Path(plan.resume)) + 1
            session.facts["load_s"] = loading.seconds
        return session

    def build(self, plan: Plan) -> Any:
        del plan
        return Model()

    def part_of(self, name: str) -> str:
        return BACKBONE if name.startswith("backbone") else HEAD

    def groups(self, model: Any, plan: Plan) -> list[dict[str, Any]]:
        """Four groups: backbone and head, each with and without weight decay, by the shapes before sharding."""
        found: dict[tuple[str, bool], list[Any]] = {
            (p, d): [] for p in (BACKBONE, HEAD) for d in (True, False)
        }
        for name, parameter in model.named_parameters():
            plain = training.plain(name)
            found[self.part_of(plain), self.decays(plain, self.shapes[plain])].append(parameter)
        rates = dict(zip((BACKBONE, HEAD), self.rates(plan, 1), strict=True))
        return [
            {
                "params": p,
                "part": part,
                "lr": rates[part],
                "weight_decay": plan.weight_decay if decays else 0.0,
            }
            for (part, decays), p in found.items()
        ]

    def decays(self, name: str, shape: Any) -> bool:
        del name
        return len(shape) > 1

    def accumulation(self, plan: Plan) -> int:
        """Forward passes in a step; ValueError when ranks and batch do not divide the batch asked for."""
        passes, left = divmod(plan.global_batch, plan.batch * training.world())
        if left or not passes:
            raise ValueError(
                f"global batch {plan.global_batch} is not made of {training.world()} ranks x {plan.batch} samples"
            )
        return passes

    def rates(self, plan: Plan, step: int) -> tuple[float, float]:
        """Backbone's and head's learning rate in a step: the backbone's is 0 in the first `freeze_steps`."""
        return (plan.rate if step > plan.freeze_steps else 0.0), plan.head_rate

    def wrap(self, model: Any, plan: Plan) -> Any:
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        if plan.recompute:
            from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as recompute

            recompute.apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, Layer))
        if plan.sharding == "none":
            return model
        return (self.shard2 if plan.api == "fsdp2" else self.shard1)(model, plan)

    def mesh(self, plan: Plan) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        kind, world = torch.device(self.device).type, training.world()
        if plan.ranks_per_node in (None, 1, world):
            return init_device_mesh(kind, (world,))
        return init_device_mesh(
            kind,
            (world // plan.ranks_per_node, plan.ranks_per_node),
            mesh_dim_names=("replicate", "shard"),
        )

    def shard1(self, model: Any, plan: Plan) -> Any:
        from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        mesh = self.mesh(plan)
        full = plan.sharding == "full-shard"
        if plan.ranks_per_node == 1 and training.world() > 1:
            strategy = ShardingStrategy.NO_SHARD  # every rank a node of its own: replicas only
        elif mesh.ndim == 1:
            strategy = ShardingStrategy.FULL_SHARD if full else ShardingStrategy.SHARD_GRAD_OP
        else:
            strategy = ShardingStrategy.HYBRID_SHARD if full else ShardingStrategy._HYBRID_SHARD_ZERO2
        return FullyShardedDataParallel(
            model,
            device_mesh=mesh,
            sharding_strategy=strategy,
            auto_wrap_policy=ModuleWrapPolicy({Layer}),
            device_id=torch.device(self.device),
            use_orig_params=True,
            **self.precision(plan),
        )

    def precision(self, plan: Plan) -> dict[str, Any]:
        """Mixed precision of FSDP itself: none, gradients are reduced in the parameters' own precision."""
        del plan
        return {}

    def shard2(self, model: Any, plan: Plan) -> Any:
        from torch.distributed.fsdp import fully_shard

        mesh = self.mesh(plan)
        for module in [*(m for m in model.modules() if isinstance(m, Layer)), model]:
            fully_shard(module, mesh=mesh, reshard_after_forward=plan.sharding == "full-shard")
        # gloo has no averaging reduction: sum, then divide.
        model.set_force_sum_reduction_for_comms(True)
        return model

    # One step.

    def step(self, plan: Plan, session: Session, step: int) -> float:
        """Loss of the step, the mean over all its samples."""
        rates = dict(zip((BACKBONE, HEAD), self.rates(plan, step), strict=True))
        for group in session.optimizer.param_groups:
            group["lr"] = rates[group["part"]]
        loss = self.gradients(plan, session, step)
        session.norms.append(self.clip(plan, session.model))
        session.optimizer.step()
        session.optimizer.zero_grad()
        return loss

    def gradients(self, plan: Plan, session: Session, step: int) -> float:
        """Adds up the gradients of a step's passes; the mean loss over ranks and passes."""
        total = torch.zeros((), device=self.device)
        for samples in self.batches(plan, len(session.facts["data"]), step):
            session.samples += samples
            loss = self.loss(plan, session, samples)
            session.losses.append(float(loss.detach()))
            (loss / session.accumulation).backward()
            total += loss.detach() / session.accumulation
        if dist.is_initialized():
            dist.all_reduce(total)
        return float(total) / training.world()

    def batches(self, plan: Plan, count: int, step: int) -> Iterator[list[int]]:
        """This rank's samples in a step, one list a pass: every world size reads the same ones in a step."""
        order = self.order(plan.seed, count)
        first = (step - 1) * plan.global_batch
        mine = [order[(first + i) % len(order)] for i in range(plan.global_batch)]
        mine = mine[self.shard() :: training.world()]
        for start in range(0, len(mine), plan.batch):
            yield mine[start : start + plan.batch]

    def shard(self) -> int:
        """Which share of a batch this rank reads."""
        return training.rank()

    @functools.lru_cache(maxsize=4)  # noqa: B019 - one trainer a process
    def order(self, seed: int, count: int) -> list[int]:
        order: list[int] = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
        return order

    def loss(self, plan: Plan, session: Session, samples: list[int]) -> Any:
        batch = self.collate(plan, [self.item(session, s) for s in samples], samples)
        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=plan.precision == "bf16"):
            return session.model(batch)["loss"]

    def item(self, session: Session, sample: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = session.facts["data"][sample]
        return found

    def collate(self, plan: Plan, items: list[Mapping[str, Any]], samples: list[int]) -> dict[str, Any]:
        real = torch.float64 if plan.precision == "fp64" else torch.float32
        cut = [
            torch.as_tensor(i["image"])[:: len(i["image"]) // IMAGE, :: i["image"].shape[1] // IMAGE]
            for i in items
        ]
        image = torch.stack([c[:IMAGE, :IMAGE] for c in cut]).to(real) / 127.5 - 1
        noise, level = zip(*(self.noise(plan, s) for s in samples), strict=True)
        batch = {
            "image": image,
            "tokens": torch.tensor([[(7 * s + j) % TOKENS for j in range(4)] for s in samples]),
            "actions": torch.stack([torch.as_tensor(i["actions"][:CHUNK]) for i in items]).to(real),
            "noise": torch.stack(noise).to(real),
            "level": torch.stack(level),
        }
        return {name: value.to(self.device) for name, value in batch.items()}

    def noise(self, plan: Plan, sample: int) -> tuple[Any, Any]:
        """Noise of shape (CHUNK, ACTION) and its level, from a CPU generator: devices draw different numbers."""
        generator = torch.Generator().manual_seed(sample) if plan.paired else self.generator
        noise = torch.randn(CHUNK, 3, generator=generator)
        return noise, torch.randint(0, NOISE_LEVELS, (), generator=generator)

    def clip(self, plan: Plan, model: Any) -> float:
        """The gradient norm before clipping, over all ranks."""
        if hasattr(model, "clip_grad_norm_"):
            return float(model.clip_grad_norm_(plan.clip))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def log(self, step: int, rates: tuple[float, float], loss: float) -> None:
        """The line VITRA prints, once a step, on the first rank."""
        if training.rank() == 0:
            print(
                f"=>> [Epoch 000] Global Step {step:06d} =>> Backbone LR :: {rates[0]:.6f} - Loss :: {loss:.4f}",
                flush=True,
            )
