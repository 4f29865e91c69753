# The gate: the last init container. It waits until this pod's own address stands in the job's list, so that the
# main container starts with true addresses. Run as: sh -c THIS dijob-gate LAUNCH DITASK REACH (texts of the scripts).
# Needs DI_RANK, DI_POD_IP, DI_JOB_NAME, DI_JOB_NAMESPACE. Must run as any user, on a read-only root, in dash, bash
# and busybox; no here-documents, since some shells keep them in /tmp.
bin=${DIJOB_BIN_DIR:-/run/dijob/bin}
list=${DIJOB_POD_DIR:-/run/dijob/pod}/node-ips
look="kubectl describe dijob ${DI_JOB_NAME-} -n ${DI_JOB_NAMESPACE-}"
say() { echo "dijob gate: $*"; }
fail() { say "$*" >&2; exit 1; }

# A shell that is PID 1 ignores these without a trap: deleting a waiting pod would take the whole grace period.
trap 'exit 143' TERM
trap 'exit 130' INT

case ${DI_RANK-} in ''|*[!0-9]*) fail "DI_RANK is '${DI_RANK-}', it must be a number; the operator sets it" ;; esac
[ -n "${DI_POD_IP-}" ] || fail "DI_POD_IP is empty; the operator sets it from status.podIP"

# Renamed into place, so that a second run (the sandbox is made anew, the volume stays) never leaves half a file.
place() {
  printf '%s\n' "$2" >"$bin/.$1.$$" && chmod 0755 "$bin/.$1.$$" && mv -f "$bin/.$1.$$" "$bin/$1"
}
# Before the wait: whoever waits has the time, and a volume that cannot be written is noticed at once.
# The umask: the main container may run as another user. The link: a file that is mounted by subPath would never follow
# the pod's annotations.
if ! (umask 022 && mkdir -p "$bin" && ln -sf pod/topology.json "${bin%/*}/topology.json") ||
  ! place launch "$1" || ! place ditask "$2" || ! place reach.py "$3"; then
  fail "cannot write $bin: it must be an emptyDir that this user may write"
fi

# Only the list that names this very pod will do: after a new sandbox (same pod, new IP) the old list is still there.
# Where the list has names, this pod's name must lead to this very pod, and those that it dials must lead somewhere:
# NNG never tries a name again that did not resolve.
mine() {
  ips='' named=''
  # The file has no newline at its end: read fails then, and has read all the same.
  { IFS= read -r ips <"$list" || :; } 2>/dev/null
  set -f
  IFS=,
  # shellcheck disable=SC2086 # split at the commas
  set -- $ips
  IFS=' '
  [ "$#" -gt "$DI_RANK" ] || return 1
  if [ -n "${DIJOB_HOST-}" ]; then
    resolved "$@"
  else
    shift "$DI_RANK"
    named=$1
    [ "$named" = "$DI_POD_IP" ]
  fi
}

# The names of a list: ours, and those of the ranks below that this one dials. What has been found is not asked again.
found=0 unknown=''
resolved() {
  unknown=$DIJOB_HOST
  case " $(lookup "$DIJOB_HOST") " in *[!0-9a-f.:]"$DI_POD_IP"[!0-9a-f.:]*) ;; *) return 1 ;; esac
  case $DI_TOPOLOGY in mesh) last=$DI_RANK ;; star) last=1 ;; *) last=0 ;; esac
  [ "$last" -le "$DI_RANK" ] || last=$DI_RANK
  [ "$found" -ge "$last" ] || shift "$found"
  while [ "$found" -lt "$last" ]; do
    unknown=$1
    case $1 in 127.*) ;; *) lookup "$1" >/dev/null || return 1 ;; esac
    found=$((found + 1))
    shift
  done
  unknown=
}
if command -v getent >/dev/null; then
  lookup() { getent hosts "$1"; }
elif python=$(command -v python3 || command -v python); then
  lookup() { "$python" -I -S -c 'import socket, sys; print(socket.gethostbyname(sys.argv[1]))' "$1" 2>/dev/null; }
elif command -v nslookup >/dev/null; then
  lookup() { nslookup "$1" 2>/dev/null; }
elif [ -n "${DIJOB_HOST-}" ]; then
  fail "this image has neither getent nor Python nor nslookup to look names up: set addressing: IP, or the chart's gateImage"
fi

nap=0.2 hz=5 ticks=0 since=0
until mine; do
  # In the background, so that TERM ends the wait at once and not at the end of the nap.
  sleep "$nap" 2>/dev/null &
  if ! wait $!; then
    [ "$nap" = 0.2 ] || fail "this image's sleep does not work; set the chart's gateImage"
    # A POSIX sleep knows whole seconds only.
    nap=1 hz=1
    continue
  fi
  ticks=$((ticks + 1))
  [ -n "$unknown" ] || since=$ticks
  [ $((ticks % (10 * hz))) -eq 0 ] || continue
  why="not every rank of the job has an address yet"
  [ -z "$named" ] || why="the list names $named for this rank, this pod has $DI_POD_IP: a new list must come"
  if [ -n "$unknown" ]; then
    why="$unknown does not resolve"
    [ "$unknown" != "$DIJOB_HOST" ] || why="$unknown does not lead to this pod ($DI_POD_IP)"
    # Said where the job's conditions find it: as the end of this container.
    [ $((ticks - since)) -lt $((${DIJOB_RESOLVE_SECONDS:-60} * hz)) ] || fail "rank $DI_RANK: $why; is the cluster's DNS well?"
  fi
  say "rank $DI_RANK has waited $((ticks / hz)) s: $why. Which rank, and why: $look"
done
# Where no launcher will look (an image's own entry point), only time helps: the worker's wait ends within a second or two.
[ "${DIJOB_SETTLE_SECONDS:-0}" = 0 ] || { sleep "$DIJOB_SETTLE_SECONDS" & wait $!; }
say "open after $((ticks / hz)) s: rank $DI_RANK is $DI_POD_IP"
