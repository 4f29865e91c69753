#!/usr/bin/env bash
# Runs the checks that need a GPU, from the folder that pack.sh creates: a DQN with cuda=True, DDP over NCCL, torchrpc:cuda. Needs no
# network. Takes about 8 minutes. The exit code is 1 if a step has failed.
#   ./run.sh [--cpu] [--only STEP,STEP] [FOLDER FOR THE LOGS]     PYTHON=: a Python with torch (default: python3)
#   --cpu: rehearse the same steps without a GPU: the DQN with cuda=False, DDP over gloo, torchrpc:cpu
#   --only: some of the steps dqn, ddp, checks, rates (default: all)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
device=cuda steps=dqn,ddp,checks,rates
while [[ "${1:-}" == --* ]]; do
  case $1 in
    --cpu) device=cpu; shift;;
    --only) steps=${2:?"--only needs steps"}; shift 2;;
    *) echo "unknown option $1: see the first lines of $0" >&2; exit 2;;
  esac
done
out=${1:-$here/out}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)
base=$(${PYTHON:-python3} -c 'import sys, torch; print(sys.executable)')

echo "==> packages"
"$base" -m venv --without-pip "$work/venv"
python=$work/venv/bin/python
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if [ -d "$here/packages" ]; then cp -r "$here/packages/." "$site"
else "$base" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$here"/wheels/*.whl; fi
# The packages of the installed torch come after these on the path. todays_python.py adds the names that DI-engine uses from an older
# NumPy. The name a_torch.pth sorts before todays_python.pth, because Python reads .pth files by name.
"$base" -c '
import os, site, sysconfig, torch
found = [os.path.dirname(os.path.dirname(torch.__file__)), *map(sysconfig.get_path, ("purelib", "platlib")), *site.getsitepackages()]
print("\n".join(dict.fromkeys(found)))' >"$site/a_torch.pth"
cp "$here/project/tests/gpu/todays_python.py" "$site"
touch "$site/wandb.py" # DI-engine imports it, but does not use it here
echo 'import todays_python' >"$site/todays_python.pth"
export PATH=$work/venv/bin:$PATH OMP_NUM_THREADS=1 GPU_CHECKS_DEVICE=$device
cat >"$work/venv/bin/ditask" <<EOF
#!$python
from ding.entry.cli_ditask import cli_ditask
cli_ditask()
EOF
chmod +x "$work/venv/bin/ditask"
if [ "$device" = cuda ]; then nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
else echo "--cpu: a rehearsal on the CPU. The results say nothing about a GPU."; fi
"$python" -V

failed=0
step() { # NAME LINES PATTERN COMMAND...: run the step unless --only excludes it, and show the last LINES of its log that match PATTERN
  local name=$1 lines=$2 pattern=$3; shift 3
  [[ ",$steps," == *",$name,"* ]] || return 0
  echo "==> $name"
  local begin=$SECONDS
  if "$@" >"$out/$name.log" 2>&1; then echo "    passed in $((SECONDS - begin)) s"
  else failed=1; echo "    FAILED after $((SECONDS - begin)) s:"; tail -n 40 "$out/$name.log"; fi
  grep -hE "$pattern" "$out/$name.log" | tail -n "$lines" || true
}
cd "$work"
local_job=(env PYTHONPATH="$here/project/operator:$here/project/images/dijob-runtime:$here/project/tests/gpu" "$python" -m dijob.cli.main local)
torchrpc=(env PYTHONPATH="$here/project/images/dijob-runtime" "$python" "$here/project/tests/gpu/torchrpc_cuda.py")
[ "$device" = cuda ] || torchrpc+=(--rehearse)

sed 's/ding\.example\.dqn/dqn_on_device/g' "$here/project/examples/cartpole-dqn.yaml" >dqn.yaml
step dqn 2 'Episode Return|memory at most' "${local_job[@]}" dqn.yaml
step ddp 2 '20 steps' "${local_job[@]}" "$here/project/tests/gpu/ddp.yaml"
step checks 99 '^(pass|FAIL|torch |all passed|[0-9]+ failed|      the peer)' "${torchrpc[@]}" --no-rates
step rates 99 '^(torch |\|)' "${torchrpc[@]}" --no-checks
exit $failed
