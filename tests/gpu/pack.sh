#!/usr/bin/env bash
# Creates a folder for a machine with a GPU and without network access: the project, its examples, the wheels, and run.sh.
#   tests/gpu/pack.sh FOLDER     then, on the other machine: FOLDER/run.sh
# The other machine needs x86-64, Python 3.12, and torch for its CUDA version. The folder is smaller than 60 MB.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?"usage: $0 FOLDER"}
python=$(make -s -C "$root" venv-python)
[ ! -e "$out" ] || { echo "$out exists: remove it, or name another folder" >&2; exit 2; }
mkdir -p "$out/wheels"

echo "==> wheels (~1 min)"
# The packages of the client, in their locked versions.
own='^(aiohttp|aiohttp-retry|aiohappyeyeballs|aiosignal|annotated-types|attrs|certifi|click|durationpy|frozenlist|kubernetes|multidict|oauthlib|propcache|pydantic|pydantic-core|python-dateutil|pyyaml|requests-oauthlib|typing-extensions|typing-inspection|urllib3|websocket-client|yarl)=='
{ grep -v '^#' "$root/tests/gpu/wheels.txt"; grep -ohE "${own}[^ ]+" "$root/requirements.txt" | sort -u; } >"$out/versions.txt"
platforms=(); for minor in 28 27 17; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
"$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
  "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$out/wheels" -r "$out/versions.txt"
# These have no wheels on PyPI. They contain no compiled code, so build the wheels here.
bounds=$(mktemp); trap 'rm -f "$bounds"' EXIT
printf 'setuptools==75.8.0\nwheel==0.45.1\n' >"$bounds"
PIP_CONSTRAINT=$bounds "$python" -m pip wheel -q --use-pep517 --no-deps -w "$out/wheels" gym==0.25.1 trueskill==0.4.5 yattag==1.16.1 URLObject==3.0.0

echo "==> the project"
mkdir -p "$out/project"
git -C "$root" ls-files -z operator images/dijob-runtime images/launcher examples tests/gpu pyproject.toml README.md |
  (cd "$root" && xargs -0 cp --parents -t "$(cd "$out/project" && pwd)")
cp "$root/tests/gpu/run.sh" "$out/run.sh"
du -sm "$out" | awk '{print "==> " $2 ": " $1 " MB"}'
