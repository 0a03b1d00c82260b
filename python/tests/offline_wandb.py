"""What W&B has written in offline mode."""

from __future__ import annotations

import importlib
import json
import struct
from pathlib import Path
from typing import Any

from conftest import wait_for


def of_wandb(folder: Path) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows of an offline run's file and the axes that are defined. Its process writes the last part by itself."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    records = wait_for(lambda: (found := records_of(path)) and found[-1].WhichOneof("record_type") == "exit" and found)
    rows, metrics = [], []
    for record in records:
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif record.WhichOneof("record_type") == "metric":
            metrics.append(record.metric)
    return rows, metrics


def records_of(path: Path) -> list[Any]:
    """The records of a log in blocks of 32 KiB: each part of a record has a checksum, its length and its place."""
    protobuf = importlib.import_module("wandb.proto.wandb_internal_pb2")
    data, at, part, found = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if at > len(data):
            break
        if kind in (1, 4):
            found.append(protobuf.Record.FromString(part))
            part = b""
    return found
