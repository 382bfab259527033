#!/bin/sh
# Pods on two hosts, as far as the kernel's network namespaces go, and a link between them that breaks, one way or both, loses packets, resets connections, or is
# slow: the job ends with the right bytes. That something happened is counted: packets that a rule took, tiles that went over the link. Needs root.
#
#   tests/integration/network.sh PHOBOSC ORACLE_ADD SAMPLES SLOW_IO CASE...
set -eu

phobosc=$1 oracle=$2 samples=$3 slow_io=$4
shift 4

. "$(dirname "$0")/../tools/hosts.sh"
. "$(dirname "$0")/cluster_tools.sh"

limit=110
command -v nft >/dev/null || skip "no nft (nftables)"
make_hosts
ip netns exec $there nft add table inet faults 2>/dev/null || skip "the kernel has no nftables"

# The scheduler and p1 on one host, p2 on the other one.
begin() { # OPTION...
    timeout $limit ip netns exec $here ./add --role=sched job.json --listen=tcp://10.77.0.1:5870 --insecure --nodes=2 --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
    for p in "p1 $here 1" "p2 $there 2"; do
        # shellcheck disable=SC2086 # a name, its host and that one's number
        set -- $p
        LD_PRELOAD=$slow_io SLOW_IO_MS=20 timeout $limit ip netns exec "$2" ./add --role=pod --sched=tcp://10.77.0.1:5870 --listen="tcp://10.77.0.$3:5871" --insecure \
            --node-name="$1" --threads=1 --log=info >"$1.log" 2>&1 &
        eval "$1=\$!"
    done
    wait_for sched.log "the job begins with 2 pods"
}

# rule HOOK MATCH VERDICT: of the other host, and how many packets it is for
rule() {
    ip netns exec $there nft add chain inet faults "$1" "{ type filter hook $1 priority 0; }"
    # shellcheck disable=SC2086 # words of a rule
    ip netns exec $there nft add rule inet faults "$1" $2 counter $3
}

# Each rule was for some packet.
rules_hit() {
    ip netns exec $there nft list table inet faults >rules.log
    says rules.log "counter packets [1-9]"
    ! grep "counter packets 0 " rules.log || fail "a rule was for no packet"
}

heal() {
    rules_hit
    ip netns exec $there nft flush table inet faults
}

# Tiles went over the link.
fetched_some() {
    says sched.log "^pod p[12] moved:.* [1-9][0-9]* fetched"
}

lost_p2() {
    finished
    says sched.log "pod p2 has not been heard for 2 s: it is given up"
    heal
    ends 75 "$p2" p2
}

kept_p2() {
    finished
    grep -q "given up" sched.log && fail "a pod was given up"
    [ "$(tiles_of p2)" -gt 0 ] || fail "p2 computed nothing"
}

case_cut() {
    make_job 300
    begin --deadline=2
    rule input "" drop && rule output "" drop
    lost_p2
}

# What p2 says is heard no more.
case_cut_from_pod() {
    make_job 300
    begin --deadline=2
    rule output "" drop
    lost_p2
}

# It hears nothing, and says what it has to say.
case_cut_to_pod() {
    make_job 300
    begin --deadline=2
    rule input "" drop
    lost_p2
}

case_healed() {
    make_job 300
    begin --deadline=10
    rule input "" drop
    sleep 1
    heal
    kept_p2
}

case_flapping() {
    make_job 900 # it is not done before the last cut
    begin --deadline=10
    for _ in 1 2 3 4; do
        rule input "" drop
        sleep 0.5
        heal
        sleep 0.5
    done
    kept_p2
}

case_loss() {
    make_job 300
    begin --deadline=20
    rule input "numgen random mod 100 < 15" drop
    kept_p2
    rules_hit
}

case_resets() {
    make_job 300
    begin --deadline=20
    rule input "meta l4proto tcp numgen random mod 100 < 5" "reject with tcp reset"
    kept_p2
    rules_hit
}

# Tiles that are fetched come at a megabit a second.
case_slow_link() {
    product_job
    slow_down $there 1mbit
    slow_down $here 1mbit
    begin --link-bw=1e12
    kept_p2
    fetched_some
}

# Pods do not reach one another, and the scheduler reaches both: tiles come from files.
case_cut_peers() {
    product_job
    rule output "tcp dport 5871" drop
    begin --link-bw=1e12
    kept_p2
    rules_hit
    says p2.log "cannot fetch a tile from tcp://10.77.0.1:5871: .*; it comes from its file"
}

for case; do
    "case_$case"
done
