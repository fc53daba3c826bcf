#!/usr/bin/env bash
# The tests that need a cgroup v2 hierarchy of their own, in a virtual machine: Debian's kernel, this machine's files read-only below a
# tmpfs, this checkout. As root on Debian; with /dev/kvm fast, else emulated. Says "NOT TESTED" elsewhere.
# Needs `npm run build`. Arguments: tests to run in it as well, such as test/sandbox/cgroup.test.ts: much longer where the processor is
# emulated.
set -euo pipefail
cd "$(dirname "$0")/.."

not_tested() {
  echo "NOT TESTED: cgroup v2 limits: $1"
  exit 69
}

[ "$(uname -m)" = x86_64 ] || not_tested 'the virtual machine is made for x86_64'
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || not_tested 'the packages of the virtual machine need root and apt-get'

cache=${TMPDIR:-/tmp}/ci-vm-$(uname -m)
kernel_package='^linux-image-6\.12\.[0-9]+\+deb12-amd64$' # memory.peak, Landlock ABI 6; Debian 13 has it as its own kernel

make_image() {
  local name kernel
  rm -rf --one-file-system "$cache"
  mkdir -m 755 "$cache" "$cache/package" "$cache/root"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86 busybox-static kmod xz-utils cpio
  name=$(apt-cache search "$kernel_package" | cut -d' ' -f1 | sort -V | tail -n 1)
  [ -n "$name" ] || name=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
  (cd "$cache" && apt-get download -qq "$name" && dpkg-deb -x ./*.deb package && rm ./*.deb)
  kernel=$(ls "$cache/package/lib/modules" 2>/dev/null || ls "$cache/package/usr/lib/modules")
  depmod -b "$cache/package" "$kernel"
  cp "$cache"/package/boot/vmlinuz-* "$cache/vmlinuz"

  # The modules in the order in which they are needed, each once.
  local module
  mkdir "$cache/root/bin" "$cache/root/modules"
  for module in virtio_pci 9p 9pnet_virtio overlay; do
    modprobe -d "$cache/package" -S "$kernel" --show-depends "$module"
  done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' | {
    local at=10
    while read -r file; do
      xz -dc "$file" >"$cache/root/modules/$at.ko"
      at=$((at + 1))
    done
  }
  cp "$(command -v busybox)" "$cache/root/bin/busybox"
  cat >"$cache/root/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /lower /over /new
$b mount -t proc proc /proc
for module in /modules/*.ko; do $b insmod "$module"; done
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /lower
$b mount -t tmpfs -o size=60% over /over
$b mkdir /over/upper /over/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/over/upper,workdir=/over/work overlay /new
for folder in proc sys dev run; do $b mkdir -p /new/$folder; done
$b mount -t proc proc /new/proc
$b mount -t sysfs sys /new/sys
$b mount -t devtmpfs dev /new/dev
$b mkdir -p /new/dev/shm /new/dev/pts
$b mount -t tmpfs -o mode=1777 shm /new/dev/shm
$b mount -t devpts pts /new/dev/pts
$b mount -t tmpfs -o mode=755 run /new/run
$b mount -t cgroup2 -o nsdelegate cgroup /new/sys/fs/cgroup
$b umount /proc
$b cp /run-tests /new/run/run-tests
exec $b switch_root /new /bin/bash /run/run-tests
INIT
  chmod 755 "$cache/root/init"
  touch "$cache/made"
}

if ! [ -e "$cache/made" ] || ! [ -O "$cache" ]; then
  make_image </dev/null >"$cache.log" 2>&1 || { tail -n 20 "$cache.log" >&2; exit 69; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/extra"
# What runs in it, put beside the kernel's first files: what it prints goes to the first serial line.
{
  printf 'checkout=%q node=%q\n' "$PWD" "$(readlink -f "$(command -v node)")"
  printf 'tests=(%s)\n' "${*@Q}"
  cat <<'RUN'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true NO_COLOR=1 LANG=C.UTF-8
export SANDBOX_PYTHON=/usr/bin/python3 CGROUP_REQUIRED=1 NODE=$node
busybox ip link set lo up
cd "$checkout"
bash test/cgroup-vm-inside.sh "${tests[@]}" </dev/null
echo "exit code in the virtual machine: $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
RUN
} >"$work/extra/run-tests"
(cd "$cache/root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
(cd "$work/extra" && find . | cpio -o -H newc --quiet) >>"$work/initramfs"

# A /dev/kvm without either flag is one that only kernels made for it run on: then the processor is emulated, ten times as slow.
machine=(-accel 'tcg,thread=multi' -cpu max)
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then machine=(-accel kvm -cpu host); fi

timeout --kill-after=10 "${CGROUP_VM_SECONDS:-3600}" qemu-system-x86_64 \
  "${machine[@]}" -smp 2 -m 3072 -nodefaults -no-user-config -display none -no-reboot -serial stdio \
  -kernel "$cache/vmlinuz" -initrd "$work/initramfs" -append 'console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off tsc=reliable nowatchdog apparmor=0 selinux=0' \
  -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null | stdbuf -oL tr -d '\r' | tee "$work/output"
grep -q '^exit code in the virtual machine: 0$' "$work/output"
