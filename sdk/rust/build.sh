#!/bin/sh
# Builds the packages for other projects into a folder: licensing.crate, licensing-c-<machine>-<system>.tar.gz and
# licensing-csharp.zip, which has the shared library of this platform.
#
# usage: ./build.sh FOLDER
set -eu
cd "$(dirname "$0")"
mkdir -p "$1"
target=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR="$build"

# Archives of the same sources are the same, whenever they are made.
pack() {
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$1" | gzip -n > "$target/$2"
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
crate="licensing-$version"
mkdir -p "$work/$crate"
cp -R README.md src include ../../LICENSE "$work/$crate"
mkdir "$work/$crate/csharp"
cp csharp/Licensing.cs "$work/$crate/csharp"
# The tests need files of the checkout, so the package has none.
sed '/^\[dev-dependencies\]/,/^harness = false/d' Cargo.toml > "$work/$crate/Cargo.toml"
pack "$crate" licensing.crate

# No path of this machine is in the libraries.
cargo fetch --quiet
export RUSTFLAGS="--remap-path-prefix=$PWD=licensing"
for sources in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$sources=crates"
done
cargo build --quiet --release --lib
libraries=$(find "$build/release" -maxdepth 1 -name 'liblicensing.a' -o -maxdepth 1 -name 'liblicensing.so' \
    -o -maxdepth 1 -name 'liblicensing.dylib')

mkdir -p "$work/licensing-c/lib"
cp -R include README.md ../../LICENSE "$work/licensing-c"
for library in $libraries; do cp "$library" "$work/licensing-c/lib"; done
strip --strip-debug "$work"/licensing-c/lib/* || true # without it they are only larger
pack licensing-c "licensing-c-$(uname -m)-$(uname -s | tr '[:upper:]' '[:lower:]').tar.gz"

mkdir "$work/licensing-csharp"
cp csharp/Licensing.cs README.md ../../LICENSE "$work/licensing-csharp"
for library in $libraries; do
    case $library in *.a) ;; *) cp "$work/licensing-c/lib/$(basename "$library")" "$work/licensing-csharp" ;; esac
done
rm -f "$target/licensing-csharp.zip"
find "$work/licensing-csharp" -exec touch -d @0 {} +
(cd "$work" && find licensing-csharp -type f | LC_ALL=C sort | zip -qX "$target/licensing-csharp.zip" -@)
