"""A real Prometheus and a real Alertmanager, on free ports and with folders of the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from conftest import not_tested, wait_for
from real_sidecar import ask, free_ports


def program_path(*names: str) -> str | None:
    return next((found for found in map(shutil.which, names) if found), None)


class Program:
    """A server that runs within a `with`."""

    names: tuple[str, ...]

    @classmethod
    def binary(cls) -> str | None:
        return program_path(*cls.names)

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_ports()
        self.address = f"127.0.0.1:{self.port}"

    def options(self) -> dict[str, object]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        binary = self.binary()
        if binary is None:
            not_tested(self.names[0])
        options = [f"--{name}={value}" for name, value in self.options().items()]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen([binary, *options], stdout=log, stderr=log)
        # The port is open before answers are given.
        wait_for(lambda: self._ready() or self.process.poll() is not None)
        assert self.process.poll() is None, (self.folder / "log").read_text()
        return self

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


class Prometheus(Program):
    """Scrapes one target often, if it is given one; rules and an Alertmanager are optional."""

    names = ("prometheus",)

    def __init__(
        self,
        folder: Path,
        scraped: str | None = None,
        rules: Path | None = None,
        alertmanager: str | None = None,
        data: Path | None = None,
    ) -> None:
        super().__init__(folder)
        self.data = data or folder / "data"
        config: dict[str, Any] = {"global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"}}
        if scraped:
            config["scrape_configs"] = [{"job_name": "conceptwatch", "static_configs": [{"targets": [scraped]}]}]
        if rules:
            config["rule_files"] = [str(rules)]
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(config))

    def options(self) -> dict[str, object]:
        return {
            "config.file": self.folder / "prometheus.yml",
            "storage.tsdb.path": self.data,
            "storage.tsdb.retention.time": "10y",
            "web.listen-address": self.address,
            # The interval of notifications, after which Alertmanager considers a silent alert resolved.
            "rules.alert.resend-delay": "1s",
        }

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        moment = {} if at is None else {"time": repr(at)}
        return self._result("/api/v1/query", query=expression, **moment)

    def range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        span = {"start": repr(start), "end": repr(end), "step": repr(step)}
        return self._result("/api/v1/query_range", query=expression, **span)

    def label_values(self, label: str, match: str) -> list[str]:
        values: list[str] = ask(self.address, f"/api/v1/label/{label}/values", **{"match[]": match})["data"]
        return values

    def _result(self, path: str, **query: str) -> list[dict[str, Any]]:
        try:
            answer = ask(self.address, path, **query)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        assert "warnings" not in answer, answer["warnings"]
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result


class Alertmanager(Program):
    """Keeps the alerts it receives and notifies nobody."""

    names = ("prometheus-alertmanager", "alertmanager")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = {"route": {"receiver": "nobody", "group_wait": "0s"}, "receivers": [{"name": "nobody"}]}
        (folder / "alertmanager.yml").write_text(json.dumps(config))

    def options(self) -> dict[str, object]:
        return {
            "config.file": self.folder / "alertmanager.yml",
            "storage.path": self.folder / "data",
            "web.listen-address": self.address,
            "cluster.listen-address": "",
        }

    def alerts(self) -> list[dict[str, Any]]:
        """Those that are firing, as its API v2 gives them."""
        found: list[dict[str, Any]] = ask(self.address, "/api/v2/alerts", active="true")
        return found
