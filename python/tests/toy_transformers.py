"""A tiny bottleneck model for the Trainer of Transformers, over the example's data set; nothing is downloaded.

    python toy_transformers.py ADDRESS RUN FOLDER

trains it, on as many processes as torchrun starts, and writes the result of each.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits
from transformers.modeling_outputs import ModelOutput

import toy
from conceptwatch.transformers import LeakageMonitor


@dataclass
class BottleneckOutput(ModelOutput):  # type: ignore[misc]
    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    concepts: torch.Tensor | None = None


class BottleneckConfig(transformers.PretrainedConfig):  # type: ignore[misc]
    model_type = "toy-bottleneck"

    def __init__(self, concept_weight: float = 0.01, **others: Any) -> None:
        super().__init__(**others)
        self.concept_weight = concept_weight


class Bottleneck(transformers.PreTrainedModel):  # type: ignore[misc]
    config_class = BottleneckConfig
    main_input_name = "x"

    def __init__(self, config: BottleneckConfig) -> None:
        super().__init__(config)
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(7, 64), torch.nn.LeakyReLU(), torch.nn.Linear(64, 64), torch.nn.LeakyReLU(),
            torch.nn.Linear(64, 3),
        )  # fmt: skip
        self.concepts = torch.nn.Sigmoid()
        self.head = torch.nn.Linear(3, 1)
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        if isinstance(module, torch.nn.Linear):
            module.reset_parameters()

    def forward(
        self, x: torch.Tensor, concept_labels: torch.Tensor, labels: torch.Tensor, sample_ids: torch.Tensor
    ) -> BottleneckOutput:
        concepts = self.concepts(self.encoder(x))
        logits = self.head(concepts).squeeze(1)
        concept_loss = binary_cross_entropy(concepts, concept_labels)
        loss = binary_cross_entropy_with_logits(logits, labels) + self.config.concept_weight * concept_loss
        return BottleneckOutput(loss=loss, logits=logits, concepts=concepts)


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, loader: Any) -> None:
        self.tensors = loader.dataset.tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, row: int) -> dict[str, Any]:
        x, c, y, ids = (tensor[row] for tensor in self.tensors)
        return {"x": x, "concept_labels": c, "labels": y, "sample_ids": ids}


def extract(batch: dict[str, Any], output: BottleneckOutput) -> dict[str, Any]:
    return extract_concepts(batch, output.concepts)


def extract_concepts(batch: dict[str, Any], concepts: Any) -> dict[str, Any]:
    return {
        "concept_activations": concepts,
        "concept_labels": batch["concept_labels"],
        "task_labels": batch["labels"],
        "sample_ids": batch["sample_ids"],
    }


def trainer(folder: Path, *callbacks: Any, concept_weight: float = 0.01, batch: int = 256, **options: Any) -> Any:
    transformers.set_seed(0)
    train, val = (Rows(loader) for loader in toy.loaders())
    options = {"num_train_epochs": 8, "save_strategy": "no", "eval_dataset": val, **options}
    evaluated = options.pop("eval_dataset")
    args = transformers.TrainingArguments(
        str(folder),
        eval_strategy="epoch",
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        per_device_train_batch_size=batch,
        per_device_eval_batch_size=300,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    model = Bottleneck(BottleneckConfig(concept_weight=concept_weight))
    return transformers.Trainer(
        model=model, args=args, train_dataset=train, eval_dataset=evaluated, callbacks=list(callbacks)
    )


def main() -> None:
    address, run, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    monitor = LeakageMonitor(run, concepts=3, extract=extract, address=address, spawn=False, timeout=120.0)
    done = trainer(folder, monitor, batch=256 // int(os.environ["WORLD_SIZE"]))
    done.train()
    found = {
        "step": done.state.global_step,
        "epoch": done.state.epoch,
        "reason": monitor.stop_reason,
        "icl": [entry["eval_leakage/icl"] for entry in done.state.log_history if "eval_leakage/icl" in entry],
        "rows": monitor.run.stats.rows_queued,
    }
    (folder / f"rank{done.args.process_index}.json").write_text(json.dumps(found))
    # Threads of a group that is still there when the interpreter ends may abort the process.
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
