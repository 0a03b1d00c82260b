"""Calling a job's own head on concepts that were set, without a trace in the training.

Modules run in eval mode and get their own back; nothing records gradients, and the states of the random generators are
restored. torch is never imported here: a job that has a module has imported it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ._head import HALF, Call, Output, Wrapped
from ._tensors import Fault

# How far the sum of a row's probabilities may be from 1.
SUM_ERROR = 1e-3
# Logits beyond it are certain, and exp() of more overflows.
MOST_LOGIT = 80.0


@contextlib.contextmanager
def calling(
    head: Call, sample: Any, tasks: Sequence[Output], *, cut: Callable[[list[Any]], float] | None = None
) -> Iterator[Callable[[Any], Any]]:
    """A function from concept values like `sample` to what a head predicts of each task, [n]: classes, -1 where its
    output is not finite; numbers, NaN there; or, of single outputs for classes, these as floats.

    With `cut`, the threshold of single outputs, it returns the probabilities of all classes of the only task, [n, l].
    It raises `Fault` for outputs of another shape. A head that works in place may change any values but `sample`, of
    which it is given a copy.
    """
    predicted: Any = partial(_of_tasks, tasks) if cut is None else partial(_probabilities, cut)
    torch = sys.modules.get("torch")
    if torch is None:
        with _numpy_random():
            yield lambda values: predicted(head(_other_than(sample, values)), values)
        return
    module = _module_of(head, torch)
    on_cuda = isinstance(sample, torch.Tensor) and sample.device.type == "cuda"
    devices = [sample.device] if on_cuda and module is None else []
    with torch.no_grad(), _in_eval_mode(module), torch.random.fork_rng(devices), _numpy_random():

        def output(values: Any) -> Any:
            try:
                return head(_as_parameters(_other_than(sample, values), module, torch))
            except RuntimeError as error:
                if module is None or not _is_sharded(module, torch):
                    raise
                raise Fault(
                    f"head: FSDP has its parameters only while the whole model runs ({error}); shard the head as a "
                    "module of its own, too"
                ) from error

        yield lambda values: predicted(output(values), values)


def _predicted(task: Output) -> Any:
    return _numbers if task.is_number else _classes


def _of_tasks(tasks: Sequence[Output], output: Any, values: Any) -> list[Any]:
    """The predictions of each task, from a list of outputs or from their columns side by side."""
    if len(tasks) == 1:
        return [_predicted(tasks[0])(output, values)]
    n, t, width = values.shape[0], len(tasks), sum(task.columns for task in tasks)
    expected = f"it must return a list of {t} outputs, or their columns side by side, [{n}, {width}]"
    if isinstance(output, (tuple, list)):
        parts = list(output)
        if len(parts) != t:
            raise Fault(f"head returned {len(parts)} output{'s' * (len(parts) != 1)} for {t} tasks; {expected}")
    else:
        output, _ = _array(output, f"head returned {{}} for {t} tasks; {expected}")
        shape = list(output.shape)
        of_classes = shape == [n, t] and not is_float(output)
        if not of_classes and shape != [n, width]:
            raise Fault(f"head returned shape {shape} for {t} tasks; {expected}")
        ends = np.cumsum([1 if of_classes else task.columns for task in tasks]).tolist()
        parts = [output[:, start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    for part, task in zip(parts, tasks, strict=True):
        shape = list(getattr(part, "shape", ()))
        if len(shape) > 1 and shape[1] not in (1, 1 if task.is_number else max(task.columns, 2)):
            raise Fault(f"head returned shape {shape} for the task {task.task!r}, expected [{n}, {task.columns}]")
    return [_predicted(task)(part, values) for part, task in zip(parts, tasks, strict=True)]


def is_float(output: Any) -> bool:
    of_torch = hasattr(output, "is_floating_point")
    return bool(output.is_floating_point()) if of_torch else output.dtype.kind == "f" or output.dtype.name == "bfloat16"


def _numbers(output: Any, values: Any) -> Any:
    n = values.shape[0]
    output, is_torch = _array(output, f"head returned {{}} for {n} rows; it must return a number a row, [{n}]")
    if tuple(output.shape) not in ((n,), (n, 1)):
        raise Fault(
            f"head returned shape {list(output.shape)} for concepts of shape {list(values.shape)}; of a continuous "
            f"task it must return a number a row, [{n}] or [{n}, 1]"
        )
    xp: Any = sys.modules["torch"] if is_torch else np
    numbers = output.reshape(n)
    if output.dtype != xp.float64:  # which a target with a large offset needs
        numbers = numbers.to(xp.float32) if is_torch else numbers.astype(np.float32)
    return xp.where(xp.isfinite(numbers), numbers, xp.nan)


def _array(output: Any, complaint: str) -> tuple[Any, bool]:
    """A head's output as an array of torch or NumPy, and whether it is torch's."""
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(output, torch.Tensor)
    if isinstance(output, (tuple, list, dict)) or output is None:
        raise Fault(complaint.format(_kind(output)))
    if not is_torch:
        output = output.detach().cpu().numpy() if hasattr(output, "detach") else np.asarray(output)
    if not is_torch and output.dtype.kind not in "biuf" and output.dtype.name != "bfloat16":
        raise Fault(f"head returned elements of type {output.dtype}; it must return numbers")
    return output, is_torch


def _classes(output: Any, values: Any) -> Any:
    """Class numbers, or a single output as it is."""
    n = values.shape[0]
    torch = sys.modules.get("torch")
    complaint = f"head returned {{}} for {n} rows; it must return logits [{n}, l] or class numbers [{n}]"
    output, is_torch = _array(output, complaint)
    shape = tuple(output.shape)
    if shape not in ((n,), (n, *shape[1:2])) or 0 in shape:
        raise Fault(
            f"head returned shape {list(shape)} for concepts of shape {list(values.shape)}; it must return logits "
            f"[{n}, l], or one logit of class 1 or one class number a row, [{n}]"
        )
    xp: Any = torch if is_torch else np
    if not is_float(output):
        classes = output.reshape(n) if len(shape) == 1 or shape[1] == 1 else output.argmax(1)
    elif len(shape) == 1 or shape[1] == 1:
        # A copy, as a head may return the same array again.
        return output.reshape(n).clone() if is_torch else np.array(output.reshape(n))
    else:
        # NaN may win or lose an argmax; such a row has no prediction.
        classes = xp.where(xp.isfinite(output).all(1), output.argmax(1), -1)
    return as_classes(classes)


def above(threshold: float, outputs: Any) -> Any:
    """The classes that single outputs predict."""
    xp: Any = np if isinstance(outputs, np.ndarray) else sys.modules["torch"]
    return as_classes(xp.where(xp.isfinite(outputs), xp.where(outputs > threshold, 1, 0), -1))


def as_classes(numbers: Any) -> Any:
    return numbers.astype(np.int32) if isinstance(numbers, np.ndarray) else numbers.to(sys.modules["torch"].int32)


def _probabilities(cut: Callable[[list[Any]], float], output: Any, values: Any) -> Any:
    """Of logits by softmax, of one logit by sigmoid; probabilities as they are."""
    complaint = "policy: 'coop' needs a head that returns logits or probabilities, but it returned {}"
    output, is_torch = _array(output, complaint)
    xp: Any = sys.modules["torch"] if is_torch else np
    shape, n = tuple(output.shape), values.shape[0]
    if not is_float(output) or shape not in ((n,), (n, *shape[1:2])):
        raise Fault(complaint.format(f"{output.dtype} of shape {list(shape)}"))
    output = output.float() if is_torch else output.astype(np.float64)
    if len(shape) == 1 or shape[1] == 1:
        one = output.reshape(n)
        threshold = cut([one])
        one = one if threshold == HALF else 1 / (1 + xp.exp(xp.clip(threshold - one, -MOST_LOGIT, MOST_LOGIT)))
        return xp.stack([1 - one, one], 1)
    if bool((output >= 0).all()) and bool((abs(output.sum(1) - 1) < SUM_ERROR).all()):
        return output
    exponentials = xp.exp(output - (output.max(1)[0] if is_torch else output.max(1))[:, None])
    return exponentials / exponentials.sum(1)[:, None]


def _other_than(sample: Any, values: Any) -> Any:
    """The values, or a copy where they are the sample itself, which is read again and may be the job's own."""
    if values is not sample:
        return values
    return values.clone() if hasattr(values, "detach") else np.array(values)


def _as_parameters(values: Any, module: Any, torch: Any) -> Any:
    """Activations on the device and in the type of a module: they may have left its device or autocast region."""
    parameter = None if module is None else next((p for p in module.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return values
    values = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    values = values.to(parameter.device)
    if values.dtype != parameter.dtype and not _autocast(torch, parameter.device.type):
        values = values.to(parameter.dtype)
    return values


def _module_of(head: Any, torch: Any) -> Any:
    """The module that a head is, a method belongs to, or a wrapper calls."""
    while isinstance(head, Wrapped):
        head = head.head
    owner = getattr(head, "__self__", head)
    return owner if isinstance(owner, torch.nn.Module) else None


def _is_sharded(module: Any, torch: Any) -> bool:
    """Whether FSDP keeps a module's parameters elsewhere: as DTensors, as pieces, or as views of one flat parameter."""
    parameters = list(module.parameters())
    views = (value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor))
    return any(type(one).__name__ == "DTensor" or hasattr(one, "_fsdp_flattened") for one in parameters) or (
        not parameters and any(True for _ in views)
    )


@contextlib.contextmanager
def _in_eval_mode(module: Any) -> Iterator[None]:
    """Eval mode for a module and its parts, each of which gets its own mode back."""
    training = [] if module is None else [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


@contextlib.contextmanager
def _numpy_random() -> Iterator[None]:
    state = np.random.get_state()
    try:
        yield
    finally:
        np.random.set_state(state)


def _autocast(torch: Any, device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:  # before torch 2.4
        return bool(torch.is_autocast_enabled() if device == "cuda" else torch.is_autocast_cpu_enabled())


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
