#!/bin/sh
# Stands for phobosc where tests/differential compiles: $CARRIED holds an executable for each source by its hash. With $PHOBOSC it makes them and nothing can
# run; without, their leaves run on the GPU $DEVICE (cuda:0).
set -eu
self=$(readlink -f "$0")
case $1 in
--leaves) # of the program $2: those that have code for GPUs
    exec python3 -c '
import json, subprocess, sys
info = json.loads(subprocess.check_output([sys.argv[1], "--info=json"]))
for kernel in info["kernels"]:
    kernel["leaves"] = [leaf for leaf in kernel["leaves"] if leaf["gpu"]]
print(json.dumps(info))' "$2"
    ;;
esac
source='' output=''
while [ $# -gt 0 ]; do
    case $1 in
    -o) output=$2 && shift ;;
    *.phb) source=$1 ;;
    esac
    shift
done
name=$CARRIED/$(sha256sum <"$source" | cut -c1-16)
if [ -n "${PHOBOSC:-}" ]; then
    exec 9>"$CARRIED/lock"
    flock 9 # the same source is compiled in several ways at once
    if [ ! -e "$name" ] && [ ! -e "$name.refused" ]; then
        "$PHOBOSC" -w -O2 --cpu=x86-64-v3 --gpu=sm_80 --variants=2 "$source" -o "$name" 2>"$name.refused" && rm "$name.refused"
    fi
fi
if [ ! -x "$name" ]; then
    [ -e "$name.refused" ] || echo "no executable of this source was carried"
    # The GPU's limits are no mistake of the compiler.
    sed 's/^.*no variant of .* runs on/not supported yet: &/' "$name.refused"
    exit 1
fi
cat >"$output" <<END
#!/bin/sh
case \$1 in --info=json) exec $self --leaves $name ;; esac
[ -z "\${PHOBOSC:-}" ] || exit 1
exec $name "\$@" --device=${DEVICE:-cuda:0}
END
chmod +x "$output"
