"""Queries of the Infinity data source, which asks the sidecar's JSON API. The SDK has no types of its own for them."""

from __future__ import annotations

from grafana_foundation_sdk.cog import builder, variants
from grafana_foundation_sdk.models.dashboard import DataSourceRef

TYPE = "yesoreyeram-infinity-datasource"


class Dataquery(variants.Dataquery):
    """A GET of `path`; `root` is a jq program that makes an array of rows; of the columns, the names and types."""

    def __init__(self, source: DataSourceRef, path: str, params: dict[str, str], root: str, columns: dict[str, str]):
        self.source, self.path, self.params, self.root, self.columns = source, path, params, root, columns

    def to_json(self) -> dict[str, object]:
        return {
            "refId": "A",
            "datasource": self.source,
            "type": "json",
            "source": "url",
            "format": "table",
            "parser": "jq-backend",
            "url": self.path,
            "url_options": {
                "method": "GET",
                "data": "",
                "params": [{"key": key, "value": value} for key, value in self.params.items()],
            },
            "root_selector": self.root,
            "columns": [{"selector": name, "text": name, "type": kind} for name, kind in self.columns.items()],
            "filters": [],
        }


class Query(builder.Builder[variants.Dataquery]):
    """What panels of the SDK take as a target."""

    def __init__(self, query: Dataquery) -> None:
        self.query = query

    def build(self) -> variants.Dataquery:
        return self.query
