#!/bin/bash
# Builds the images that the cluster itself and the test pods use, with no registry and no Docker, and imports them
# if the cluster is up: localhost/pause:1, localhost/coredns:1, localhost/python:3.11, localhost/busybox:1.
#   image.sh NAME...   builds and imports any other (images/README.md)
. "$(dirname "$0")/lib.sh"
verb=build
if init_pid >/dev/null; then verb=load; fi
[ $# -gt 0 ] || set -- pause coredns python busybox
exec "$HERE/dev.sh" images "$verb" "$@"
