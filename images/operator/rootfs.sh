#!/bin/sh
# Usage: rootfs.sh PYTHON ARCH DIR SOURCES. Builds the operator for another architecture (arm64, amd64) as DIR/rootfs.tar,
# without running programs of that architecture. PYTHON is a Python of the image's minor version, SOURCES a sources.list of
# Debian bookworm. The image for this machine's architecture is built from the Dockerfile in the repository's root.
set -eu
python=$1 arch=$2 dir=$3 sources=$4 root=$3/rootfs
here=$(cd "$(dirname "$0")/../.." && pwd)
case $arch in arm64) machine=aarch64 ;; amd64) machine=x86_64 ;; esac
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "Python 3.11 is needed, the version of the image, because the code is compiled here")'
umask 022

# The packages of that architecture, unpacked: python3 and its dependencies. Their maintainer scripts cannot run on this
# machine; the few results that are needed are created below.
apt() {
  apt-get -q -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
    -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts=/dev/null -o APT::Architecture="$arch" \
    -o APT::Architectures="$arch" -o APT::Install-Recommends=false -o APT::Sandbox::User=root "$@"
}
mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
: >"$dir/status"
apt update
apt install -y --download-only base-files python3
mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/etc" "$root/var/lib/dpkg/status.d"
for name in bin sbin lib; do
  ln -s "usr/$name" "$root/$name"
done
for package in "$dir"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root" --same-permissions
  # Scanners look for the packages of an image without dpkg here.
  dpkg-deb --field "$package" >"$root/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'root:x:0:0:root:/root:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
rm -rf "$root"/usr/share/info/* "$root"/usr/share/lintian/* "$root"/usr/share/locale/* "$root"/usr/share/man/*

# The packages of the Dockerfile's virtual environment.
site=$root/opt/dijob/lib/python3.11/site-packages
"$python" -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-compile --no-deps \
  --only-binary :all: --require-hashes --target "$site" --implementation cp --python-version 3.11 \
  --platform "manylinux2014_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux_2_28_$machine" \
  -r "$here/requirements.txt"
rm -rf "${site:?}/bin"
find "$site" -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
mkdir -p "$root/opt/dijob/bin"
ln -s /usr/bin/python3 "$root/opt/dijob/bin/python"
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$root/opt/dijob/pyvenv.cfg"
# The same files as in .dockerignore.
(cd "$here/operator" && find dijob dijob_extras/__init__.py dijob_extras/ui -type f ! -path '*/__pycache__/*' ! -path 'dijob/cli/commands/*' \
  ! -path 'dijob/cli/copying/*' ! -path 'dijob/cli/doctor/*' ! -path 'dijob/cli/explain/*') | while read -r file; do
  install -D -m 644 "$here/operator/$file" "$site/$file"
done
for code in usr/lib/python3.11 opt/dijob/lib; do
  "$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$root" "$root/$code"
done
tar --create --file "$dir/rootfs.tar" --directory "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
rm -rf "$root" "$dir/state" "$dir/cache" "$dir/status"
