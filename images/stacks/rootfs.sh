#!/bin/sh
# Usage: rootfs.sh GO ARCH DIR PYTHON: stacks and py-spy for ARCH (amd64, arm64) as DIR/rootfs.tar. PYTHON has pip.
set -eu
go=$1 dir=$3 python=$4 root=$3/rootfs
here=$(cd "$(dirname "$0")" && pwd)
case $2 in arm64) machine=aarch64 ;; amd64) machine=x86_64 ;; esac
export GOOS=linux GOARCH="$2" CGO_ENABLED=0 GOTOOLCHAIN=local
# The flags of the test cluster's programs (testing/cluster/build.py), so that Go's cache contains the standard library once.
export GOFLAGS="-buildvcs=false -gcflags=all=-dwarf=false" GOGC=off GOMEMLIMIT=1GiB
umask 022

mkdir -p "$root"
"$go" -C "$here" build -trimpath -ldflags '-s -w' -o "$root/stacks" .
"$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-compile --no-deps \
  --only-binary :all: --require-hashes --target "$dir/wheel" \
  --platform "manylinux1_$machine" --platform "manylinux2014_$machine" --platform "manylinux_2_17_$machine" \
  -r "$here/requirements.txt"
install -m 755 "$dir/wheel/bin/py-spy" "$root/py-spy"
# Scanners and `make sbom` look for installed packages and their licenses here.
for info in "$dir"/wheel/*.dist-info; do
  mkdir -p "$root/usr/share/$(basename "$info")"
  cp "$info/METADATA" "$root/usr/share/$(basename "$info")"
  find "$info" -iname 'license*' -type f -exec cp {} "$root/usr/share/$(basename "$info")" \;
done
tar --create --file "$dir/rootfs.tar" --directory "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
rm -rf "$dir/wheel" "$root"
