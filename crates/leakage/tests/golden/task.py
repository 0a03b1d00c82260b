"""Writes task.json: task labels and logits with their balanced accuracy, F1 and AUC by scikit-learn.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'scikit-learn==1.9.*' numpy
    /tmp/golden/bin/python crates/leakage/tests/golden/task.py
"""

import json
import pathlib

import numpy as np
import sklearn
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score


def main():
    random = np.random.default_rng(20_261_123)
    cases = []
    for name, rows, columns, classes in [
        ("one logit", 60, 1, 2),
        ("two logits", 50, 2, 2),
        ("five classes", 120, 5, 5),
        ("seven classes of which five occur", 90, 7, 5),
        ("two logits, one class rare", 110, 2, 11),
    ]:
        labels = random.permutation(np.arange(rows) % classes)
        if classes == 11:
            labels = (labels == 0).astype(int)
        logits = random.normal(size=(rows, columns))
        if columns == 1:
            logits[:, 0] += labels - 0.5
        else:
            logits[np.arange(rows), labels] += 1.0
        # A coarse grid, so that scores tie.
        logits = np.round(logits * 4) / 4 if columns <= 2 else np.round(logits, 6)
        if columns == 1:
            predictions, scores = (logits[:, 0] > 0).astype(int), logits[:, 0]
        else:
            predictions, scores = logits.argmax(1), softmax(logits, axis=1)
        if columns <= 2:
            f1 = f1_score(labels, predictions)
            auc = roc_auc_score(labels, logits[:, 0] if columns == 1 else logits[:, 1] - logits[:, 0])
        else:
            f1 = f1_score(labels, predictions, average="macro")
            occurring = np.unique(labels)
            auc = np.mean([roc_auc_score(labels == label, scores[:, label]) for label in occurring])
            if len(occurring) == columns:
                assert abs(auc - roc_auc_score(labels, scores, multi_class="ovr", average="macro")) < 1e-12
        cases.append(
            {
                "name": name,
                "columns": columns,
                "task_labels": labels.tolist(),
                "task_logits": logits.ravel().tolist(),
                "task_balanced_accuracy": float(balanced_accuracy_score(labels, predictions)),
                "task_f1": float(f1),
                "task_auc": float(auc),
            }
        )
    path = pathlib.Path(__file__).with_name("task.json")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{{"scikit-learn":"{sklearn.__version__}"}},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
