#!/bin/sh
# The case on one card, a part a call, so that each ends within ten minutes:
#   sh benchmarks/attribute_card.sh case|limit|three|same [FOLDER]
# case: 384 wide, 16 x 32, to 768 wide, 8 x 64. limit: the same on an emulated card of 12 GB with our kernels and
# torch.compile off, where 16 at 768 does not fit, and then with the switch that makes it fit. three: a third
# change, at 2% within ten minutes. same: a config against itself under other names, which shows nothing.
# Leaves pages, documents and what was measured in FOLDER; a part that is called again goes on.
set -u
part=${1:?case, limit, three or same}
out=${2:-${OUT:-.}}
mkdir -p "$out"
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" COLUMNS=110

attribute() { # a name, and the arguments; the second and third reading measures nothing
    name=$1
    shift
    began=$(date +%s)
    python -m nanodyno attribute "$@" --json >"$out/$name.json" 2>"$out/$name.log"
    echo "$name: exit $?, $(($(date +%s) - began)) s" | tee -a "$out/times.txt"
    for metric in tokens_per_second flops_per_second; do
        python -m nanodyno attribute "$@" --metric $metric 2>/dev/null | tee "$out/$name-$metric.txt"
    done
}

plain="--kernels=autograd --compile=False --recompute=none"
case $part in
case) attribute case gpt2-384 gpt2-768 --budget 8m ;;
limit)
    # shellcheck disable=SC2086
    attribute limit gpt2-384 gpt2-768 --memory-limit 12GB --budget 4m $plain
    # shellcheck disable=SC2086
    attribute fitting gpt2-384 gpt2-768 --memory-limit 12GB --budget 4m --make-fit $plain
    ;;
three) attribute three gpt2-384 gpt2-768,cuda_graph=False --precision 0.02 --budget 9m ;;
same) attribute same gpt2-384 gpt2-384,kernels=fused,compile=False --budget 8m ;;
*) echo "no part $part" >&2; exit 2 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nanodyno/attribute
[ -d "$cache" ] && cp -r "$cache" "$out/" || true
