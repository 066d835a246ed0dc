#!/bin/sh
# Takes over the time zone database of the Go toolchain that is installed: its
# copy of the IANA database becomes scripts/zoneinfo.zip, and zone.go says its release.
# Everything that depends on it is tested afterwards; TestZoneDatabaseIsTheOneItSays
# wants the new hash, and a line for what the release changed.
set -eu
cd "$(dirname "$0")/.."
from=$(${GO:-go} env GOROOT)/lib/time
release=$(sed -n 's/^DATA=\([0-9]\{4\}[a-z]\{1,2\}\)$/\1/p' "$from/update.bash")
[ -n "$release" ] || { echo "$from/update.bash does not say the release" >&2; exit 1; }
cp "$from/zoneinfo.zip" scripts/zoneinfo.zip
chmod 644 scripts/zoneinfo.zip
sed -i "s/^const TZDBVersion = .*/const TZDBVersion = \"$release\"/" zone.go
echo "IANA time zone database $release, sha256 $(sha256sum scripts/zoneinfo.zip | cut -c 1-32)"
