#!/usr/bin/env bash
# Creates a folder for a machine with a GPU and without network access: the project, its examples, the wheels, and run.sh.
#   tests/gpu/pack.sh FOLDER                        then, on the other machine: FOLDER/run.sh
#   tests/gpu/pack.sh --packages PACKAGES FOLDER    with a folder of installed packages instead of the wheels
# The other machine needs x86-64, Python 3.12 (or the version in PYTHON_VERSION=), and torch for its CUDA version. The folder is
# smaller than 60 MB.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
packages=
if [ "${1:-}" = --packages ]; then packages=${2:?"--packages needs a folder"}; shift 2; fi
out=${1:?"usage: $0 [--packages PACKAGES] FOLDER"}
version=${PYTHON_VERSION:-3.12}
[ ! -e "$out" ] || { echo "$out exists: remove it, or name another folder" >&2; exit 2; }
mkdir -p "$out/project"

wheels() {
  local python own bounds minor platforms=()
  echo "==> wheels for Python $version (~1 min)"
  python=$(make -s -C "$root" venv-python)
  # The packages of the client, in their locked versions.
  own='^(aiohttp|aiohttp-retry|aiohappyeyeballs|aiosignal|annotated-types|attrs|certifi|click|durationpy|frozenlist|kubernetes|multidict|oauthlib|propcache|pydantic|pydantic-core|python-dateutil|pyyaml|requests-oauthlib|typing-extensions|typing-inspection|urllib3|websocket-client|yarl)=='
  { grep -v '^#' "$root/tests/gpu/wheels.txt"; grep -ohE "${own}[^ ]+" "$root/requirements.txt" | sort -u; } >"$out/versions.txt"
  for minor in 28 27 17; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
  "$python" -m pip download -q --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
    "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$out/wheels" -r "$out/versions.txt"
  # These have no wheels on PyPI. They contain no compiled code, so build the wheels here.
  bounds=$out/bounds.txt
  printf 'setuptools==75.8.0\nwheel==0.45.1\n' >"$bounds"
  PIP_CONSTRAINT=$bounds "$python" -m pip wheel -q --use-pep517 --no-deps -w "$out/wheels" gym==0.25.1 trueskill==0.4.5 yattag==1.16.1 URLObject==3.0.0
}

if [ -n "$packages" ]; then cp -r "$packages" "$out/packages"; else mkdir "$out/wheels"; wheels; fi
echo "==> the project"
git -C "$root" ls-files -z operator images/dijob-runtime images/launcher examples tests/gpu pyproject.toml README.md |
  (cd "$root" && xargs -0 cp --parents -t "$(cd "$out/project" && pwd)")
cp "$root/tests/gpu/run.sh" "$out/run.sh"
du -sm "$out" | awk '{print "==> " $2 ": " $1 " MB"; exit $1 >= 60}' || { echo "$out is not smaller than 60 MB" >&2; exit 1; }
