#!/usr/bin/env bash
# Runs the checks that need a GPU, from the folder that pack.sh creates: torchrpc:cuda, a DQN with cuda=True, NCCL. Needs no network.
# Takes about 7 minutes.
#   ./run.sh [FOLDER FOR THE LOGS]     PYTHON=: a Python 3.12 with torch (default: python3)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/out}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
base=$(${PYTHON:-python3} -c 'import sys, torch; print(sys.executable)')

echo "==> packages"
"$base" -m venv --without-pip "$work/venv"
python=$work/venv/bin/python
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$base" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$here"/wheels/*.whl
# The packages of the installed torch come after these on the path. todays_python.py adds the names that DI-engine uses from an older NumPy.
"$base" -c 'import site, sysconfig; print("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))' >"$site/a_torch.pth"  # The name sorts before todays_python.pth, because Python reads .pth files by name
cp "$here/project/tests/gpu/todays_python.py" "$site"
touch "$site/wandb.py" # DI-engine imports it, but does not use it here
echo 'import todays_python' >"$site/todays_python.pth"
export PATH=$work/venv/bin:$PATH OMP_NUM_THREADS=1
cat >"$work/venv/bin/ditask" <<EOF
#!$python
from ding.entry.cli_ditask import cli_ditask
cli_ditask()
EOF
chmod +x "$work/venv/bin/ditask"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
"$python" -V

failed=0
step() { # NAME COMMAND...
  local name=$1; shift
  echo "==> $name"
  local begin=$SECONDS
  if "$@" >"$out/$name.log" 2>&1; then echo "    passed in $((SECONDS - begin)) s"
  else failed=1; echo "    FAILED after $((SECONDS - begin)) s:"; tail -n 40 "$out/$name.log"; fi
}
cd "$work"
local_job=(env PYTHONPATH="$here/project/operator:$here/project/images/dijob-runtime:$here/project/tests/gpu" "$python" -m dijob.cli.main local)

sed 's/ding\.example\.dqn/dqn_cuda/g' "$here/project/examples/cartpole-dqn.yaml" >dqn.yaml
step dqn-cuda "${local_job[@]}" dqn.yaml
grep -h 'Episode Return' "$out/dqn-cuda.log" | tail -n 1 || true
grep -h 'GPU memory' "$out/dqn-cuda.log" | tail -n 1 || true
step nccl "${local_job[@]}" "$here/project/tests/gpu/nccl.yaml"
grep -h 'NCCL' "$out/nccl.log" | tail -n 2 || true
step torchrpc-cuda env PYTHONPATH="$here/project/images/dijob-runtime" "$python" "$here/project/tests/gpu/torchrpc_cuda.py"
grep -hE '^(pass|FAIL|torch |\||all passed|[0-9]+ failed|      the peer)' "$out/torchrpc-cuda.log" || true
exit $failed
