#!/bin/sh
# launch CMD...: runs CMD with the DIJob's ditask first in PATH, as a child, and stands in for it: same stdin, same
# exit code; signals go on to it. Usually PID 1 of the main container.
bin=${0%/*} pod=${DIJOB_POD_DIR:-/run/dijob/pod}
child='' got='' sent_to='' renewing='' killer=''
[ "$#" -gt 0 ] || { echo "dijob: usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; }

# The newest list, as the kubelet shows it: "NUMBER LIST". Both files are of one version of the pod in the folder that
# ..data points to; the kubelet replaces that folder as a whole.
newest() {
  cd -P "$pod/..data" || cd -P "$pod" || return
  { IFS= read -r number || :; } <list-number
  { IFS= read -r ips || :; } <node-ips
  echo "$number $ips"
  [ -n "$ips" ]
} 2>/dev/null
# The kubelet can start a container with a view of the pod that is a moment older than its files; then the variables are
# empty, and ditask would work alone without a word, or those of a list that is dead. Started again with true ones, so
# that PID 1 shows them too; a newer environment stands.
# Twice: the folder may be replaced just then.
if [ -n "${DI_RANK-}" ] && { list=$(newest) || list=$(newest); }; then
  ips=${list#* } number=${list%% *}
  if [ -z "${DI_NODES-}" ] || [ "${DI_LIST_NUMBER:-0}" -lt "${number:-0}" ]; then
    DI_LIST_NUMBER=$number DI_NODES=$ips DI_NUM_NODES=1
    [ -z "${DI_NODE_IPS+x}" ] || DI_NODE_IPS=$ips # the list may hold names
    while case $ips in *,*) ;; *) false ;; esac; do
      ips=${ips#*,} DI_NUM_NODES=$((DI_NUM_NODES + 1))
    done
    DI_WORLD_SIZE=$((DI_NUM_NODES * ${DI_PARALLEL_WORKERS:-1}))
    export DI_LIST_NUMBER DI_NODES DI_NUM_NODES DI_WORLD_SIZE
    export DI_EPOCH="$number" # the former name of DI_LIST_NUMBER, until 0.1.0
    # Each task's part of the list: "LEARNER 1 COLLECTOR 2", and what is left is the last one's.
    words=${DIJOB_TASKS-} rest=$DI_NODES
    while [ -n "$words" ]; do
      name=${words%% *} words=${words#* } part=''
      size=${words%% *}
      case $words in *' '*) words=${words#* } ;; *) words='' size=-1 ;; esac
      while [ -n "$rest" ] && [ "$size" -ne 0 ]; do
        part=$part${part:+,}${rest%%,*} size=$((size - 1))
        case $rest in *,*) rest=${rest#*,} ;; *) rest='' ;; esac
      done
      export "DI_${name}_NODES=$part"
    done
    # What a runtime makes of the list: VARIABLE=FILE.
    for word in ${DIJOB_LISTED-}; do
      { IFS= read -r part || :; } <"$pod/${word#*=}" && export "${word%%=*}=$part"
    done
    exec "$0" "$@"
  fi
fi
# DI-engine forms tcp://ADDRESS:PORT, which needs brackets round an IPv6 address. DI_NODE_IPS stays as it is.
case ${DI_NODES-} in
  *'['*) ;;
  *:*)
    bare=$DI_NODES DI_NODES=''
    IFS=,
    for a in $bare; do
      case $a in *:*) a="[$a]" ;; esac
      DI_NODES=$DI_NODES${DI_NODES:+,}$a
    done
    unset IFS
    export DI_NODES
    ;;
esac
PATH=$bin${PATH:+:$PATH}
export PATH

# The processes below $1. Prints nothing where /proc cannot be read.
below() {
  # shellcheck disable=SC2013 # words: one line holds them all
  for k in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    echo "$k"
    below "$k"
  done
}

# A signal that ends goes to the whole container: a shell between launch and the program dies of it, or swallows it, and
# hands nothing on. With a shared PID namespace -1 would be other people's processes. A signal that tells (USR1,
# USR2) kills whoever does not expect it, so only CMD gets it.
pass() {
  case $1 in
    USR*) kill -s "$1" "$child" ;;
    *)
      sent_to=$(below $$)
      if [ $$ -eq 1 ]; then
        # Not kill -s NAME -1, which dash takes for an option.
        kill -"$1" -1
      else
        # shellcheck disable=SC2086 # one word per process
        kill -s "$1" ${sent_to:-$child}
      fi
      ;;
  esac 2>/dev/null
}

# shellcheck disable=SC2317 # called by the traps
# A signal may come before the child is known: it is passed on right after.
on() {
  got=$1
  [ -z "$child" ] || pass "$1"
}
for s in TERM INT HUP QUIT USR1 USR2; do
  # shellcheck disable=SC2064 # the name is wanted now
  trap "on $s" "$s"
done

# Whether this process was started with too old a list. Sets from: the first one that it may have (0: any).
due() {
  from=
  { IFS= read -r from || :; } <"$pod/renew-from"
  [ "${from:=0}" -gt "${DI_LIST_NUMBER:-0}" ]
} 2>/dev/null

# shellcheck disable=SC2317 # called by a trap
# The address of a rank that this one dials is another now, which its program will never find out. So it ends, and the
# kubelet starts the container again, with the new list. 85 whatever the program says: a container that exited 0 is not
# started again.
renew() {
  due && [ -n "$child" ] && [ -z "$renewing" ] && ! ended "$child" || return
  renewing=$from
  echo "dijob: list $from is another than that of this start: the program ends, and starts again with it" >&2
  pass TERM
  { kill_later </dev/null & } 2>/dev/null
  killer=$!
}
# After the time to end comes KILL.
# shellcheck disable=SC2317 # called by renew
kill_later() {
  n=0
  while [ "$n" -lt "${DIJOB_KILL_SECONDS:-30}" ] && sleep 1; do n=$((n + 1)); done
  # shellcheck disable=SC2086 # one word per process
  if [ $$ -eq 1 ]; then kill -KILL -1; else kill -s KILL $sent_to "$child"; fi
} >/dev/null 2>&1
trap renew ALRM

# A zombie has ended, even where its reaper is slow.
ended() {
  { IFS= read -r line <"/proc/$1/stat" || line=''; } 2>/dev/null
  # With its 0: without, bash gives back in a trap what came before the trap.
  case $line in *') Z '*) return 0 ;; esac
  ! kill -0 "$1" 2>/dev/null
}

# Reads the arguments of a process, one a line: is it a ditask without --platform?
no_platform() {
  IFS= read -r a
  case ${a##*/} in
    ditask) ;;
    python* | pypy*)
      while IFS= read -r a; do
        case $a in
          -[XW]) IFS= read -r a ;;
          -*) ;;
          ditask | */ditask | ding.entry* | *cli_ditask*) break ;;
          *) return 1 ;;
        esac
      done
      [ -n "$a" ] || return 1
      ;;
    *) return 1 ;;
  esac
  while IFS= read -r a; do
    case $a in --platform | --platform=*) return 1 ;; esac
  done
}

# An activated environment, bash -l or an absolute path goes round our ditask, and nobody would notice: the processes
# run, each alone. So look what runs.
look() {
  for p in $(below $$); do
    # The shell itself reads first (it drops the NULs): no process is started for those that are no ditask.
    { IFS= read -r line <"/proc/$p/cmdline" || :; } 2>/dev/null
    case $line in *ditask* | *ding.entry*) ;; *) continue ;; esac
    tr '\0' '\n' 2>/dev/null <"/proc/$p/cmdline" | no_platform || continue
    echo "dijob: WARNING: process $p runs ditask without --platform: it knows no peers, this rank works alone." \
      "The command goes round $bin/ditask (an environment activated in it, bash -l, an absolute path, python -m)." \
      "Write $bin/ditask there, or add --platform k8s --topology ${DI_TOPOLOGY:-mesh}" >&2
    return 0
  done
  return 1
}
# Looks each second whether a new list is due, and what runs: Python and an activation take seconds to start, 30 s catches
# the slow ones. Short naps, since this may be killed at any time and leaves its sleep behind.
watch() {
  n=0
  while sleep "${DIJOB_NAP:-1}" >/dev/null 2>&1; do
    n=$((n + 1))
    ! due || kill -s ALRM $$
    case $n in 5 | 30) ! look || n=30 ;; esac
  done
}

# Children in the background ignore INT and QUIT, in dash and busybox for good; coreutils' env sets them back.
clean=
case $1 in *=*) ;; *) ! env --default-signal=INT,QUIT true 2>/dev/null || clean="env --default-signal=INT,QUIT" ;; esac
# Children in the background read /dev/null unless given something: 3 keeps the stdin. exec: "$@" alone may be a builtin.
exec 3<&0
# shellcheck disable=SC2086 # two words or none
( exec $clean "$@" ) <&3 3<&- &
child=$!
exec 3<&-
[ -z "$got" ] || pass "$got"
watcher=
if [ -n "${DI_NODES-}" ]; then
  watch </dev/null &
  watcher=$!
fi

# A signal ends wait too, in bash even one that was handled before: wait until the child was gone before the wait, and
# once more. Then the code is known; 127 says only that an earlier wait has taken it away.
rc=127 gone=0
while [ "$gone" -lt 2 ]; do
  kill -0 "$child" 2>/dev/null || gone=$((gone + 1))
  wait "$child" 2>/dev/null
  code=$?
  [ "$gone" -gt 0 ] && [ "$code" -eq 127 ] || rc=$code
done
# KILL: a TERM between fork and the child's first step may be lost (busybox), and then wait would take 30 s.
[ -z "$watcher" ] || { kill -KILL "$watcher"; wait "$watcher"; } 2>/dev/null
case $rc in
  126 | 127) command -v "$1" >/dev/null 2>&1 || echo "dijob: cannot run '$1': no such program here (PATH=$PATH)" >&2 ;;
esac
# The end of PID 1 kills the rest at once. A shell between may have died of TERM while the program still saves its
# state: it has the pod's grace period for that, as it would have alone.
for p in $sent_to; do
  until ended "$p"; do
    sleep 0.1 2>/dev/null || sleep 1 || break
  done
done
[ -z "$killer" ] || { kill -KILL "$killer"; wait "$killer"; } 2>/dev/null
# The termination message tells the operator that this was no failure. It comes last: a program that ends on TERM may
# write one of its own.
[ -z "$renewing" ] || { rc=85; echo "dijob: renewal, list $renewing" >"${DIJOB_TERMINATION_LOG:-/dev/termination-log}"; }
exit "$rc"
