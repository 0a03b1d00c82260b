"""docs/openapi.json says what the API does: its paths, methods and parameters, and answers that fit the schemas."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import conceptwatch
from conftest import K, batch, evaluated, package
from real_sidecar import eager, page

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [(path, method) for path, found in DOCUMENT["paths"].items() for method in found]
SCORE = "icl_conditional"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The HTTP port of a sidecar with two finished runs of two splits, one of them resumed."""
    with eager("--data-dir", str(tmp_path_factory.mktemp("curves"))) as address:
        for name, steps, resume in (("a", (10, 20, 30), False), ("b", (10, 20), False), ("a", (15,), True)):
            labels = {"lambda": name}
            run = conceptwatch.init(name, concepts=K, address=address, spawn=False, labels=labels, resume=resume)
            with run:
                for step in steps:
                    for split in ("val", "test"):
                        p = evaluated(run, batch(300, first_id=0, seed=step), split=split, step=step, epoch=step / 10)
                        assert p.scores(timeout=60) is not None
        yield f"http://{page(address)}"


def ask(
    api: str, path: str, method: str = "GET", body: object = None, origin: bool = True, **query: str
) -> tuple[int, Any]:
    target = f"{api}/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(target, method=method, data=data)  # noqa: S310 (a sidecar of this test)
    if method != "GET" and origin:
        request.add_header("Origin", api)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def check(path: str, method: str, status: int, body: object) -> None:
    """That an answer is documented and fits its schema."""
    jsonschema = package("jsonschema")
    response = DOCUMENT["paths"][path][method]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    if "content" not in response:
        assert body is None
        return
    schema = {**response["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)


def test_the_document_has_the_paths_and_methods_of_the_router() -> None:
    router = (ROOT / "src/server/http/router.rs").read_text(encoding="utf-8")
    methods = {"read": "get", "get": "get", "patch": "patch", "MethodFilter::DELETE": "delete"}
    served = []
    for route in router.split(".route(")[1:]:
        path, handlers = re.match(r'\s*"([^"]*)",(.*)', route.partition(".fallback")[0], re.DOTALL).groups()
        called = re.findall(r"\b(?:(?<!::)read|get|patch)(?=\()|MethodFilter::\w+", handlers)
        served += [(path.removeprefix("/api/v1"), methods[name]) for name in called if path.startswith("/api/v1")]
    assert sorted(served) == sorted(OPERATIONS)


def test_the_document_is_openapi() -> None:
    jsonschema = package("jsonschema")
    assert DOCUMENT["openapi"].startswith("3.1.")
    text = json.dumps(DOCUMENT)
    for name in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
        jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])
    assert set(DOCUMENT["components"]["schemas"]) == set(re.findall(r'"#/components/schemas/(\w+)"', text))


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_parameters_are_those_that_the_sidecar_takes(api: str, path: str, method: str) -> None:
    query = [one for one in DOCUMENT["paths"][path][method]["parameters"] if one["in"] == "query"]
    status, body = ask(api, path, method.upper(), nonsense="1")
    assert (status, body["error"]["field"]) == (400, "nonsense")
    check(path, method, status, body)
    known = body["error"]["message"].partition("expected ")[2].split(", ")
    assert sorted(known) == (sorted(one["name"] for one in query) or ["none"])
    for one in (one for one in query if one["required"]):
        given = {other["name"]: "1" for other in query if other["required"] and other is not one}
        status, body = ask(api, path, method.upper(), {"title": "x"} if method == "patch" else None, **given)
        assert (status, body["error"]["field"]) == (400, one["name"])


ANSWERED: list[tuple[str, dict[str, str]]] = [
    ("/status", {}),
    ("/catalogue", {}),
    ("/runs", {}),
    ("/runs", {"search": "lambda=a", "limit": "1"}),
    ("/run", {"run": "a"}),
    ("/overview", {"split": "val", "limit": "1"}),
    ("/overview", {"split": "nothing"}),
    ("/series", {"run": "a", "split": "val", "score": SCORE}),
    ("/series", {"run": "a", "split": "val", "score": "ctl", "concept": "concept 0"}),
    ("/curves", {"run": "a", "split": "val", "scores": f"ctl,{SCORE},ois"}),
    ("/concepts", {"run": "a", "split": "val", "score": "ctl"}),
    ("/point", {"run": "a", "split": "val"}),
    ("/points", {"run": "a", "split": "val"}),
    ("/unscored", {"run": "a", "split": "val"}),
    ("/matrix", {"run": "a", "split": "val", "score": SCORE}),
    ("/rows", {"run": "a", "split": "val", "score": "ctl_conditional", "top": "3"}),
    ("/rows", {"run": "a", "split": "val", "score": "ctl_conditional", "concept": "concept 0"}),
    ("/compare", {"run_a": "a", "run_b": "b", "last": "1"}),
    ("/compare", {"run_a": "a", "split": "val", "with_split": "test"}),
    ("/compare", {"by": "lambda"}),
    ("/diagnosis", {"run": "a", "split": "val"}),
    ("/verdict", {"run": "a", "split": "val"}),
    ("/alerts", {}),
]


@pytest.mark.parametrize(("path", "query"), ANSWERED)
def test_answers_fit_their_schemas(api: str, path: str, query: dict[str, str]) -> None:
    if "concept" in query:
        query = {**query, "concept": ask(api, "/run", run="a")[1]["concepts"][0]}
    status, body = ask(api, path, **query)
    assert status == 200, body
    check(path, "get", status, body)
    if "run" in query:
        status, body = ask(api, path, **{**query, "run": "nobody"})
        assert status == 404
        check(path, "get", status, body)


def test_every_path_is_asked() -> None:
    assert {path for path, _ in ANSWERED} == set(DOCUMENT["paths"]) - {"/events"}


def test_changes_fit_their_schemas(api: str) -> None:
    for status, asked in (
        (200, ask(api, "/run", "PATCH", {"title": "A title", "note": "n"}, run="b")),
        (200, ask(api, "/run", "PATCH", {"note": None}, run="b")),
        (400, ask(api, "/run", "PATCH", {"title": 1}, run="b")),
        (404, ask(api, "/run", "PATCH", {"title": "x"}, run="nobody")),
        (403, ask(api, "/run", "PATCH", {"title": "x"}, origin=False, run="b")),
    ):
        assert asked[0] == status
        check("/run", "patch", *asked)
    for status in (204, 404):
        asked = ask(api, "/run", "DELETE", run="b")
        assert asked[0] == status
        check("/run", "delete", *asked)


def test_events_are_those_that_are_documented(api: str) -> None:
    with urllib.request.urlopen(f"{api}/api/v1/events", timeout=60) as stream:  # noqa: S310
        assert stream.headers["content-type"] == "text/event-stream"
        assert ask(api, "/run", "PATCH", {"title": "new"}, run="a")[0] == 200
        lines: list[str] = []
        # Scores that join earlier points are events, too.
        while lines[-2:-1] != ["event: run"]:
            line = stream.readline().decode().strip()
            lines += [line] if line.startswith(("event:", "data:")) else []
    assert lines[:2] + lines[-1:] == ["event: begin", "data: {}", 'data: {"run":"a"}']
