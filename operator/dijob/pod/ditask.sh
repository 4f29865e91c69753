#!/bin/sh
# ditask ARGS...: the image's own ditask, with the options that the DIJob knows and the user did not give. They go before
# the user's own, which win in any case (click takes the last one).
bin=${0%/*}
say() { echo "dijob: $*" >&2; }

real=
set -f
IFS=:
for d in $PATH; do
  f=${d:-.}/ditask
  # shellcheck disable=SC3013 # dash, bash and busybox all have -ef; the folder may have several names (/run, /var/run)
  if [ -f "$f" ] && [ -x "$f" ] && ! [ "$f" -ef "$0" ]; then
    real=$f
    break
  fi
done
unset IFS
set +f
[ -n "$real" ] || { say "no ditask in this image (PATH=$PATH): pip install DI-engine, or put its folder into PATH"; exit 127; }

# What the user says. Options without consequence here need no entry: their values do not look like options.
unset platform topology workers ports labels ids attach mq host port
key='' plain='' spec=''
for a in "$@"; do
  if [ -n "$key" ]; then
    v=$a
  else
    case $a in
      --) break ;;
      --version | --help | -[vh]*) plain=1; continue ;;
      --*=*) key=${a%%=*} v=${a#*=} ;;
      --platform | --topology | --parallel-workers | --ports | --labels | --node-ids | --attach-to | --mq[-_]type | \
        --redis-host | --redis-port | \
        --platform-spec | --address | --protocol) key=$a; continue ;;
      *) continue ;;
    esac
  fi
  case $key in
    --platform) platform=$v ;;
    --topology) topology=$v ;;
    --parallel-workers) workers=$v ;;
    --ports) ports=$v ;;
    --labels) labels=$v ;;
    --node-ids) ids=$v ;;
    --attach-to) attach=$v ;;
    --mq[-_]type) mq=$v ;;
    --redis-host) host=$v ;;
    --redis-port) port=$v ;;
    --platform-spec) spec=1 ;;
    # DI-engine's k8s parser takes --address for every rank's address, and would dial itself.
    --address) say "WARNING: with --address $v this rank dials itself instead of its peers; leave it out" ;;
    --protocol) [ "$v" != ipc ] || say "WARNING: with --protocol ipc no other pod can reach this one; leave it out" ;;
  esac
  key=
done

if [ -n "$plain" ] || [ -z "${DI_NODES-}" ]; then
  exec "$real" "$@"
fi
if [ "${platform-k8s}" != k8s ]; then
  # Another platform has its own variables and its own defaults: the command means there what it means everywhere.
  say "--platform $platform is given: nothing added, no address checked"
  exec "$real" "$@"
fi

: "${DI_PARALLEL_WORKERS:=1}" "${DI_TOPOLOGY:=mesh}"
[ "${workers-$DI_PARALLEL_WORKERS}" = "$DI_PARALLEL_WORKERS" ] || say "WARNING: --parallel-workers $workers, but" \
  "DI_PARALLEL_WORKERS is $DI_PARALLEL_WORKERS: DI_NODE_IDS and DI_WORLD_SIZE are wrong. Set spec.parallelWorkers: $workers"
[ -n "${mq+x}" ] || { mq=${DI_MQ_TYPE:-nng}; [ "$mq" = nng ] || set -- --mq-type "$mq" "$@"; }
if [ "$mq" = redis ]; then
  [ -n "${port+x}" ] || { port=${DI_REDIS_PORT:-6379}; set -- --redis-port "$port" "$@"; }
  [ -n "${host+x}" ] || { host=${DI_REDIS_HOST:-localhost}; set -- --redis-host "$host" "$@"; }
fi
# Another message queue dials no rank, and DI-engine's parser then leaves the node ids out: all ranks would count from 0.
case $mq in
  nng | torchrpc*) ;;
  *) [ -n "${ids+x}" ] || [ -z "${DI_NODE_IDS-}" ] || set -- --node-ids "$DI_NODE_IDS" "$@" ;;
esac
[ -n "${labels+x}" ] || [ -z "${DI_LABELS-}" ] || set -- --labels "$DI_LABELS" "$@"
[ -n "${workers+x}" ] || set -- --parallel-workers "$DI_PARALLEL_WORKERS" "$@"
[ -n "${topology+x}" ] || set -- --topology "$DI_TOPOLOGY" "$@"
[ -n "${platform+x}" ] || set -- --platform k8s "$@"

# NNG never retries an address that it cannot reach, and says nothing: the job would hang. So look before.
reach() {
  case $mq in nng | torchrpc*) ;; redis) topology=redis ports=$host workers=$port attach='' ;; *) return 0 ;; esac
  [ "${DIJOB_REACH_SECONDS:-60}" != 0 ] || return 0
  [ -z "$spec" ] || { say "--platform-spec is given: addresses not checked"; return 0; }
  python=$(command -v python3 || command -v python) || { say "no Python in PATH: addresses not checked"; return 0; }
  # -I: a user's socket.py must not be imported here. 3 is the script's own word for unreachable.
  "$python" -I -S "$bin/reach.py" "$topology" "$ports" "$workers" "$attach"
  case $? in
    0) ;;
    3) exit 1 ;;
    *) say "addresses not checked: $python $bin/reach.py failed" ;;
  esac
}
: "${workers:=$DI_PARALLEL_WORKERS}" "${topology:=$DI_TOPOLOGY}" "${ports:=50515}" "${attach:=}"
case "$mq,$attach,${DI_RANK:-0},$topology" in nng,,0,* | nng,,*,alone) ;; *) reach ;; esac
# torchrpc is not DI-engine's own: dijob-runtime teaches it to ditask, under the Python that ditask has.
case $mq in
  torchrpc*)
    IFS= read -r python <"$real"
    python=${python#??}
    # shellcheck disable=SC2086 # it may be `env python3`
    $python -c 'import dijob_runtime.torchrpc' 2>/dev/null || {
      say "--mq-type $mq needs dijob-runtime in this image (images/dijob-runtime of the repository)"
      exit 1
    }
    # shellcheck disable=SC2086
    exec $python -m dijob_runtime.ditask "$@"
    ;;
esac
exec "$real" "$@"
