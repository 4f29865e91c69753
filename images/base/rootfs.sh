#!/bin/sh
# Usage: rootfs.sh DIR SOURCES MIRROR: Debian bookworm (minbase, upgraded, slim) as DIR/rootfs.tar.
# SOURCES is a sources.list, MIRROR its Debian archive. Mounts and processes are the caller's sandbox's, nothing is undone here.
set -eu
dir=$1 sources=$2 mirror=$3 root=$1/rootfs
export DEBIAN_FRONTEND=noninteractive

debootstrap --variant=minbase bookworm "$root" "$mirror"
cp "$sources" "$root/etc/apt/sources.list"
# What Debian's own slim images leave out, also from packages that are installed later.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'EOF'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
path-exclude=/usr/share/man/*
EOF
# Like Docker's Debian images: dpkg does not wait until the disk has written each file. The files of a killed build are removed.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/speed"
chroot "$root" apt-get -q update
chroot "$root" apt-get -q -y upgrade

find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
rm -rf "$root"/usr/share/info/* "$root"/usr/share/lintian/* "$root"/usr/share/locale/* "$root"/usr/share/man/* \
  "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/var/cache/debconf/*-old \
  "$root"/etc/ssh/ssh_host_* "$root"/debootstrap
# debootstrap copies these two of the building machine.
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
tar --create --file "$dir/rootfs.tar" --directory "$root" --one-file-system --sort=name \
  --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' .
rm -rf "$root"
