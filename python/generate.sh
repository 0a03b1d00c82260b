#!/bin/sh
# Writes the message code of the protocol into conceptwatch/_protocol/. Code of this compiler version works with
# protobuf 4.25 to 7, which code of newer ones does not. It needs a Python of at most 3.12: others have no wheel.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$here/conceptwatch/_protocol
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" --quiet install --disable-pip-version-check grpcio-tools==1.62.3 'setuptools<81'

# A process knows message code by its file's path: full paths keep ours apart from files of other packages.
mkdir -p "$scratch/in/conceptwatch/client" "$scratch/out"
cp -R "$here/../proto/." "$scratch/in"
cp "$out/status.proto" "$scratch/in/conceptwatch/client/"
"$scratch/venv/bin/python" -m grpc_tools.protoc --proto_path="$scratch/in" \
    --python_out="$scratch/out" --pyi_out="$scratch/out" \
    conceptwatch/v1/conceptwatch.proto conceptwatch/client/status.proto
find "$scratch/out" -name '*_pb2.py*' -exec cp {} "$out" \;
