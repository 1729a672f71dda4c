"""A run in a process of its own, to be killed: python worker.py METHOD FILE CHECKPOINTS RESULT STEPS."""

import os
import sys

import numpy as np

import retrax as rx


def main(name: str, file: str, checkpoints: str, result: str, steps: str) -> None:
    """Run to the end, going on from the last checkpoint, and write the result."""
    method = {"rsrm": rx.rsrm(0.01), "rasa": rx.rasa(0.01, "LR"), "rsvrg": rx.rsvrg(0.001, restart_every=500)}[name]
    run = rx.minimize(
        rx.problems.PCA(file, 3),
        method,
        steps=int(steps),
        first_batch_size=100 if name != "rsvrg" else 2000,
        record=rx.Record(every=1000, samples=500),
        seed=1,
        checkpoint=rx.Checkpoint(checkpoints, every=250),
        resume=True,
    )
    columns = {column: run.history[column] for column in run.history if column != "seconds"}
    np.savez(result + ".part.npz", x=run.x, output=run.output, **columns)
    os.replace(result + ".part.npz", result)
    print(run.status, run.steps, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
