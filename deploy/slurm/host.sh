#!/bin/sh
# One host of a training job: its sidecar, and torchrun with its ranks. Slurm starts it once per node.
# usage: host.sh PROGRAM [ARGUMENTS]      with RENDEZVOUS=HOST:PORT; RANKS_PER_HOST, by default one for each GPU
set -eu
# The directory is kept until the hub has its curves. The rendezvous id names the job: it is unique to the launch.
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
