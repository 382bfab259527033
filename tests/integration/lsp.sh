#!/bin/sh
# phobosc --lsp by a client of our own and by an editor's.
#
#   lsp.sh PHOBOSC SAMPLES
set -eu

phobosc=$1
samples=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

/usr/bin/env python3 "$here/lsp.py" "$phobosc" "$samples"
command -v nvim >/dev/null || { echo "no Neovim here: the language server was tested by our own client alone"; exit 77; }
sed 's/+= alpha \*/+= alpa */' "$samples/saxpy/saxpy.phb" >"$work/kernel.phb"
cd "$work"
XDG_STATE_HOME=$work XDG_DATA_HOME=$work XDG_CACHE_HOME=$work PHOBOSC=$phobosc LSP_KERNEL=$work/kernel.phb \
    nvim --headless -u NONE -n -c "luafile $here/lsp.lua" 2>said || { cat said; exit 1; }
