#!/usr/bin/env bash
# Installs a build into a folder of its own, builds programs against it with pkg-config
# (shared and static), runs them, and uninstalls: nothing is left.
#   test_install.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
build=$2

scratch=$(mktemp -d)
manifest=$build/install_manifest.txt
# The list of a real installation from this build folder must survive the test.
[ ! -f "$manifest" ] || cp "$manifest" "$scratch/manifest.before"
clean_up() {
    rm -f "$manifest"
    [ ! -f "$scratch/manifest.before" ] || cp "$scratch/manifest.before" "$manifest"
    rm -rf "$scratch"
}
trap clean_up EXIT

die() {
    echo "FAILED: $*"
    exit 1
}

expect_file() { # pattern below the prefix
    compgen -G "$root/$1" >/dev/null || die "$1 is not installed"
}

# -- install

export DESTDIR=$scratch/dest
cmake --install "$build" >/dev/null
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
root=$DESTDIR$prefix
pc=$(find "$root" -name weir.pc)
[ -n "$pc" ] || die "weir.pc is not installed"
libdir=$(dirname "$(dirname "$pc")")

for header in "$source_dir"/include/weir/*.h; do expect_file "include/weir/$(basename "$header")"; done
expect_file share/man/man1/weir.1
[ -e "$libdir/libweir.a" ] || die "libweir.a is not installed"
[ -L "$libdir/libweir.so" ] || die "libweir.so is not installed"
model=$root/share/weir/models/demo
if [ -d "$source_dir/models/demo" ]; then
    diff -r "$source_dir/models/demo" "$model" || die "the installed demo model differs"
fi

# -- programs against it: the shared library, then the archive

export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$DESTDIR
export LD_LIBRARY_PATH=$libdir
# Folders that a compiler searches by itself are left out otherwise, sysroot or not.
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1

build_program() { # source, name; makes name-shared and name-static
    local flags libs static_libs
    read -ra flags < <(pkg-config --cflags weir)
    read -ra libs < <(pkg-config --libs weir)
    read -ra static_libs < <(pkg-config --static --libs weir)
    cc -std=c17 -Wall -Wextra -Werror "$1" -o "$2-shared" "${flags[@]}" "${libs[@]}"
    cc -std=c17 -Wall -Wextra -Werror "$1" -o "$2-static" "${flags[@]}" "${static_libs[@]/#-lweir/-l:libweir.a}"
}

cat >"$scratch/version.c" <<'C'
#include <stdio.h>
#include <weir/weir.h>

int main(void)
{
    return puts(weir_version()) < 0;
}
C
build_program "$scratch/version.c" "$scratch/version"
for kind in shared static; do
    found=$("$scratch/version-$kind")
    [ "$found" = "$(pkg-config --modversion weir)" ] || die "version-$kind prints '$found'"
done
[[ $(ldd "$scratch/version-shared") == *"=> $libdir/libweir.so"* ]] || die "version-shared does not use libweir.so"
[[ $(ldd "$scratch/version-static") != *libweir.so* ]] || die "version-static uses libweir.so"

# The example answers something, and the same with both libraries.
if [ -f "$source_dir/examples/chat.c" ] && [ -d "$model" ]; then
    build_program "$source_dir/examples/chat.c" "$scratch/chat"
    for kind in shared static; do
        "$scratch/chat-$kind" "$model" "Tell me a story about a little fox." >"$scratch/answer-$kind"
        grep -q '[[:alpha:]]' "$scratch/answer-$kind" || die "chat-$kind gave no answer"
    done
    cmp "$scratch/answer-shared" "$scratch/answer-static" || die "the two libraries answer differently"
fi

# -- the installed program, from any folder

if [ -x "$root/bin/weir" ]; then
    version=$("$root/bin/weir" --version)
    [ "$version" = "weir $(pkg-config --modversion weir)" ] || die "weir --version prints '$version'"
    answer=$(cd / && "$root/bin/weir" run -p "Tell me a story." --no-think --max-tokens 8 --seed 1 --quiet)
    [ -n "$answer" ] || die "weir run gave no answer"
fi

# -- uninstall

"$source_dir/tools/uninstall" "$manifest" "$DESTDIR"
left=$(find "$DESTDIR" ! -type d)
[ -z "$left" ] || die "left behind: $left"
left=$(find "$DESTDIR" -type d -path '*/weir*')
[ -z "$left" ] || die "folders left behind: $left"
