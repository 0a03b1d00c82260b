"""Makes sidecar/prometheusrule.yaml of the rules in deploy/prometheus.

conceptwatch rules --config conceptwatch.toml | python deploy/kubernetes/rules.py     # of rules of your own
python deploy/kubernetes/rules.py < deploy/prometheus/conceptwatch.rules.yml          # as committed
"""

from __future__ import annotations

import sys

HEAD = """\
# Made by deploy/kubernetes/rules.py.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: conceptwatch
spec:
"""


def resource(rules: str) -> str:
    """The rules, indented under the `spec` of a PrometheusRule."""
    lines = [line for line in rules.splitlines() if not line.startswith("#")]
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(resource(sys.stdin.read()))
