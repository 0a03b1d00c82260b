"""What deploy/ says of hubs and the sidecars below them, checked without images or a cluster.

The manifests against their schemas and against each other, the services as systemd reads them, the balancer's
configuration as HAProxy reads it. `test_quick_start.py` runs hubs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from test_containers import (
    DEPLOY,
    KUBERNETES,
    _requirements,
    compose,
    kubernetes_takes,
    last,
    parsed,
    sidecar,
    succeeds,
)

from conftest import not_tested
from monitoring import program_path
from real_sidecar import binary, free_ports

__all__ = ["_requirements"]

HUB = KUBERNETES / "hub"
# Of Kubernetes itself, and of the Prometheus operator.
FILES, OF_OPERATOR = ["hub", "service", "disruption", "network"], ["podmonitor"]


def resources() -> list[dict[str, Any]]:
    return [document for name in FILES for document in parsed(HUB / f"{name}.yaml")]


def resource(kind: str, name: str = "conceptwatch-hub") -> Any:
    (found,) = [one for one in resources() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod() -> Any:
    return resource("Deployment")["spec"]["template"]["spec"]


def test_kubernetes_takes_every_resource(tmp_path: Path) -> None:
    kubernetes_takes(resources(), tmp_path)


def test_the_kustomization_names_every_file() -> None:
    (told,) = parsed(HUB / "kustomization.yaml")
    assert told["resources"] == [f"{name}.yaml" for name in FILES + OF_OPERATOR]
    assert {path.stem for path in HUB.glob("*.yaml")} == {*FILES, *OF_OPERATOR, "kustomization"}


def test_the_monitor_scrapes_the_hubs_with_the_token_of_the_page() -> None:
    (monitor,) = parsed(HUB / "podmonitor.yaml")
    hub = resource("Deployment")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= hub["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in hub["spec"]["containers"][0]["ports"]]
    assert endpoint["authorization"]["credentials"] == {"name": "conceptwatch-hub", "key": "token"}


def test_selectors_choose_the_pods_they_mean() -> None:
    deployment = resource("Deployment")["spec"]
    hub = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= hub.items()
    assert resource("Service")["spec"]["selector"].items() <= hub.items()
    assert resource("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= hub.items()
    assert resource("NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= hub.items()
    assert resource("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "conceptwatch-hub"
    (allowed, _) = resource("NetworkPolicy")["spec"]["ingress"]
    job = parsed(KUBERNETES / "sidecar" / "sidecar.yaml")[0]["spec"]["template"]["metadata"]["labels"]
    assert allowed["from"][0]["podSelector"]["matchLabels"].items() <= job.items()


def test_hubs_alone_know_the_database_and_its_password_is_in_no_argument() -> None:
    (container,) = pod()["containers"]
    environment = {one["name"]: one for one in container["env"]}
    assert environment["PGPASSWORD"]["valueFrom"]["secretKeyRef"]["name"] == "conceptwatch-database"
    assert container["args"] == ["serve", "--store", "$(DATABASE)"]
    (told,) = parsed(HUB / "kustomization.yaml")
    (url,) = told["configMapGenerator"][0]["literals"]
    assert url.startswith("url=postgres://conceptwatch@")
    assert "PGPASSWORD" not in json.dumps(sidecar())
    (added,) = parsed(KUBERNETES / "upstream" / "upstream.yaml")
    assert "DATABASE" not in json.dumps(added)


def test_hubs_have_no_rights() -> None:
    assert pod()["automountServiceAccountToken"] is False
    (container,) = pod()["containers"]
    assert container["securityContext"] == sidecar()["securityContext"]
    volumes = {volume["name"] for volume in pod()["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_sidecars_push_to_the_service_of_the_hubs() -> None:
    (patch,) = parsed(KUBERNETES / "upstream" / "upstream.yaml")
    (container,) = patch["spec"]["template"]["spec"]["initContainers"]
    assert container["name"] == sidecar()["name"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    service = resource("Service")
    (port,) = [one["port"] for one in service["spec"]["ports"] if one["name"] == "cw-grpc"]
    assert environment["CONCEPTWATCH_UPSTREAM"] == f"http://{service['metadata']['name']}:{port}"
    # Its own mount, as volumes of the same name would be merged with the sidecar's.
    (mount,), (volume,) = container["volumeMounts"], patch["spec"]["template"]["spec"]["volumes"]
    assert environment["CONCEPTWATCH_UPSTREAM_TOKEN_FILE"] == f"{mount['mountPath']}/token"
    assert mount["name"] == volume["name"]
    assert mount["name"] not in {one["name"] for one in sidecar()["volumeMounts"]}


def test_sidecars_push_with_the_token_of_a_project_and_never_know_that_of_the_page() -> None:
    (container,) = pod()["containers"]
    at = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    environment = {one["name"]: one.get("value") for one in container["env"]}
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod()["volumes"] if "secret" in volume}
    (maps,) = [one["configMap"]["name"] for one in pod()["volumes"] if one["name"] == "conceptwatch-projects"]
    (told,) = parsed(HUB / "kustomization.yaml")
    assert maps in [one["name"] for one in told["configMapGenerator"] if "projects.toml" in one.get("files", [])]
    assert environment["CONCEPTWATCH_PROJECTS"] == f"{at['conceptwatch-projects']}/projects.toml"
    assert environment["CONCEPTWATCH_TOKEN_FILE"] == f"{at['conceptwatch-token']}/token"
    assert projects(HUB / "projects.toml") == [f"{at['conceptwatch-jobs']}/token"]
    (added,) = parsed(KUBERNETES / "upstream" / "upstream.yaml")
    pushes = [volume["secret"]["secretName"] for volume in added["spec"]["template"]["spec"]["volumes"]]
    assert pushes == [secrets["conceptwatch-jobs"]]
    (job,) = parsed(KUBERNETES / "sidecar" / "sidecar.yaml")
    known = [
        *pushes,
        *(one["secret"]["secretName"] for one in job["spec"]["template"]["spec"]["volumes"] if "secret" in one),
    ]
    assert secrets["conceptwatch-token"] not in known


def projects(path: Path) -> list[str]:
    """The token files of the table [projects], whose keys are simple."""
    head, table = path.read_text().split("[projects]\n")
    assert all(line.startswith("#") for line in head.splitlines())
    return re.findall(r'^\w+ = "(.+)"$', table, flags=re.MULTILINE)


# ---------------------------------------------------------------- Compose


def test_compose_has_two_hubs_and_a_balancer_that_knows_both() -> None:
    told = compose("compose.hub.yaml")
    services = told["services"]
    assert services["hub-1"] == services["hub-2"]
    assert {name for name, service in services.items() if "ports" in service} == {"balancer"}
    assert all(port.startswith("127.0.0.1:") for port in services["balancer"]["ports"])
    balancer = (DEPLOY / "compose" / "haproxy.cfg").read_text()
    for hub in ("hub-1", "hub-2"):
        assert f"server {hub} {hub}:7800" in balancer
        assert f"server {hub} {hub}:7801" in balancer
    secrets = {name for service in services.values() for name in service.get("secrets", [])}
    assert secrets == set(told["secrets"]) == {"conceptwatch_token", "conceptwatch_jobs_token"}
    assert "/run/secrets/conceptwatch_token" in last("ENV")
    # The page's token is the image's; sidecars push with that of a project.
    assert projects(DEPLOY / "compose" / "projects.toml") == ["/run/secrets/conceptwatch_jobs_token"]
    (mounted,) = services["hub-1"]["volumes"]
    assert mounted == f"./compose/projects.toml:{services['hub-1']['environment']['CONCEPTWATCH_PROJECTS']}:ro"
    assert services["hub-1"]["read_only"] is True
    assert services["hub-1"]["cap_drop"] == ["ALL"]


def test_haproxy_takes_its_configuration(tmp_path: Path) -> None:
    haproxy = program_path("haproxy", "/usr/sbin/haproxy") or not_tested("haproxy")
    port = free_ports()
    text = re.sub(r" hub-[12]:", " 127.0.0.1:", (DEPLOY / "compose" / "haproxy.cfg").read_text())
    path = tmp_path / "haproxy.cfg"
    path.write_text(text.replace(":7800\n", f":{port}\n").replace(":7801\n", f":{port + 1}\n"))
    said = succeeds(haproxy, "-c", "-f", path)
    assert "warning" not in said.lower()


# ---------------------------------------------------------------- systemd


def test_systemd_takes_the_services(tmp_path: Path) -> None:
    analyze = program_path("systemd-analyze") or not_tested("systemd-analyze")
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    assert [unit.name for unit in units] == ["conceptwatch-hub.service", "conceptwatch.service"]
    for unit in units:
        text = unit.read_text()
        assert "/usr/local/bin/conceptwatch " in text
        (tmp_path / unit.name).write_text(text.replace("/usr/local/bin/conceptwatch", str(binary())))
    said = succeeds(analyze, "verify", "--man=no", *(tmp_path / unit.name for unit in units))
    assert said.strip() == ""
