#!/bin/sh
# Usage: rootfs.sh GO ARCH DIR. Builds the launcher for ARCH (amd64, arm64), with links for its other names, as DIR/rootfs.tar.
set -eu
go=$1 dir=$3 root=$3/rootfs
export GOOS=linux GOARCH="$2" CGO_ENABLED=0 GOTOOLCHAIN=local
# The flags of the test cluster's programs (testing/cluster/build.py), so that Go's cache contains the standard library once.
export GOFLAGS="-buildvcs=false -gcflags=all=-dwarf=false" GOGC=off GOMEMLIMIT=1GiB
umask 022

# The root contains only the files of /run/dijob/bin, so that it can also be mounted there as an image volume.
mkdir -p "$root/python" "$root/path"
"$go" -C "$(dirname "$0")" build -trimpath -ldflags '-s -w' -o "$root/launch" .
for name in gate reach install hold; do
  ln -s launch "$root/$name"
done
ln -s ../launch "$root/path/ditask"
runtime=$(dirname "$0")/../dijob-runtime
cp "$runtime/hook/sitecustomize.py" "$root/python"
(cd "$runtime" && find dijob_runtime -name '*.py') | while read -r file; do
  install -D -m 644 "$runtime/$file" "$root/python/$file"
done
tar --create --file "$dir/rootfs.tar" --directory "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
