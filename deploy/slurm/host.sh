#!/bin/bash
# One node of a training job: torchrun with its ranks and, on the first node, the sidecar of all ranks. Slurm starts it
# once per node.
# usage: host.sh PROGRAM [ARGUMENTS]      with RENDEZVOUS=HOST:PORT of the first node; RANKS_PER_HOST, by default one
# for each GPU
set -euo pipefail
# All nodes see this directory. It stays, so that a requeued job continues its curves.
shared=${CONCEPTWATCH_DATA:-$SLURM_SUBMIT_DIR/conceptwatch}/$SLURM_JOB_ID
ports=$shared/ports-${SLURM_RESTART_COUNT:-0}-${SLURM_STEP_ID:-0}
export CONCEPTWATCH_TOKEN_FILE=$shared/token

# Serves until its standard input has ended, no rank is connected and no evaluation waits for its scores. A sidecar that
# was killed is started again at its port: the ranks then send again what it had not settled.
serve() {
    local port=0 status
    while
        status=0
        conceptwatch serve --data-dir "$shared/curves" --port-file "$ports" --exit-unused --linger 120 \
            --grpc-address "0.0.0.0:$port" --http-address 127.0.0.1:0 || status=$?
        [ "$status" -gt 128 ]
    do
        port=$(port)
        sleep 1
    done
    return "$status"
}

port() {
    local address
    read -r address _ <"$ports"
    echo "${address##*:}"
}

if [ "$SLURM_NODEID" = 0 ]; then
    # Other users work on these nodes: only those with the token reach the sidecar, and only this user reads the token.
    (
        umask 077
        mkdir -p "$shared"
        [ -s "$CONCEPTWATCH_TOKEN_FILE" ] || head -c 24 /dev/urandom | base64 >"$CONCEPTWATCH_TOKEN_FILE"
    )
    rm -f "$ports"
    exec 3> >(serve)
    sidecar=$!
    trap 'exec 3>&-; wait $sidecar' EXIT
    trap 'exit 143' TERM INT
fi
for ((waited = 0; waited < 600; waited++)); do
    [ ! -s "$ports" ] || break
    [ -z "${sidecar:-}" ] || kill -0 "$sidecar"
    sleep 0.1
done
[ -s "$ports" ] || { echo "host.sh: after a minute no sidecar has stated its port in $ports" >&2 && exit 1; }
CONCEPTWATCH_ADDRESS=${RENDEZVOUS%:*}:$(port)
export CONCEPTWATCH_ADDRESS
torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="${RANKS_PER_HOST:-gpu}" --max-restarts=3 \
    --rdzv-backend=c10d --rdzv-endpoint="$RENDEZVOUS" --rdzv-id="$SLURM_JOB_ID" "$@" 3>&-
