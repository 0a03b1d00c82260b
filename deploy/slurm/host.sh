#!/bin/sh
# A host of a training: its sidecar, and torchrun with the host's ranks. Slurm starts it once on each node.
# usage: host.sh PROGRAM [ARGUMENTS]      with RENDEZVOUS=HOST:PORT; RANKS_PER_HOST, by default one for each GPU
set -eu
# Kept until the hub has it. The rendezvous id is the job: all ranks of the launch have it, and no other launch does.
data=${CONCEPTWATCH_DATA:-$SLURM_SUBMIT_DIR/conceptwatch}/$SLURM_JOB_ID-$SLURM_NODEID
mkdir -p "$data"
rm -f "$data/ports"
conceptwatch serve --data-dir "$data" --port-file "$data/ports" \
    --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 &
sidecar=$!
trap 'kill $sidecar 2>/dev/null || true; wait $sidecar || true' EXIT
trap 'exit 143' TERM INT
while [ ! -s "$data/ports" ]; do
    kill -0 $sidecar || exit 1
    sleep 0.1
done
CONCEPTWATCH_ADDRESS=$(head -n 1 "$data/ports" | cut -d ' ' -f 1)
export CONCEPTWATCH_ADDRESS
torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="${RANKS_PER_HOST:-gpu}" --max-restarts=3 \
    --rdzv-backend=c10d --rdzv-endpoint="$RENDEZVOUS" --rdzv-id="$SLURM_JOB_ID" "$@"
