#!/bin/sh
# Builds licensing.jar and licensing-sources.jar into a folder, with a JDK alone. The same sources make the same archives.
set -eu
cd "$(dirname "$0")"
target=${1:?usage: build.sh FOLDER}
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
mkdir -p "$target"
javac --release 17 -encoding UTF-8 -d "$classes/classes" src/main/java/licensing/*.java
printf 'Automatic-Module-Name: licensing\n' >"$classes/manifest"
archive() { jar --create --date=1980-01-01T00:00:02Z "$@"; }
archive --file "$target/licensing.jar" --manifest "$classes/manifest" -C "$classes/classes" licensing
archive --file "$target/licensing-sources.jar" --no-manifest -C src/main/java licensing
