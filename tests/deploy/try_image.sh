#!/bin/sh
# Build the image of deploy/Containerfile, and try it as docs/howto/service.rst runs it: nobody's privileges, a root file system
# that is read-only, records that outlive the container.
#
#   sh tests/deploy/try_image.sh [BUILD OPTION...]
#
#   ENGINE        podman (the default) or docker, with its options
#   PUBLISH       how clients of this machine reach the broker's port; --network host where there is no other network
#   RUN_OPTIONS   options of all that it runs, besides
#
# Where no registry is reached, a base of Debian's packages serves as well:
#
#   mmdebstrap --variant=minbase --include=python3,python3-dev,python3-venv,ca-certificates \
#       --customize-hook='ln -s python3 "$1/usr/bin/python"' bookworm base.tar
#   podman import --change ENV=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin base.tar base
#   PUBLISH='--network host' sh tests/deploy/try_image.sh --pull-never --network host --build-arg BASE=localhost/base
#
# Inside a container, where an engine may start no other, --isolation chroot builds it nevertheless, and Buildah runs it:
#
#   buildah run --isolation chroot "$(buildah from --pull-never localhost/logbus)" -- twistd -n --pidfile= logbus \
#       --data-dir /var/lib/logbus --listen kafka:tcp:9092:interface=0.0.0.0 --advertise kafka=localhost:9092
#
# Where there is no systemd, and cgroups of both kinds, which crun refuses, podman needs neither:
#
#   unshare --mount --propagation private sh -c 'umount /sys/fs/cgroup/unified && PUBLISH="--network host" \
#       ENGINE="podman --storage-driver vfs --cgroup-manager cgroupfs" \
#       RUN_OPTIONS="--cgroups disabled --ulimit nofile=20000:20000 --ulimit nproc=4096:4096" \
#       sh tests/deploy/try_image.sh --isolation chroot --network host --pull-never --build-arg BASE=localhost/base'
set -eu
cd "$(dirname "$0")/../.."
engine=${ENGINE:-podman} publish=${PUBLISH:---publish 9092:9092} options=${RUN_OPTIONS-} name=logbus-try-$$
# HEALTHCHECK needs Docker's format; docker itself makes no other, and does not know the option.
case $engine in docker*) format= ;; *) format="--format docker" ;; esac

say() { printf '\n== %s\n' "$*"; }
clean() {
    status=$?
    [ "$status" = 0 ] || $engine logs "$name" || :
    $engine rm --force "$name" >/dev/null 2>&1 || :
    $engine volume rm --force "$name" >/dev/null 2>&1 || :
}
trap clean EXIT

# As service.rst has it; what an orchestrator takes away besides is taken away, too.
start() {
    # shellcheck disable=SC2086
    $engine run --detach --name "$name" --read-only --tmpfs /tmp --volume "$name:/var/lib/logbus" \
        --cap-drop ALL --security-opt no-new-privileges $publish $options logbus
    tries=0
    until inside python -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:8080/readyz", timeout=4)' 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 120 ] || { echo "it is not ready" >&2; return 1; }
        sleep 0.5
    done
}
inside() { $engine exec "$name" "$@"; }
# A client of this machine, which reaches the broker by the port that is published.
# shellcheck disable=SC2086
outside() { $engine run --rm --interactive $options --network host --entrypoint logbus logbus "$@"; }

say "Building the image"
# shellcheck disable=SC2086
$engine build $format --file deploy/Containerfile --tag logbus "$@" .

say "Starting a broker"
start
[ "$(inside id -u)" = 10001 ]
if inside touch /opt/logbus/x 2>/dev/null; then echo "its root file system can be written" >&2; exit 1; fi
case $($engine logs "$name" 2>&1) in
    *"is interpreted"* | *"Unable to write"*) echo "its log tells what an image should have done before" >&2; exit 1 ;;
esac
# What the extras are for.
inside python -c 'import OpenSSL, fastavro, google.protobuf, grpc_tools, jsonschema, jwt, kazoo'

say "Producing and consuming"
outside topics create greetings
echo hello | outside produce greetings
[ "$(outside consume greetings --from-beginning --exit-at-end)" = hello ]

say "Stopping it, and starting another one on its data"
$engine stop --time 60 "$name"
case $($engine logs "$name" 2>&1) in *"Server Shut Down"*) ;; *) echo "it was killed" >&2; exit 1 ;; esac
$engine rm "$name"
start
[ "$(outside consume greetings --from-beginning --exit-at-end)" = hello ]
say "The image works"
