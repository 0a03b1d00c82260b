"""What deploy/ says to Docker, Compose and Kubernetes, as far as it can be checked where no image can be had.

The image's environment, health check and probes are tried on the binary itself, and the configuration that Compose
gives Prometheus on a real Prometheus. Images are neither built nor run, and no cluster takes the manifests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from conftest import not_tested, npm_packages, package, wait_for
from monitoring import Prometheus, program_path
from real_sidecar import EAGER_OPTIONS, ask, binary, free_ports, listens

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
CHECKS = ROOT / "tests" / "kubernetes"
TOKEN = "token-of-this-test"  # noqa: S105


@pytest.fixture(scope="module", autouse=True)
def _requirements() -> None:
    for module in ("yaml", "kubernetes_validate"):
        package(module, "deploy")


def parsed(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(package("yaml", "deploy").safe_load_all(path.read_text()))


def tool(name: str) -> str:
    """A program that the requirements brought along, beside the interpreter."""
    return str(Path(sys.executable).parent / name)


def succeeds(*command: str | Path, **options: Any) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def kubernetes_takes(documents: list[Any], folder: Path) -> None:
    """Since 1.29 a container can be a sidecar without a feature gate."""
    path = folder / "documents.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))  # JSON is YAML
    for version in ("1.29", "1.33"):
        succeeds(tool("kubernetes-validate"), "--strict", "-k", version, path)


def check_mounts(pod: dict[str, Any]) -> None:
    """That each container mounts volumes which the pod has."""
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod.get("initContainers", []) + pod["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    (document,) = parsed(DEPLOY / name)
    found: dict[str, Any] = document
    return found


# ---------------------------------------------------------------- the image


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line)]


def last(name: str) -> str:
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def test_hadolint_has_nothing_to_say() -> None:
    assert succeeds(tool("hadolint"), DEPLOY / "Dockerfile") == ""


def test_the_image_is_small_and_without_rights() -> None:
    stages = [rest for name, rest in instructions() if name == "FROM"]
    assert len(stages) == 2
    assert all(":" in stage and ":latest" not in stage for stage in stages)
    assert stages[0].startswith("rust:1.89")
    assert 'rust-version = "1.89"' in (ROOT / "Cargo.toml").read_text()
    user, _, group = last("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    # Nothing is run in the second stage: what is in it was copied.
    names = [name for name, _ in instructions()]
    assert "RUN" not in names[names.index("FROM", 1) :]


def test_cargo_finds_all_it_needs_among_what_is_copied(tmp_path: Path) -> None:
    cargo = program_path("cargo") or not_tested("cargo")
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    copied = [words.split() for name, words in instructions() if name == "COPY" and not words.startswith("--")]
    for *sources, destination in copied:
        for source in sources:
            found = [path for one in allowed if one.split("/")[0] == source.split("/")[0] for path in ROOT.glob(one)]
            assert found, f"{source} is copied, and kept from the builder by Dockerfile.dockerignore"
            for path in found:
                to = tmp_path / path.relative_to(ROOT)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(path, to, dirs_exist_ok=True) if path.is_dir() else shutil.copy(path, to)
            assert (tmp_path / destination / (source if destination == "./" else "")).exists()
    metadata = ["metadata", "--no-deps", "--locked", "--offline", "--quiet", "--format-version", "1"]
    for target in json.loads(succeeds(cargo, *metadata, cwd=tmp_path))["packages"][0]["targets"]:
        assert Path(target["src_path"]).exists(), target


# ---------------------------------------------------------------- the program in the image's environment


class Contained:
    """The binary with the image's environment and Compose's, on free ports, with a folder and a token of the test."""

    def __init__(self, folder: Path) -> None:
        pairs = [pair.split("=", 1) for pair in last("ENV").split()]
        environment = {**dict(pairs), **compose()["services"]["conceptwatch"]["environment"]}
        arguments = json.loads(last("CMD"))
        assert json.loads(last("ENTRYPOINT")) == ["conceptwatch"]
        self.port = free_ports()
        (folder / "token").write_text(TOKEN + "\n")
        replaced = {":7800": f":{self.port}", ":7801": f":{self.port + 1}"}
        replaced |= {"/var/lib/conceptwatch": str(folder / "curves"), secret_path(): str(folder / "token")}
        for old, new in replaced.items():
            assert any(old in value for value in [*environment.values(), *arguments]), old
            environment = {name: value.replace(old, new) for name, value in environment.items()}
            arguments = [argument.replace(old, new) for argument in arguments]
        self.process = subprocess.Popen([binary(), *arguments, *EAGER_OPTIONS], env=environment, cwd=folder)
        wait_for(lambda: listens(self.port + 1) or self.process.poll() is not None)
        assert self.process.poll() is None, "the sidecar ended at once"

    def get(self, path: str, **headers: str) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port + 1}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def health_check(self) -> int:
        """The image's, at this port."""
        told = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
        command = [word.replace("/7801", f"/{self.port + 1}") for word in told]
        assert command != told
        return subprocess.run(command, timeout=10, check=False, capture_output=True).returncode


@pytest.fixture(scope="module")
def contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contained]:
    contained = Contained(tmp_path_factory.mktemp("image"))
    yield contained
    contained.process.terminate()
    assert contained.process.wait(timeout=10) == 0


def test_the_health_check_tells_a_ready_sidecar_from_none(contained: Contained, tmp_path: Path) -> None:
    assert contained.health_check() == 0
    other = Contained(tmp_path)
    assert other.health_check() == 0
    other.process.kill()
    other.process.wait()
    assert other.health_check() != 0


def test_prometheus_and_grafana_are_let_in_by_name_and_token_alone(contained: Contained) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert contained.get("/metrics", Host="conceptwatch:7801", **bearer) == 200
    assert contained.get("/metrics", Host="conceptwatch:7801") == 401
    assert contained.get("/metrics", Host="elsewhere:7801", **bearer) == 403


def test_kubernetes_probes_are_answered_without_a_token(contained: Contained) -> None:
    assert job_probes()
    for probe in job_probes():
        assert probe["grpc"]["port"] == 7800
        # HealthCheckRequest.service is field 1; HealthCheckResponse.status is field 1, SERVING is 1.
        name = probe["grpc"]["service"].encode()
        with grpc.insecure_channel(f"127.0.0.1:{contained.port}") as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert check(bytes([0x0A, len(name)]) + name, timeout=10) == b"\x08\x01"


# ---------------------------------------------------------------- Compose


def secret_path() -> str:
    (name,) = compose()["secrets"]
    return f"/run/secrets/{name}"


def test_compose_has_the_form_that_compose_takes() -> None:
    files = [DEPLOY / "compose.yaml", DEPLOY / "compose.hub.yaml"]
    succeeds(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *files)


def test_what_compose_mounts_is_there() -> None:
    told = compose()
    for name, service in told["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in told["volumes"] if source[0] != "." else (DEPLOY / source).exists(), (name, volume)
        assert set(service.get("secrets", [])) <= set(told["secrets"]), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
    build = told["services"]["conceptwatch"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_the_sidecar_of_compose_can_write_its_volume_alone() -> None:
    service = compose()["services"]["conceptwatch"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert [volume.split(":")[1] for volume in service["volumes"]] == [last("VOLUME")]


def test_addresses_are_those_of_services_and_their_ports() -> None:
    services = compose()["services"]
    open_ports = {(name, port.split(":")[-1]) for name, service in services.items() for port in service["ports"]}
    told = [DEPLOY / "compose" / "prometheus.yml", DEPLOY / "grafana/provisioning/datasources/conceptwatch.yaml"]
    named = {pair for path in told for pair in re.findall(r"\b([a-z]+):(\d{4,5})\b", path.read_text())}
    assert named <= open_ports
    assert {"conceptwatch", "prometheus", "archive", "alertmanager"} == {name for name, _ in named}


def test_grafana_finds_its_data_sources_and_dashboards() -> None:
    (sources,) = parsed(DEPLOY / "grafana/provisioning/datasources/conceptwatch.yaml")
    (providers,) = parsed(DEPLOY / "grafana/provisioning/dashboards/conceptwatch.yaml")
    dashboard = json.loads((DEPLOY / "grafana/dashboards/conceptwatch.json").read_text())
    asked = {variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "datasource"}
    assert {source["type"] for source in sources["datasources"]} == asked
    service = compose()["services"]["grafana"]
    assert service["environment"]["GF_INSTALL_PLUGINS"].split()[0] in asked
    folders = {volume.split(":")[1] for volume in service["volumes"]}
    assert providers["providers"][0]["options"]["path"] in folders
    assert secret_path() in sources["datasources"][-1]["secureJsonData"]["bearerToken"]


def test_a_real_prometheus_scrapes_with_the_configuration_of_compose(contained: Contained, tmp_path: Path) -> None:
    text = (DEPLOY / "compose" / "prometheus.yml").read_text()
    alertmanager = f"127.0.0.1:{free_ports()}"
    replaced = {
        "conceptwatch:7801": f"127.0.0.1:{contained.port + 1}",
        "alertmanager:9093": alertmanager,
        "/etc/prometheus/conceptwatch.rules.yml": str(DEPLOY / "prometheus" / "conceptwatch.rules.yml"),
        secret_path(): str(tmp_path / "token"),
        "scrape_interval: 5s": "scrape_interval: 250ms",
    }
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    (tmp_path / "token").write_text(TOKEN)
    prometheus = Prometheus(tmp_path)
    (tmp_path / "prometheus.yml").write_text(text)
    with prometheus:
        wait_for(lambda: prometheus.query('up{job="conceptwatch"} == 1'))
        wait_for(lambda: prometheus.query("conceptwatch_build_info == 1"))
        groups = ask(prometheus.address, "/api/v1/rules")["data"]["groups"]
        assert [group["name"] for group in groups] == ["conceptwatch"]
        found = wait_for(lambda: ask(prometheus.address, "/api/v1/alertmanagers")["data"]["activeAlertmanagers"])
        assert [one["url"] for one in found] == [f"http://{alertmanager}/api/v2/alerts"]


def test_promtool_takes_the_configurations() -> None:
    promtool = program_path("promtool") or not_tested("prometheus")
    for path in (DEPLOY / "prometheus.yml", DEPLOY / "compose" / "prometheus.yml", DEPLOY / "compose" / "archive.yml"):
        succeeds(promtool, "check", "config", "--syntax-only", path)


def test_alertmanager_takes_its_configuration() -> None:
    amtool = program_path("amtool") or not_tested("prometheus-alertmanager")
    assert "SUCCESS" in succeeds(amtool, "check-config", DEPLOY / "compose" / "alertmanager.yml")


# ---------------------------------------------------------------- Kubernetes


def component(name: str) -> Any:
    (document,) = parsed(KUBERNETES / "sidecar" / f"{name}.yaml")
    return document


def sidecar() -> dict[str, Any]:
    (container,) = component("sidecar")["spec"]["template"]["spec"]["initContainers"]
    found: dict[str, Any] = container
    return found


def job_probes() -> list[dict[str, Any]]:
    return [probe for name, probe in sidecar().items() if name.endswith("Probe")]


def test_kubernetes_takes_the_job_with_its_sidecar(tmp_path: Path) -> None:
    """The patch merged by hand: Kubernetes adds its container, volumes and labels to those of the Job."""
    (job,) = parsed(KUBERNETES / "example" / "job.yaml")
    template, patch = job["spec"]["template"], component("sidecar")["spec"]["template"]
    template["metadata"] = patch["metadata"]
    template["spec"] |= patch["spec"]
    kubernetes_takes([job], tmp_path)
    check_mounts(template["spec"])
    for container in template["spec"]["initContainers"] + template["spec"]["containers"]:
        (told,) = [one["value"] for one in container["env"] if one["name"] == "CONCEPTWATCH_TOKEN_FILE"]
        (at,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "conceptwatch-token"]
        assert told == f"{at}/token"


def jobset() -> Any:
    (document,) = parsed(KUBERNETES / "hosts" / "jobset.yaml")
    return document


def test_kubernetes_takes_each_job_of_a_run_over_several_pods(tmp_path: Path) -> None:
    """Its own schema is in no package registry, so the Jobs that JobSet makes of it are checked."""
    jobs = jobset()["spec"]["replicatedJobs"]
    of_job = {"apiVersion": "batch/v1", "kind": "Job"}
    kubernetes_takes([{**of_job, "metadata": {"name": job["name"]}, **job["template"]} for job in jobs], tmp_path)
    for job in jobs:
        check_mounts(job["template"]["spec"]["template"]["spec"])


def test_all_pods_of_a_run_reach_the_sidecar_of_the_first() -> None:
    told = jobset()
    leader, workers = (job["template"]["spec"] for job in told["spec"]["replicatedJobs"])
    assert leader["template"]["spec"]["initContainers"] == [sidecar()]
    assert "initContainers" not in workers["template"]["spec"]
    labels = leader["template"]["metadata"]["labels"]
    assert component("podmonitor")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    # JOBSET-JOB-0-POD.SUBDOMAIN, by JobSet's documentation.
    assert told["spec"]["network"]["enableDNSHostnames"] is True
    host = f"{told['metadata']['name']}-leader-0-0.{told['spec']['network']['subdomain']}"
    for job in (leader, workers):
        (container,) = job["template"]["spec"]["containers"]
        environment = {one["name"]: one["value"] for one in container["env"]}
        assert environment["CONCEPTWATCH_ADDRESS"] == f"{host}:7800"
        assert environment["CONCEPTWATCH_TOKEN_FILE"] == sidecar()["env"][0]["value"]
        assert f"--rdzv-endpoint={host}:29500" in container["command"]
        assert f"--nnodes={leader['completions'] + workers['completions']}" in container["command"]
        assert (job["completions"], job["backoffLimit"]) == (job["parallelism"], 0)


def test_the_sidecar_may_take_what_its_own_limits_allow() -> None:
    defaults = (DEPLOY / "conceptwatch.toml").read_text()
    budgets = ("ingest_mib", "sample_mib", "scoring_memory_mib")
    limits = [int(re.findall(rf"^{name} = (\d+)", defaults, flags=re.MULTILINE)[0]) for name in budgets]
    # And the values kept between ticks, and 64 MiB, as docs/operating.md says.
    assert sidecar()["resources"]["limits"]["memory"] == "4Gi"
    assert sum(limits) + 384 + 64 < 4096


def test_the_sidecar_starts_first_and_ends_with_the_job() -> None:
    container = sidecar()
    assert container["restartPolicy"] == "Always"
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)


def test_the_sidecar_has_no_rights() -> None:
    told = sidecar()["securityContext"]
    assert told["runAsNonRoot"] is True
    assert f"{told['runAsUser']}:{told['runAsGroup']}" == last("USER")
    assert told["readOnlyRootFilesystem"] is True
    assert told["allowPrivilegeEscalation"] is False
    assert told["capabilities"] == {"drop": ["ALL"]}


def test_the_operator_finds_the_sidecars_port_and_token() -> None:
    monitor, pod = component("podmonitor"), component("sidecar")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"]: port["containerPort"] for port in sidecar()["ports"]}
    assert ports[endpoint["port"]] == 7801
    assert all(len(name) <= 15 for name in ports)
    (secret,) = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
    assert endpoint["authorization"]["credentials"] == {"name": secret["secretName"], "key": "token"}


def test_the_operators_rules_are_those_of_prometheus() -> None:
    rules = (DEPLOY / "prometheus" / "conceptwatch.rules.yml").read_text()
    made = succeeds(sys.executable, KUBERNETES / "rules.py", input=rules)
    assert (KUBERNETES / "sidecar" / "prometheusrule.yaml").read_text() == made
    (plain,) = parsed(DEPLOY / "prometheus" / "conceptwatch.rules.yml")
    assert component("prometheusrule")["spec"] == plain


def test_the_operators_resources_have_their_types(tmp_path: Path) -> None:
    node = program_path("node") or not_tested("node")
    npm_packages(CHECKS)
    for name in ("podmonitor", "prometheusrule"):
        (tmp_path / f"{name}.json").write_text(json.dumps(component(name)))
        succeeds(node, CHECKS / "check.mjs", tmp_path / f"{name}.json")
    wrong = component("podmonitor")
    wrong["spec"]["podMetricsEndpoints"][0]["intervall"] = "5s"
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    with pytest.raises(AssertionError, match="intervall"):
        succeeds(node, CHECKS / "check.mjs", tmp_path / "wrong.json")


def kustomized(name: str, folder: Path) -> dict[str, Any]:
    """What kubectl makes of a folder, by kind."""
    kubectl = program_path("kubectl") or not_tested("kubectl")
    built = folder / "built.yaml"
    built.write_text(
        subprocess.run(
            [kubectl, "kustomize", str(KUBERNETES / name)],
            env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, check=True, timeout=60,
        ).stdout
    )  # fmt: skip
    return {document["kind"]: document for document in parsed(built)}


def test_kustomize_builds_a_run_over_several_pods(tmp_path: Path) -> None:
    documents = kustomized("hosts", tmp_path)
    assert set(documents) == {"JobSet", "PodMonitor", "PrometheusRule"}
    leader, _ = documents["JobSet"]["spec"]["replicatedJobs"]
    (added,) = leader["template"]["spec"]["template"]["spec"]["initContainers"]
    assert added["image"] == "registry.example/conceptwatch:0.1.0"


def test_kustomize_adds_the_sidecar(tmp_path: Path) -> None:
    documents = kustomized("example", tmp_path)
    assert set(documents) == {"Job", "PodMonitor", "PrometheusRule"}
    pod = documents["Job"]["spec"]["template"]["spec"]
    (added,) = pod["initContainers"]
    assert {**added, "image": ""} == {**sidecar(), "image": ""}
    assert added["image"] == "registry.example/conceptwatch:0.1.0"
    assert [container["name"] for container in pod["containers"]] == ["train"]


def test_images_without_recorded_digests_are_no_success(tmp_path: Path) -> None:
    script = tmp_path / "images.sh"
    shutil.copy(DEPLOY / "images.sh", script)
    ran = subprocess.run(["/bin/sh", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert "no digests are recorded yet; record them with: sh deploy/images.sh --record" in ran.stderr
