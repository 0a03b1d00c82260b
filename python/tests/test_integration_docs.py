"""The code blocks about frameworks and libraries, in docs/integrations.md, run as they stand.

What they take as given, a module, its loaders and so on, is made here.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conceptwatch
from conftest import package
from real_sidecar import curve, eager

ROOT = Path(__file__).parents[2]
NAMES = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def at_the_default_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_ADDRESS", address)


def blocks(path: str, heading: str) -> list[str]:
    """The Python blocks below a heading, up to the next one of its level."""
    text = (ROOT / path).read_text(encoding="utf-8")
    level = heading.split(" ", maxsplit=1)[0]
    section = text.split(f"\n{heading}\n", 1)[1]
    section = re.split(rf"\n#{{1,{len(level)}}} ", section, maxsplit=1)[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def run(code: str, **given: Any) -> dict[str, Any]:
    names: dict[str, Any] = {**given, "concept_names": NAMES}
    exec(compile(code, "block", "exec"), names)  # noqa: S102
    return names


HOST = """
import os, sys, torch, torch.distributed
import conceptwatch

rank, store, block = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
generator = torch.Generator().manual_seed(rank)
concepts = torch.randint(0, 2, (64, 3), generator=generator)
validation_loader = [(concepts.float(), concepts, concepts[:, 0], torch.arange(rank, 128, 2))]
given = {
    "torch": torch, "conceptwatch": conceptwatch, "concept_names": ["a", "b", "c"], "epochs": 10,
    "train": lambda model: None, "validation_loader": validation_loader,
    "model": lambda x: (0.1 + 0.8 * x, torch.stack([1 - x[:, 0], x[:, 0]], 1)),
}
asked = []
ask = conceptwatch.Run.should_stop
conceptwatch.Run.should_stop = lambda run, **keywords: asked.append(1) or ask(run, **keywords)
exec(block, given)
print(given["epoch"], given["stop"], len(asked))
"""
# Fires at the third evaluation.
FEW = '[[alerts]]\nname = "few"\nfew_rows = 1000\nevaluations = 3\nadvise_stop = true\n'


def test_ranks_that_broadcast_the_advice_stop_at_one_step(torch: Any, tmp_path: Path) -> None:
    (block,) = blocks("docs/scale.md", "### Stopping")
    rules = tmp_path / "rules.toml"
    rules.write_text(FEW)
    with eager("--config", str(rules)) as address:
        environment = {
            **os.environ,
            "CONCEPTWATCH_ADDRESS": address,
            "CONCEPTWATCH_JOB": "j",
            "CONCEPTWATCH_QUIET": "1",
        }
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", HOST, str(rank), str(tmp_path / "store"), block],
                env=environment, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(2)
        ]  # fmt: skip
        assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["2 [True] 3\n", "2 [True] 0\n"]


@pytest.fixture
def lightning_given(torch: Any, tmp_path: Path) -> dict[str, Any]:
    lightning = package("lightning.pytorch", "lightning")
    toy = importlib.import_module("toy")

    class Module(type(toy.module(lightning, 5.0))):  # type: ignore[misc]
        def _forward(self, x: Any) -> Any:
            output = self.model(x)
            return output.probabilities, output.task_logits

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            c_hat, y_hat = self._forward(batch[0])
            loss = torch.nn.functional.binary_cross_entropy(c_hat, batch[1])
            return loss + torch.nn.functional.binary_cross_entropy_with_logits(y_hat, batch[2])

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return {"c_hat": self._forward(batch[0])[0]}

    def quiet(callbacks: Any = (), **options: Any) -> Any:
        return toy.trainer(
            lightning, *callbacks, default_root_dir=tmp_path, **{"enable_checkpointing": True, **options}
        )

    train_loader, val_loader = toy.loaders()
    callbacks = lightning.callbacks
    return {
        "Trainer": quiet, "module": Module(), "train_loader": train_loader, "val_loader": val_loader,
        "EarlyStopping": callbacks.EarlyStopping, "ModelCheckpoint": callbacks.ModelCheckpoint,
    }  # fmt: skip


def test_the_blocks_about_lightning(lightning_given: dict[str, Any], address: str) -> None:
    loaders = [lightning_given[name] for name in ("train_loader", "val_loader")]
    whole, method, stock, asked = blocks("docs/integrations.md", "## Lightning")
    names = run(whole, **lightning_given)
    assert len(curve(address, "cub-lambda-0.1")) == 3
    names = run(method + stock, **names)
    done = lightning_given["Trainer"](max_epochs=2, callbacks=[names[one] for one in ("stopping", "best", "monitor")])
    done.fit(lightning_given["module"], *loaders)
    assert len(curve(address, "cub-method")) == 2
    assert names["best"].best_model_score is not None
    assert names["monitor"].run.scores("train", timeout=60.0).rows > 0
    names = run(asked, **names)
    assert names["module"].configure_callbacks() == [names["monitor"]]


def test_the_blocks_about_keras(keras: Any, address: str) -> None:
    data = importlib.import_module("test_keras")
    rows, probe = data.Rows(1000, 0), data.PROBE
    given = {
        "keras": keras, "model": data.bottleneck(keras, 5.0), "x": rows.x, "c": rows.c, "y": rows.y,
        "x_val": probe.x, "c_val": probe.c, "y_val": probe.y,
    }  # fmt: skip
    (block,) = blocks("docs/integrations.md", "## Keras 3")
    names = run(block, **given)
    assert len(curve(address, "cub-keras")) == 3
    assert len(names["model"].history.history["leakage/icl"]) == 3


def test_the_blocks_about_transformers(torch: Any, address: str, tmp_path: Path) -> None:
    package("accelerate", "transformers")
    transformers = package("transformers", "transformers")
    toy = importlib.import_module("toy_transformers")
    trainer = toy.trainer(tmp_path, concept_weight=5.0, num_train_epochs=2)
    (block,) = blocks("docs/integrations.md", "## Transformers")
    parts = {"train_dataset": trainer.train_dataset, "eval_dataset": trainer.eval_dataset}
    names = run(block, Trainer=transformers.Trainer, model=trainer.model, args=trainer.args, **parts)
    assert len(curve(address, "cebab-lambda-0.1")) == 2
    assert "eval_leakage/icl" in {name for entry in names["trainer"].state.log_history for name in entry}


def test_the_blocks_about_interventions(torch: Any, address: str) -> None:
    torch.manual_seed(0)
    n, k, d = 600, 3, 4
    c = torch.randint(0, 2, (n, k))
    y = (c.sum(1) > 1).long()

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.head = torch.nn.Linear(width, 2)

        def forward(self, x: Any) -> Any:
            return x, self.head(x)

    class Cem(Model):
        def forward(self, x: Any) -> Any:
            positive, negative = torch.randn(n, k, d), torch.randn(n, k, d)
            mixed = x[:, :, None] * positive + (1 - x[:, :, None]) * negative
            return x, self.head(mixed.flatten(1)), positive, negative

    given = {
        "step": 1, "model": Model(k), "cem": Cem(k * d), "attribute_groups": [[0, 2]],
        "training_logits": torch.randn(100, k), "validation_loader": [(torch.rand(n, k), c, y, torch.arange(n))],
    }  # fmt: skip
    for block in blocks("docs/integrations.md", "## Interventions"):
        names = run(block, **given, conceptwatch=importlib.import_module("conceptwatch"))
        scores = names["run"].scores("val", step=1, timeout=60.0)
        assert {"intervention_drop", "intervention_area", "wrong_intervention_drop"} <= set(scores)
        assert all(scores[one].value is not None for one in scores if "intervention" in one), scores
        assert names["run"].stats.heads_failed == 0
        assert names["run"].finish()


def cem_module(torch: Any, lightning: Any, size: int = 16) -> Any:
    """A module with the forward and steps of the cem repository: steps return losses only."""
    functional = torch.nn.functional

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.contexts = torch.nn.ModuleList(torch.nn.Linear(7, 2 * size) for _ in range(3))
            self.prob = torch.nn.Linear(2 * size, 1)
            self.c2y_model = torch.nn.Linear(3 * size, 1)

        def _forward(
            self, x: Any, intervention_idxs: Any = None, c: Any = None, y: Any = None, train: Any = None
        ) -> Any:
            contexts = torch.stack([context(x) for context in self.contexts], 1)
            c_sem = torch.sigmoid(self.prob(contexts)[:, :, 0])
            share = c_sem[:, :, None]
            c_pred = (contexts[:, :, :size] * share + contexts[:, :, size:] * (1 - share)).flatten(1)
            return c_sem, c_pred, self.c2y_model(c_pred), (contexts, c_sem)

        def training_step(self, batch: Any, batch_no: int) -> Any:
            x, y, c = batch[:3]
            c_sem, _, y_logits = self._forward(x, c=c, y=y)[:3]
            task = functional.binary_cross_entropy_with_logits(y_logits.reshape(-1), y)
            return {"loss": task + functional.binary_cross_entropy(c_sem, c)}

        def validation_step(self, batch: Any, batch_no: int) -> Any:
            return {"val_loss": self.training_step(batch, batch_no)["loss"]}

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return Model()


def test_the_blocks_about_libraries(torch: Any, lightning_given: dict[str, Any], address: str) -> None:
    from_cem, own_loop, label_free, pyc = blocks("docs/integrations.md", "## Libraries of concept models")
    torch.manual_seed(0)
    x = torch.randn(600, 7)
    c = (x[:, :3] > 0).float()
    y = (c.sum(1) > 1).float()
    data = torch.utils.data.TensorDataset(x, y, c)
    names = run(from_cem, val_dataset=data, DataLoader=torch.utils.data.DataLoader)
    module = cem_module(torch, package("lightning.pytorch", "lightning"))
    trainer = lightning_given["Trainer"](max_epochs=1, callbacks=[names["monitor"]])
    trainer.fit(module, torch.utils.data.DataLoader(data, 100), names["val_loader"])
    assert [point["rows"] for point in curve(address, "cub-cem", "embedding_ct")] == [600]

    def scbm(x: Any, epoch: int, validation: bool) -> Any:
        return torch.sigmoid(torch.randn(600, 3, 4)), torch.eye(3).expand(600, 3, 3), torch.randn(600, 1)

    class LabelFree(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.final = torch.nn.Linear(3, 2)

        def forward(self, images: Any) -> Any:
            return self.final(images[:, :3]), images[:, :3]

    def pyc_model(query: list[str], input: Any) -> Any:  # noqa: A002
        assert query == annotations.labels
        return input[:, :3]

    annotations = SimpleNamespace(labels=["a", "b", "parity"], cardinalities=[1, 1, 1])
    columns = torch.stack([c[:, 0], c[:, 1], y], 1)
    given = {
        "torch": torch, "step": 1, "epoch": 0, "label_free": LabelFree(), "scbm": scbm, "pyc_model": pyc_model,
        "annotations": annotations, "image_loader": [(x, y.long())],
        "scbm_loader": [{"features": x, "concepts": c, "labels": y.long()}],
        "pyc_loader": [{"inputs": {"x": x}, "concepts": {"c": columns}}],
    }  # fmt: skip
    for block in (own_loop, label_free, pyc):
        names = run(block, **{**names, **given})
        assert names["run"].scores("val", step=1, timeout=60.0) is not None, names["run"].stats
        assert names["run"].stats.batches_dropped == {}
        assert names["run"].finish()
    assert len(curve(address, "cub-scbm", "ctl")) == 1
    assert len(curve(address, "cub-label-free", "embedding_ct")) == 1
    assert len(curve(address, "colour-mnist", "ctl")) == 1


def test_the_objective_of_optuna() -> None:
    optuna = package("optuna")
    (block,) = blocks("docs/integrations.md", "## Optuna")
    steps: list[int] = []
    given = {"train_and_evaluate": lambda run, step: steps.append(step), "accuracy": 0.5, "conceptwatch": conceptwatch}
    study = optuna.create_study(direction="maximize")
    study.optimize(run(block, **given)["objective"], n_trials=1)
    assert study.best_value == 0.5
    assert steps == list(range(100, 1000, 100))
