"""The messages of conceptwatch.v1 (generated: see generate.sh) and the calls of its service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc

from . import conceptwatch_pb2 as messages
from . import status_pb2 as status

__all__ = ["Calls", "fields_of", "messages", "status", "values_of"]

SERVICE = "conceptwatch.v1.ConceptWatch"


def fields_of(message: Any) -> dict[str, Any]:
    """The values of a message by field: a repeated one as a tuple, and None for an optional one that is absent."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence:
            found[field.name] = value if message.HasField(field.name) else None
        else:
            found[field.name] = value if isinstance(value, (str, int, float)) else tuple(value)
    return found


def values_of(kind: Any) -> dict[str, Any]:
    """The values of an enumeration by names such as "found": without the prefix that all share, and without the first,
    which states nothing.
    """
    nothing, *names = kind.keys()
    prefix = nothing.removesuffix("UNSPECIFIED")
    return {name.removeprefix(prefix).lower(): kind.Value(name) for name in names}


class Calls:
    """The calls of the service that a training job makes, over one channel. A token goes with each.

    client: as in StartRunRequest; needed to stream.
    """

    def __init__(self, channel: grpc.Channel, token: str | None = None, client: str = "") -> None:
        metadata = (("authorization", f"Bearer {token}"),) if token is not None else ()

        def unary(method: str, request: Any, response: Any) -> Callable[..., Any]:
            call = channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            return partial(call, metadata=metadata)

        self.start_run = unary("StartRun", messages.StartRunRequest, messages.StartRunResponse)
        self.finish_run = unary("FinishRun", messages.FinishRunRequest, messages.FinishRunResponse)
        self.get_scores = unary("GetScores", messages.GetScoresRequest, messages.GetScoresResponse)
        self.get_diagnosis = unary("GetDiagnosis", messages.GetDiagnosisRequest, messages.GetDiagnosisResponse)
        self.get_advice = unary("GetAdvice", messages.GetAdviceRequest, messages.GetAdviceResponse)
        self.get_sidecar = unary("GetSidecar", messages.GetSidecarRequest, messages.GetSidecarResponse)
        ingest: Callable[..., Any] = channel.stream_stream(
            f"/{SERVICE}/Ingest",
            request_serializer=None,  # IngestRequests come serialised
            response_deserializer=messages.IngestResponse.FromString,
        )
        self.ingest = partial(ingest, metadata=(*metadata, ("conceptwatch-client", client)))
