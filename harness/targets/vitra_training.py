"""VITRA's own training: `scripts/train.py`, `VLAFSDPStrategy` and the model unmodified, with supplies from outside.

A plan is carried out by calling the script's own `experiment` with hooks around its parts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.targets import training
from harness.targets.training import BACKBONE, HEAD, Plan, Session
from harness.targets.vitra_pairing import DIFFUSION_STEPS, SameMask, collated, paired, read, wake_head
from harness.targets.vitra_supplies import set_node, supply

CHUNK = 8
IMAGE_HEIGHT = 112
TASK = "harness"


class VitraTrainer:
    """Carries out plans with VITRA's code; one for a process."""

    def __init__(self, path: str, options: dict[str, Any] | None = None) -> None:
        self.path = path
        self.options = dict(options or {})

    def prepare(self) -> None:
        supply()

    def train(self, plan: Plan, ready: Callable[[Session], None]) -> None:
        _experiment(self, plan, ready, run=True)

    def restore(self, plan: Plan) -> Session:
        kept: list[Session] = []
        _experiment(self, plan, kept.append, run=False)
        return kept[0]

    def last_checkpoint(self, plan: Plan) -> str | None:
        found = script(self.path).find_last_checkpoint(str(run_folder(plan)))
        return None if found is None else str(found)

    def main(self, plan: Plan) -> None:
        chosen = variant(self.path, plan)
        chosen.update(resume=True, model_load_path=None)
        folder = Path(plan.folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / f"config-{training.rank()}.json"
        config.write_text(json.dumps(chosen), encoding="utf-8")
        before = sys.argv
        sys.argv = ["train.py", "--config", str(config)]
        try:
            runpy.run_path(str(Path(self.path, "scripts/train.py")), run_name="__main__")
        finally:
            sys.argv = before


def run_folder(plan: Plan) -> Path:
    """Where VITRA puts a plan's checkpoints: a folder named after task and batch sizes."""
    name = f"{TASK}_TB{plan.global_batch}_B{plan.batch}_bf16{plan.precision == 'bf16'}"
    return Path(plan.folder) / name


def variant(path: str, plan: Plan) -> dict[str, Any]:
    """VITRA's human_pretrain configuration, made small: what the script gets from its config file."""
    from fixtures import tiny_paligemma

    text = Path(path, "vitra/configs/human_pretrain.json").read_text(encoding="utf-8")
    chosen: dict[str, Any] = json.loads(text)
    chosen["vlm"]["pretrained_model_name_or_path"] = str(tiny_paligemma.get())
    chosen["action_model"].update(model_type="DiT-T", token_size=tiny_paligemma.WIDTH)
    chosen.update(
        task_name=TASK,
        fwd_pred_next_n=CHUNK,
        repeated_diffusion_steps=DIFFUSION_STEPS,
        batch_size=plan.batch,
        total_batch_size=plan.global_batch,
        use_bf16=plan.precision == "bf16",
        seed=plan.seed,
        save_steps=plan.save_every or 1_000_000,
        epoch_save_interval=1_000_000,
        resume=plan.resume is not None,
        model_load_path=plan.resume,
        output_root=plan.folder,
        log_root=f"{plan.folder}/logs",
        cache_root=f"{plan.folder}/cache",
        num_workers=0,
        prefetch_factor=None,
    )
    chosen["train_dataset"].update(
        data_root_dir=plan.data,
        data_mix="ssv2",
        num_workers=0,
        target_image_height=IMAGE_HEIGHT,
        augmentation=plan.augment,
    )
    recompute = "fsdp_paligemma_with_checkpointing" if plan.recompute else "fsdp_paligemma"
    chosen["trainer"].update(
        strategy=recompute,
        enable_gradient_checkpointing=plan.recompute,
        sharding_strategy="shard-grad-op" if plan.sharding == "none" else plan.sharding,
        max_steps=plan.steps,
        llm_freeze_step=plan.freeze_steps,
        learning_rate=plan.rate,
        action_model_learning_rate=plan.head_rate,
        weight_decay=plan.weight_decay,
        gradient_clip_val=plan.clip,
        max_epochs=1000,
    )
    for key, value in plan.options.items():
        if key == "trackers":
            continue
        part, _, name = key.rpartition(".")
        (chosen[part] if part else chosen)[name] = value
    return chosen


@functools.cache
def script(path: str) -> Any:
    """`scripts/train.py` as a module; its main part does not run."""
    spec = importlib.util.spec_from_file_location("vitra_train_script", Path(path, "scripts/train.py"))
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Keep:
    """torch.distributed as the script sees it, which may not end the process group: more plans may follow."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch.distributed"), name)

    def destroy_process_group(self) -> None:
        return None


def part_of(name: str) -> str:
    """`backbone` or `head`, as VITRA's own grouping has it."""
    return BACKBONE if "backbone" in name else HEAD


def _experiment(trainer: VitraTrainer, plan: Plan, ready: Callable[[Session], None], *, run: bool) -> None:
    from vitra.datasets.dataset import MultipleWeightedDataset

    module = script(trainer.path)
    set_node(plan.ranks_per_node)
    seen: list[int] = []
    loading = training.Timed()
    build, materialize, strategy = (
        module.build_vla,
        module.get_vla_dataset_and_collator,
        module.VLAFSDPStrategy,
    )
    train, setup = strategy.run_training, strategy.run_setup

    def built(*args: Any, **kwargs: Any) -> Any:
        model = build(*args, **kwargs)
        wake_head(model)
        return model.double() if plan.precision == "fp64" else model

    def materialized(*args: Any, **kwargs: Any) -> Any:
        dataset, collator, sampler = materialize(*args, **kwargs)
        return dataset, collated(collator, plan), sampler

    def trained(self: Any, dataloader: Any, metrics: Any, *args: Any, **kwargs: Any) -> None:
        session = _session(self, metrics, plan, seen)
        session.facts["load_s"] = loading.seconds
        ready(session)
        if not plan.save_every:
            self.save_checkpoint = lambda *_args, **_kwargs: None
        if run and plan.steps >= session.first_step:
            train(self, dataloader, metrics, *args, **kwargs)
        session.facts["metrics"] = metrics

    with contextlib.ExitStack() as stack:
        swap = functools.partial(_swapped, stack)
        swap(module, "build_vla", built)
        swap(module, "get_vla_dataset_and_collator", materialized)
        swap(module, "load_vla_checkpoint", loading(module.load_vla_checkpoint))
        swap(strategy, "load_optimizer_and_scheduler", loading(strategy.load_optimizer_and_scheduler))
        swap(module, "dist", _Keep())
        swap(strategy, "run_training", trained)
        if "trackers" in plan.options:
            metrics = module.VLAMetrics
            swap(module, "VLAMetrics", lambda _, **rest: metrics(plan.options["trackers"], **rest))
        swap(MultipleWeightedDataset, "__getitem__", read(MultipleWeightedDataset.__getitem__, seen, plan))
        if plan.sharding == "none":
            swap(strategy, "run_setup", _unsharded(setup))
        if plan.augment:
            swap(importlib.import_module("vitra.datasets.human_dataset"), "center_crop_short_side", _no_crop)
        if plan.precision == "fp64":
            swap(importlib.import_module("vitra.models.action_model.dit"), "F", SameMask())
        if plan.paired:
            stack.enter_context(paired(seen))
        module.experiment(variant(trainer.path, plan))
        for thread in threading.enumerate():  # VITRA's saving threads, which nobody joins
            if thread is not threading.main_thread() and "save_with_time" in thread.name:
                thread.join()


def _no_crop(*_args: Any) -> None:
    """VITRA prints an augmentation's error and crops instead: a run that should augment must not."""
    raise RuntimeError("the augmentation failed; VITRA's own message is in the rank's log")


def _swapped(stack: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name)
    setattr(owner, name, value)
    stack.callback(setattr, owner, name, before)


def _session(strategy: Any, metrics: Any, plan: Plan, seen: list[int]) -> Session:
    session = Session(
        model=strategy.vla,
        optimizer=strategy.optimizer,
        part_of=part_of,
        accumulation=strategy.grad_accumulation_steps,
        first_step=metrics.global_step + 1,
        save=lambda step: strategy.save_checkpoint(metrics.run_dir, step, 0),
        samples=seen,
    )
    session.facts = {
        "strategy": strategy,
        "folder": str(metrics.run_dir),
        "told_world": importlib.import_module("vitra.training.fsdp").overwatch.world_size(),
    }
    forward = strategy.vla.forward

    def forwarded(*args: Any, **kwargs: Any) -> Any:
        found = forward(*args, **kwargs)
        session.losses.append(float(found["loss"].detach()))
        return found

    strategy.vla.forward = forwarded
    if plan.sharding == "none":
        session.norms = strategy.harness_norms
        return session
    clip = strategy.vla.clip_grad_norm_

    def clipped(*args: Any, **kwargs: Any) -> Any:
        norm = clip(*args, **kwargs)
        session.norms.append(float(norm))
        return norm

    strategy.vla.clip_grad_norm_ = clipped
    return session


def _unsharded(setup: Any) -> Any:
    """`run_setup` with FSDP left out: the model as it is, clipped by torch's own function."""

    def run_setup(self: Any, *args: Any, **kwargs: Any) -> None:
        import torch

        fsdp: Any = importlib.import_module("vitra.training.fsdp")
        real = fsdp.FSDP
        fsdp.FSDP = lambda model, **_: model.to(training.device())
        try:
            setup(self, *args, **kwargs)
        finally:
            fsdp.FSDP = real
        norms: list[float] = []
        self.clip_grad_norm = lambda: norms.append(
            float(torch.nn.utils.clip_grad_norm_(self.vla.parameters(), self.max_grad_norm))
        )
        self.harness_norms = norms

    return run_setup
