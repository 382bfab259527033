# To be sourced beside processes.sh by scripts that want two hosts: network namespaces with a link between them, which go with the script. Needs root; nothing of
# this machine's own network is touched.

# make_hosts: $here is 10.77.0.1 and $there 10.77.0.2, each at its veth0.
make_hosts() {
    [ "$(id -u)" = 0 ] || skip "network namespaces want root"
    command -v ip >/dev/null || skip "no ip (iproute2)"
    here=phb$$a there=phb$$b
    undo="$undo; for host in $here $there; do ip netns del \$host 2>/dev/null || true; done"
    ip netns add $here 2>/dev/null || skip "no network namespace can be made here"
    ip netns add $there
    ip link add veth0 netns $here type veth peer name veth0 netns $there
    for host in "$here 1" "$there 2"; do
        ip -n "${host% *}" addr add "10.77.0.${host#* }/24" dev veth0
        ip -n "${host% *}" link set veth0 up
        ip -n "${host% *}" link set lo up
    done
}

# slow_down HOST RATE: what it sends goes at so many bits a second.
slow_down() {
    command -v tc >/dev/null || skip "no tc (iproute2)"
    ip netns exec "$1" tc qdisc add dev veth0 root tbf rate "$2" burst 16kb latency 400ms 2>/dev/null || skip "the kernel cannot slow a link down (tbf)"
}
