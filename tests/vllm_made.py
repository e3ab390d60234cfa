"""Results of vLLM's serving benchmark as its versions lay them out, made up: no file here comes from a server.

Which keys each version writes was read in vLLM's own source (benchmarks/benchmark_serving.py of 2024 and 2025,
vllm/benchmarks/serve.py of 2025 and 2026). All values are invented.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

LAYOUTS = ("2024", "2025", "2025-detailed", "2025-serve", "2026", "2026-detailed")


def make(
    layout: str = "2026",
    *,
    requests: int = 200,
    failed: int = 0,
    duration: float = 20.0,
    seed: int = 0,
    percentiles: tuple[float, ...] = (50, 95, 99),
    **changes: Any,
) -> dict[str, Any]:
    """One object of that layout; `changes` replace or add keys, and None of them is dropped."""
    draw = random.Random(seed)
    ttfts = [0.05 + draw.expovariate(20) for _ in range(requests)]
    itls = [[draw.uniform(0.005, 0.03) for _ in range(15)] for _ in range(requests)]
    errors = [""] * requests
    for n in range(failed):
        # Some never answered, some broke off after a first token.
        ttfts[n], itls[n] = (0.0, []) if n % 2 == 0 else (9.0, [9.0])
        errors[n] = f"Traceback (most recent call last):\nTimeoutError: {n}"
    good = [n for n in range(requests) if not errors[n]]
    e2els = [t + sum(i) for t, i in zip(ttfts, itls, strict=True)]
    inputs, outputs = len(good) * 128, len(good) * 16
    early = layout == "2024"
    value: dict[str, Any] = {"date": "20260131-120000"}
    if layout in ("2025-serve", "2026", "2026-detailed"):
        value["endpoint_type"] = "openai"
    if layout != "2025-serve":
        value["backend"] = "vllm"
    value |= {"model_id": "org/model-8B", "tokenizer_id": "org/model-8B", "num_prompts": requests}
    value |= {"best_of": 1} if early else {}
    value["request_rate"] = "inf"
    value |= {} if early else {"burstiness": 1.0, "max_concurrency": 32}
    value |= {"label": None} if layout.startswith("2026") else {}
    value |= {"duration": duration, "completed": len(good)}
    value |= {"failed": failed} if layout.startswith("2026") else {}
    value |= {
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(good) / duration,
        # Up to 2025 the key was written with a colon in its name.
        ("request_goodput" if layout.startswith("2026") else "request_goodput:"): None,
        "output_throughput": outputs / duration,
        "total_token_throughput": (inputs + outputs) / duration,
    }
    if layout in ("2024", "2025-detailed", "2026-detailed"):
        value |= {"input_lens": [128] * requests, "output_lens": [16 if not e else 0 for e in errors]}
        value |= {"ttfts": ttfts, "itls": itls, "generated_texts": ["x"] * requests, "errors": errors}
    if layout.startswith("2026"):
        value |= {"latencies": e2els, "queue_times": [0.0] * requests, "rtfx": 0.0}
        value |= {"max_output_tokens_per_s": 900.0, "max_concurrent_requests": 33}
    quantities = {
        "ttft": [ttfts[n] for n in good],
        "tpot": [sum(itls[n]) / 15 for n in good],
        "itl": [v for n in good for v in itls[n]],
        "e2el": [e2els[n] for n in good],
    }
    for name, seconds in quantities.items():
        middle, mean = float(np.median(seconds or 0)), float(np.mean(seconds or 0))
        if early and name == "e2el":
            middle, mean = mean, middle
        value |= {f"mean_{name}_ms": 1000 * mean, f"median_{name}_ms": 1000 * middle}
        value[f"std_{name}_ms"] = 1000 * float(np.std(seconds or 0))
        for p in percentiles:
            value[f"p{p:g}_{name}_ms"] = 1000 * float(np.percentile(seconds or 0, p))
    return {**value, **changes}
