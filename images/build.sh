#!/bin/bash
# images/build.sh build|load|archive|list [NAME...]: images without Docker (images/README.md).
exec "$(dirname "$0")/../tests/cluster/dev.sh" images "$@"
